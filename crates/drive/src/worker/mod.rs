//! A worker: one thread with its own links and exchanges.
//!
//! Flights come in through the inbox or from the gate; notices go out. One turn sends what is due,
//! waits, reads what is ready, and now and then looks after timeouts. Nothing in a turn blocks, and
//! nothing is shared with other workers but what a request touches once.

mod connection;
mod ending;
mod reader;
mod sending;
mod spares;
mod sweep;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tokometer_base::{Clock, Nanos};
use tokometer_client::conn::Wire;
use tokometer_record::health::{DelayHistogram, WorkerHealth};

use connection::{Connection, Slab, Stage};
use reader::{ReadEnd, Reader};
use spares::Spares;

use crate::config::Harvest;
use crate::flight::Flight;
use crate::harvest::{self, Lane, Traffic};
use crate::inbox::Mail;
use crate::item::Notice;
use crate::pacer::{self, Wait};
use crate::platform::{BATCH, Links, Patience, Platform, Ready};
use crate::shared::Shared;
use crate::vitals::ThreadSample;

/// Timeouts, clocks and wishes to stop are looked after this often.
const SWEEP_INTERVAL: Nanos = Nanos::from_millis(50);

/// What a worker did, besides its notices.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) health: WorkerHealth,
    pub(crate) refill_delay: DelayHistogram,
    pub(crate) clock_steps: u32,
    pub(crate) opened: u64,
    pub(crate) reused: u64,
    pub(crate) reopened: u64,
    pub(crate) lazy_streams: u64,
    /// Measured requests whose sending began, attempts of one counted once.
    pub(crate) started: u64,
    pub(crate) abandoned: u64,
    /// When the last measured request ended.
    pub(crate) last_end: Nanos,
}

/// A connection of a worker on this platform.
type WorkerConnection<P> = Connection<WireOf<P>>;
type WireOf<P> = <<P as Platform>::Links as Links>::Wire;

pub(crate) struct Worker<P: Platform> {
    id: u16,
    shared: Arc<Shared>,
    notices: Sender<Notice>,
    platform: P,
    clock: P::Clock,
    links: P::Links,
    reader: Reader<P::Clock>,
    connections: Slab<WireOf<P>>,
    /// Idle connections per target, the warmest last.
    idle: Vec<Vec<u64>>,
    /// Address of each target that is tried first.
    address: Vec<usize>,
    /// Flights that the gate has let pass and that have no connection yet.
    ready: VecDeque<Box<Flight>>,
    /// Flights in the order of their intended times.
    paced: VecDeque<Box<Flight>>,
    /// Connections opened ahead of these.
    spares: Spares,
    /// Further attempts, with their times. Few, if any.
    deferred: Vec<(Nanos, Box<Flight>)>,
    lazy: usize,
    traffic: Traffic,
    last_harvest: Nanos,
    last_sweep: Nanos,
    spin: Nanos,
    sample: ThreadSample,
    account: Account,
}

/// What a report says about a connection.
#[derive(Debug, Clone, Copy)]
struct Signs {
    is_readable: bool,
    is_ending: bool,
}

/// What becomes of a connection after it was worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    Close,
}

impl<P: Platform> Worker<P> {
    pub(crate) fn new(
        id: u16,
        shared: Arc<Shared>,
        notices: Sender<Notice>,
        (platform, links): (P, P::Links),
    ) -> Self {
        let targets = shared.config.targets.len();
        let clock = platform.clock();
        // On one core the time spent polling would be taken from the server or the preparer.
        let has_cores = platform.cores().is_some_and(|cores| cores > 1);
        Self {
            id,
            links,
            notices,
            reader: Reader::new(clock.clone()),
            clock,
            connections: Slab::default(),
            idle: vec![Vec::new(); targets],
            address: vec![0; targets],
            ready: VecDeque::new(),
            paced: VecDeque::new(),
            spares: Spares::new(targets),
            deferred: Vec::new(),
            lazy: 0,
            traffic: Traffic::default(),
            last_harvest: Nanos::ZERO,
            last_sweep: Nanos::ZERO,
            spin: if has_cores { pacer::SPIN } else { Nanos::ZERO },
            sample: ThreadSample::default(),
            account: Account::default(),
            shared,
            platform,
        }
    }

