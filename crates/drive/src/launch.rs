//! Sets up a run: threads, phases, and the summary at its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use tokometer_base::{Clock, Nanos};
use tokometer_client::conn::Peer;
use tokometer_record::{Health, Phase, RunEnd, Stop};
use tokometer_schedule::{Arrivals, Offsets};

use crate::config::{Connections, RunConfig};
use crate::control::{self, ControlRecord};
use crate::descriptors;
use crate::error::Error;
use crate::inbox::WorkerCommand;
use crate::interrupt::Interrupt;
use crate::item::{Notice, Prepare};
use crate::live::Live;
use crate::native::Native;
use crate::platform::{Platform, Wake};
use crate::preparer::{Preparer, PreparerProgress};
use crate::shared::Shared;
use crate::slots::RunSlots;
use crate::thread::{self, Thread};
use crate::vitals::{self, VitalsSample};
use crate::worker::{Account, Worker};

/// A call between the phases, such as a flush of the server's cache. It may take any time.
pub type Between = Box<dyn FnOnce() + Send>;

/// Waits until the measured phase may begin and returns its start, which other processes share.
/// `None`: now. An error means that there is no run.
pub type AwaitStart = Box<dyn FnOnce() -> Result<Option<Nanos>, String> + Send>;

/// Where a run reports to, and what can stop it.
pub struct Outlets {
    /// Receives a notice for every start and end of an attempt. When the receiver is closed, the run
    /// stops as if the disk were full: what cannot be recorded need not be measured.
    pub notices: Sender<Notice>,
    pub live: Arc<Live>,
    pub interrupt: Arc<Interrupt>,
    /// Called after the warm-up and before the measured phase.
    pub between: Option<Between>,
    /// Called when everything is prepared. `None` begins at once.
    pub start: Option<AwaitStart>,
}

/// Time for the requests in flight to end after an interrupt.
const DRAIN: Nanos = Nanos::from_secs(5);

/// Time for a busy preparer to notice that everything in flight was abandoned.
const PREPARER_DRAIN: Nanos = Nanos::from_millis(500);

/// Time for the remaining threads to record their flights after a panic.
const PANIC_DRAIN: Nanos = Nanos::from_millis(500);

/// How often the owner checks for changes.
const LOOK: Nanos = Nanos::from_millis(4);

/// Time from opening a paced phase to its start, for the first items to reach the workers.
const START_LEAD: Nanos = Nanos::from_millis(2);

/// Executes the run on this machine and blocks until it has ended. Failed requests are notices; an
/// error means that there is no run.
pub fn run(config: RunConfig, source: Box<dyn Prepare>, outlets: Outlets) -> Result<RunEnd, Error> {
    run_on(&Native, config, source, outlets)
}

