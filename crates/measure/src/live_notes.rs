//! What a display shows besides counters: the server's gauges, and notes that already apply.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokometer_metrics::sends::{Capped, Sends};
use tokometer_metrics::server;
use tokometer_record::server::Scrape;
use tokometer_record::{Outcome, Phase, Timeline};

/// Written by the recorder, read by a display.
#[derive(Debug)]
pub struct LiveNotes {
    is_capped: Capped,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The latest values of each endpoint.
    gauges: BTreeMap<u16, Vec<(String, f64)>>,
    sends: Sends,
    ended: u64,
    failed: u64,
    last_failure: String,
}

impl LiveNotes {
    /// `max_concurrency` limits the requests in flight of the run.
    pub fn new(max_concurrency: Option<u32>) -> Self {
        Self { is_capped: Capped::by(max_concurrency), state: Mutex::default() }
    }

    /// Stores the gauges of a scrape.
    pub fn scraped(&self, scrape: &Scrape) {
        let engine = server::read(scrape).unwrap_or_default();
        let gpu = server::gauges(scrape).unwrap_or_default();
        let named = [
            ("running", engine.running),
            ("waiting", engine.waiting),
            ("KV use %", engine.kv_use.map(|share| share * 100.0)),
            ("GPU %", gpu.utilisation_percent),
            ("GPU MiB", gpu.memory_mib),
            ("GPU W", gpu.power_w),
        ];
        let told = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        if let Ok(mut state) = self.state.lock() {
            state.gauges.insert(scrape.endpoint, told.collect());
        }
    }

    /// Counts an ended attempt.
    pub fn ended(&self, timeline: &Timeline) {
        if timeline.identity.phase != Phase::Measure {
            return;
        }
        let Ok(mut state) = self.state.lock() else { return };
        state.ended += 1;
        state.sends.add(timeline, self.is_capped);
        if let Outcome::Failed(failure) = &timeline.outcome {
            state.failed += 1;
            state.last_failure = failure.message.chars().take(100).collect();
        }
    }

    /// Sums over all endpoints, by name.
    pub fn gauges(&self) -> Vec<(String, f64)> {
        let all = |state: std::sync::MutexGuard<'_, State>| {
            state.gauges.values().flatten().cloned().collect()
        };
        self.state.lock().map(all).unwrap_or_default()
    }

    /// Notes so far, one line each.
    pub fn notes(&self) -> Vec<String> {
        let Ok(state) = self.state.lock() else { return Vec::new() };
        let late = (state.sends.late > 0).then(|| format!("late-sends: {}", state.sends));
        let failed = (state.failed > 0).then(|| {
            format!("failures: {} of {}, last: {}", state.failed, state.ended, state.last_failure)
        });
        late.into_iter().chain(failed).collect()
    }
}

#[cfg(test)]
mod tests {
    use tokometer_base::Nanos;
    use tokometer_record::{AttemptId, RequestedLengths};

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
        check(None, &waited, &[&format!("{late} (worst 80.0 ms)")]);
        check(Some(8), &waited, &[]);
        let connected_late = sent(50, 50, Some((90, 99)));
        check(None, &connected_late, &[&format!("{late} (worst 41.0 ms)")]);
        check(None, &sent(97, 97, None), &[]);
        // A retry keeps the intended time of the first attempt: its wait is the server's doing.
        let mut retry = sent(20, 100, None);
        retry.identity.attempt = 1;
        check(None, &retry, &[]);
    }
}
