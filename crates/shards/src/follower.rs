//! The side of every other shard: joins, measures its clock, waits for the start, hands over its record.
//!
//! A follower that loses the leader before the start has no run. After the start it sends its part to the
//! end, and its folder can be merged later.

use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokometer_base::{Background, Clock, Nanos};
use tokometer_record::folder::write_clock;
use tokometer_record::{CommonStart, ShardClock};

use crate::clock::{ClockSamples, RoundTrip};
use crate::handover::{RecordOutlet, SentRecord};
use crate::joining::{FollowerConfig, JoinError, SILENCE_MAX, connect, enter};
use crate::link::{ShardReader, ShardWriter};
use crate::local_run::LocalRun;
use crate::message::{ToFollower, ToLeader, Welcome};
use crate::wire::{Inbound, MessageReader, MessageWriter};

/// Time between two attempts to connect.
const RETRY: Nanos = Nanos::from_millis(200);
/// A leader that closes a connection sooner has not waited for anything.
const TURNED_AWAY: Nanos = Nanos::from_secs(2);

/// Progress and a measurement of the clock are sent this often.
const TICK: Duration = Duration::from_millis(500);
/// Round trips at the beginning and at the end, and the time between two.
pub(crate) const BURST: u32 = 24;
const BURST_GAP: Nanos = Nanos::from_millis(3);
/// `clock.json` is written after so many ticks.
const TICKS_PER_WRITE: u32 = 10;
/// Latencies, which are larger than counters, are sent after so many ticks.
const TICKS_PER_LATENCIES: u32 = 2;

/// How often an interrupt is looked for while something is waited for. What the leader says ends the wait.
const LOOK: Duration = Duration::from_millis(100);

/// A point that the leader has handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextPoint {
    pub point: u32,
    /// What it measures, in the words of the program.
    pub order: String,
}

/// What this process makes of a point.
pub struct OwnRun {
    /// Of its record.
    pub folder: PathBuf,
    pub storage: RecordStorage,
    pub local: Arc<dyn LocalRun>,
}

pub struct Follower {
    shared: Arc<FollowerShared>,
    pub welcome: Welcome,
    stream: TcpStream,
    /// Whether the leader reads the same clock, so that there is no offset to measure.
    has_leaders_clock: bool,
    /// Behind a lock because a background thread cannot be shared, and a follower is.
    _ticker: Mutex<Background>,
}

struct FollowerShared {
    clock: Arc<dyn Clock>,
    sender: Mutex<MessageWriter<ShardWriter>>,
    state: Mutex<State>,
    changed: Condvar,
    /// As the leader said.
    shows_latencies: bool,
    /// What the leader has of the current record. Locked while a file is sent: its pieces follow each
    /// other.
    sent: Mutex<Option<SentRecord>>,
}

impl RecordOutlet for FollowerShared {
    fn send(&self, message: &ToLeader) -> std::io::Result<()> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).send(message)
    }

    fn send_bytes(&self, content: &[u8]) -> std::io::Result<()> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).send_bytes(content)
    }
}

#[derive(Debug, Clone)]
struct Loss {
    why: String,
    /// Whether the leader is there and does not take this shard.
    is_refusal: bool,
}

#[derive(Default)]
struct State {
    samples: ClockSamples,
    /// The point that was handed out last.
    next: Option<NextPoint>,
    is_finished: bool,
    start: Option<(u32, Nanos)>,
    /// Point, block and start of the last block.
    block: Option<(u32, u64, Nanos)>,
    /// The last point whose end the leader has confirmed.
    taken: Option<u32>,
    /// Why there is no leader any more.
    lost: Option<Loss>,
    heard: Nanos,
    /// A run that waits for its start: what the leader says of it may come before this process has seen
    /// the start.
    ready: Option<(u32, Arc<dyn LocalRun>)>,
    run: Option<CurrentRun>,
}

impl State {
    /// The first reason stays.
    fn lose(&mut self, loss: Loss) {
        let _first = self.lost.get_or_insert(loss);
    }