    /// Works until the run is over.
    pub(crate) fn run(mut self) -> Account {
        let mut mail = Vec::new();
        while !self.shared.is_over() {
            self.turn(&mut mail);
        }
        self.account.clock_steps = self.reader.stamps.steps();
        self.account.health.kernel_to_user = std::mem::take(&mut self.reader.kernel_to_user);
        self.sample.finish(&self.platform, &mut self.account.health);
        self.account
    }

    fn turn(&mut self, mail: &mut Vec<Mail>) {
        self.shared.inboxes[usize::from(self.id)].take(mail);
        for letter in mail.drain(..) {
            self.receive(letter);
        }
        if self.has_plans() {
            self.reader.now = self.clock.now();
            self.send_due();
        }
        let patience = self.patience();
        let count = self.links.wait(patience);
        // Reading tells the time by itself; the clock is asked only where nothing may be read.
        if count == 0 || self.has_plans() {
            self.reader.now = self.clock.now();
        }
        self.visit(count);
        if self.lazy > 0 && self.reader.now - self.last_harvest >= harvest::INTERVAL {
            self.last_harvest = self.reader.now;
            self.harvest();
        }
        if self.reader.now - self.last_sweep >= SWEEP_INTERVAL {
            self.last_sweep = self.reader.now;
            self.sweep();
        }
    }

    /// Whether something waits to be sent, now or at its time.
    fn has_plans(&self) -> bool {
        !(self.ready.is_empty() && self.paced.is_empty() && self.deferred.is_empty())
    }

    /// Reads all lazy streams that have something.
    fn harvest(&mut self) {
        loop {
            let count = self.links.harvest();
            self.visit(count);
            // Streams that started together beat together: one batch may not hold them all.
            if count < BATCH {
                return;
            }
        }
    }

    fn receive(&mut self, letter: Mail) {
        match letter {
            Mail::Send(flight) => self.ready.push_back(flight),
            Mail::Pace(flight) => self.line_up(flight),
            Mail::Preopen { target, count } => (0..count).for_each(|_| self.open_spare(target)),
            Mail::Measure => {
                self.account = Account::default();
                self.reader.kernel_to_user = DelayHistogram::default();
                self.sample = ThreadSample::take(&self.platform);
            }
        }
    }

    /// How long the next look at the sockets may take; sets the timer for what is due.
    fn patience(&mut self) -> Patience {
        if !self.ready.is_empty() {
            return Patience::None;
        }
        match pacer::wait(self.reader.now, self.next_due(), self.spin) {
            Wait::Poll => return Patience::None,
            Wait::Sleep { timer: Some(at) } => self.links.arm(at),
            Wait::Sleep { timer: None } => {}
        }
        if self.lazy > 0 { Patience::Interval } else { Patience::Long }
    }

    /// Attends to the first `count` things that the last look found.
    fn visit(&mut self, count: usize) {
        for place in 0..count {
            match self.links.ready(place) {
                Ready::Link { key, is_readable, is_ending } => {
                    self.attend(key, Signs { is_readable, is_ending });
                }
                signal => self.on_signal(signal),
            }
            // A long batch must not make a send late.
            if self.next_due().is_some_and(|due| due <= self.reader.now) {
                self.send_due();
            }
        }
    }

    /// Something other than a connection. No read tells the time here, so the clock is asked: a bell
    /// that rings often must not keep the worker from noticing that time passes.
    fn on_signal(&mut self, signal: Ready) {
        self.reader.now = self.clock.now();
        match signal {
            Ready::Timer => self.links.disarmed(),
            Ready::ClockStep if self.links.has_clock_stepped() => self.reader.update_stamps(),
            _ => {}
        }
    }

