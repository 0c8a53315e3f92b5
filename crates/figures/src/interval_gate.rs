//! Which distributions of a run may have intervals.
//!
//! Distributions become known one after another, the times to the first token first. They show how
//! often the server's queue came and went, and with it whether the run is long enough for what
//! follows: a run that saw no long queue looks calm in every other figure.

use crate::define::{Definition, Formula};
use crate::distribution::Distribution;
use crate::figure::Quantity;
use crate::interval::{ConfidenceInterval, NoInterval, rule};

/// The decision for the distributions of one run, in the order of the metrics.
pub(crate) struct IntervalGate {
    /// Key of the latency that ends with the wait in the queue.
    first: &'static str,
    /// Why no figure of the run may have an interval.
    of_run: Option<NoInterval>,
    /// Of latencies that contain the wait.
    of_waiting: Option<NoInterval>,
    /// Of time per token and gaps.
    of_speed: Option<NoInterval>,
    /// Mean times in flight that the run lasted; `None` in a closed loop, whose queue cannot grow.
    open_stays: Option<f64>,
    waits: Option<Waits>,
}

fn is_latency(metric: &Definition) -> bool {
    matches!(metric.formula, Formula::Latency(_))
}

impl IntervalGate {
    pub(crate) fn new(
        first: &'static str,
        of_run: Option<NoInterval>,
        open_stays: Option<f64>,
    ) -> Self {
        Self { first, of_run, of_waiting: of_run, of_speed: None, open_stays, waits: None }
    }

    /// Why this distribution may have no interval, before it is computed.
    pub(crate) fn refusal(&self, metric: &Definition) -> Option<NoInterval> {
        match metric.key {
            // Gaps follow the engine's steps, of which one answer has many.
            _ if matches!(metric.formula, Formula::Stream(_)) => self.of_speed,
            key if key == Quantity::Tpot.key() => self.of_run.or(self.of_speed),
            key if key == self.first => self.of_run,
            _ if is_latency(metric) => self.of_waiting,
            _ => self.of_run,
        }
    }

    /// Withdraws the intervals of a distribution that too few waits decide, and takes note of the
    /// waits for what follows.
    pub(crate) fn look(&mut self, metric: &Definition, found: &mut Distribution) {
        if metric.key == self.first {
            self.waits = Waits::of(found).filter(|_| self.of_run.is_none());
            // Other latencies contain the wait for the first token, and vary no less with the queue.
            if self.waits.is_some_and(|waits| waits.are_few_queues()) {
                self.of_waiting = Some(NoInterval::TooShort);
            }
            let is_slow = self.waits.is_some_and(|waits| waits.are_too_few_for_speed());
            self.of_speed = is_slow.then_some(NoInterval::TooShort);
            if self.waits.is_some_and(|waits| waits.are_too_few()) {
                withdraw_mean(found);
            }
            let is_too_short = |(waits, stays): (Waits, f64)| waits.are_too_short(stays);
            if self.waits.zip(self.open_stays).is_some_and(is_too_short) {
                withdraw(found);
            }
        } else if is_latency(metric) && metric.key != Quantity::Tpot.key() {
            let is_decided =
                |waits: Waits| found.mean.is_some_and(|mean| waits.are_too_few_for(mean));
            if self.waits.is_some_and(is_decided) {
                withdraw(found);
            }
        }
    }
}

fn withdraw(found: &mut Distribution) {
    withdraw_mean(found);
    for one in &mut found.percentiles {
        one.interval = ConfidenceInterval::Unknown(NoInterval::TooShort);
    }
}

fn withdraw_mean(found: &mut Distribution) {
    found.mean_interval = ConfidenceInterval::Unknown(NoInterval::TooShort);
    found.mean_margin = None;
}

/// Times to the first token, as what they say about the intervals of other figures: how often the
/// server's queue came and went.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Waits {
    /// Independent waits that they are worth; `None` where they look independent.
    effective: Option<f64>,
    mean: f64,
    median: f64,
    spread: f64,
}

impl Waits {
    fn of(first: &Distribution) -> Option<Self> {
        let effective = first.effective?;
        Some(Self {
            effective: (effective < first.count as f64).then_some(effective),
            mean: first.mean?,
            median: first.percentile(50.0)?.value?,
            spread: first.std.unwrap_or(0.0),
        })
    }

    /// Whether they vary so much that long queues which a run has not seen would decide its figures.
    fn are_varying(&self) -> bool {
        self.spread > rule::VARYING * self.median
    }

    fn are_fewer_than(&self, needed: f64) -> bool {
        self.effective.is_some_and(|effective| effective < needed)
    }

    /// Whether a run in an open loop that lasted so many mean times in flight is too short for any figure
    /// of them.
    fn are_too_short(&self, stays: f64) -> bool {
        self.effective.is_some() && self.are_varying() && stays < rule::LEAST_STAYS_OF_VARYING
    }

