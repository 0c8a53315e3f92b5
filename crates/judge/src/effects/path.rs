//! Effects of what happened to packets between the server and the reading of them.

use tokometer_base::Nanos;

use super::{Latency, Samples, Study, latency};
use crate::code::NoteCode;
use crate::limits::RETRANSMISSION;
use tokometer_figures::Joined;
use tokometer_figures::figure::{Percentile, Statistic};
use tokometer_figures::rows::RequestRow;
use tokometer_figures::steady::LoadClass;

impl Study<'_> {
    /// Tokens that arrived before their recorded time, because others shared their read.
    pub(super) fn reads(&mut self, all: &Samples) {
        let rows = &self.input.rows;
        for code in [NoteCode::SlowReads, NoteCode::SharedReads] {
            let part =
                if code == NoteCode::SlowReads { Joined::by_client } else { Joined::by_sender };
            let early = |row: &RequestRow| (part(row.joined_first), part(row.joined_last));
            if rows.iter().all(|row| early(row) == (0.0, 0.0)) {
                continue;
            }
            let earlier = Samples::of(
                rows,
                |_| true,
                |one, nth, value| unjoined(&rows[nth], early(&rows[nth]), one, value),
            );
            self.add_each(code, |shown| {
                let one = shown.metric.behind?;
                all.difference(&earlier, one, shown.statistic)
            });
        }
    }

    /// Requests that waited for a retransmission. The client sees those of its own packets; the same path
    /// carries the answers, and the loss of an answer's last packet leaves no trace here. So as many answers
    /// may have waited as requests did, but a latency below the shortest timeout contains none: there a later
    /// packet or a probe showed the loss, after two round trips at most.
    pub(super) fn lost_packets(&mut self, all: &Samples) {
        let (rows, seen) = (&self.input.rows, &self.input.observed);
        if seen.retransmitting == 0 {
            return;
        }
        let waits = |one: Latency| {
            let is_long = |value: f64| value >= LossWaits::TIMEOUT;
            let long =
                rows.iter().filter(|row| latency(one, row).is_some_and(is_long)).count() as u64;
            LossWaits {
                all: seen.retransmitting as f64 / seen.network_views as f64,
                long: seen.retransmitting.min(long) as f64 / seen.network_views as f64,
                repair: 2.0 * median_round_trip(&seen.round_trips).0 as f64,
            }
        };
        let (of_ttft, of_e2e) = (waits(Latency::Ttft), waits(Latency::E2e));
        let rate = match self.class {
            LoadClass::Closed => {
                let mean = all.statistic(Latency::E2e, Statistic::Mean);
                mean.map(|mean| of_e2e.mean() / mean)
            }
            _ => self.last_stay(all).map(|stay| {
                let repair = of_e2e.repair / 1e9 / self.seconds();
                if of_e2e.long > 0.0 { stay } else { stay.min(repair) }
            }),
        };
        self.add_each(NoteCode::Retransmits, |shown| {
            if shown.is_rate() {
                return rate;
            }
            let (one, waits) = match shown.metric.behind? {
                Latency::Ttft => (Latency::Ttft, of_ttft),
                Latency::E2e => (Latency::E2e, of_e2e),
                Latency::Tpot => return None,
            };
            let value = all.statistic(one, shown.statistic).filter(|value| *value > 0.0)?;
            let wait = match shown.statistic.percentile() {
                Some(percentile) => waits.of_percentile(percentile),
                None => waits.mean(),
            };
            Some(wait / value)
        });
    }

    /// By how much the run would have ended earlier if no request had taken longer than the median, nor waited
    /// for a connection, as a share of the run.
    fn last_stay(&self, all: &Samples) -> Option<f64> {
        let median = Statistic::Percentile(Percentile::from_percent(50.0)?);
        let stay = Nanos::from_secs_f64(all.statistic(Latency::E2e, median)? / 1e9);
        let rows = &self.input.rows;
        let end = rows.iter().map(|row| row.end).max()?;
        // Behind a cap the wait may have been for a slot.
        let is_capped = self.input.info.load.max_concurrency.is_some();
        let connected = |row: &RequestRow| {
            if is_capped { row.start } else { row.start.min(row.due + row.lateness()) }
        };
        let usual = rows.iter().map(|row| row.end.min(connected(row) + stay)).max()?;
        Some((end - usual).as_secs_f64() / self.seconds())
    }
}

/// How many of one latency may contain a wait for a retransmission, and how long it is, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct LossWaits {
    all: f64,
    /// Share of those whose latency is long enough for a timeout.
    long: f64,
    /// The wait of the others.
    repair: f64,
}

impl LossWaits {
    const TIMEOUT: f64 = RETRANSMISSION.0 as f64;

    fn mean(self) -> f64 {
        self.long * Self::TIMEOUT + (self.all - self.long) * self.repair
    }

    /// A percentile follows once such requests are half of what lies beyond it.
    fn of_percentile(self, percentile: Percentile) -> f64 {
        let follows = |share: f64| 2.0 * share > percentile.tail();
        let timeout = if follows(self.long) { Self::TIMEOUT } else { 0.0 };
        let repair = if follows(self.all) { self.repair } else { 0.0 };
        timeout.max(repair)
    }
}

/// Zero where no round trip is known.
fn median_round_trip(trips: &[(Nanos, u64)]) -> Nanos {
    let mut trips: Vec<Nanos> = trips.iter().map(|(trip, _)| *trip).collect();
    trips.sort_unstable();
    trips.get(trips.len() / 2).copied().unwrap_or(Nanos::ZERO)
}

/// A latency of a request whose first and last content arrived earlier than recorded.
fn unjoined(row: &RequestRow, (first, last): (f64, f64), one: Latency, value: f64) -> f64 {
    match one {
        Latency::Ttft => value - first,
        Latency::E2e => value - last,
        Latency::Tpot => {
            let (Some(ttft), Some(e2e)) = (row.ttft(), row.e2e()) else { return value };
            let spread = e2e - ttft;
            // A whole answer in one read shows no pace but that from the send to its first token.
            if spread > 0.0 { value * (spread + first - last) / spread } else { ttft - first }
        }
    }
}
