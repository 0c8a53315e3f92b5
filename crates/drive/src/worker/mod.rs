//! A worker: one thread with its own links and exchanges.
//!
//! Flights come from the inbox or the gate; notices are sent out. Each iteration sends what is due,
//! waits, reads what is ready, and periodically checks timeouts. Nothing in it blocks. State shared
//! with other workers is used once per request.

mod cancelling;
mod connection;
mod dial;
mod ending;
mod lookout;
mod reader;
mod sending;
mod spares;
mod sweep;
mod wave;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tokometer_base::{Clock, Nanos, Slab};
use tokometer_client::conn::Wire;
use tokometer_record::health::{ClockStep, DelayHistogram, WorkerHealth};

use connection::{ConnectionStage, OpenConnection};
use dial::Dial;
use reader::{LinkReader, ReadEnd};
use spares::Spares;
use wave::Wave;

use crate::config::SocketReads;
use crate::flight::Flight;
use crate::inbox::WorkerCommand;
use crate::item::Notice;
use crate::pacer::{self, Wait};
use crate::platform::{BATCH, Interest, Links, MaxWait, Platform, Ready};
use crate::reads::{self, Lane, ReadCounts};
use crate::shared::Shared;
use crate::vitals::ThreadSample;

/// How often timeouts, clocks and stop requests are checked.
const SWEEP_INTERVAL: Nanos = Nanos::from_millis(50);

/// A worker's results, apart from its notices.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) health: WorkerHealth,
    pub(crate) refill_delay: DelayHistogram,
    pub(crate) clock_steps: Vec<ClockStep>,
    pub(crate) opened: u64,
    pub(crate) reused: u64,
    pub(crate) reopened: u64,
    pub(crate) compressed: u64,
    pub(crate) lazy_streams: u64,
    /// Measured requests whose first byte was sent; attempts of one count once.
    pub(crate) started: u64,
    /// Those of them that are later turns of a conversation.
    pub(crate) started_turns: u64,
    pub(crate) abandoned: u64,
    pub(crate) last_end: Nanos,
}

type WorkerConnection<P> = OpenConnection<WireOf<P>>;
type WireOf<P> = <<P as Platform>::Links as Links>::Wire;

pub(crate) struct Worker<P: Platform> {
    id: u16,
    shared: Arc<Shared>,
    notices: Sender<Notice>,
    platform: P,
    clock: P::Clock,
    links: P::Links,
    reader: LinkReader<P::Clock>,
    connections: Slab<Box<OpenConnection<WireOf<P>>>>,
    /// Connections that are being made, by the keys they will have.
    dials: BTreeMap<u64, Dial<WireOf<P>>>,
    /// Those among them that a server has no room for yet.
    crowded: VecDeque<u64>,
    /// Idle connections per target, the most recently used last.
    idle: Vec<Vec<u64>>,
    /// Which targets close a connection behind its first answer, although they announce that it stays
    /// open, as llama.cpp's server does. They keep reading for a moment and discard what arrives: a request
    /// that is sent there would be acknowledged and never answered.
    closing: Vec<bool>,
    /// Flights that the gate has admitted and that have no connection yet.
    ready: VecDeque<Box<Flight>>,
    paced: VecDeque<Box<Flight>>,
    /// Counts of connections opened ahead for these.
    spares: Spares,
    wave: Wave,
    /// Retries, with their times. Usually empty.
    deferred: Vec<(Nanos, Box<Flight>)>,
    /// When the users of which connections' requests cancel them, the next one last.
    cancels: Vec<(Nanos, u64)>,
    lazy: usize,
    traffic: ReadCounts,
    last_poll: Nanos,
    last_sweep: Nanos,
    spin: Nanos,
    sample: ThreadSample,
    account: Account,
}

/// State of a connection, from an event.
#[derive(Debug, Clone, Copy)]
struct Readiness {
    is_readable: bool,
    is_ending: bool,
}

