//! The three ways in which this process takes part: alone, as the leader, as a follower.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokometer_base::{Background, Clock, Nanos, WallNanos};
use tokometer_drive::{Interrupt, Live, LiveCounts};
use tokometer_measure::{Coordination, ShardPlace, ShardRun};
use tokometer_record::folder::write_clock;
use tokometer_record::{ShardClock, Stop};
use tokometer_schedule::Share;
use tokometer_shards::{Follower, Leader, LocalRun, RecordStorage, ShardCounts};

use super::remote::RemoteShards;
use crate::bench::Signals;

/// What every process of a run knows of itself.
#[derive(Debug, Clone)]
pub(crate) struct ShardIdentity {
    /// Its part.
    pub(crate) share: Share,
    /// Name of the measurement; points add their number.
    pub(crate) run: String,
    /// See [`ShardPlace::content_root`].
    pub(crate) content_root: WallNanos,
}

impl ShardIdentity {
    fn place(&self, point: u32) -> ShardPlace {
        ShardPlace {
            share: self.share,
            run: format!("{}.{point}", self.run),
            content_root: self.content_root,
            host: line("/proc/sys/kernel/hostname"),
            clock: clock_name(),
            counts_all: false,
        }
    }
}

fn line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Processes with the same name read one clock: the same boot, and the same offset for containers.
fn clock_name() -> Option<String> {
    let boot = line("/proc/sys/kernel/random/boot_id")?;
    let namespace = std::fs::read_link("/proc/self/ns/time").ok();
    let namespace = namespace.map(|link| link.display().to_string()).unwrap_or_default();
    Some(format!("{boot} {namespace}"))
}

/// A shard without a leader: begins when it is ready, and is merged by hand.
pub(crate) struct AloneShard {
    pub(crate) identity: ShardIdentity,
}

impl Coordination for AloneShard {
    fn place(&self, point: u32) -> ShardPlace {
        self.identity.place(point)
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
pub(crate) struct LeadingShard {
    pub(crate) identity: ShardIdentity,
    pub(crate) leader: Arc<Leader>,
    /// How long the others may take to become ready.
    pub(crate) wait: Nanos,
    /// An interrupt limits how long the others are waited for.
    pub(crate) signals: Signals,
    pub(crate) clock: Arc<dyn Clock>,
    /// Shards that this process has started on other machines.
    pub(crate) remote: Mutex<RemoteShards>,
    /// Follows the others while a run is under way.
    pub(crate) following: Mutex<Option<Background>>,
}

impl LeadingShard {
    /// Shows the counters of all shards here, and ends them all when this one is interrupted.
    fn follow(&self, run: &ShardRun) {
        let (leader, point) = (Arc::clone(&self.leader), run.point);
        let (live, interrupt) = (Arc::clone(&run.live), Arc::clone(&run.interrupt));
        let follow = Background::start("following", move |stop| {
            let mut told = 0;
            while !stop.is_raised_within(FOLLOW_EVERY) {
                live.set_others(&live_counts(leader.counts()));
                if interrupt.times() > told {
                    told = interrupt.times();
                    leader.stop(point);
                }
            }
        });
        *self.following.lock().unwrap_or_else(PoisonError::into_inner) = Some(follow);
    }

    /// Stops following. A stop that came last reaches the others here.
    pub(crate) fn leave(&self, point: u32, why: Stop) {
        drop(self.following.lock().unwrap_or_else(PoisonError::into_inner).take());
        if why != Stop::Complete {
            self.leader.stop(point);
        }
    }
}

impl LeadingShard {
    /// Waits for the shards that this process has started.
    pub(crate) fn end_remote(&self) {
        self.remote.lock().unwrap_or_else(PoisonError::into_inner).end(&*self.clock);
    }

    /// Waits until all other shards have ended, and returns those that are lost. After an interrupt
    /// they have a while to drain.
    pub(crate) fn finish(&self, point: u32) -> Vec<(u32, String)> {
        let interrupted_since = Cell::new(None);
        let is_stopped = || {
            if self.signals.is_interrupted() && interrupted_since.get().is_none() {
                interrupted_since.set(Some(self.clock.now()));
            }
            interrupted_since.get().is_some_and(|since| self.clock.now() - since > DRAIN)
        };
        self.leader.finish(point, &is_stopped)
    }
}

fn live_counts(counts: ShardCounts) -> LiveCounts {
    let ShardCounts { sent, succeeded, failed, tokens } = counts;
    LiveCounts { sent, succeeded, failed, tokens, ttft_mean: None }
}

/// The folder of the run that a shard's record belongs to.
fn run_folder(record: &Path) -> PathBuf {
    record.ancestors().nth(2).unwrap_or(record).to_owned()
}

impl Coordination for LeadingShard {
    fn place(&self, point: u32) -> ShardPlace {
        ShardPlace { counts_all: true, ..self.identity.place(point) }
    }

    fn await_start(&self, run: &ShardRun) -> Result<Option<Nanos>, String> {
        let is_stopped = || run.interrupt.is_raised();
        let folder = run_folder(&run.folder);
        let key = (run.point, run.prompts.as_str());
        let start = self.leader.begin(key, &folder, self.wait, &is_stopped);
        if let Some(start) = start {
            write_clock(&run.folder, &ShardClock::of_leader(start))
                .map_err(|why| why.to_string())?;
            self.follow(run);
        }
        Ok(start)
    }
}

/// A shard that has joined a leader.
pub(crate) struct FollowingShard {
    pub(crate) identity: ShardIdentity,
    pub(crate) follower: Follower,
    pub(crate) storage: RecordStorage,
}

impl Coordination for FollowingShard {
    fn place(&self, point: u32) -> ShardPlace {
        self.identity.place(point)
    }

    fn await_start(&self, run: &ShardRun) -> Result<Option<Nanos>, String> {
        let is_stopped = || run.interrupt.is_raised();
        let local =
            LocalPart { live: Arc::clone(&run.live), interrupt: Arc::clone(&run.interrupt) };
        let key = (run.point, run.prompts.as_str());
        let start = self.follower.await_start(key, (&run.folder, Arc::new(local)), &is_stopped)?;
        Ok(start.map(|start| start.own))
    }
}

/// The run of this process, for the link to the leader.
struct LocalPart {
    live: Arc<Live>,
    interrupt: Arc<Interrupt>,
}

impl LocalRun for LocalPart {
    fn counts(&self) -> ShardCounts {
        let LiveCounts { sent, succeeded, failed, tokens, .. } = self.live.counts();
        ShardCounts { sent, succeeded, failed, tokens }
    }

    fn stop(&self) {
        self.interrupt.raise();
    }
}
