//! Intended times, one after the other, without storing them.
//!
//! Each gap is drawn for its own index, so a second pass gives the same times: vLLM's stretching,
//! which needs the sum of all gaps, costs one pass ahead and no memory. Offsets count from the start
//! of the measured phase and never decrease.

use tokometer_base::{Nanos, Seed, Stream};

use crate::arrivals::{Arrivals, Error, First, Pace, RateCurve};
use crate::gamma;
use crate::limits::SendLimit;
use crate::share::Share;

/// The intended times of a run's measured requests, in order.
#[derive(Debug, Clone)]
pub struct Offsets {
    pace: Option<Pace>,
    extent: SendLimit,
    stream: Stream,
    stretch: f64,
    share: Share,
    index: u64,
    elapsed_secs: f64,
}

impl Offsets {
    /// The times of this load under this seed.
    pub fn new(arrivals: &Arrivals, extent: SendLimit, seed: Seed) -> Result<Self, Error> {
        arrivals.check()?;
        let pace = match arrivals {
            Arrivals::Paced(pace) => Some(*pace),
            Arrivals::AtOnce | Arrivals::Traced => None,
        };
        let is_ramp = pace.is_some_and(|pace| !matches!(pace.curve, RateCurve::Flat { .. }));
        if is_ramp && extent == SendLimit::default() {
            return Err(Error::EndlessRamp);
        }
        let stream = seed.stream("arrivals");
        let share = Share::WHOLE;
        let mut offsets =
            Self { pace, extent, stream, stretch: 1.0, share, index: 0, elapsed_secs: 0.0 };
        if let Some(stretch) = offsets.stretch() {
            offsets.stretch = stretch;
        }
        Ok(offsets)
    }

    /// The times of one part of the run. The extent stays that of the whole run.
    #[must_use]
    pub fn of_share(self, share: Share) -> Self {
        Self { share, ..self }
    }

    /// The factor that makes the gaps add up to what the rate gives: the last of a known number of requests
    /// starts at number ÷ rate, and in a known time as many start as belong to it.
    fn stretch(&self) -> Option<f64> {
        let pace = self.pace.filter(|pace| pace.first == First::Waits)?;
        // Equal gaps add up already.
        let (RateCurve::Flat { rate }, Some(_)) = (pace.curve, pace.burstiness) else {
            return None;
        };
        let (gaps, seconds) = match (self.extent.duration, self.extent.count) {
            // The first request that the time does not hold lies at its end.
            (Some(duration), _) => {
                let seconds = duration.as_secs_f64();
                (whole(rate * seconds).max(1) + 1, seconds)
            }
            (None, Some(count)) => (count, count as f64 / rate),
            (None, None) => return None,
        };
        let sum: f64 = (0..gaps).map(|index| self.gap_secs(&pace, index)).sum();
        (sum > 0.0).then_some(seconds / sum)
    }

    /// How far into a ramp the next request lies, between 0 and 1.
    fn fraction(&self, index: u64) -> f64 {
        match (self.extent.count, self.extent.duration) {
            (Some(count), _) => index as f64 / count.saturating_sub(1).max(1) as f64,
            (None, Some(duration)) => self.elapsed_secs / duration.as_secs_f64(),
            (None, None) => 0.0,
        }
        .min(1.0)
    }

    fn gap_secs(&self, pace: &Pace, index: u64) -> f64 {
        let rate = pace.curve.rate_at(self.fraction(index));
        match pace.burstiness {
            None => 1.0 / rate,
            Some(shape) => gamma::draw(&mut self.stream.at(index), shape) / (rate * shape),
        }
    }

    /// The intended time of the next request. `None` where the load has no times of its own: at an
    /// infinite rate, and where the items bring theirs.
    pub fn advance(&mut self) -> Option<Nanos> {
        loop {
            let index = self.index;
            let offset = self.advance_by_one()?;
            if self.share.has(index) {
                return Some(offset);
            }
        }
    }

