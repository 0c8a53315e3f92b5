//! What a display shows besides counters: the server's gauges, and notes that already apply.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokometer_base::Nanos;
use tokometer_figures::Quantity;
use tokometer_figures::sends::{Capped, Sends};
use tokometer_figures::server;
use tokometer_judge::notes::severity_of_failures;
use tokometer_record::server::Scrape;
use tokometer_record::{Outcome, Phase, Timeline};

/// Bins per factor of ten: a percentile is known within 1.2 %.
const BINS_PER_DECADE: f64 = 100.0;
/// Bins from a microsecond to ten thousand seconds.
const BINS: usize = 1_000;

/// Latencies of a run in progress, in logarithmic bins.
#[derive(Debug)]
struct LiveSpread {
    counts: Vec<u64>,
    total: u64,
}

impl Default for LiveSpread {
    fn default() -> Self {
        Self { counts: vec![0; BINS], total: 0 }
    }
}

impl LiveSpread {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float to integer casts saturate, and the bin is clamped after"
    )]
    fn add(&mut self, nanos: f64) {
        let bin = ((nanos.max(1e3) / 1e3).log10() * BINS_PER_DECADE) as usize;
        self.counts[bin.min(BINS - 1)] += 1;
        self.total += 1;
    }

    /// Bins that are not empty, with their values.
    fn bins(&self) -> Vec<(u16, u64)> {
        let bins = (0..).zip(&self.counts).filter(|(_, count)| **count > 0);
        bins.map(|(bin, count)| (bin, *count)).collect()
    }

    /// The same with values of other processes.
    fn with(&self, bins: &[(u16, u64)]) -> Self {
        let mut all = Self { counts: self.counts.clone(), total: self.total };
        for (bin, count) in bins {
            let bin = usize::from(*bin).min(BINS - 1);
            all.counts[bin] = all.counts[bin].saturating_add(*count);
            all.total = all.total.saturating_add(*count);
        }
        all
    }

    fn percentile(&self, percent: f64) -> Option<Nanos> {
        let rank = (self.total as f64 * percent / 100.0).ceil().max(1.0);
        let mut below = 0;
        let bin = self.counts.iter().position(|count| {
            below += count;
            below as f64 >= rank
        })?;
        let middle = 1e3 * 10_f64.powf((bin as f64 + 0.5) / BINS_PER_DECADE);
        Some(Nanos::from_secs_f64(middle / 1e9))
    }

    fn percentiles(&self) -> Option<LivePercentiles> {
        Some(LivePercentiles {
            p50: self.percentile(50.0)?,
            p90: self.percentile(90.0)?,
            p99: self.percentile(99.0)?,
        })
    }
}

/// TTFT and TPOT of a run in progress: numbers of bins, and the requests in each.
pub type LiveBins = [Vec<(u16, u64)>; 2];

/// Requests of other processes of the run, which the display of this one counts as well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OtherRequests {
    /// Successfully or not.
    pub ended: u64,
    pub failed: u64,
    /// As [`LiveNotes::sends`] has them in the other processes.
    pub sends: Sends,
    /// As [`LiveNotes::bins`] has them in the other processes.
    pub bins: LiveBins,
}

/// Percentiles so far, of successful requests that ended; within 1.2 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LivePercentiles {
    pub p50: Nanos,
    pub p90: Nanos,
    pub p99: Nanos,
}

/// What the servers report about themselves. `None` where none of them does.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LiveGauges {
    /// Requests running, over all servers.
    pub running: Option<f64>,
    /// Requests waiting, over all servers.
    pub waiting: Option<f64>,
    /// Use of the KV cache of the server that uses most of its own.
    pub kv_cache_percent: Option<f64>,
    /// The highest utilisation.
    pub gpu_percent: Option<f64>,
    /// Memory in use, over all servers.
    pub gpu_memory_mib: Option<f64>,
    /// Power, over all servers.
    pub gpu_power_w: Option<f64>,
}

