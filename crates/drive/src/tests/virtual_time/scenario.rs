//! A run drawn from a seed, and its results.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};

use tokometer_base::seed::{Generator, whole_between};
use tokometer_base::{CancelAfter, Cancellation, Nanos, Prompt, Seed};
use tokometer_client::RequestInput;
use tokometer_client::conn::{Peer, Stamps};
use tokometer_record::{AttemptId, Phase, RunEnd, Timeline};
use tokometer_schedule::{Arrivals, First, Limits, Pace, SendLimit};

use super::super::server::target;
use super::platform::Virtual;
use super::server::{Habits, REFUSING, SILENT, Served, Server};
use crate::{
    AwaitStart, Connections, Error, FollowUp, Interrupt, Notice, Outlets, Prepare, PrepareError,
    QueuedRequest, RunConfig, SocketReads, Timeouts, TurnEnd, run_on,
};

const TURNS: u32 = 3;

#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) seed: Seed,
    pub(super) config: RunConfig,
    pub(super) habits: Habits,
    /// Output tokens requested of each response.
    pub(super) tokens: u32,
    /// Think time between turns; `None` for a run without conversations.
    pub(super) think: Option<Nanos>,
    pub(super) interrupt_at: Option<Nanos>,
    /// Delay from the first interrupt to a second one.
    pub(super) second_interrupt: Option<Nanos>,
    /// A start that other processes share.
    pub(super) start: Option<Nanos>,
    /// When the wall clock is set, and by how many nanoseconds.
    pub(super) wall_step: Option<(Nanos, i64)>,
}

pub(super) struct Ran {
    pub(super) end: Result<RunEnd, Error>,
    pub(super) notices: Vec<Notice>,
    pub(super) served: Vec<Served>,
}

impl Ran {
    pub(super) fn timelines(&self) -> impl Iterator<Item = &Timeline> {
        self.notices.iter().filter_map(|notice| match notice {
            Notice::Ended(timeline) => Some(timeline.as_ref()),
            Notice::Started { .. } | Notice::Exchanged(_) => None,
        })
    }

    pub(super) fn measured(&self) -> impl Iterator<Item = &Timeline> {
        self.timelines().filter(|timeline| timeline.identity.phase == Phase::Measure)
    }
}

/// The tag by which the server recognises a request.
pub(super) fn tag(identity: &AttemptId) -> String {
    let phase = if identity.phase == Phase::Warmup { "w" } else { "m" };
    format!("{phase}{}", identity.index)
}

