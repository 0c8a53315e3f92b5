//! The three ways in which this process takes part: alone, as the leader, as a follower.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokometer_base::refusal::Refusal;
use tokometer_base::{Background, Clock, Nanos, WallNanos};
use tokometer_drive::{CapLending, Interrupt, Live, LiveCounts};
use tokometer_figures::sends::Sends;
use tokometer_measure::{CapRule, Coordination, LiveNotes, OtherRequests, ShardPart, ShardRun};
use tokometer_record::folder::write_clock;
use tokometer_record::{ShardClock, Stop};
use tokometer_schedule::Share;
use tokometer_shards::{
    Follower, LatencyBins, Leader, LeaseChange, LocalRun, OwnRun, RecordStorage, SendCounts,
    ShardCounts, StopCause,
};

use super::lending::SlotLink;
use super::order::PointOrder;
use crate::outcome::PlannedRun;

/// Whether the user has interrupted this process.
pub type Interrupted = Arc<dyn Fn() -> bool + Send + Sync>;

/// What every process of a run knows of itself.
#[derive(Debug, Clone)]
pub(super) struct ShardIdentity {
    pub(super) share: Share,
    /// Name of the measurement; points add their number.
    pub(super) run: String,
    /// See [`ShardPart::content_root`].
    pub(super) content_root: WallNanos,
    /// How a limit on requests in flight is divided.
    pub(super) cap: CapRule,
}

impl ShardIdentity {
    fn part(&self, point: u32) -> ShardPart {
        ShardPart {
            share: self.share,
            run: format!("{}.{point}", self.run),
            content_root: self.content_root,
            host: line("/proc/sys/kernel/hostname"),
            clock: clock_name(),
            counts_all: false,
            cap: self.cap,
        }
    }
}

fn line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Processes with the same name read one clock: the same boot, and the same offset for containers.
pub(super) fn clock_name() -> Option<String> {
    let boot = line("/proc/sys/kernel/random/boot_id")?;
    let namespace = std::fs::read_link("/proc/self/ns/time").ok();
    let namespace = namespace.map(|link| link.display().to_string()).unwrap_or_default();
    Some(format!("{boot} {namespace}"))
}

/// A shard without a leader: begins when it is ready, and is merged by hand.
pub struct AloneShard {
    pub(super) identity: ShardIdentity,
}

impl Coordination for AloneShard {
    fn part(&self, point: u32) -> ShardPart {
        self.identity.part(point)
    }

    fn await_start(&self, _run: &ShardRun) -> Result<Option<Nanos>, String> {
        Ok(None)
    }
}

/// Time for the other shards to end after an interrupt.
const DRAIN: Nanos = Nanos::from_secs(15);

/// How often the leader passes counters and interrupts on.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);

/// Shard 0 of a run with a leader.
pub struct LeadingShard {
    pub(super) identity: ShardIdentity,
    pub(super) leader: Arc<Leader>,
    pub(super) measurement: PathBuf,
    /// Points that were handed out.
    pub(super) turns: AtomicU32,
    /// How long the others may take to become ready.
    pub(super) wait: Nanos,
    /// An interrupt limits how long the others are waited for.
    pub(super) is_interrupted: Interrupted,
    pub(super) clock: Arc<dyn Clock>,
    /// Follows the others while a run is under way.
    pub(super) following: Mutex<Option<Background>>,
    pub(super) slots: SharedSlots,
}

/// The slots of the current run, where the limit on requests in flight is one for all shards.
#[derive(Default)]
pub(super) struct SharedSlots {
    /// The limit of the current point.
    pub(super) cap: AtomicU32,
    link: Mutex<Option<Arc<SlotLink>>>,
    reports: Mutex<Option<Background>>,
}

