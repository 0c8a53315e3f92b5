//! The share of each objective's allowance that a run uses: 1 is the limit.
//!
//! `p99 ttft < 2s` allows one request in a hundred to take longer than two seconds; a run with three
//! in a hundred uses 3. A percentile of a short run is too low on average, because the tail of a
//! nearly saturated server comes in rare bursts that most short runs miss. The share beyond the limit
//! has the right mean for any length of run, so shares of several runs can be averaged.

use serde::{Deserialize, Serialize};
use tokometer_record::{Outcome, Phase, Timeline};

use crate::slo::{self, Objective, Slo};
use tokometer_figures::attempts::LastAttempts;
use tokometer_figures::define::Formula;
use tokometer_figures::summary::Summary;

/// Number of values, and how many of them are beyond the limit.
#[derive(Debug, Clone, Copy, Default)]
struct LimitCounts {
    all: u64,
    beyond: u64,
}

impl LimitCounts {
    fn add(&mut self, value: f64, weight: u64, objective: &Objective) {
        self.all += weight;
        self.beyond += if objective.is_beyond(value) { weight } else { 0 };
    }
}

/// So many good requests in a row end a burst of bad ones.
const QUIET: u32 = 20;

/// Most use of an objective that limits no load.
const FREE: f64 = 0.5;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// 1 is the limit.
    pub used: f64,
    /// Variance of `used` between runs of this kind. Requests beyond a limit come in bursts, so the
    /// number of bursts decides it. Zero where it is unknown.
    pub variance: f64,
    /// Share of the values that may be beyond the limit, at which the use is 1. `None` where the use
    /// is a ratio of the value and its limit.
    #[serde(default)]
    pub allowed: Option<f64>,
}

/// Counts values beyond the limits of objectives, request by request.
#[derive(Debug)]
pub struct Allowance<'a> {
    slo: &'a Slo,
    /// A tally per objective of each request.
    requests: LastAttempts<Vec<LimitCounts>>,
}

impl<'a> Allowance<'a> {
    pub fn new(slo: &'a Slo) -> Self {
        Self { slo, requests: LastAttempts::default() }
    }

    /// Adds one attempt of one request, in any order.
    pub fn push(&mut self, timeline: &Timeline) {
        let identity = &timeline.identity;
        if identity.phase != Phase::Measure {
            return;
        }
        let tallies = || self.slo.objectives.iter().map(|one| tally(one, timeline)).collect();
        self.requests.push(identity.index, identity.attempt, tallies);
    }

    pub fn requests(&self) -> u64 {
        self.requests.requests()
    }

    /// The share of each objective's allowance that the run uses. `None` where the run has no value.
    pub fn uses(&self, summary: &Summary) -> Vec<Option<Use>> {
        let results = self.slo.results(summary);
        let named = self.slo.objectives.iter().zip(&results).enumerate();
        named.map(|(at, (objective, result))| self.used(at, objective, result)).collect()
    }

    fn used(&self, at: usize, objective: &Objective, result: &slo::ObjectiveResult) -> Option<Use> {
        let is_known = result.value.is_some() || result.is_met == Some(false);
        let plain = |used: f64| Use { used, variance: 0.0, allowed: None };
        let is_percentile = objective.figure.statistic.percentile().is_some();
        let metric = objective.figure.quantity.metric();
        let is_of_sessions = matches!(metric.formula, Formula::Session(_));
        match objective.allowed() {
            // Sessions are not counted one by one: the run may have cut one off.
            Some(allowed) if is_percentile && is_known && !is_of_sessions => {
                self.share(at, allowed)
            }
            Some(allowed) if !is_percentile => result
                .value
                .map(|good| Use { allowed: Some(allowed), ..plain((1.0 - good) / allowed) }),
            // No load is too high for it, also where it is not reached.
            _ if objective.is_least_throughput() => {
                result.use_of_limit.map(|used| plain(used.min(FREE)))
            }
            _ => result
                .use_of_limit
                .or((result.is_met == Some(false)).then_some(f64::INFINITY))
                .map(plain),
        }
    }

    /// The share beyond the limit, relative to the `allowed` share.
    fn share(&self, at: usize, allowed: f64) -> Option<Use> {
        let (mut all, mut beyond, mut squares) = (0, 0, 0.0);
        let (mut burst, mut quiet) = (0_u64, 0);
        for one in self.requests.values().filter_map(|tallies| tallies.get(at)) {
            all += one.all;
            beyond += one.beyond;
            burst += one.beyond;
            quiet = if one.beyond > 0 { 0 } else { quiet + 1 };
            if quiet == QUIET {
                squares += (burst as f64).powi(2);
                burst = 0;
            }
        }
        squares += (burst as f64).powi(2);
        let whole = all as f64 * allowed;
        (all > 0).then(|| Use {
            used: beyond as f64 / whole,
            variance: squares / whole.powi(2),
            allowed: Some(allowed),
        })
    }
}