impl Readiness {
    /// Whether there is only room to write: the bytes of the change were read before its report.
    fn is_nothing(self) -> bool {
        !self.is_readable && !self.is_ending
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeepOrClose {
    Keep,
    Close,
}

impl<P: Platform> Worker<P> {
    pub(crate) fn new(
        id: u16,
        shared: Arc<Shared>,
        notices: Sender<Notice>,
        platform: P,
        links: P::Links,
    ) -> Self {
        let targets = shared.config.targets.len();
        let clock = platform.clock();
        // On one core, polling would take time from the server or the preparer.
        let has_cores = platform.cores().is_some_and(|cores| cores > 1);
        Self {
            id,
            links,
            notices,
            reader: LinkReader::new(clock.clone()),
            clock,
            connections: Slab::default(),
            dials: BTreeMap::new(),
            crowded: VecDeque::new(),
            idle: vec![Vec::new(); targets],
            closing: vec![false; targets],
            ready: VecDeque::new(),
            paced: VecDeque::new(),
            spares: Spares::new(targets),
            wave: Wave::default(),
            deferred: Vec::new(),
            cancels: Vec::new(),
            lazy: 0,
            traffic: ReadCounts::default(),
            last_poll: Nanos::ZERO,
            last_sweep: Nanos::ZERO,
            spin: if has_cores { pacer::SPIN } else { Nanos::ZERO },
            sample: ThreadSample::default(),
            account: Account::default(),
            shared,
            platform,
        }
    }

    pub(crate) fn run(mut self) -> Account {
        let mut commands = Vec::new();
        while !self.shared.is_over() {
            self.turn(&mut commands);
        }
        self.account.clock_steps = std::mem::take(&mut self.reader.clock_steps);
        self.account.health.kernel_to_user = std::mem::take(&mut self.reader.kernel_to_user);
        self.sample.finish(&self.platform, &mut self.account.health);
        self.account
    }

    fn turn(&mut self, commands: &mut Vec<WorkerCommand>) {
        self.shared.inboxes[usize::from(self.id)].take(commands);
        for command in commands.drain(..) {
            self.receive(command);
        }
        self.open_for_wave();
        if self.has_plans() {
            self.reader.now = self.clock.now();
            self.send_wave();
            self.send_due();
        }
        let max_wait = self.max_wait();
        self.reader.eager.begin(self.reader.now);
        let count = self.links.wait(max_wait);
        // Reading updates the time; the clock is read only where nothing may be read.
        if count == 0 || self.has_plans() || !self.cancels.is_empty() {
            self.reader.now = self.clock.now();
        }
        self.visit(count);
        self.cancel_due();
        if count < BATCH {
            self.reader.eager.end();
        }
        if !self.crowded.is_empty() {
            self.retry_crowded();
        }
        if self.lazy > 0 && self.reader.now - self.last_poll >= reads::INTERVAL {
            self.last_poll = self.reader.now;
            self.read_lazy();
        }
        if self.reader.now - self.last_sweep >= SWEEP_INTERVAL {
            self.last_sweep = self.reader.now;
            self.sweep();
        }
    }

    /// Whether a flight waits to be sent, now or at its time.
    fn has_plans(&self) -> bool {
        self.wave.due().is_some()
            || !(self.ready.is_empty() && self.paced.is_empty() && self.deferred.is_empty())
    }

    fn read_lazy(&mut self) {
        self.reader.lazy.begin(self.reader.now);
        loop {
            let count = self.links.poll_lazy();
            self.visit(count);
            // Streams that started together have bytes together: one batch may not hold them all.
            if count < BATCH {
                return self.reader.lazy.end();
            }
        }
    }

    fn receive(&mut self, command: WorkerCommand) {
        match command {
            WorkerCommand::Send(flight) => self.ready.push_back(flight),
            WorkerCommand::Pace(flight) => self.line_up(flight),
            WorkerCommand::Hold(flight) => self.hold(flight),
            WorkerCommand::Begin(at) => self.wave.begin_at(at),
            WorkerCommand::Preopen { target, count } => {
                (0..count).for_each(|_| self.open_spare(target));
            }
            WorkerCommand::Measure => {
                // Those that were opened for the requests to come.
                let opened = self.connections.iter().filter(|connection| connection.uses == 0);
                let opened = (opened.count() + self.dials.len()) as u64;
                self.account = Account { opened, ..Account::default() };
                self.reader.kernel_to_user = DelayHistogram::default();
                self.reader.clock_steps.clear();
                self.sample = ThreadSample::take(&self.platform);
            }
        }
    }

    /// How long the next wait may take; sets the timer for what is due.
    fn max_wait(&mut self) -> MaxWait {
        if !self.ready.is_empty() {
            return MaxWait::None;
        }
        let cancel = self.cancels.last().map(|(at, _)| *at);
        let due = self.next_due().into_iter().chain(self.wave.due()).chain(cancel).min();
        match pacer::wait(self.reader.now, due, self.spin) {
            Wait::Poll => return MaxWait::None,
            Wait::Sleep { timer: Some(at) } => self.links.arm(at),
            Wait::Sleep { timer: None } => {}
        }
        let is_soon = self.lazy > 0 || !self.crowded.is_empty();
        if is_soon { MaxWait::Interval } else { MaxWait::Long }
    }

    /// Handles the first `count` results of the last wait.
    fn visit(&mut self, count: usize) {
        for index in 0..count {
            match self.links.ready(index) {
                Ready::Link { key, is_readable, is_ending } => {
                    self.attend(key, Readiness { is_readable, is_ending });
                }
                signal => self.on_signal(signal),
            }
            // A long batch must not delay a send.
            if self.next_due().is_some_and(|due| due <= self.reader.now) {
                self.send_due();
            }
        }
    }

    /// Handles an event that is not a connection's. No read updates the time here, so the clock is
    /// read: frequent wake-ups must not hide that time passes.
    fn on_signal(&mut self, signal: Ready) {
        self.reader.now = self.clock.now();
        match signal {
            Ready::Timer => self.links.disarmed(),
            Ready::ClockStep if self.links.has_clock_stepped() => self.reader.update_stamps(),
            _ => {}
        }
    }

    fn attend(&mut self, key: u64, readiness: Readiness) {
        let Some(mut connection) = self.connections.take(key) else { return self.on_dial(key) };
        let disposition = match connection.stage {
            ConnectionStage::Securing => self.secure(&mut connection),
            ConnectionStage::Armed => self.check_armed(&mut connection, readiness),
            ConnectionStage::Idle | ConnectionStage::Reading if readiness.is_nothing() => {
                // No read updates the time here.
                self.reader.now = self.clock.now();
                self.watch(&mut connection, Interest::Reads);
                KeepOrClose::Keep
            }
            ConnectionStage::Idle | ConnectionStage::Reading => {
                self.drain(&mut connection, readiness)
            }
            ConnectionStage::Writing => match self.write_on(&mut connection) {
                // A server may refuse a request before it has read all of it.
                KeepOrClose::Keep if readiness.is_readable => {
                    self.drain(&mut connection, readiness)
                }
                disposition => disposition,
            },
        };
        self.settle(connection, disposition);
    }

    fn settle(&mut self, connection: Box<WorkerConnection<P>>, disposition: KeepOrClose) {
        match disposition {
            KeepOrClose::Keep => self.connections.put(connection.key, connection),
            KeepOrClose::Close => self.forget(&connection),
        }
    }

    /// Removes a connection, which closes when it is dropped.
    fn forget(&mut self, connection: &WorkerConnection<P>) {
        self.lazy -= usize::from(connection.lane == Lane::Lazy);
        if connection.stage == ConnectionStage::Idle {
            self.idle[usize::from(connection.target)].retain(|key| *key != connection.key);
        }
        self.connections.release(connection.key);
    }

    fn drain(&mut self, connection: &mut WorkerConnection<P>, readiness: Readiness) -> KeepOrClose {
        // An end of the connection that came with the bytes is not reported a second time.
        let is_ending = readiness.is_ending;
        let mut is_report = readiness.is_readable;
        loop {
            let live = self.shared.live.slot(self.id);
            let end = self.reader.read(connection, live);
            // Later reads may find what has arrived since the wait.
            if std::mem::take(&mut is_report) {
                self.reader.note_report(connection.lane);
            }
            match end {
                ReadEnd::More => {}
                ReadEnd::Drained if is_ending && connection.stage != ConnectionStage::Idle => {
                    match self.reader.read(connection, self.shared.live.slot(self.id)) {
                        ReadEnd::Drained => return KeepOrClose::Keep,
                        ReadEnd::More => {}
                        end => return self.on_end(connection, end),
                    }
                }
                ReadEnd::Drained => {
                    self.choose_lane(connection);
                    return KeepOrClose::Keep;
                }
                end => return self.on_end(connection, end),
            }
        }
    }

    fn on_end(&mut self, connection: &mut WorkerConnection<P>, end: ReadEnd) -> KeepOrClose {
        match end {
            ReadEnd::Done { keep_alive } => self.complete(
                connection,
                if keep_alive { KeepOrClose::Keep } else { KeepOrClose::Close },
            ),
            ReadEnd::Closed => self.on_closed(connection),
            ReadEnd::Broken(error) => self.on_broken(connection, &error),
            ReadEnd::GivenUp => self.cancel(connection),
            ReadEnd::Unexpected => KeepOrClose::Close,
            ReadEnd::Drained | ReadEnd::More => KeepOrClose::Keep,
        }
    }

    fn watch(&mut self, connection: &mut WorkerConnection<P>, interest: Interest) {
        let (key, lane) = (connection.key, connection.lane);
        if interest != connection.interest
            && self.links.watch(connection.link.source(), key, lane, interest).is_ok()
        {
            connection.interest = interest;
        }
    }

    /// Moves a stream to the lane that its gaps allow.
    fn choose_lane(&mut self, connection: &mut WorkerConnection<P>) {
        if self.shared.config.socket_reads == SocketReads::Eager {
            return;
        }
        self.traffic.read();
        let Some(flight) = &connection.flight else { return };
        let asked = flight.timeline.requested.output_tokens;
        let lane = if self.traffic.is_dense() {
            connection.pulse.lane(connection.lane, asked)
        } else {
            Lane::Eager
        };
        self.shift(connection, lane);
    }

    fn shift(&mut self, connection: &mut WorkerConnection<P>, lane: Lane) {
        if lane == connection.lane
            || self.links.shift(connection.link.source(), connection.key, lane).is_err()
        {
            return;
        }
        connection.lane = lane;
        connection.interest = Interest::default();
        match lane {
            Lane::Eager => self.lazy -= 1,
            Lane::Lazy => {
                self.lazy += 1;
                self.account.lazy_streams += u64::from(!connection.was_lazy);
                connection.was_lazy = true;
                // A late read would delay the acknowledgement, and with it the next event of a server
                // that waits for it.
                connection.link.source().acknowledge_quickly();
            }
        }
    }
}
