//! Load that the client held back: how late each request was, and what share of the load that was.

use std::collections::BTreeMap;

use tokometer_base::Nanos;
use tokometer_record::{RecordedLoad, RunInfo};

use crate::limits::{LATENCY_PER_LOAD, PARTS};
use tokometer_figures::observe::Observed;
use tokometer_figures::rows::RequestRow;
use tokometer_figures::steady::LoadClass;

/// By how much the client sent each request late, in the order of the rows.
///
/// In an open loop this is counted from the intended time. A burst wants every request at its start. In a
/// closed loop a request is due when a slot becomes free.
pub(crate) fn lateness(rows: &[RequestRow], load: &RecordedLoad, division: Division) -> Vec<Nanos> {
    let class = LoadClass::of(load);
    let begin = rows.iter().map(|row| row.start).min().unwrap_or(Nanos::ZERO);
    match class {
        LoadClass::Open | LoadClass::Staged => rows.iter().map(RequestRow::lateness).collect(),
        LoadClass::Burst => rows.iter().map(|row| row.start - begin).collect(),
        LoadClass::Closed => refills(rows, load.max_concurrency.unwrap_or(1), division),
    }
}

/// The parts of a run that have slots of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Division {
    /// Requests of a block, where two targets are measured in turn: a block begins when the one before it has
    /// ended.
    pub(crate) block: Option<u64>,
    /// Processes with a part of the slots each; 1 where all slots serve every request.
    pub(crate) shards: u32,
}

impl Division {
    /// Turns of a conversation are sent by the shard of the first one, which their index does not show: they
    /// are judged as if all slots served every request.
    pub(crate) fn of(info: &RunInfo, observed: &Observed) -> Self {
        let split = info.merged().filter(|run| !run.is_cap_shared && observed.turns == 0);
        Self { block: info.block_requests(), shards: split.map_or(1, |run| run.count.max(1)) }
    }
}

/// Each block and each shard refills its own slots: one that has sent all of its requests leaves its slots
/// empty as planned, and cannot serve the requests of another one.
fn refills(rows: &[RequestRow], slots: u32, Division { block, shards }: Division) -> Vec<Nanos> {
    let mut parts: BTreeMap<(u64, u32), Vec<usize>> = BTreeMap::new();
    for (nth, row) in rows.iter().enumerate() {
        let shard = u32::try_from(row.index % u64::from(shards)).unwrap_or(0);
        let block = block.map_or(0, |block| row.index / block);
        parts.entry((block, shard)).or_default().push(nth);
    }
    let mut late = vec![Nanos::ZERO; rows.len()];
    for ((_, shard), part) in parts {
        let own = slots / shards + u32::from(shard < slots % shards);
        refill(rows, part, own, &mut late);
    }
    late
}

/// The n-th request after the first `slots` takes the slot of the n-th that ended.
fn refill(rows: &[RequestRow], mut order: Vec<usize>, slots: u32, late: &mut [Nanos]) {
    let slots = usize::try_from(slots).unwrap_or(usize::MAX).max(1);
    // A request that was retried is in its slot from its first attempt on.
    let taken = |row: &RequestRow| if row.attempt > 0 { row.due } else { row.start };
    order.sort_by_key(|nth| taken(&rows[*nth]));
    let mut ends: Vec<Nanos> = order.iter().map(|nth| rows[*nth].end).collect();
    ends.sort_unstable();
    let begin = order.first().map_or(Nanos::ZERO, |nth| taken(&rows[*nth]));
    for (rank, nth) in order.into_iter().enumerate() {
        let free = rank.checked_sub(slots).map_or(begin, |ended| ends[ended]);
        late[nth] = if rows[nth].attempt > 0 { Nanos::ZERO } else { rows[nth].start - free };
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Held {
    /// Over the run, whatever else was in flight.
    pub(crate) raw: f64,
    pub(crate) mean: f64,
    pub(crate) worst: f64,
}

/// Sum of lateness / sum of times in flight (Little's law): the share of the requests that should have
/// been in the server and were not. Only delays up to `most` count. A request that is alone in the server
/// cannot be affected by others, so the share is weighted by the chance to meet another one, and by how much
/// a latency follows the load.
pub(crate) fn held(rows: &[RequestRow], late: &[Nanos], most: Nanos) -> Held {
    let begin = rows.iter().map(|row| row.due).min().unwrap_or(Nanos::ZERO);
    let last = rows.iter().map(|row| row.due).max().unwrap_or(Nanos::ZERO);
    let end = rows.iter().map(|row| row.end).max().unwrap_or(Nanos::ZERO);
    let part_of = |at: Nanos| {
        let nth = u128::from((at - begin).0) * PARTS as u128 / (u128::from((last - begin).0) + 1);
        usize::try_from(nth).unwrap_or(0).min(PARTS - 1)
    };
    let mut parts = [(0.0, 0.0); PARTS];
    for (row, late) in rows.iter().zip(late) {
        let part = &mut parts[part_of(row.due)];
        part.0 += if *late <= most { late.0 as f64 } else { 0.0 };
        part.1 += (row.end - row.start).0 as f64;
    }
    let share = |(late, flight): (f64, f64)| if flight > 0.0 { late / flight } else { 0.0 };
    let all = parts.iter().fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
    let in_flight = all.1 / (end - begin).0.max(1) as f64;
    let met = in_flight / (1.0 + in_flight) * LATENCY_PER_LOAD;
    let worst = parts.iter().copied().map(share).fold(0.0, f64::max);
    Held { raw: share(all), mean: share(all) * met, worst: worst * met }
}
