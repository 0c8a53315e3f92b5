//! How long a point is measured, and how its result is judged.

use tokometer_base::Nanos;
use tokometer_record::Stop;

use super::{PointOutcome, Stage, WaitTrend};
use crate::slo::{Objective, Slo};
use tokometer_figures::statistics;
use tokometer_figures::summary::Summary;

/// Least number of requests of a point, where no percentile needs more.
const LEAST_REQUESTS: u64 = 100;
/// Near the edge a point measures so many times what its percentiles need: a percentile with the
/// least sample may be off by half of its value.
const EDGE_SAMPLES: f64 = 8.0;
/// A reserve, because arrivals are random.
const RESERVE: f64 = 1.1;

/// Bounds of a point's duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointLength {
    /// Also for a point that would need less.
    pub shortest: Nanos,
    /// A third of it while the load is still being doubled.
    pub longest: Nanos,
}

/// The time that a point of the second stage should count.
const WANTED_MOST: Nanos = Nanos::from_secs(180);

/// The time that a point of the second stage should count at this rate; the most where it is unknown.
pub fn wanted(slo: &Slo, rate: Option<f64>) -> Nanos {
    let requests = usual(slo) * RESERVE * EDGE_SAMPLES;
    rate.map_or(WANTED_MOST, |rate| Nanos::from_secs_f64(requests / rate).min(WANTED_MOST))
}

/// Mean response times that a point of the second stage must count: in a shorter one the queue has not
/// filled, and a load that the server cannot sustain looks well.
const LEAST_RESPONSES: f64 = 4.0;

/// The least time that a point of the second stage must count, at this rate and mean response time in
/// seconds: also the whole sample that its percentiles need. With half of it nearly every point at the
/// limit saw no request beyond the objective, and estimates were 10 to 22 % too high.
pub fn least(slo: &Slo, rate: Option<f64>, response_s: Option<f64>) -> Nanos {
    let sampled = rate.map_or(0.0, |rate| usual(slo) / rate);
    let settled = LEAST_RESPONSES * response_s.unwrap_or(0.0);
    Nanos::from_secs_f64(sampled.max(settled))
}

impl PointLength {
    /// The time that the next point counts, without its preload. `rate` is in requests per second;
    /// `None` where it is not known before.
    pub fn next(&self, slo: &Slo, stage: Stage, rate: Option<f64>) -> Nanos {
        let (longest, samples) = match stage {
            Stage::Climb => (Nanos(self.longest.0 / 3), RESERVE),
            Stage::Narrow => (self.longest, RESERVE * EDGE_SAMPLES / 2.0),
            Stage::Estimate | Stage::Hold => (self.longest, RESERVE * EDGE_SAMPLES),
        };
        let longest = longest.max(self.shortest);
        let wanted = rate.map(|rate| Nanos::from_secs_f64(usual(slo) * samples / rate));
        wanted.unwrap_or(longest).clamp(self.shortest, longest)
    }
}

/// Requests without which a point neither meets nor misses these objectives: those that their percentiles
/// and shares need.
pub fn needed(slo: &Slo) -> u64 {
    let allowed = slo.objectives.iter().filter_map(Objective::allowed);
    let percent = allowed.map(|allowed| 100.0 * (1.0 - allowed));
    percent.filter_map(statistics::needed_samples).max().unwrap_or(0)
}

/// Requests that a point should have.
fn usual(slo: &Slo) -> f64 {
    needed(slo).max(LEAST_REQUESTS) as f64
}