    fn advance_by_one(&mut self) -> Option<Nanos> {
        let pace = self.pace?;
        let is_at_start = self.index == 0 && pace.first == First::Immediate;
        // SGLang draws the gap after a request, so that gap belongs to the request before.
        let drawn = match pace.first {
            First::Waits => self.index,
            First::Immediate => self.index.saturating_sub(1),
        };
        if !is_at_start {
            self.elapsed_secs += self.gap_secs(&pace, drawn);
        }
        self.index += 1;
        Some(Nanos::from_secs_f64(self.elapsed_secs * self.stretch))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of requests")]
fn whole(requests: f64) -> u64 {
    requests.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(pace: Pace, count: u64) -> Vec<Nanos> {
        let extent = SendLimit { count: Some(count), duration: None };
        let mut offsets = Offsets::new(&Arrivals::Paced(pace), extent, Seed(3)).unwrap();
        (0..count).map_while(|_| offsets.advance()).collect()
    }

    fn flat(rate: f64, burstiness: Option<f64>, first: First) -> Pace {
        Pace { curve: RateCurve::Flat { rate }, burstiness, first }
    }

    #[test]
    fn equal_gaps_start_after_one_gap_or_at_once() {
        let millis = |pace| -> Vec<u64> {
            offsets(pace, 3).iter().map(|offset| offset.0 / 1_000_000).collect()
        };
        assert_eq!(millis(flat(10.0, None, First::Waits)), [100, 200, 300]);
        assert_eq!(millis(flat(10.0, None, First::Immediate)), [0, 100, 200]);
    }

    #[test]
    fn stretching_puts_the_last_request_at_number_over_rate() {
        for shape in [0.3, 1.0, 4.0] {
            let last = *offsets(flat(50.0, Some(shape), First::Waits), 500).last().unwrap();
            assert!(last.signed_since(Nanos::from_secs(10)).abs() <= 1, "{shape}: {last}");
        }
    }

    /// Runs with `--duration` sent 1.7 to 2.8 % more than their rate.
    #[test]
    fn a_run_that_ends_by_time_sends_as_many_as_its_rate_gives() {
        for (rate, shape, seconds) in [(43.0, 1.0, 9), (4.2, 0.3, 60), (0.1, 1.0, 3)] {
            let pace = flat(rate, Some(shape), First::Waits);
            for seed in 0..20 {
                let duration = Nanos::from_secs(seconds);
                let extent = SendLimit { count: None, duration: Some(duration) };
                let arrivals = Arrivals::Paced(pace);
                let mut offsets = Offsets::new(&arrivals, extent, Seed(seed)).unwrap();
                let sent = std::iter::from_fn(|| offsets.advance())
                    .take_while(|offset| *offset + Nanos(10) < duration)
                    .count();
                let expected = (rate * seconds as f64).round().max(1.0);
                assert!((sent as f64 - expected).abs() < 0.5, "{sent} for {expected}");
            }
        }
    }

    /// Without stretching, the last of n exponential gaps lies at n ÷ rate with a deviation of
    /// sqrt(n) ÷ rate.
    #[test]
    fn a_poisson_process_without_stretching_keeps_its_rate_within_five_deviations() {
        let count = 10_000_u64;
        let last = *offsets(flat(100.0, Some(1.0), First::Immediate), count).last().unwrap();
        let expected = (count - 1) as f64 / 100.0;
        assert!((last.as_secs_f64() - expected).abs() < 5.0 * (count as f64).sqrt() / 100.0);
        assert_ne!(last, Nanos::from_secs(100));
    }

    #[test]
    fn a_linear_ramp_of_equal_gaps_is_the_sum_of_its_reciprocals() {
        let pace = Pace {
            curve: RateCurve::Linear { from: 1.0, to: 5.0 },
            burstiness: None,
            first: First::Waits,
        };
        let expected: f64 = [1.0, 2.0, 3.0, 4.0, 5.0].iter().map(|rate| 1.0 / rate).sum();
        let last = offsets(pace, 5)[4];
        assert!((last.as_secs_f64() - expected).abs() < 1e-8, "{last}");
    }

    #[test]
    fn a_ramp_over_time_follows_the_clock_of_the_plan() {
        let pace = Pace {
            curve: RateCurve::Linear { from: 10.0, to: 30.0 },
            burstiness: None,
            first: First::Immediate,
        };
        let extent = SendLimit { count: None, duration: Some(Nanos::from_secs(10)) };
        let mut offsets = Offsets::new(&Arrivals::Paced(pace), extent, Seed(3)).unwrap();
        let sent = std::iter::from_fn(|| offsets.advance())
            .take_while(|offset| *offset < Nanos::from_secs(10))
            .count();
        // The integral of the rate over ten seconds is 200; gaps lag by less than one percent.
        assert!((198..=202).contains(&sent), "{sent}");
        assert_eq!(
            Offsets::new(&Arrivals::Paced(pace), SendLimit::default(), Seed(3)).unwrap_err(),
            Error::EndlessRamp
        );
    }

    #[test]
    fn an_infinite_rate_and_a_trace_have_no_times() {
        for arrivals in [Arrivals::AtOnce, Arrivals::Traced] {
            let mut offsets = Offsets::new(&arrivals, SendLimit::default(), Seed(3)).unwrap();
            assert_eq!(offsets.advance(), None);
        }
    }

    #[test]
    fn times_depend_on_the_seed_and_never_run_backwards() {
        let pace = flat(20.0, Some(0.5), First::Waits);
        let times = offsets(pace, 200);
        assert!(times.is_sorted());
        assert_eq!(times, offsets(pace, 200));
        let extent = SendLimit { count: Some(200), duration: None };
        let mut other = Offsets::new(&Arrivals::Paced(pace), extent, Seed(4)).unwrap();
        assert_ne!(other.advance(), Some(times[0]));
    }
}
