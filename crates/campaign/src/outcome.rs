//! A run that a procedure asks for, and what came of it.

use std::path::PathBuf;

use tokometer_base::Nanos;
use tokometer_base::refusal::{Refusal, RefusalKind};
use tokometer_decide::capacity::MeasuredPoint;
use tokometer_decide::compare::{Comparison, Half};
use tokometer_decide::staircase::StairStep;
use tokometer_figures::{SummaryOptions, Verdict};
use tokometer_plan::{Judgement, Plan, ab_blocks};
use tokometer_record::{FailureKind, Stop};

use crate::executor::RunRecord;
use crate::kept_events::KeptEvents;

/// A run to make.
#[derive(Debug, Clone)]
pub struct PlannedRun {
    /// Its number in the campaign. The content of prompts depends on it.
    pub number: u32,
    /// What distinguishes it from the others, such as `max_concurrency=8`; empty for a single run.
    pub label: String,
    /// Where it is recorded.
    pub folder: PathBuf,
    pub plan: Plan,
    pub figures: SummaryOptions,
    pub kept_events: KeptEvents,
    pub rest: RunRest,
}

/// What is waited for after a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunRest {
    None,
    /// That the server has finished what it works on: the next load must not meet the last one's queue.
    UntilIdle,
}

/// What became of a run.
#[derive(Debug)]
pub struct Outcome {
    /// As it was asked for.
    pub run: Box<PlannedRun>,
    /// What it shows, or why there is nothing.
    pub reading: Result<Reading, Refusal>,
    /// When it had ended and was read, on the executor's clock.
    pub ended: Nanos,
    /// Whether an earlier session has made it.
    pub is_stored: bool,
    /// Whether the user had interrupted the campaign by then.
    pub is_interrupted: bool,
    /// Whether the server answers again; absent where nobody waited for it.
    pub is_server_back: Option<bool>,
}

impl Outcome {
    pub fn fate(&self) -> Fate {
        match &self.reading {
            Ok(reading) => reading.fate,
            Err(refusal) => Fate::Refused(refusal.kind),
        }
    }
}

/// How a run came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It has results.
    Done,
    /// They are INVALID, and the plan is strict.
    Invalid,
    Interrupted,
    /// Its record is incomplete.
    Unwritten,
    /// No request to one of its targets succeeded.
    NoSuccess,
    /// The server rejects what it asks for as it is, such as prompts that are too long.
    Rejected,
    /// The server was lost, by its own rule.
    TargetLost,
    /// The server became unreachable while it ran.
    TargetGone,
    /// Shards were lost, or this shard's record was not handed over.
    ShardsLost,
    /// It could not be made.
    Refused(RefusalKind),
}

impl Fate {
    /// The kind of failure; `None` for a run with results.
    pub fn failure(self) -> Option<RefusalKind> {
        Some(match self {
            Self::Done | Self::Invalid => return None,
            Self::Interrupted => RefusalKind::Interrupted,
            Self::Unwritten => RefusalKind::Write,
            Self::NoSuccess | Self::Rejected => RefusalKind::NoSuccess,
            Self::TargetLost | Self::TargetGone => RefusalKind::Target,
            Self::ShardsLost => RefusalKind::Points,
            Self::Refused(kind) => kind,
        })
    }

    /// Whether nothing succeeded, or the server is not there.
    pub(crate) fn is_dead(self) -> bool {
        matches!(self.failure(), Some(RefusalKind::NoSuccess | RefusalKind::Target))
    }
}

/// What a run shows.
#[derive(Debug)]
pub struct Reading {
    /// One, or two where targets took turns.
    pub sides: Vec<Half>,
    /// How the second target compares; absent for one target, and where one has no success.
    pub comparison: Option<Comparison>,
    pub fate: Fate,
    /// Why its record is incomplete.
    pub write_failure: Option<String>,
    /// Against the objectives of a search.
    pub point: Option<MeasuredPoint>,
    /// As a step of a staircase.
    pub step: Option<StairStep>,
}

impl Reading {
    /// The figures that the run asks for.
    pub(crate) fn of(run: &PlannedRun, record: &RunRecord) -> Result<Self, Refusal> {
        let (reader, ab) = (&record.reader, ab_blocks(record.reader.info())?);
        let sides = Half::all(reader, ab, &run.figures)?;
        let comparison = Comparison::of_sides(reader, ab, &sides)?;
        Ok(Self { comparison, ..Self::judged(run, record, sides) })
    }

    /// What these figures of a run say.
    pub(crate) fn judged(run: &PlannedRun, record: &RunRecord, sides: Vec<Half>) -> Self {
        let fate = fate(record, &sides, &run.plan);
        let write_failure = record.write_failure.as_ref().map(ToString::to_string);
        Self { sides, comparison: None, fate, write_failure, point: None, step: None }
    }

    /// Whether requests failed because nothing listened.
    pub(crate) fn has_refused_connections(&self) -> bool {
        let first = self.sides.first();
        first.is_some_and(|side| {
            side.summary.failures.iter().any(|group| group.kind == FailureKind::Connect)
        })
    }
}

/// How a recorded run came out. An incomplete record takes precedence.
pub(crate) fn fate(record: &RunRecord, sides: &[Half], plan: &Plan) -> Fate {
    let is_dead = sides.iter().any(|side| side.summary.counts.succeeded == 0);
    let is_invalid = sides.iter().any(|side| side.summary.verdict == Verdict::Invalid);
    // A shard of a run that has fewer requests than shards has done its part.
    let info = record.reader.info();
    let has_no_part = info.shard().is_some() && info.load.planned_requests == Some(0);
    match record.end.stop {
        // Nothing fails in a prediction; a short time may hold no request, a large run has only figures.
        _ if record.predicted.is_some() => Fate::Done,
        _ if record.is_withheld => Fate::ShardsLost,
        _ if record.write_failure.is_some() => Fate::Unwritten,
        Stop::Interrupted => Fate::Interrupted,
        Stop::DiskFull => Fate::Unwritten,
        _ if has_no_part => Fate::Done,
        _ if is_dead && is_rejected(sides) => Fate::Rejected,
        _ if is_dead => Fate::NoSuccess,
        Stop::TargetLost | Stop::Refused => Fate::TargetLost,
        Stop::ShardsLost => Fate::ShardsLost,
        _ if is_invalid && plan.metrics.judgement == Judgement::Strict => Fate::Invalid,
        _ => Fate::Done,
    }
}

/// Whether the server rejected all requests as they are, so that others may succeed.
fn is_rejected(sides: &[Half]) -> bool {
    sides.first().is_some_and(|side| {
        let mut statuses = side.summary.failures.iter().map(|group| group.status);
        side.summary.counts.succeeded == 0
            && statuses.all(|status| matches!(status, Some(400 | 413 | 422)))
    })
}