/// Executes the run on the given platform; otherwise like [`run`].
pub fn run_on<P: Platform>(
    platform: &P,
    mut config: RunConfig,
    source: Box<dyn Prepare>,
    outlets: Outlets,
) -> Result<RunEnd, Error> {
    let workers = config.worker_count(platform.cores().unwrap_or(1));
    let extent = config.whole_extent.unwrap_or(config.limits.extent);
    let offsets = Offsets::new(&config.arrivals, extent, config.seed)?.of_share(config.share);
    let limit = platform.raise_descriptor_limit();
    make_room(platform, &mut config, limit)?;
    let links = (0..workers).map(|_| platform.links()).collect::<Result<Vec<_>, _>>()?;
    let (links, wakers): (Vec<_>, Vec<_>) = links.into_iter().unzip();
    let shared = Arc::new(Shared::new(config, Arc::clone(&outlets.live), wakers));
    if let Some(lending) = &shared.config.cap_lending {
        let clock = platform.clock();
        lending.begin(Arc::new(RunSlots::new(&shared, Box::new(move || clock.now()))));
    }
    let mut workers: Vec<Thread<Account>> = Vec::new();
    for (id, links) in (0..).zip(links) {
        let (shared_by, notices) = (Arc::clone(&shared), outlets.notices.clone());
        let worker = Worker::new(id, shared_by, notices, platform.clone(), links);
        workers.push(thread::spawn(platform, "worker", &shared, move || worker.run())?);
    }
    let progress = Arc::new(PreparerProgress::default());
    let preparer = Preparer {
        platform: platform.clone(),
        clock: platform.clock(),
        shared: Arc::clone(&shared),
        progress: Arc::clone(&progress),
        source,
        offsets: offsets.clone(),
        block_begin: Nanos::ZERO,
        sessions: BTreeMap::new(),
        single: 0,
    };
    let preparer = thread::spawn(platform, "preparer", &shared, move || preparer.run())?;
    shared.turns.wake(preparer.waker());
    let mut owner = Owner {
        platform: platform.clone(),
        clock: platform.clock(),
        shared,
        progress,
        offsets,
        interrupt: outlets.interrupt,
        stop: None,
        stopped: None,
        is_preparer_left: false,
        descriptor_limit: limit,
    };
    let measured = owner.conduct(outlets.between, outlets.start, preparer.waker().as_ref());
    owner.shared.finish();
    let accounts = workers.into_iter().filter_map(Thread::join).collect();
    // A preparer that waits for a server must not keep the run from ending. It ends by itself later.
    if !owner.is_preparer_left {
        let _ = preparer.join();
    }
    match owner.shared.take_panic().or_else(|| owner.progress.take_error()) {
        Some(error) => Err(error),
        None => Ok(owner.close(measured, accounts)),
    }
}

/// Checks that the connections fit under the limit, and grows the descriptor table.
fn make_room(
    platform: &impl Platform,
    config: &mut RunConfig,
    limit: Option<u64>,
) -> Result<(), Error> {
    let planned = config.limits.extent.count;
    let cap = config.limits.max_concurrency.map(u64::from);
    let is_burst = config.arrivals == Arrivals::AtOnce;
    let wanted = match (cap, planned) {
        (Some(cap), Some(planned)) => Some(cap.min(planned.max(config.limits.warmups))),
        (Some(cap), None) => Some(cap),
        (None, Some(planned)) if is_burst => Some(planned),
        (None, _) => None,
    };
    if let Some(wanted) = wanted {
        descriptors::check(wanted, limit)?;
    } else if is_burst {
        // Without a limit, a burst of unknown size is limited by the descriptors.
        let most = limit.map_or(1_024, descriptors::most_connections);
        config.limits.max_concurrency = u32::try_from(most).ok();
    }
    let wanted = wanted.or(config.limits.max_concurrency.map(u64::from)).unwrap_or(1_024);
    platform.grow_descriptor_table(wanted.min(limit.unwrap_or(wanted)));
    Ok(())
}

/// The calling thread, which runs the phases.
struct Owner<P: Platform> {
    platform: P,
    clock: P::Clock,
    shared: Arc<Shared>,
    progress: Arc<PreparerProgress>,
    offsets: Offsets,
    interrupt: Arc<Interrupt>,
    stop: Option<Stop>,
    stopped: Option<Nanos>,
    /// Whether the preparer did not notice the end and is left behind.
    is_preparer_left: bool,
    descriptor_limit: Option<u64>,
}

/// Measured requests whose sending began.
#[derive(Debug, Clone, Copy, Default)]
struct BegunRequests {
    all: u64,
    /// Those of them that are later turns of a conversation.
    turns: u64,
}

struct PhaseResults {
    begin: Nanos,
    health: Health,
}