impl LiveGauges {
    fn of(scrape: &Scrape) -> Self {
        let engine = server::read(scrape).unwrap_or_default();
        let gpu = server::gauges(scrape).unwrap_or_default();
        Self {
            running: engine.running,
            waiting: engine.waiting,
            kv_cache_percent: engine.kv_use.map(|share| share * 100.0),
            gpu_percent: gpu.utilisation_percent,
            gpu_memory_mib: gpu.memory_mib,
            gpu_power_w: gpu.power_w,
        }
    }

    /// The gauges of two servers as one. Shares of different caches have no sum.
    fn and(self, other: Self) -> Self {
        let sum = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (one, other) => one.or(other),
        };
        let highest = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (one, other) => one.or(other),
        };
        Self {
            running: sum(self.running, other.running),
            waiting: sum(self.waiting, other.waiting),
            kv_cache_percent: highest(self.kv_cache_percent, other.kv_cache_percent),
            gpu_percent: highest(self.gpu_percent, other.gpu_percent),
            gpu_memory_mib: sum(self.gpu_memory_mib, other.gpu_memory_mib),
            gpu_power_w: sum(self.gpu_power_w, other.gpu_power_w),
        }
    }
}

/// Written by the recorder, read by a display.
#[derive(Debug)]
pub struct LiveNotes {
    is_capped: Capped,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The latest values of each endpoint.
    gauges: BTreeMap<u16, LiveGauges>,
    sends: Sends,
    ttft: LiveSpread,
    tpot: LiveSpread,
    ended: u64,
    failed: u64,
    last_failure: String,
    others: OtherRequests,
}

impl LiveNotes {
    /// `max_concurrency` limits the requests in flight of the run.
    pub fn new(max_concurrency: Option<u32>) -> Self {
        Self { is_capped: Capped::by(max_concurrency), state: Mutex::default() }
    }

    pub fn scraped(&self, scrape: &Scrape) {
        let gauges = LiveGauges::of(scrape);
        if let Ok(mut state) = self.state.lock() {
            state.gauges.insert(scrape.endpoint, gauges);
        }
    }

    pub fn ended(&self, timeline: &Timeline) {
        if timeline.identity.phase != Phase::Measure {
            return;
        }
        let Ok(mut state) = self.state.lock() else { return };
        state.ended += 1;
        state.sends.add(timeline, self.is_capped);
        if timeline.is_success() {
            Quantity::Ttft.metric().each(timeline, &mut |nanos, _| state.ttft.add(nanos));
            Quantity::Tpot.metric().each(timeline, &mut |nanos, _| state.tpot.add(nanos));
        }
        if let Outcome::Failed(failure) = &timeline.outcome {
            state.failed += 1;
            state.last_failure = failure.message.chars().take(100).collect();
        }
    }

    pub fn gauges(&self) -> LiveGauges {
        let all = |state: std::sync::MutexGuard<'_, State>| {
            state.gauges.values().copied().fold(LiveGauges::default(), LiveGauges::and)
        };
        self.state.lock().map(all).unwrap_or_default()
    }

    /// TTFT and TPOT of this process so far, for the display of another.
    pub fn bins(&self) -> LiveBins {
        let both = |state: std::sync::MutexGuard<'_, State>| [state.ttft.bins(), state.tpot.bins()];
        self.state.lock().map(both).unwrap_or_default()
    }

    /// How late this process sent its requests, for the display of another.
    pub fn sends(&self) -> Sends {
        self.state.lock().map(|state| state.sends).unwrap_or_default()
    }

    /// Counts the requests of other processes as well, instead of what was set before.
    pub fn set_others(&self, others: OtherRequests) {
        if let Ok(mut state) = self.state.lock() {
            state.others = others;
        }
    }

    /// TTFT and TPOT so far; `None` before the first value.
    pub fn latencies(&self) -> [Option<LivePercentiles>; 2] {
        let both = |state: std::sync::MutexGuard<'_, State>| {
            let [ttft, tpot] = &state.others.bins;
            [state.ttft.with(ttft).percentiles(), state.tpot.with(tpot).percentiles()]
        };
        self.state.lock().map(both).unwrap_or_default()
    }

    /// Notes so far, one line each, with what they would make of the run if it ended now. Late sends are
    /// judged by their effect on the figures, which only the whole record shows.
    pub fn notes(&self) -> Vec<String> {
        let Ok(state) = self.state.lock() else { return Vec::new() };
        let sends = state.sends.and(state.others.sends);
        let late = (sends.late > 0)
            .then(|| format!("late-sends: {sends}; judged by its effect at the end"));
        let (failed, ended) =
            (state.failed + state.others.failed, state.ended + state.others.ended);
        let last = if state.failed > 0 { state.last_failure.as_str() } else { "on another shard" };
        let failed = (failed > 0).then(|| {
            let (code, severity) = severity_of_failures(failed, ended);
            format!("{code} ({severity}): {failed} of {ended}, last: {last}")
        });
        late.into_iter().chain(failed).collect()
    }
}

