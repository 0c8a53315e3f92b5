//! Checks of runs that were merged from the records of several processes.

use tokometer_base::Nanos;

use super::note::CheckInput;

type Found = Option<String>;

/// Ranks that are named; the record has all of them.
const NAMED: usize = 8;

fn named(ranks: &[u32]) -> String {
    let shown: Vec<String> = ranks.iter().take(NAMED).map(ToString::to_string).collect();
    let more = ranks.len().saturating_sub(NAMED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", shown.join(", "))
}

pub(super) fn missing_shards(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let run = evidence.info.merged().filter(|run| !run.is_whole())?;
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

pub(super) fn shard_clocks(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let run = evidence.info.merged()?;
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