impl<P: Platform> Owner<P> {
    /// Opens the connections whose number is known, and waits for them.
    fn preopen(&self) {
        let config = &self.shared.config;
        if config.connections != Connections::Preopen {
            return;
        }
        let targets = u16::try_from(config.targets.len()).unwrap_or(1).max(1);
        let Some(wanted) = wanted_per_target(config) else { return };
        let workers = self.shared.inboxes.len() as u64;
        let opening = &self.shared.opening;
        for (worker, inbox) in (0_u64..).zip(&self.shared.inboxes) {
            let share = wanted / workers + u64::from(worker < wanted % workers);
            let count = u32::try_from(share).unwrap_or(u32::MAX);
            for target in 0..targets {
                // Counted before the worker knows: it may be done before this thread goes on, and what it
                // takes from a count of zero would be missing for ever.
                opening.fetch_add(u64::from(count), Ordering::AcqRel);
                inbox.post(WorkerCommand::Preopen { target, count });
            }
        }
        let deadline = self.clock.now() + config.timeouts.connect;
        while opening.load(Ordering::Acquire) > 0
            && self.clock.now() < deadline
            && !self.interrupt.is_raised()
        {
            self.platform.pause(LOOK);
        }
    }

    /// Lets the requests that leave together reach their workers, and their connections be opened. Waits
    /// as long as connections are being made.
    fn gather_wave(&mut self, preparer: &dyn Wake) {
        if self.shared.config.wave_size() == 0 || self.stop.is_some() {
            return;
        }
        self.progress.want_wave();
        preparer.wake();
        let timeout = self.shared.config.timeouts.connect;
        let (mut deadline, mut left) = (self.clock.now() + timeout, u64::MAX);
        while !self.progress.is_wave_fed() || self.shared.arming() > 0 {
            self.platform.pause(LOOK);
            let now = self.clock.now();
            self.check_stop(now);
            let still = self.shared.arming();
            if still != left {
                (deadline, left) = (now + timeout, still);
            }
            if self.stop.is_some() || now >= deadline {
                return;
            }
        }
    }

    /// Runs all phases: connections, warm-up, the calls between, the measured phase.
    fn conduct(
        &mut self,
        between: Option<Between>,
        start: Option<AwaitStart>,
        preparer: &dyn Wake,
    ) -> PhaseResults {
        self.preopen();
        if self.shared.config.limits.warmups > 0 {
            self.shared.live.begin(Phase::Warmup, self.clock.now());
        }
        let progress = Arc::clone(&self.progress);
        self.watch(|| progress.are_warmups_fed());
        self.shared.live.end_phase();
        if let Some(error) = self.shared.warm_up_error().filter(|_| self.stop.is_none()) {
            return self.refuse(error);
        }
        if let Some(between) = between.filter(|_| self.stop.is_none()) {
            between();
            self.check_stop(self.clock.now());
        }
        while !self.progress.is_head_start_made() && self.stop.is_none() {
            self.platform.pause(LOOK);
            self.check_stop(self.clock.now());
        }
        self.gather_wave(preparer);
        let start = start.filter(|_| self.stop.is_none());
        let begin = match start.map_or(Ok(None), |start| start()) {
            Ok(begin) => begin,
            Err(reason) => return self.refuse(Error::Start { reason }),
        };
        if let Some(begin) = begin {
            self.wait_for_start(begin);
        }
        self.check_stop(self.clock.now());
        self.measure(begin, preparer)
    }

    /// Ends the run before anything is measured.
    fn refuse(&self, error: Error) -> PhaseResults {
        let now = self.clock.now();
        self.progress.fail(error);
        self.shared.stop(now);
        PhaseResults { begin: now, health: Health::default() }
    }

    /// Waits for a start that is given from outside, unless the run is stopped before.
    fn wait_for_start(&mut self, begin: Nanos) {
        let until = begin - self.lead();
        while self.clock.now() + LOOK < until && self.stop.is_none() {
            self.platform.pause(LOOK);
            self.check_stop(self.clock.now());
        }
        if self.stop.is_none() {
            self.platform.sleep_until(until);
        }
    }

    fn lead(&self) -> Nanos {
        let config = &self.shared.config;
        let is_led = config.arrivals != Arrivals::AtOnce || config.wave_size() > 0;
        if is_led { START_LEAD } else { Nanos::ZERO }
    }

