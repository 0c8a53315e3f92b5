//! What a display shows besides counters: the server's gauges, and doubts as they come up.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokometer_base::Nanos;
use tokometer_metrics::server;
use tokometer_record::server::Scrape;
use tokometer_record::{Outcome, Phase, Timeline};

/// A request that left this much after its time is late.
const LATE: Nanos = Nanos::from_millis(5);

/// Filled by the recorder, read by a display.
#[derive(Debug, Default)]
pub(crate) struct Sidelights {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The latest of each endpoint.
    gauges: BTreeMap<u16, Vec<(String, f64)>>,
    late: u64,
    sent: u64,
    failed: u64,
    last_failure: String,
}

impl Sidelights {
    /// Takes a scrape.
    pub(crate) fn scraped(&self, scrape: &Scrape) {
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
            let _before = state.gauges.insert(scrape.endpoint, told.collect());
        }
    }

    /// Takes an ended request.
    pub(crate) fn ended(&self, timeline: &Timeline) {
        if timeline.identity.phase != Phase::Measure {
            return;
        }
        let times = &timeline.times;
        let lateness = times.first_byte_sent.map(|sent| sent - times.admitted);
        let Ok(mut state) = self.state.lock() else { return };
        state.sent += 1;
        state.late +=
            u64::from(lateness.is_some_and(|late| late > LATE && times.connect_begin.is_none()));
        if let Outcome::Failed(failure) = &timeline.outcome {
            state.failed += 1;
            state.last_failure = failure.message.chars().take(100).collect();
        }
    }

    /// The server's gauges, by name.
    pub(crate) fn gauges(&self) -> Vec<(String, f64)> {
        let all = |state: std::sync::MutexGuard<'_, State>| {
            state.gauges.values().flatten().cloned().collect()
        };
        self.state.lock().map(all).unwrap_or_default()
    }

    /// Doubts so far, one line each.
    pub(crate) fn notes(&self) -> Vec<String> {
        let Ok(state) = self.state.lock() else { return Vec::new() };
        let late = (state.late > 0).then(|| {
            format!(
                "late-sends: {} of {} requests left more than 5 ms late",
                state.late, state.sent
            )
        });
        let failed = (state.failed > 0).then(|| {
            format!("failures: {} of {}, last: {}", state.failed, state.sent, state.last_failure)
        });
        late.into_iter().chain(failed).collect()
    }
}