    /// The run of a point, once the leader knows that it is ready.
    fn local(&self, point: u32) -> Option<Arc<dyn LocalRun>> {
        let running = self.run.as_ref().filter(|run| run.point == point).map(|run| &run.local);
        let ready = self.ready.as_ref().filter(|(of, _)| *of == point).map(|(_, local)| local);
        running.or(ready).cloned()
    }
}

#[derive(Clone)]
struct CurrentRun {
    point: u32,
    folder: PathBuf,
    local: Arc<dyn LocalRun>,
    start: Option<CommonStart>,
    storage: RecordStorage,
}

impl FollowerShared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent(&self) -> MutexGuard<'_, Option<SentRecord>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, message: &ToLeader) {
        if let Err(why) = self.send(message) {
            self.lose(&why.to_string());
        }
    }

    /// Sends what the record of a run has gained, where the leader does not see it.
    fn stream(&self, run: &CurrentRun) {
        if run.storage == RecordStorage::Shared {
            return;
        }
        let mut sent = self.sent();
        if self.state().run.as_ref().map(|run| run.point) != Some(run.point) {
            return;
        }
        let record = match &mut *sent {
            Some(record) if record.point() == run.point => record,
            other => other.insert(SentRecord::new(run.point)),
        };
        // What cannot be read now is sent after the run; a lost connection shows elsewhere.
        let _ = record.stream(&run.folder, self);
    }

    fn lose(&self, why: &str) {
        let mut state = self.state();
        let why = format!("there is no leader any more: {why}");
        state.lose(Loss { why, is_refusal: false });
        let run = state.run.clone();
        drop(state);
        self.changed.notify_all();
        if let Some(run) = run {
            run.local.lose_leader();
        }
    }

    fn ping(&self) {
        self.say(&ToLeader::Ping { sent: self.clock.now() });
    }

    /// Measures the clock several times in a row.
    fn burst(&self) {
        for _ in 0..BURST {
            self.ping();
            self.clock.sleep(BURST_GAP);
        }
    }

    /// Writes what is known of the clock beside the record.
    fn write_clock(&self) {
        let state = self.state();
        let Some((fit, run)) = state.samples.fit().zip(state.run.clone()) else { return };
        drop(state);
        // The shard can be merged by its wall clock without this file.
        let _ = write_clock(&run.folder, &ShardClock { fit, start: run.start });
    }

    /// Handles what the leader says until the connection ends.
    fn follow(&self, mut from: MessageReader<ShardReader>) {
        loop {
            let received = from.receive::<ToFollower>();
            let returned = self.clock.now();
            match received {
                Ok(Inbound::Message(message)) => self.take(message, returned),
                Ok(Inbound::Bytes(_)) => {}
                Err(why) => return self.lose(&why.to_string()),
            }
        }
    }

    fn take(&self, message: ToFollower, returned: Nanos) {
        let mut state = self.state();
        state.heard = returned;
        match message {
            ToFollower::Pong { sent, received, replied } => {
                state.samples.add(&RoundTrip { sent, received, replied, returned });
            }
            ToFollower::Next { point, order } => state.next = Some(NextPoint { point, order }),
            ToFollower::Finished => state.is_finished = true,
            ToFollower::Start { point, at } => state.start = Some((point, at)),
            ToFollower::StartBlock { point, block, at } => state.block = Some((point, block, at)),
            ToFollower::Taken { point } => state.taken = Some(point),
            ToFollower::Lease { point, change } => {
                let local = state.local(point);
                drop(state);
                return local.map_or((), |local| local.lease(change));
            }
            ToFollower::Stop { point, cause } => {
                // A point that has not begun ends when the next one is handed out, or at the end.
                let has_begun = state.start.is_some_and(|(of, _)| of == point);
                if let Some(local) = state.local(point).filter(|_| has_begun) {
                    local.stop(cause);
                }
            }
            ToFollower::Over { why } => state.lose(Loss { why, is_refusal: false }),
            ToFollower::Refused { why } => {
                let why = format!("shard 0 refused this shard: {why}");
                state.lose(Loss { why, is_refusal: true });
            }
            ToFollower::Hello { .. } | ToFollower::Welcome(_) => {}
        }
        drop(state);
        self.changed.notify_all();
    }

    /// What is sent regularly.
    fn tick(&self, ticks: u32) {
        self.ping();
        let run = self.state().run.clone();
        if let Some(run) = run {
            self.say(&ToLeader::Progress { point: run.point, counts: run.local.counts() });
            if ticks.is_multiple_of(TICKS_PER_WRITE) {
                self.write_clock();
            }
            if self.shows_latencies && ticks.is_multiple_of(TICKS_PER_LATENCIES) {
                let bins = run.local.latencies();
                self.say(&ToLeader::Latencies { point: run.point, bins });
            }
            self.stream(&run);
        }
        let silence = self.clock.now() - self.state().heard;
        if silence > SILENCE_MAX {
            self.lose(&format!("no message from the leader for {SILENCE_MAX}"));
        }
    }
}