    /// Whether the queue came and went too rarely for their own mean.
    fn are_too_few(&self) -> bool {
        self.mean > rule::WAITS_DECIDE * self.median && self.are_fewer_than(rule::LEAST_WAITS)
    }

    /// Whether the latencies that contain them vary with a queue that came and went too rarely.
    fn are_few_queues(&self) -> bool {
        self.are_varying() && self.are_fewer_than(rule::LEAST_EFFECTIVE)
    }

    /// The same for a latency with this mean, which contains them.
    fn are_too_few_for(&self, mean: f64) -> bool {
        self.mean - self.median > rule::WAITS_SHARE * mean && self.are_fewer_than(rule::LEAST_WAITS)
    }

    /// The same for time per token and gaps, which follow the number of requests in flight.
    fn are_too_few_for_speed(&self) -> bool {
        self.are_varying() && self.are_fewer_than(rule::LEAST_WAITS_FOR_SPEED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::define;
    use crate::summary::PercentileValue;

    /// A distribution of 1,000 values with an interval at every figure.
    fn distribution(mean: f64, median: f64, effective: f64) -> Distribution {
        let known = ConfidenceInterval::Known { low: mean - 1.0, high: mean + 1.0 };
        Distribution {
            count: 1_000,
            mean: Some(mean),
            effective: Some(effective),
            std: Some((mean - median).abs()),
            mean_interval: known,
            mean_margin: Some(1.0),
            percentiles: vec![PercentileValue {
                percent: 50.0,
                value: Some(median),
                above: None,
                interval: known,
                is_supported: true,
            }],
            ..Distribution::default()
        }
    }

    /// Which of TTFT's mean, its median, TPOT, gaps and E2E keep their intervals, for these first tokens
    /// and answers of 3,000 ms.
    fn kept(mean: f64, median: f64, effective: f64) -> [bool; 5] {
        kept_after(distribution(mean, median, effective), None)
    }

    fn kept_after(mut first: Distribution, open_stays: Option<f64>) -> [bool; 5] {
        let metric = |key: &str| define::metric(key).unwrap();
        let mut gate = IntervalGate::new("ttft_ms", None, open_stays);
        gate.look(metric("ttft_ms"), &mut first);
        let mut whole = distribution(3_000.0, 3_000.0, 1_000.0);
        let of_whole = gate.refusal(metric("e2e_ms"));
        gate.look(metric("e2e_ms"), &mut whole);
        [
            first.mean_interval.ends().is_some(),
            first.percentiles[0].interval.ends().is_some(),
            gate.refusal(metric("tpot_ms")).is_none(),
            gate.refusal(metric("gap_ms")).is_none(),
            of_whole.is_none() && whole.mean_interval.ends().is_some(),
        ]
    }

    #[test]
    fn a_queue_that_came_and_went_a_few_times_leaves_no_interval_of_what_it_decides() {
        // Independent waits, and waits that hardly differ: everything stands.
        assert_eq!(kept(100.0, 50.0, 1_000.0), [true; 5]);
        assert_eq!(kept(105.0, 100.0, 50.0), [true; 5]);
        // Waits of a quarter more than the median, worth 50: the mean of TTFT does not stand. They are
        // 3 % of the answers, whose interval does not stand either.
        assert_eq!(kept(190.0, 100.0, 50.0), [false, true, true, true, false]);
        // The same share of TTFT, but nothing of an answer.
        assert_eq!(kept(26.0, 20.0, 50.0), [false, true, true, true, true]);
        // One or two excursions decide the speed of decoding too.
        assert_eq!(kept(190.0, 100.0, 9.0), [false, true, false, false, false]);
    }

    #[test]
    fn waits_that_vary_much_need_a_longer_run_in_an_open_loop() {
        let check = |std: f64, effective: f64, stays: Option<f64>, is_kept: bool| {
            let mut first = distribution(105.0, 100.0, effective);
            first.std = Some(std);
            let [mean, median, others @ ..] = kept_after(first, stays);
            assert_eq!([mean, median], [is_kept; 2], "{std} {effective} {stays:?}");
            assert_eq!(others, [true; 3]);
        };
        check(41.0, 200.0, Some(24.0), false);
        check(41.0, 200.0, Some(26.0), true);
        check(39.0, 200.0, Some(24.0), true);
        // Independent waits, and a closed loop.
        check(41.0, 1_000.0, Some(24.0), true);
        check(41.0, 200.0, None, true);
    }

    #[test]
    fn a_run_without_intervals_has_none_anywhere() {
        let gate = IntervalGate::new("ttft_ms", Some(NoInterval::Burst), None);
        for key in ["ttft_ms", "tpot_ms", "e2e_ms", "prompt_tokens"] {
            assert_eq!(
                gate.refusal(define::metric(key).unwrap()),
                Some(NoInterval::Burst),
                "{key}"
            );
        }
    }
}