impl SharedSlots {
    /// The link of the next run.
    fn renew(&self, rule: CapRule) -> Option<Arc<SlotLink>> {
        let link = (rule == CapRule::Shared && self.cap() > 0).then(SlotLink::new);
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&link);
        link
    }

    fn link(&self) -> Option<Arc<SlotLink>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The limit; zero where there is none.
    fn cap(&self) -> u32 {
        self.cap.load(Ordering::Acquire)
    }

    /// Reports to shard 0 from now on.
    fn report(&self, report: impl Fn(u32, u32) + Send + 'static) {
        let reports = self.link().and_then(|link| link.start_reports(self.cap(), report));
        *self.reports.lock().unwrap_or_else(PoisonError::into_inner) = reports;
    }

    fn stop(&self) {
        drop(self.reports.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl LeadingShard {
    /// Has the other shards prepare a run.
    pub(super) fn hand_out(&self, run: &PlannedRun) -> Result<(), Refusal> {
        let order = PointOrder::new(run, &self.measurement)?.text()?;
        self.slots.cap.store(run.plan.load.max_concurrency.unwrap_or(0), Ordering::Release);
        let turn = self.turns.fetch_add(1, Ordering::AcqRel);
        self.leader.hand_out(turn, &run.folder, &order);
        Ok(())
    }

    /// The point that was handed out last. Unlike the numbers of points, these never repeat.
    fn turn(&self) -> u32 {
        self.turns.load(Ordering::Acquire).saturating_sub(1)
    }

    /// Shows the counters of all shards here, and ends them all when this one is interrupted.
    fn follow(&self, run: &ShardRun) {
        let (leader, point) = (Arc::clone(&self.leader), self.turn());
        let (live, interrupt) = (Arc::clone(&run.live), Arc::clone(&run.interrupt));
        let (is_interrupted, notes) = (Arc::clone(&self.is_interrupted), Arc::clone(&run.notes));
        let follow = Background::start("following", move |stop| {
            let mut told = 0;
            while !stop.is_raised_within(FOLLOW_EVERY) {
                let counts = leader.counts();
                live.set_others(&live_counts(counts));
                let failed = counts.failed;
                let ended = counts.succeeded + counts.cancelled + failed;
                let SendCounts { judged, late, worst } = counts.sends;
                let sends = Sends { judged, late, worst };
                notes.set_others(OtherRequests { ended, failed, sends, bins: leader.latencies() });
                if interrupt.times() > told {
                    told = interrupt.times();
                    leader.stop(point, cause(&*is_interrupted));
                }
            }
        });
        *self.following.lock().unwrap_or_else(PoisonError::into_inner) = Some(follow);
    }

    /// Stops following. A stop that came last reaches the others here.
    pub(super) fn leave(&self, why: Stop) {
        drop(self.following.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.slots.stop();
        if why != Stop::Complete {
            self.leader.stop(self.turn(), cause(&*self.is_interrupted));
        }
    }
}

/// Why shard 0 ends the parts of the others.
fn cause(is_interrupted: &dyn Fn() -> bool) -> StopCause {
    if is_interrupted() { StopCause::Interrupt } else { StopCause::Rule }
}

impl LeadingShard {
    /// Whether the point that was handed out last has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.leader.has_begun(self.turn())
    }

    /// Waits until all other shards have ended, and returns those that are lost. After an interrupt
    /// they have a while to drain.
    pub(super) fn finish(&self) -> Vec<(u32, String)> {
        let interrupted_since = Cell::new(None);
        let is_stopped = || {
            if (self.is_interrupted)() && interrupted_since.get().is_none() {
                interrupted_since.set(Some(self.clock.now()));
            }
            interrupted_since.get().is_some_and(|since| self.clock.now() - since > DRAIN)
        };
        self.leader.finish(self.turn(), &is_stopped)
    }
}

fn live_counts(counts: ShardCounts) -> LiveCounts {
    let ShardCounts { sent, succeeded, failed, cancelled, tokens, .. } = counts;
    LiveCounts { sent, succeeded, failed, cancelled, tokens, ttft_mean: None }
}

impl Coordination for LeadingShard {
    fn part(&self, _point: u32) -> ShardPart {
        ShardPart { counts_all: true, ..self.identity.part(self.turn()) }
    }

    fn await_start(&self, run: &ShardRun) -> Result<Option<Nanos>, String> {
        let (turn, link) = (self.turn(), self.slots.link());
        let is_stopped = || {
            run.live.set_awaited(self.leader.awaited(turn) as u64);
            run.interrupt.is_raised()
        };
        let shared = link.is_some().then(|| {
            let own = LocalPart::new(run, link, &Arc::default());
            (self.slots.cap(), Arc::new(own) as Arc<dyn LocalRun>)
        });
        let start = self.leader.begin(turn, &run.prompts, self.wait, shared, &is_stopped);
        run.live.set_awaited(0);
        if let Some(start) = start {
            write_clock(&run.folder, &ShardClock::of_leader(start))
                .map_err(|why| why.to_string())?;
            self.follow(run);
            let leader = Arc::clone(&self.leader);
            self.slots.report(move |freed, want| leader.report_places(turn, freed, want));
        }
        Ok(start)
    }

    fn cap_lending(&self) -> Option<Arc<dyn CapLending>> {
        self.slots.renew(self.identity.cap).map(|link| link as Arc<dyn CapLending>)
    }

    fn await_block(&self, run: &ShardRun, block: u64) -> Result<Option<Nanos>, String> {
        Ok(self.leader.begin_block(self.turn(), block, &|| run.interrupt.is_raised()))
    }
}

/// A shard that has joined a leader.
pub struct FollowingShard {
    pub(super) identity: ShardIdentity,
    pub(super) follower: Arc<Follower>,
    pub(super) storage: RecordStorage,
    /// The point that was handed out last.
    pub(super) turn: AtomicU32,
    /// Whether a rule of the plan has ended the run, as shard 0 says.
    pub(super) is_ruled: Arc<AtomicBool>,
    pub(super) slots: SharedSlots,
}

impl FollowingShard {
    /// Prepares for a point.
    pub(super) fn turn_to(&self, turn: u32) {
        self.turn.store(turn, Ordering::Release);
        self.slots.stop();
        self.is_ruled.store(false, Ordering::Release);
    }

    fn turn(&self) -> u32 {
        self.turn.load(Ordering::Acquire)
    }

    /// Ends its part of a point, and hands the record over.
    pub(super) fn end(&self) -> Result<(), String> {
        self.slots.stop();
        self.follower.end(self.turn())
    }
}

impl Coordination for FollowingShard {
    fn part(&self, _point: u32) -> ShardPart {
        self.identity.part(self.turn())
    }

    fn await_start(&self, run: &ShardRun) -> Result<Option<Nanos>, String> {
        let is_stopped = || run.interrupt.is_raised();
        let local = LocalPart::new(run, self.slots.link(), &self.is_ruled);
        let (turn, follower) = (self.turn(), Arc::clone(&self.follower));
        let own =
            OwnRun { folder: run.folder.clone(), storage: self.storage, local: Arc::new(local) };
        run.live.set_awaited(1);
        let start = follower.await_start(turn, &run.prompts, own, &is_stopped);
        run.live.set_awaited(0);
        let start = start?;
        self.slots.report(move |freed, want| follower.report_places(turn, freed, want));
        Ok(start.map(|start| start.own))
    }

    fn cap_lending(&self) -> Option<Arc<dyn CapLending>> {
        self.slots.renew(self.identity.cap).map(|link| link as Arc<dyn CapLending>)
    }

    /// Without shard 0 nobody knows whose turn it is: this part ends.
    fn await_block(&self, run: &ShardRun, block: u64) -> Result<Option<Nanos>, String> {
        let is_stopped = || run.interrupt.is_raised();
        Ok(self.follower.await_block(self.turn(), block, &is_stopped).unwrap_or_else(|_lost| {
            run.interrupt.raise();
            None
        }))
    }

    fn stop_reason(&self) -> Option<Stop> {
        self.is_ruled.load(Ordering::Acquire).then_some(Stop::Complete)
    }
}

/// The run of this process, for the link to the leader.
struct LocalPart {
    live: Arc<Live>,
    interrupt: Arc<Interrupt>,
    is_ruled: Arc<AtomicBool>,
    link: Option<Arc<SlotLink>>,
    notes: Arc<LiveNotes>,
}

impl LocalPart {
    fn new(run: &ShardRun, link: Option<Arc<SlotLink>>, is_ruled: &Arc<AtomicBool>) -> Self {
        let (live, interrupt) = (Arc::clone(&run.live), Arc::clone(&run.interrupt));
        let notes = Arc::clone(&run.notes);
        Self { live, interrupt, is_ruled: Arc::clone(is_ruled), link, notes }
    }
}

impl LocalRun for LocalPart {
    fn counts(&self) -> ShardCounts {
        let LiveCounts { sent, succeeded, failed, cancelled, tokens, .. } = self.live.counts();
        let Sends { judged, late, worst } = self.notes.sends();
        let sends = SendCounts { judged, late, worst };
        ShardCounts { sent, succeeded, failed, cancelled, tokens, sends }
    }

    fn latencies(&self) -> LatencyBins {
        self.notes.bins()
    }

    fn stop(&self, cause: StopCause) {
        self.is_ruled.store(cause == StopCause::Rule, Ordering::Release);
        self.interrupt.raise();
    }

    fn lease(&self, change: LeaseChange) {
        if let Some(link) = &self.link {
            link.apply(change);
        }
    }

    /// Shard 0 lends the slots to others: a request more would exceed the limit.
    fn lose_leader(&self) {
        if self.link.is_some() {
            self.interrupt.raise();
        }
    }
}