impl Follower {
    /// Joins the leader, which may come up later than this shard.
    pub fn join(
        address: &str,
        config: &FollowerConfig,
        clock: &Arc<dyn Clock>,
        wait: Nanos,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Self, JoinError> {
        let deadline = clock.now() + wait;
        let (stream, (welcome, sender, receiver)) = loop {
            let begin = clock.now();
            match connect(address) {
                Ok(stream) => match enter(address, config, &stream, clock) {
                    // A leader with too many strangers closes a connection at once. One that waits for TLS
                    // closes it when the time for the handshake is over.
                    Err(JoinError::Silent { .. })
                        if clock.now() < deadline.min(begin + TURNED_AWAY) => {}
                    entered => break (stream, entered?),
                },
                Err(why) if clock.now() >= deadline => {
                    return Err(JoinError::Unreached { address: address.to_owned(), why });
                }
                Err(_) => {}
            }
            if is_stopped() {
                return Err(JoinError::Stopped);
            }
            clock.sleep(RETRY);
        };
        let state = State { heard: clock.now(), ..State::default() };
        let shared = Arc::new(FollowerShared {
            clock: Arc::clone(clock),
            sender: Mutex::new(sender),
            state: Mutex::new(state),
            changed: Condvar::new(),
            shows_latencies: welcome.shows_latencies,
            sent: Mutex::new(None),
        });
        let following = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("leader".to_owned());
        let started = thread.spawn(move || following.follow(receiver));
        if let Err(why) = started {
            shared.lose(&format!("cannot start a thread: {why}"));
        }
        let ticking = Arc::clone(&shared);
        let ticker = Background::start("ticker", move |stop| {
            let mut ticks = 0;
            while !stop.is_raised_within(TICK) {
                ticks += 1;
                ticking.tick(ticks);
            }
        });
        let has_leaders_clock = config.clock.is_some() && config.clock == welcome.clock;
        Ok(Self { shared, welcome, stream, has_leaders_clock, _ticker: Mutex::new(ticker) })
    }

    /// Waits for the next point after `last`. `None` when there are no more, or when `is_stopped` before.
    pub fn await_next(
        &self,
        last: Option<u32>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<NextPoint>, String> {
        let found = self.wait_for(is_stopped, |state| {
            let next = state.next.clone().filter(|next| Some(next.point) > last);
            next.map(Some).or(state.is_finished.then_some(None))
        });
        found.map(Option::flatten)
    }

    /// Takes no part in a point.
    pub fn decline(&self, point: u32, why: &str) {
        self.shared.say(&ToLeader::Unable { point, why: why.to_owned() });
    }

    /// Waits until `find` finds something. `None` when `is_stopped` before, an error without a leader.
    fn wait_for<T>(
        &self,
        is_stopped: &dyn Fn() -> bool,
        mut find: impl FnMut(&State) -> Option<T>,
    ) -> Result<Option<T>, String> {
        loop {
            let is_stopped = is_stopped();
            let state = self.shared.state();
            if let Some(found) = find(&state) {
                return Ok(Some(found));
            }
            if let Some(lost) = &state.lost {
                return Err(lost.why.clone());
            }
            if is_stopped {
                return Ok(None);
            }
            // Locked since it was looked at: what comes in between would be seen only after the wait.
            drop(self.shared.changed.wait_timeout(state, LOOK));
        }
    }

    /// A time of the leader's clock on this machine's.
    fn own_time(&self, leader: Nanos) -> Result<Nanos, String> {
        if self.has_leaders_clock {
            return Ok(leader);
        }
        let Some(fit) = self.shared.state().samples.fit() else {
            return Err("the leader's clock could not be measured".to_owned());
        };
        let offset = fit.offset_at(self.shared.clock.now());
        Ok(Nanos(leader.0.saturating_add_signed(offset.saturating_neg())))
    }

    /// Says that everything is prepared and waits for the common start. `None` when `is_stopped` before.
    pub fn await_start(
        &self,
        point: u32,
        prompts: &str,
        own: OwnRun,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<CommonStart>, String> {
        let OwnRun { folder, storage, local } = own;
        // Each point has a line of its own: over a long sweep no clock drifts evenly.
        self.shared.state().samples = ClockSamples::default();
        self.shared.burst();
        self.shared.state().ready = Some((point, Arc::clone(&local)));
        self.shared.say(&ToLeader::Ready { point, prompts: prompts.to_owned() });
        let found = self.wait_for(is_stopped, |state| {
            let is_passed = state.next.as_ref().is_some_and(|next| next.point > point);
            let start = state.start.filter(|(of, _)| *of == point).map(|(_, at)| Ok(at));
            start.or((is_passed || state.is_finished).then_some(Err(())))
        })?;
        let leader = match found {
            Some(Ok(at)) => at,
            Some(Err(())) => return Err("shard 0 did not begin this point".to_owned()),
            None => return Ok(None),
        };
        let start = CommonStart { leader, own: self.own_time(leader)? };
        let run = CurrentRun { point, folder, local, start: Some(start), storage };
        let mut state = self.shared.state();
        (state.run, state.ready) = (Some(run), None);
        drop(state);
        self.shared.write_clock();
        Ok(Some(start))
    }

    /// Says that nothing is in flight and waits for the start of a block, on this machine's clock.
    /// `None` when `is_stopped` before.
    pub fn await_block(
        &self,
        point: u32,
        block: u64,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Nanos>, String> {
        self.shared.say(&ToLeader::BlockReady { point, block });
        let found = self.wait_for(is_stopped, |state| {
            let (of, begun, at) = state.block?;
            ((of, begun) == (point, block)).then_some(at)
        })?;
        found.map(|at| self.own_time(at)).transpose()
    }

    /// Gives slots of the shared limit back, and says how many requests wait for one.
    pub fn report_places(&self, point: u32, freed: u32, want: u32) {
        self.shared.say(&ToLeader::Slots { point, freed, want });
    }

    /// Why there is no leader any more. `None` while there is one.
    pub fn lost(&self) -> Option<String> {
        self.shared.state().lost.as_ref().map(|lost| lost.why.clone())
    }

    /// Whether the leader is there and does not take this shard.
    pub fn is_refused(&self) -> bool {
        self.shared.state().lost.as_ref().is_some_and(|lost| lost.is_refusal)
    }

    /// Ends a point: measures the clock once more, hands the record over where the leader does not have
    /// it, and says so. An error leaves the record in its folder.
    pub fn end(&self, point: u32) -> Result<(), String> {
        self.shared.burst();
        self.shared.write_clock();
        let run = self.shared.state().run.take();
        if let Some(why) = self.lost() {
            return Err(why);
        }
        if let Some(run) = run.filter(|run| run.storage == RecordStorage::Own) {
            let sent = self.shared.sent().take().filter(|sent| sent.point() == point);
            let sent = sent.unwrap_or_else(|| SentRecord::new(point));
            sent.complete(&run.folder, &*self.shared).map_err(|why| why.to_string())?;
        }
        self.shared.say(&ToLeader::Ended { point });
        let is_taken = |state: &State| (state.taken == Some(point)).then_some(());
        self.wait_for(&|| false, is_taken).map(drop)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordStorage {
    /// Where the leader reads it.
    Shared,
    /// On this machine alone.
    Own,
}