fn tally(objective: &Objective, timeline: &Timeline) -> LimitCounts {
    let mut tally = LimitCounts::default();
    let metric = objective.figure.quantity.metric();
    let unit = metric.unit.divisor();
    match (metric.formula, &timeline.outcome) {
        (_, Outcome::Success) => metric.each(timeline, &mut |value, weight| {
            tally.add(value / unit, u64::from(weight), objective);
        }),
        // A failed request is slower than any limit.
        (Formula::Latency(_), Outcome::Failed(_)) => tally.add(f64::INFINITY, 1, objective),
        _ => {}
    }
    tally
}

#[cfg(test)]
mod tests {
    use tokometer_base::Nanos;
    use tokometer_record::{AttemptId, Event, EventKind, Failure, FailureKind, RequestedLengths};

    use super::*;

    fn request(index: u64, ttft_ms: u64) -> Timeline {
        let sent = Nanos::from_secs(index);
        let mut timeline =
            Timeline::new(AttemptId::new(index, Phase::Measure), RequestedLengths::default(), sent);
        timeline.times.first_byte_sent = Some(sent);
        timeline.push(Event::new(sent + Nanos::from_millis(ttft_ms), 0, EventKind::Text));
        timeline.times.end = Some(sent + Nanos::from_millis(ttft_ms));
        timeline.outcome = Outcome::Success;
        timeline
    }

    fn failed(index: u64) -> Timeline {
        let mut failed = request(index, 20);
        failed.outcome = Outcome::Failed(Failure {
            kind: FailureKind::Connect,
            status: None,
            message: "refused".to_owned(),
        });
        failed
    }

    /// The use and its variance of P90 TTFT < 100 ms, where the requests of these numbers are slow.
    fn of_slow(slow: &[u64], failures: &[u64]) -> (f64, f64) {
        let slo = Slo::parse("p90 ttft < 100ms").unwrap();
        let mut allowance = Allowance::new(&slo);
        for index in 0..100 {
            if failures.contains(&index) {
                allowance.push(&failed(index));
            } else {
                allowance.push(&request(index, if slow.contains(&index) { 150 } else { 20 }));
            }
        }
        let found = allowance.uses(&summary(1.0))[0].unwrap();
        (found.used, found.variance * 100.0)
    }

    /// Ten of a hundred are allowed; a burst of two counts as two squared.
    #[test]
    fn a_failed_request_is_beyond_every_limit_and_a_burst_ends_after_twenty_good_ones() {
        let check = |found: (f64, f64), used: f64, variance: f64| {
            assert!((found.0 - used).abs() < 1e-9, "{found:?}");
            assert!((found.1 - variance).abs() < 1e-9, "{found:?}");
        };
        check(of_slow(&[], &[3, 70]), 0.2, 2.0);
        check(of_slow(&[3, 70], &[]), 0.2, 2.0);
        check(of_slow(&[3, 10], &[]), 0.2, 4.0);
        check(of_slow(&[3, 24], &[]), 0.2, 2.0);
        check(of_slow(&[3, 23], &[]), 0.2, 4.0);
        // On the limit is not beyond it.
        let slo = Slo::parse("p90 ttft < 100ms").unwrap();
        let mut allowance = Allowance::new(&slo);
        allowance.push(&request(0, 100));
        assert!(allowance.uses(&summary(1.0))[0].unwrap().used <= 0.0);
    }

    fn summary(good: f64) -> Summary {
        let percentile = |percent: f64| tokometer_figures::PercentileValue {
            percent,
            value: Some(1.0),
            above: None,
            interval: tokometer_figures::ConfidenceInterval::default(),
            is_supported: true,
        };
        let ttft = tokometer_figures::Distribution {
            percentiles: vec![percentile(90.0)],
            mean: Some(50.0),
            ..tokometer_figures::Distribution::default()
        };
        Summary {
            distributions: [("ttft_ms".to_owned(), ttft)].into(),
            figures: [("goodput_share".to_owned(), Some(good))].into(),
            ..Summary::default()
        }
    }

    #[test]
    fn a_percentile_uses_the_share_beyond_its_limit_and_a_last_attempt_counts() {
        let slo = Slo::parse("p90 ttft < 100ms, mean ttft < 200ms, goodput > 99%, p90 tpot < 1s");
        let slo = slo.unwrap();
        let mut allowance = Allowance::new(&slo);
        for index in 0..10 {
            allowance.push(&request(index, if index < 2 { 150 } else { 20 }));
        }
        let mut again = request(10, 20);
        again.identity.attempt = 1;
        allowance.push(&again);
        allowance.push(&failed(10));
        assert_eq!(allowance.requests(), 11);
        let uses = allowance.uses(&summary(0.97));
        let near = |at: usize, expected: f64| {
            assert!((uses[at].unwrap().used - expected).abs() < 1e-9, "{at}: {uses:?}");
        };
        near(0, 2.0 / 11.0 / 0.1);
        near(1, 0.25);
        near(2, 3.0);
        assert_eq!(uses[3], None, "no request has a TPOT");
        // The two beyond the limit form one burst.
        assert!((uses[0].unwrap().variance - 4.0 / 1.21).abs() < 1e-9, "{uses:?}");
    }
}