    fn measure(&mut self, given: Option<Nanos>, preparer: &dyn Wake) -> PhaseResults {
        let sample = VitalsSample::take(&self.platform);
        self.shared.gate.take_waits();
        for inbox in &self.shared.inboxes {
            inbox.post(WorkerCommand::Measure);
        }
        let begin = given.unwrap_or_else(|| self.clock.now() + self.lead());
        self.shared.live.begin(Phase::Measure, begin);
        if let Some(duration) = self.shared.config.limits.extent.duration {
            self.shared.gate.close_at(begin + duration);
        }
        let control = self.start_control(begin);
        for inbox in &self.shared.inboxes {
            inbox.post(WorkerCommand::Begin(begin));
        }
        self.progress.open(begin);
        preparer.wake();
        let progress = Arc::clone(&self.progress);
        self.watch(|| progress.is_finished());
        let mut health = Health::default();
        sample.finish(&self.platform, &mut health);
        self.shared.finish();
        if let Some(control) = control.and_then(Thread::join) {
            health.pacing_control = control.lateness;
            health.stalls = Some(control.stalls);
        }
        health.cap_waits = self.shared.gate.take_waits();
        PhaseResults { begin, health }
    }

    /// The reference thread follows the schedule where sends have intended times.
    fn start_control(&self, begin: Nanos) -> Option<Thread<ControlRecord>> {
        let is_paced = matches!(self.shared.config.arrivals, Arrivals::Paced(_));
        let offsets = is_paced.then(|| self.offsets.clone());
        let shared = Arc::clone(&self.shared);
        let platform = self.platform.clone();
        let work = move || control::run(&platform, &shared, offsets, begin);
        thread::spawn(&self.platform, "control", &self.shared, work).ok()
    }

    /// Waits until all flights have ended and no more will come. Reacts to what may end the run
    /// early.
    fn watch(&mut self, is_fed: impl Fn() -> bool) {
        let (mut drain_ends, mut given_up) = (None, None);
        loop {
            let was_fed = is_fed();
            let now = self.clock.now();
            if was_fed && self.shared.is_all_sent() {
                self.shared.live.note_all_sent(now);
            }
            let is_busy = !was_fed && given_up.is_some_and(|at| now >= at + PREPARER_DRAIN);
            self.is_preparer_left |= is_busy;
            if (was_fed || is_busy) && self.shared.pending() == 0 {
                // A worker that loses the target stops the run itself, and all flights may end at
                // once.
                if self.shared.is_target_lost() || self.shared.is_refused() {
                    self.check_stop(now);
                }
                return;
            }
            self.check_stop(now);
            if self.shared.has_panicked() {
                self.drain_after_panic(now + PANIC_DRAIN);
                return;
            }
            if self.stop.is_some() {
                let drain_ends = *drain_ends.get_or_insert(now + DRAIN);
                let is_urgent =
                    now >= drain_ends || self.interrupt.times() > 1 || self.shared.is_abandoning();
                if is_urgent && given_up.is_none() {
                    self.shared.abandon();
                    given_up = Some(now);
                }
            }
            self.platform.pause(LOOK);
        }
    }

    /// Abandons the requests in flight. The flights of the thread that panicked never end, so the
    /// wait for the others has a limit.
    fn drain_after_panic(&self, deadline: Nanos) {
        self.shared.abandon();
        while self.shared.pending() > 0 && self.clock.now() < deadline {
            self.platform.pause(LOOK);
        }
    }

    fn check_stop(&mut self, now: Nanos) {
        if self.stop.is_some() {
            return;
        }
        self.stop = if self.interrupt.is_raised() || self.shared.has_panicked() {
            Some(Stop::Interrupted)
        } else if self.shared.are_notices_closed() {
            Some(Stop::DiskFull)
        } else if self.shared.is_target_lost() {
            Some(Stop::TargetLost)
        } else if self.shared.is_refused() {
            Some(Stop::Refused)
        } else {
            None
        };
        if self.stop.is_some() {
            self.stopped = Some(now);
            self.shared.stop(now);
        }
    }