#[cfg(test)]
mod tests {
    use tokometer_base::Nanos;
    use tokometer_judge::NoteCode;
    use tokometer_record::{AttemptId, Event, EventKind, Failure, FailureKind, RequestedLengths};

    use super::*;

    /// The display showed nothing about a pacer that woke 80 ms late, because it counted only delays
    /// after the gate, while the report called the run INVALID for it.
    #[test]
    fn the_display_and_the_report_agree_about_late_sends() {
        let at = |millis| Nanos::from_millis(millis);
        let sent = |intended, admitted, connect: Option<(u64, u64)>| {
            let identity = AttemptId::new(0, Phase::Measure);
            let mut timeline = Timeline::new(identity, RequestedLengths::default(), at(admitted));
            timeline.times.intended = Some(at(intended));
            timeline.times.first_byte_sent = Some(at(100));
            timeline.times.connect_begin = connect.map(|(begin, _)| at(begin));
            timeline.times.connect_end = connect.map(|(_, end)| at(end));
            timeline
        };
        let check = |cap: Option<u32>, timeline: &Timeline, expected: &[&str]| {
            let notes = LiveNotes::new(cap);
            notes.ended(timeline);
            assert_eq!(notes.notes(), expected);
        };
        let late = "late-sends: 1 of 1 requests were sent more than 5 ms late";
        let waited = sent(20, 100, None);
        let judged = "judged by its effect at the end";
        check(None, &waited, &[&format!("{late} (worst 80.0 ms); {judged}")]);
        check(Some(8), &waited, &[]);
        let connected_late = sent(50, 50, Some((90, 99)));
        check(None, &connected_late, &[&format!("{late} (worst 41.0 ms); {judged}")]);
        check(None, &sent(97, 97, None), &[]);
        // A retry keeps the intended time of the first attempt: its wait is the server's doing.
        let mut retry = sent(20, 100, None);
        retry.identity.attempt = 1;
        check(None, &retry, &[]);
    }

    /// A display showed the late sends of its own process as those of the run: two machines of three could
    /// be late without a word.
    #[test]
    fn late_sends_of_all_processes_are_shown() {
        let sent = |lateness_ms| {
            let mut timeline = Timeline::new(
                AttemptId::new(0, Phase::Measure),
                RequestedLengths::default(),
                Nanos::ZERO,
            );
            timeline.times.intended = Some(Nanos::ZERO);
            timeline.times.first_byte_sent = Some(Nanos::from_millis(lateness_ms));
            timeline
        };
        let notes = || LiveNotes::new(None);
        let (own, on_time, late) = (notes(), notes(), notes());
        own.ended(&sent(7));
        on_time.ended(&sent(1));
        for lateness in [2, 40, 20] {
            late.ended(&sent(lateness));
        }
        let others = |sends| OtherRequests { ended: 4, sends, ..OtherRequests::default() };
        let check = |expected: &str| {
            let judged = "judged by its effect at the end";
            let expected = format!("late-sends: {expected}; {judged}");
            assert_eq!(own.notes(), [expected]);
        };
        check("1 of 1 requests were sent more than 5 ms late (worst 7.00 ms)");
        own.set_others(others(on_time.sends()));
        check("1 of 2 requests were sent more than 5 ms late (worst 7.00 ms)");
        own.set_others(others(on_time.sends().and(late.sends())));
        check("3 of 5 requests were sent more than 5 ms late (worst 40.0 ms)");
        on_time.set_others(others(late.sends()));
        assert_eq!(on_time.sends().late, 0, "its own");
    }

