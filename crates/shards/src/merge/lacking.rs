//! What a merged run lacks, for people.

use tokometer_record::{MergedRun, MergedShard};

/// One line for each shard that is not whole, with the requests that are missing for it.
pub fn lacking(run: &MergedRun) -> Vec<String> {
    let count = run.count;
    let missing = run.missing().into_iter().map(|rank| {
        format!(
            "shard {rank} of {count} has no record: requests {rank}, {}, {} and so on are missing",
            u64::from(rank) + u64::from(count),
            u64::from(rank) + 2 * u64::from(count)
        )
    });
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
    let early = run.ended_early().filter_map(|shard| {
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
    });
    missing.chain(unfinished).chain(early).collect()
}