impl Scenario {
    /// A run of `count` requests, at most `cap` in flight, against a server without faults.
    pub(super) fn plain(seed: u64, count: u64, cap: u32) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let limits = Limits {
            max_concurrency: Some(cap),
            extent: SendLimit { count: Some(count), duration: None },
            warmups: 0,
        };
        let mut config = RunConfig::new(vec![target(address)], limits);
        config.seed = Seed(seed);
        config.workers = Some(1);
        Self {
            seed: Seed(seed),
            config,
            habits: Habits::default(),
            tokens: 4,
            think: None,
            interrupt_at: None,
            second_interrupt: None,
            start: None,
            wall_step: None,
        }
    }

    /// A run of any kind, against a server with all faults.
    pub(super) fn draw(seed: u64) -> Self {
        let mut draws = Seed(seed).stream("scenario").at(0);
        let mut between = |low, high| whole_between(&mut draws, low, high);
        let cap = u32::try_from(between(1, 12)).unwrap();
        let mut scenario = Self::plain(seed, between(10, 60), cap);
        scenario.tokens = u32::try_from(between(1, 16)).unwrap();
        scenario.habits = Habits {
            faults: between(0, 40),
            refusals: between(0, 8),
            silences: between(0, 3),
            slow_readers: between(0, 30),
            idle_closes: between(0, 50),
            odd_cuts: between(0, 60),
            ..Habits::default()
        };
        if between(0, 3) == 0 {
            let think = between(0, 5) * 1_000_000;
            scenario.think = Some(Nanos(think));
        }
        if between(0, 5) == 0 {
            scenario.interrupt_at = Some(Nanos::from_millis(between(1, 300)));
            let wait = Nanos::from_millis(between(0, 40));
            scenario.second_interrupt = Some(wait).filter(|_| between(0, 1) == 0);
        }
        scenario.draw_config(&mut draws);
        scenario
    }

    fn draw_config(&mut self, draws: &mut Generator) {
        let mut between = |low, high| whole_between(draws, low, high);
        let config = &mut self.config;
        config.workers = u16::try_from(between(1, 3)).ok();
        config.retries = u32::try_from(between(0, 2)).unwrap();
        config.limits.warmups = between(0, 3);
        config.connections = match between(0, 3) {
            0 => Connections::Preopen,
            1 => Connections::OnDemand,
            2 => Connections::Auto,
            _ => Connections::PerRequest,
        };
        config.stamps = if between(0, 9) == 0 { Stamps::User } else { Stamps::Kernel };
        config.socket_reads =
            if between(0, 1) == 0 { SocketReads::Eager } else { SocketReads::Adaptive };
        config.max_sessions = config.limits.max_concurrency.filter(|_| between(0, 1) == 1);
        config.timeouts = Timeouts {
            connect: Nanos::from_millis(300),
            stall: Some(Nanos::from_millis(250)),
            total: Some(Nanos::from_secs(2)),
        };
        if between(0, 1) == 0 {
            let pace = Pace::flat(between(20, 400) as f64, Some(1.0), First::Waits);
            config.arrivals = Arrivals::Paced(pace);
        }
        if between(0, 2) == 0 {
            let others = [80, REFUSING, SILENT, 80]
                .into_iter()
                .take(usize::try_from(between(1, 4)).unwrap());
            let ports: Vec<u16> = others.chain([80]).collect();
            self.listen_at(&ports);
        }
        let mut between = |low, high| whole_between(draws, low, high);
        let after = match between(0, 5) {
            0 => CancelAfter::Tokens(u32::try_from(between(1, 8)).unwrap()),
            1 => CancelAfter::Time(Nanos::from_millis(between(0, 60))),
            _ => return,
        };
        self.config.cancellation = Some(Cancellation { share: 0.3, after });
    }

    /// Gives the target one address for each of these ports.
    pub(super) fn listen_at(&mut self, ports: &[u16]) {
        let address = |(host, port): (u8, &u16)| SocketAddr::from(([127, 0, 0, host], *port));
        let addresses = (1..).zip(ports).map(address);
        self.config.targets[0].endpoint.addresses = addresses.map(Peer::Tcp).collect();
    }

    pub(super) fn run(&self) -> Ran {
        self.run_source(Box::new(Source::new(self)))
    }

    pub(super) fn run_source(&self, source: Box<dyn Prepare>) -> Ran {
        let start = self.start.map(|start| Box::new(move || Ok(Some(start))) as AwaitStart);
        self.run_with(source, start)
    }

    /// Executes the run from a start that others give or refuse.
    pub(super) fn run_from(&self, start: AwaitStart) -> Ran {
        self.run_with(Box::new(Source::new(self)), Some(start))
    }

    fn run_with(&self, source: Box<dyn Prepare>, start: Option<AwaitStart>) -> Ran {
        let interrupt = Arc::new(Interrupt::default());
        let mut server = Server::new(self.seed, self.habits);
        if let Some(at) = self.interrupt_at {
            server.interrupt_at(at, &interrupt);
            if let Some(wait) = self.second_interrupt {
                server.interrupt_at(at + wait, &interrupt);
            }
        }
        let platform = Virtual::new(self.seed, server, self.wall_step);
        let (notices, received) = mpsc::channel();
        let outlets = Outlets { notices, live: Arc::default(), interrupt, between: None, start };
        let end = run_on(&platform, self.config.clone(), source, outlets);
        let answers = platform.with_server(|server| server.served.clone());
        Ran { end, notices: received.into_iter().collect(), served: answers }
    }
}

/// The requests of a scenario: warm-ups, then single requests or first turns.
pub(super) struct Source {
    scenario: Scenario,
    made: u64,
    turns: u64,
}

impl Source {
    pub(super) fn new(scenario: &Scenario) -> Self {
        // Indexes of later turns are above those of all first ones.
        Self { scenario: scenario.clone(), made: 0, turns: 1_000_000 }
    }

    fn item(&self, identity: AttemptId, more: &str) -> QueuedRequest {
        let target = &self.scenario.config.targets[0];
        let text = format!("#{}#{more}", tag(&identity));
        let prompt = Prompt { output_tokens: Some(self.scenario.tokens), ..Prompt::text(text) };
        let ask = RequestInput::new(&prompt, identity.index);
        let request = target.dialect.prepare(&target.settings, &ask).unwrap();
        QueuedRequest { request, identity, due: None, recorded: None }
    }
}

impl Prepare for Source {
    fn prepare(&mut self) -> Result<Option<QueuedRequest>, PrepareError> {
        let warmups = self.scenario.config.limits.warmups;
        let made = self.made;
        self.made += 1;
        let identity = if made < warmups {
            AttemptId::new(made, Phase::Warmup)
        } else {
            let index = self.scenario.config.share.index(made - warmups);
            let session = self.scenario.think.map(|_| index);
            AttemptId { session, ..AttemptId::new(index, Phase::Measure) }
        };
        Ok(Some(self.item(identity, "")))
    }

    fn follow(&mut self, ended: &TurnEnd) -> Result<Vec<FollowUp>, PrepareError> {
        let turn = ended.identity.turn + 1;
        let answer = ended.answer.as_ref().filter(|_| turn < TURNS);
        let Some(answer) = answer else { return Ok(Vec::new()) };
        let think = self.scenario.think.filter(|think| *think > Nanos::ZERO);
        let index = self.turns;
        self.turns += 1;
        let identity = AttemptId { index, turn, ..ended.identity.clone() };
        let identity = AttemptId { attempt: 0, ..identity };
        let due = think.map(|think| ended.at + think);
        Ok(vec![FollowUp { item: self.item(identity, answer), due }])
    }
}
