//! The part of a run that this process makes, where several processes make it together.
//!
//! Shard 0 does what a run needs once: ready check, warm-up, cache flush, profiler, scrapes, probes,
//! canaries, and the rules that end a run early. All shards open the same prompts and compute the same schedule.

use std::hash::{Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::Arc;

use tokometer_base::{Conventions, Nanos, WallNanos};
use tokometer_drive::{CapLending, Interrupt, Live};
use tokometer_plan::{Cache, CanaryPlan, Overload, Plan, Profiler, Timing};
use tokometer_record::{RecordedLoad, RecordedStage, ShardInfo, Sharding, Stop};
use tokometer_schedule::Share;

use crate::Error;
use crate::live_notes::LiveNotes;
use crate::workload::OpenedWorkload;

/// How this process takes part in a run of several.
pub trait Coordination: Send + Sync {
    /// Which part it makes of the run at this point of a sweep.
    fn part(&self, point: u32) -> ShardPart;

    /// Waits until all processes are ready, and returns the common start of the measured phase on this
    /// machine's clock. `None` begins at once. An error means that there is no run.
    fn await_start(&self, run: &ShardRun) -> Result<Option<Nanos>, String>;

    /// Waits until no process has a request of an earlier block in flight, and returns the common start
    /// of a block on this machine's clock. `None` begins at once.
    fn await_block(&self, _run: &ShardRun, _block: u64) -> Result<Option<Nanos>, String> {
        Ok(None)
    }

    /// The other processes, where the limit on requests in flight is one for all. `None`: it is split.
    fn cap_lending(&self) -> Option<Arc<dyn CapLending>> {
        None
    }

    /// Why another process has ended this one's part, where that is no interrupt.
    fn stop_reason(&self) -> Option<Stop> {
        None
    }
}

/// A process among those that make a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardPart {
    pub share: Share,
    /// Equal in all processes of the run.
    pub run: String,
    /// Stands for the time of the run where the content of prompts is new in every run: prompts that
    /// share a prefix must share it across processes.
    pub content_root: WallNanos,
    pub host: Option<String>,
    /// Identifies the machine's monotonic clock.
    pub clock: Option<String>,
    /// Whether this process counts the requests of all, for its display.
    pub counts_all: bool,
    /// How a limit on requests in flight is divided.
    pub cap: CapRule,
}

/// A run whose measured phase is about to begin.
#[derive(Debug, Clone)]
pub struct ShardRun {
    /// Point of a sweep.
    pub point: u32,
    /// Identifies the prompts: equal in all processes that would send the same ones.
    pub prompts: String,
    pub folder: PathBuf,
    pub live: Arc<Live>,
    /// Raise it to end this process's part.
    pub interrupt: Arc<Interrupt>,
    /// What a display shows besides counters.
    pub notes: Arc<LiveNotes>,
}

/// The plan as this process carries it out.
pub(crate) fn own_plan(plan: &Plan, share: Share) -> Plan {
    let mut own = plan.clone();
    own.canary = own.canary.and_then(|canaries| own_canaries(canaries, share));
    if share.is_first() {
        return own;
    }
    own.phases.ready_timeout_s = 0.0;
    own.phases.warmups = 0;
    own.phases.cache = Cache::Keep;
    own.phases.profiler = Profiler::Off;
    own.phases.probe_rate = 0.0;
    own.client.scrape_interval_s = 0.0;
    own.load.until = None;
    own.load.overload = Overload::Continue;
    own
}

/// The canaries that this process sends. The first sends those of all; it counts only its own requests, which are
/// one of `count` equal parts of the load.
fn own_canaries(canaries: CanaryPlan, share: Share) -> Option<CanaryPlan> {
    let of_own = canaries.share * f64::from(share.count());
    let own = CanaryPlan { share: of_own.min(1.0), ..canaries };
    share.is_first().then_some(own)
}

/// Whether the slots of a limit on requests in flight are each process's own, or lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapRule {
    /// Each process has its part.
    Split,
    /// Each begins with its part, and lends slots that it does not need.
    Shared,
}

/// Refuses what cannot be divided. All shards find the same, so each can say it before it joins the others.
pub fn check_division(plan: &Plan, share: Share, rule: CapRule) -> Result<(), Error> {
    if share.is_whole() {
        return Ok(());
    }
    let count = share.count();
    if let Some(blocks) = plan.ab_blocks() {
        if blocks.block < u64::from(count) {
            return Err(Error::usage(
                format!("cannot divide blocks of {} requests among {count} shards", blocks.block),
                format!("raise `--block` to at least {count}"),
            ));
        }
        if plan.load.timing == Timing::Trace {
            return Err(Error::usage(
                "cannot divide an A/B measurement of a trace into shards",
                "add `--request-rate`, or run it without shards",
            ));
        }
    }
    let cap = plan.load.max_concurrency.filter(|_| rule == CapRule::Split);
    if let Some(cap) = cap.filter(|cap| *cap < count) {
        return Err(Error::usage(
            format!("cannot divide `--max-concurrency {cap}` among {count} shards"),
            format!("use at most {cap} shards, or add `--global-cap`"),
        ));
    }
    Ok(())
}

