//! Peaks as other tools count them: one-second buckets from the earliest successful start.

use tokometer_base::Nanos;

use tokometer_figures::ticks::Ticks;

const SECOND: u64 = 1_000_000_000;
/// Seconds of a day. In longer runs the peaks cover the first day only.
const MOST_BUCKETS: u64 = 86_400;

/// First and last instant of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestSpan {
    pub(super) start: Nanos,
    pub(super) end: Nanos,
}

/// The largest second by chunks and by requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Peaks {
    pub(super) chunks: u64,
    pub(super) requests: u64,
}

/// A request counts in every second that it overlaps, so two short ones in one second count twice.
pub(super) fn peaks(flights: impl Iterator<Item = RequestSpan> + Clone, chunks: &Ticks) -> Peaks {
    let Some(first) = flights.clone().map(|flight| flight.start).min() else {
        return Peaks::default();
    };
    let last = flights.clone().map(|flight| flight.end).max().unwrap_or(first);
    let buckets = ((last - first).0.div_ceil(SECOND) + 1).min(MOST_BUCKETS);
    let bucket = |at: Nanos| (at - first).0 / SECOND;
    let length = usize::try_from(buckets).unwrap_or(1);
    let mut chunk_counts = vec![0_u64; length];
    chunks.for_each(|at, count| {
        if let Some(cell) = usize::try_from(bucket(at)).ok().and_then(|i| chunk_counts.get_mut(i)) {
            *cell += count;
        }
    });
    // Differences, summed up afterwards: a long request would otherwise update every second of a run.
    let mut steps = vec![0_i64; length + 1];
    for flight in flights {
        let clamp = |at: u64| usize::try_from(at.min(buckets)).unwrap_or(length);
        steps[clamp(bucket(flight.start))] += 1;
        steps[clamp(bucket(flight.end) + 1)] -= 1;
    }
    let mut running = 0_i64;
    let mut most = 0_i64;
    for step in &steps[..length] {
        running += step;
        most = most.max(running);
    }
    Peaks {
        chunks: chunk_counts.into_iter().max().unwrap_or(0),
        requests: u64::try_from(most).unwrap_or(0),
    }
}