    /// With two servers the display showed each gauge twice, without saying whose it was.
    #[test]
    fn gauges_of_several_servers_are_one_line() {
        let scrape = |endpoint, running: f64, kv_use: f64| Scrape {
            at: Nanos::ZERO,
            endpoint,
            error: None,
            values: [
                ("vllm:num_requests_running".to_owned(), running),
                ("vllm:kv_cache_usage_perc".to_owned(), kv_use),
            ]
            .into(),
        };
        let notes = LiveNotes::new(None);
        assert_eq!(notes.gauges(), LiveGauges::default());
        notes.scraped(&scrape(0, 3.0, 0.5));
        notes.scraped(&scrape(1, 4.0, 0.25));
        notes.scraped(&scrape(0, 5.0, 0.125));
        let expected = LiveGauges {
            running: Some(9.0),
            kv_cache_percent: Some(25.0),
            ..LiveGauges::default()
        };
        assert_eq!(notes.gauges(), expected);
    }

    #[test]
    fn percentiles_so_far_are_within_their_bins() {
        let mut spread = LiveSpread::default();
        assert_eq!(spread.percentiles(), None);
        for millis in 1..=1_000 {
            spread.add(f64::from(millis) * 1e6);
        }
        let found = spread.percentiles().unwrap();
        for (found, expected) in [(found.p50, 500.0), (found.p90, 900.0), (found.p99, 990.0)] {
            let ratio = found.as_millis_f64() / expected;
            assert!((0.985..1.015).contains(&ratio), "{found} for {expected} ms");
        }
    }

    #[test]
    fn a_display_shows_the_requests_of_all_processes() {
        let ended = |first_ms: u64, outcome| {
            let identity = AttemptId::new(0, Phase::Measure);
            let mut row = Timeline::new(identity, RequestedLengths::default(), Nanos::ZERO);
            row.times.first_byte_sent = Some(Nanos::ZERO);
            row.push(Event::new(Nanos::from_millis(first_ms), 0, EventKind::Text));
            row.times.end = Some(Nanos::from_millis(first_ms));
            row.outcome = outcome;
            row
        };
        let (own, other) = (LiveNotes::new(None), LiveNotes::new(None));
        for _ in 0..3 {
            own.ended(&ended(10, Outcome::Success));
            other.ended(&ended(1_000, Outcome::Success));
        }
        let p90 = |notes: &LiveNotes| notes.latencies()[0].unwrap().p90.as_millis_f64();
        assert!((9.0..11.0).contains(&p90(&own)), "{}", p90(&own));
        let bins = other.bins();
        assert_eq!((bins[0].len(), bins[0][0].1, bins[1].len()), (1, 3, 0));
        let sends = Sends::default();
        own.set_others(OtherRequests { ended: 5, failed: 2, sends, bins });
        assert!((980.0..1_020.0).contains(&p90(&own)), "{}", p90(&own));
        assert_eq!(own.notes(), ["failures (SUSPECT): 2 of 8, last: on another shard"]);
        let failure = Failure::new(FailureKind::Cut, "cut");
        own.ended(&ended(5, Outcome::Failed(failure)));
        assert_eq!(own.notes(), ["failures (SUSPECT): 3 of 9, last: cut"]);
    }

    #[test]
    fn failures_have_the_severity_that_the_report_will_give_them() {
        assert_eq!(severity_of_failures(1, 1_000), (NoteCode::FewFailures, "remark"));
        assert_eq!(severity_of_failures(20, 1_000), (NoteCode::Failures, "SUSPECT"));
    }
}