/// Refuses conversations whose slots cannot move. SGLang's conventions count a conversation, not a
/// request: a slot that waits for the next turn is not free.
pub(crate) fn check_conversations(
    plan: &Plan,
    opened: &OpenedWorkload,
    rule: CapRule,
) -> Result<(), Error> {
    let is_held = plan.conventions == Conventions::Sglang && plan.load.max_concurrency.is_some();
    if rule == CapRule::Split || !is_held || !opened.has_turns() {
        return Ok(());
    }
    Err(Error::usage(
        "cannot use `--global-cap` for conversations with SGLang's conventions: a conversation keeps its slot to its end",
        "omit `--global-cap` to split the limit, or add `--conventions vllm` to count requests",
    ))
}

/// Prompts that a digest looks at.
const DIGESTED: usize = 32;

/// Identifies the prompts of a run by a sample of them, spread over all.
pub(crate) fn digest(opened: &OpenedWorkload) -> String {
    let mut hasher = std::hash::DefaultHasher::new();
    let all = opened.len();
    all.hash(&mut hasher);
    let step = usize::try_from(all).unwrap_or(usize::MAX) / DIGESTED;
    for at in (0..all).step_by(step.max(1)).take(DIGESTED) {
        let index = opened.kept.as_ref().and_then(|kept| kept.get(usize::try_from(at).ok()?));
        // What cannot be made is reported where it is sent.
        if let Ok(item) = opened.workload.item(index.copied().unwrap_or(at)) {
            format!("{:?} {:?} {:?}", item.prompt, item.due, item.class).hash(&mut hasher);
        }
    }
    format!("{:016x}", hasher.finish())
}

/// What the record of a shard says of its part; `load` is that of the whole run.
pub(crate) fn sharding(part: &ShardPart, load: RecordedLoad) -> Sharding {
    Sharding::Shard(ShardInfo {
        rank: part.share.rank(),
        count: part.share.count(),
        run: part.run.clone(),
        load,
        host: part.host.clone(),
        clock: part.clock.clone(),
        is_cap_shared: part.cap == CapRule::Shared,
    })
}

/// A shard's part of a load; `requests` is how many it has to send.
pub(crate) fn own_load(whole: &RecordedLoad, share: Share, requests: u64) -> RecordedLoad {
    let count = f64::from(share.count());
    RecordedLoad {
        request_rate: whole.request_rate.map(|rate| rate / count),
        max_concurrency: whole.max_concurrency.map(|cap| share.of_cap(cap)),
        max_sessions: whole.max_sessions.map(|cap| share.of_cap(cap)),
        planned_requests: whole.planned_requests.map(|_| requests),
        stages: whole
            .stages
            .iter()
            .map(|stage| RecordedStage {
                rates: stage.rates.map(|(from, to)| (from / count, to / count)),
                sessions: stage.sessions.map(|sessions| share.of_cap(sessions)),
                ..stage.clone()
            })
            .collect(),
        ..whole.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loads_of_all_shards_add_up_to_the_load_of_the_run() {
        let whole = RecordedLoad {
            request_rate: Some(12.0),
            burstiness: 1.0,
            max_concurrency: Some(10),
            max_sessions: Some(10),
            planned_requests: Some(9),
            duration: None,
            is_traced: false,
            stages: vec![RecordedStage { rates: Some((3.0, 30.0)), ..RecordedStage::default() }],
        };
        let parts = (0..3).filter_map(|rank| Share::new(rank, 3));
        let parts: Vec<RecordedLoad> =
            parts.map(|share| own_load(&whole, share, share.of(9))).collect();
        let caps: Vec<Option<u32>> = parts.iter().map(|part| part.max_concurrency).collect();
        assert!(parts.iter().all(|part| part.max_sessions == part.max_concurrency));
        assert_eq!(caps, [Some(4), Some(3), Some(3)]);
        assert_eq!(parts[1].request_rate, Some(4.0));
        assert_eq!(parts[2].planned_requests, Some(3));
        assert_eq!(parts[0].stages[0].rates, Some((1.0, 10.0)));
        assert_eq!(own_load(&whole, Share::WHOLE, 9), whole);
    }

    /// The first shard sends all canaries and counts only its own requests.
    #[test]
    fn canaries_have_their_share_of_the_whole_run() {
        let share_of = |share: f64, rank: u32, count: u32| {
            let canaries = CanaryPlan { rows: Vec::new(), share };
            own_canaries(canaries, Share::new(rank, count).unwrap()).map(|canary| canary.share)
        };
        assert_eq!(share_of(0.02, 0, 1), Some(0.02));
        assert_eq!(share_of(0.02, 0, 4), Some(0.08));
        assert_eq!(share_of(0.5, 0, 4), Some(1.0));
        assert_eq!(share_of(0.02, 1, 4), None);
    }
}
