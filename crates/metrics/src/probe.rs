//! Side requests during the load.

use tokometer_record::Timeline;

use crate::define::Unit;
use crate::figures::ProbeFigures;
use crate::measure;
use crate::sample::Sample;

/// Collects side requests.
#[derive(Debug, Default)]
pub(crate) struct ProbeSample {
    /// Of those that were answered, in nanoseconds.
    latencies: Sample,
    failed: u64,
}

impl ProbeSample {
    pub(crate) fn add(&mut self, timeline: &Timeline) {
        match measure::end_of_stream(timeline).filter(|_| timeline.is_success()) {
            Some(latency) => self.latencies.push(latency),
            None => self.failed += 1,
        }
    }

    /// `None` for a run without side requests.
    pub(crate) fn figures(self) -> Option<ProbeFigures> {
        let (completed, failed) = (self.latencies.count(), self.failed);
        (completed + failed > 0).then(|| {
            let stats = self.latencies.into_ordered().stats(&[99.0], Unit::Millis.divisor());
            let p99 = stats.percentile(99.0).unwrap_or(0.0);
            ProbeFigures { completed, failed, median: stats.median, p99, max: stats.max }
        })
    }
}
