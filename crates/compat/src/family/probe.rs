//! Side requests during the load.

use tokometer_figures::{Family, Route};
use tokometer_record::Timeline;

use tokometer_figures::define::Unit;
use tokometer_figures::family::ProbeFigures;
use tokometer_figures::sample::Sample;

#[derive(Debug, Clone, Default)]
pub(super) struct ProbeSample {
    /// Of those that were answered, in nanoseconds.
    latencies: Sample,
    failed: u64,
}

impl ProbeSample {
    /// Adds a side request. Only vLLM's block shows them, so its definition of their latency holds.
    pub(super) fn add(&mut self, timeline: &Timeline, route: Route) {
        if timeline.is_success() {
            let seen = super::see(Family::Vllm, timeline, route);
            self.latencies.push(seen.latency.0 as f64);
        } else {
            self.failed += 1;
        }
    }

    /// `None` for a run without side requests.
    pub(super) fn figures(self) -> Option<ProbeFigures> {
        let (completed, failed) = (self.latencies.count(), self.failed);
        (completed + failed > 0).then(|| {
            let stats = self.latencies.into_ordered().stats(&[99.0], Unit::Millis.divisor());
            let p99 = stats.percentile(99.0).unwrap_or(0.0);
            ProbeFigures { completed, failed, median: stats.median, p99, max: stats.max }
        })
    }
}

#[cfg(test)]
mod tests {
    use tokometer_record::EventKind::{Empty, End, Text, Usage};

    use super::*;

    /// It ended with the stream, whose end may come long behind the last token.
    #[test]
    fn a_side_request_ends_with_its_last_event_with_a_choice() {
        let mut probes = ProbeSample::default();
        let events = [(1_020, Text), (1_030, Empty), (1_040, Usage), (1_050, End)];
        let mut timeline = tokometer_figures::testing::answer(0, 1_000, &events);
        timeline.times.end = Some(tokometer_base::Nanos::from_millis(1_250));
        probes.add(&timeline, Route::Completions);
        let figures = probes.figures().unwrap();
        assert_eq!((figures.completed, figures.failed), (1, 0));
        assert!((figures.max - 30.0).abs() < 1e-9, "{figures:?}");
    }
}
