//! Notes about runs that were merged from the records of several processes.

use super::NoteCode;
use super::about::ALL;
use super::note::Found;
use super::rule::NoteJudgement::{Remark, Suspect};
use super::rule::NoteRule;
use crate::effects::Effects;
use tokometer_base::Nanos;
use tokometer_figures::Unjudged;
use tokometer_record::MergedShard;

pub(super) static SHARDS: &[NoteRule] = &[
    NoteRule {
        code: NoteCode::MissingShards,
        severity: Suspect,
        about: ALL,
        limit: 0.0,
        threshold: "a shard of the run has no record or an incomplete one, or ended early",
        why: "the server had less load than planned once that shard was gone, and its requests are missing from the figures",
        action: "find its folder and merge again with `tokometer merge`, or repeat the run",
        check: missing_shards,
    },
    NoteRule {
        code: NoteCode::ShardStarts,
        severity: Suspect,
        about: ALL,
        limit: 0.05,
        threshold: "the first and the last start of a shard lie further apart than {} % of the longest shard's measured time",
        why: "the server had less load than planned while shards were missing: throughput, requests in flight and latencies are not those of the planned load",
        action: "use `--leader`, which starts all shards together, or start them at the same time",
        check: shard_starts,
    },
    NoteRule {
        code: NoteCode::ShardClocks,
        severity: Remark,
        about: ALL,
        limit: 1.0,
        threshold: "the clock offset of a shard is known to no better than {} ms, or was not measured",
        why: "requests in flight, steps and rates over short times compare times of different shards and resolve nothing finer; latencies use one clock and are not affected",
        action: "use `--leader`, which measures the offsets, and a network with short round trips",
        check: shard_clocks,
    },
];

/// Ranks that are named; the record has all of them.
const NAMED: usize = 8;
fn missing_shards(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let run = run.info.merged().filter(|run| !run.is_whole())?;
    let (missing, unfinished) = (run.missing(), run.unfinished());
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!("no record of shards {}", named(&missing)));
    }
    if !unfinished.is_empty() {
        parts.push(format!("incomplete records of shards {}", named(&unfinished)));
    }
    let early: Vec<u32> = run.ended_early().map(|shard| shard.rank).collect();
    if !early.is_empty() {
        parts.push(format!("early ends of shards {}", named(&early)));
    }
    let count = run.count;
    Some(format!(
        "{} (of {count}; shard k has the requests whose index leaves remainder k by {count})",
        parts.join(", ")
    ))
}

/// Shards without a leader begin when they are started. The load is that of the plan only while all of them
/// send.
fn shard_starts(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let run = run.info.merged()?;
    let span = |shard: &MergedShard| Some((shard.rank, shard.measured?));
    let spans: Vec<(u32, (Nanos, Nanos))> = run.shards.iter().filter_map(span).collect();
    let (first, (begin, _)) = *spans.iter().min_by_key(|(_, span)| span.0)?;
    let (last, (latest, _)) = *spans.iter().max_by_key(|(_, span)| span.0)?;
    let longest = spans.iter().map(|(_, (begin, end))| *end - *begin).max()?;
    let apart = latest - begin;
    if apart.0 as f64 <= limit * longest.0 as f64 {
        return None;
    }
    let earliest_end = spans.iter().map(|(_, span)| span.1).min()?;
    let overlap = if earliest_end <= latest {
        "at no time did all shards send requests".to_owned()
    } else {
        format!("all shards sent requests during {} only", earliest_end - latest)
    };
    Some(format!("shard {last} began {apart} after shard {first}; {overlap}"))
}

fn shard_clocks(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let run = run.info.merged()?;
    match run.clock_bound() {
        None => Some(
            "the clocks of some shards were compared by the wall clock, whose error is unknown"
                .to_owned(),
        ),
        Some(bound) if bound > Nanos::from_millis_f64(limit) => {
            Some(format!("times of different shards agree within ±{bound} only"))
        }
        Some(_) => None,
    }
}

fn named(ranks: &[u32]) -> String {
    let shown: Vec<String> = ranks.iter().take(NAMED).map(ToString::to_string).collect();
    let more = ranks.len().saturating_sub(NAMED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", shown.join(", "))
}