/// The outcome of a finished point. One whose requests waited ever longer is no load that the
/// server serves, even if it meets objectives about the speed of tokens.
pub fn fit(slo: &Slo, summary: &Summary, stop: Option<Stop>, trend: WaitTrend) -> PointOutcome {
    let results = slo.results(summary);
    // A load that serves too little is not too high.
    let limits = slo.objectives.iter().zip(&results).filter(|(one, _)| !one.is_least_throughput());
    let is_missed = limits.map(|(_, result)| result).any(|result| result.is_met != Some(true));
    match () {
        () if stop == Some(Stop::Overloaded) => PointOutcome::Overloaded,
        // A server that completes fewer than half of the requests has failed rather than slowed down.
        () if summary.counts.succeeded * 2 < summary.counts.sent => PointOutcome::Failed,
        () if summary.counts.succeeded == 0 => PointOutcome::Failed,
        () if is_missed => PointOutcome::Missed,
        () if trend == WaitTrend::Growing => PointOutcome::Overloaded,
        () => PointOutcome::Met,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_of_the_second_stage_has_the_sample_of_its_percentiles_and_several_responses() {
        let check = |slo: &str, rate, response, seconds: f64| {
            let found = least(&Slo::parse(slo).unwrap(), rate, response).as_secs_f64();
            assert!((found - seconds).abs() < 0.01, "{found} is not {seconds}");
        };
        check("p99 ttft < 2s", Some(8.0), Some(2.0), 46.0);
        check("p99 ttft < 2s", Some(80.0), Some(2.0), 8.0);
        check("mean ttft < 2s", Some(8.0), None, 12.5);
        check("p99 ttft < 2s", None, Some(3.0), 12.0);
    }

    #[test]
    fn a_point_that_was_ended_or_failed_is_not_judged_by_what_it_saw() {
        let slo = Slo::parse("goodput > 99%, requests > 1").unwrap();
        let outcome = |succeeded: u64, share: Option<f64>, stop: Stop| {
            let mut summary = Summary::default();
            (summary.counts.sent, summary.counts.succeeded) = (100, succeeded);
            summary.figures.insert("goodput_share".to_owned(), share);
            summary.figures.insert("requests_per_s".to_owned(), Some(0.5));
            fit(&slo, &summary, Some(stop), WaitTrend::Steady)
        };
        assert_eq!(
            outcome(100, Some(1.0), Stop::Complete),
            PointOutcome::Met,
            "too little is no limit"
        );
        assert_eq!(outcome(100, Some(0.5), Stop::Complete), PointOutcome::Missed);
        assert_eq!(outcome(100, None, Stop::Complete), PointOutcome::Missed, "nothing is known");
        assert_eq!(outcome(100, Some(1.0), Stop::Overloaded), PointOutcome::Overloaded);
        assert_eq!(outcome(50, Some(1.0), Stop::Complete), PointOutcome::Met);
        assert_eq!(outcome(49, Some(1.0), Stop::Complete), PointOutcome::Failed);
        assert_eq!(outcome(0, None, Stop::Complete), PointOutcome::Failed);
    }

    #[test]
    fn a_point_is_long_enough_for_its_percentiles_and_longer_at_the_edge() {
        let length = PointLength { shortest: Nanos::from_secs(10), longest: Nanos::from_secs(180) };
        let slo = Slo::parse("p99 ttft < 2s").unwrap();
        assert_eq!(needed(&slo), 368);
        assert_eq!(needed(&Slo::parse("p50 ttft < 2s, goodput > 99%").unwrap()), 368);
        assert_eq!(needed(&Slo::parse("mean ttft < 2s").unwrap()), 0);
        let check = |stage: Stage, rate, seconds: f64| {
            let found = length.next(&slo, stage, rate).as_secs_f64();
            assert!((found - seconds).abs() < 0.1, "{found} is not {seconds}");
        };
        check(Stage::Climb, Some(1.0), 60.0);
        check(Stage::Climb, Some(20.0), 20.24);
        check(Stage::Climb, Some(100.0), 10.0);
        check(Stage::Narrow, Some(20.0), 80.96);
        check(Stage::Estimate, Some(20.0), 161.92);
        check(Stage::Estimate, Some(2.0), 180.0);
        check(Stage::Estimate, None, 180.0);
    }
}