    /// Works on a connection that is ready for something.
    fn attend(&mut self, key: u64, signs: Signs) {
        let Some(mut connection) = self.connections.take(key) else { return };
        let fate = match connection.stage {
            Stage::Connecting => self.on_connected(&mut connection),
            Stage::Securing => self.secure(&mut connection),
            Stage::Idle | Stage::Reading => self.drain(&mut connection, signs),
            Stage::Writing => match self.write_on(&mut connection) {
                // A server may refuse a request before it has read it all.
                Fate::Keep if signs.is_readable => self.drain(&mut connection, signs),
                fate => fate,
            },
        };
        self.settle(connection, fate);
    }

    /// Puts a connection back or closes it.
    fn settle(&mut self, connection: Box<WorkerConnection<P>>, fate: Fate) {
        match fate {
            Fate::Keep => self.connections.put(connection),
            Fate::Close => self.forget(&connection),
        }
    }

    /// Forgets a connection, which closes when it is dropped.
    fn forget(&mut self, connection: &WorkerConnection<P>) {
        self.lazy -= usize::from(connection.lane == Lane::Lazy);
        if connection.stage == Stage::Idle {
            self.idle[usize::from(connection.target)].retain(|key| *key != connection.key);
        }
        self.connections.release(connection.key);
    }

    /// Reads until the socket has nothing more.
    fn drain(&mut self, connection: &mut WorkerConnection<P>, signs: Signs) -> Fate {
        // An end of the connection that came with the bytes is reported no second time.
        let is_ending = signs.is_ending;
        loop {
            let live = self.shared.live.slot(self.id);
            match self.reader.read(connection, live) {
                ReadEnd::More => {}
                ReadEnd::Drained if is_ending && connection.stage != Stage::Idle => {
                    match self.reader.read(connection, self.shared.live.slot(self.id)) {
                        ReadEnd::Drained => return Fate::Keep,
                        ReadEnd::More => {}
                        end => return self.on_end(connection, end),
                    }
                }
                ReadEnd::Drained => {
                    self.choose_lane(connection);
                    return Fate::Keep;
                }
                // Servers such as llama.cpp's promise to keep a connection and close it behind the
                // answer. They read on for a moment and throw away what comes: a request sent on it
                // would be acknowledged and never answered, and the end would ring no second time.
                ReadEnd::Done { .. } if is_ending => {
                    return self.on_end(connection, ReadEnd::Done { keep_alive: false });
                }
                end => return self.on_end(connection, end),
            }
        }
    }

    fn on_end(&mut self, connection: &mut WorkerConnection<P>, end: ReadEnd) -> Fate {
        match end {
            ReadEnd::Done { keep_alive } => {
                self.complete(connection, if keep_alive { Fate::Keep } else { Fate::Close })
            }
            ReadEnd::Closed => self.on_closed(connection),
            ReadEnd::Broken(error) => self.on_broken(connection, &error),
            ReadEnd::Unasked => Fate::Close,
            ReadEnd::Drained | ReadEnd::More => Fate::Keep,
        }
    }

    /// Moves a stream to the lane that its rhythm allows.
    fn choose_lane(&mut self, connection: &mut WorkerConnection<P>) {
        if self.shared.config.harvest == Harvest::Eager {
            return;
        }
        self.traffic.read();
        let Some(flight) = &connection.flight else { return };
        let asked = flight.timeline.asked.output_tokens;
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
        match lane {
            Lane::Eager => self.lazy -= 1,
            Lane::Lazy => {
                self.lazy += 1;
                self.account.lazy_streams += u64::from(!connection.was_lazy);
                connection.was_lazy = true;
                // A late read would delay the acknowledgement, and with it the next event of a
                // server that waits for it.
                connection.link.source().acknowledge_quickly();
            }
        }
    }
}