    /// Requests of the plan. Where time ends the run: requests that were due before that. A closed
    /// loop has no intended times: there a request is due when it can be sent.
    fn due(&self, begin: Nanos, sent: BegunRequests) -> u64 {
        let (config, fed) = (&self.shared.config, self.progress.fed());
        let extent = config.limits.extent;
        let Some(duration) = extent.duration else {
            return match (extent.count, self.stop) {
                (Some(count), None) => count.min(fed + self.progress.lost_turns()),
                (Some(count), Some(_)) => count,
                (None, None) => sent.all,
                (None, Some(_)) => fed,
            };
        };
        // Blocks for two targets wait for each other, so their times differ from the schedule.
        if config.targets.len() > 1 {
            return sent.all;
        }
        let span = self.stopped.map_or(duration, |stopped| duration.min(stopped - begin));
        if self.progress.has_own_times() {
            // Only so many items are made ahead: behind a full gate others are due as well.
            let listed = self.progress.due_before(span, extent.count.unwrap_or(u64::MAX));
            return listed.max(sent.all + self.shared.unsent());
        }
        if config.arrivals == Arrivals::AtOnce {
            return sent.all;
        }
        // Behind a full gate the preparer feeds fewer requests than are due, so the schedule is
        // counted. It has the first turns of conversations; later ones follow their answers.
        let mut offsets = self.offsets.clone();
        let scheduled =
            std::iter::from_fn(|| offsets.advance()).take_while(|offset| *offset < span);
        let most = usize::try_from(extent.count.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        let scheduled = scheduled.take(most).count() as u64 + self.progress.fed_in_loops();
        let first_turns = scheduled.max(sent.all - sent.turns);
        first_turns + sent.turns + self.shared.unsent_turns()
    }

    fn close(&self, measured: PhaseResults, accounts: Vec<Account>) -> RunEnd {
        let mut health = measured.health;
        let mut end = measured.begin;
        let (mut abandoned, mut sent) = (0, BegunRequests::default());
        for account in accounts {
            health.workers.push(account.health);
            health.refill_delay.merge(&account.refill_delay);
            // Every worker sees the same steps; the largest count has all of them.
            let steps = u32::try_from(account.clock_steps.len()).unwrap_or(u32::MAX);
            health.clock_steps = health.clock_steps.max(steps);
            health.clock_step_times.get_or_insert_default().extend(account.clock_steps);
            health.connections_opened += account.opened;
            health.connections_reused += account.reused;
            health.connections_reopened += account.reopened;
            health.compressed_answers += account.compressed;
            health.lazy_streams += account.lazy_streams;
            abandoned += account.abandoned;
            sent.all += account.started;
            sent.turns += account.started_turns;
            end = end.max(account.last_end);
        }
        let config = &self.shared.config;
        // Where a proxy runs says nothing of the server behind it.
        let endpoints = config.targets.iter().map(|target| &target.endpoint);
        let direct = endpoints.filter(|endpoint| endpoint.proxy().is_none());
        let addresses: Vec<&Peer> = direct.flat_map(|endpoint| &endpoint.addresses).collect();
        health.is_same_host = vitals::is_same_host(&addresses);
        health.descriptor_limit = self.descriptor_limit;
        health.dropped_fields = self.shared.dropped_fields();
        health.overflows = self.progress.overflows();
        let stop = self.stop.unwrap_or(Stop::Complete);
        let due = self.due(measured.begin, sent);
        RunEnd {
            stop,
            measure_begin: measured.begin,
            measure_end: end,
            abandoned,
            never_sent: due.saturating_sub(sent.all),
            health,
        }
    }
}

/// Connections to open to each target before a phase, where their number is known. A block of
/// requests may go to one target alone, so each target needs as many as the limit allows.
fn wanted_per_target(config: &RunConfig) -> Option<u64> {
    let cap = config.limits.max_concurrency.map(u64::from);
    let targets = (config.targets.len() as u64).max(1);
    let planned = config.limits.extent.count.map(|count| count.div_ceil(targets));
    match (cap, planned) {
        (Some(cap), Some(planned)) => Some(cap.min(planned)),
        (Some(cap), None) => Some(cap),
        (None, planned) => planned.filter(|_| config.arrivals == Arrivals::AtOnce),
    }
}
