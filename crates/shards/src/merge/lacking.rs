//! What a merged run lacks, for people.

use tokometer_record::{MergedRun, MergedShard};

/// Shards without a record that are named.
const NAMED: usize = 8;

/// One line for each shard that is not whole, with the requests that are missing for it.
pub fn lacking(run: &MergedRun) -> Vec<String> {
    let count = run.count;
    let missing = missing(run);
    let unfinished = run.shards.iter().filter(|shard| shard.stop.is_none()).map(|shard| {
        let MergedShard { rank, requests, in_flight, unreadable, never_sent, .. } = shard;
        if *unreadable > 0 {
            return format!(
                "the record of shard {rank} of {count} is damaged: the rows of {unreadable} of its {requests} requests cannot be read; they count as abandoned"
            );
        }
        let unsent = match never_sent {
            Some(unsent) => format!("{unsent} were never sent"),
            None => "an unknown number was never sent".to_owned(),
        };
        format!(
            "the record of shard {rank} of {count} breaks off: {requests} requests were sent, {in_flight} of them were in flight, {unsent}"
        )
    });
    let early = run.ended_early().filter_map(|shard| early_end(shard, count));
    missing.into_iter().chain(unfinished).chain(early).collect()
}

/// A shard that ended before it had sent its part. `None` for one whose record was not finished.
fn early_end(shard: &MergedShard, count: u32) -> Option<String> {
    let MergedShard { rank, requests, unwritten, never_sent, .. } = shard;
    let (unsent, reason) = (never_sent.unwrap_or(0), shard.stop?.reason());
    let sent = requests + unwritten;
    let missing = match unwritten {
        0 => String::new(),
        many => format!(", {many} of them are missing from the record"),
    };
    Some(format!(
        "shard {rank} of {count} ended early ({reason}): {sent} requests were sent{missing}, {unsent} were never sent"
    ))
}

/// The early end of shard 0, which ends the others: no shard is missing, but requests are.
pub fn stopped_by_leader(run: &MergedRun) -> Option<String> {
    run.leader_ended_early().and_then(|leader| early_end(leader, run.count))
}

/// Shards without a record, each on a line of its own unless there are many.
fn missing(run: &MergedRun) -> Vec<String> {
    let (ranks, count) = (run.missing(), run.count);
    if ranks.len() > NAMED {
        let named: Vec<String> = ranks.iter().take(NAMED).map(ToString::to_string).collect();
        let (all, more) = (ranks.len(), ranks.len() - NAMED);
        return vec![format!(
            "{all} of {count} shards have no record: {} and {more} more; shard k has the requests whose index leaves remainder k when divided by {count}",
            named.join(", ")
        )];
    }
    let one = |rank: u32| {
        format!(
            "shard {rank} of {count} has no record: requests {rank}, {}, {} and so on are missing",
            u64::from(rank) + u64::from(count),
            u64::from(rank) + 2 * u64::from(count)
        )
    };
    ranks.into_iter().map(one).collect()
}
