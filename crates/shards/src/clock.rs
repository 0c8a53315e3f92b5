//! How far one machine's clock is from another's, with a bound that holds.
//!
//! A message to the leader and back encloses the offset: it arrived after it was sent, both ways. The
//! middle of what is possible is the estimate, half of its width the error. Short round trips are kept.
//! Over a run the offset is a straight line through an exact measurement near each end. It covers the whole
//! time that was measured; a measurement that contradicts the line widens the bound.

use tokometer_base::Nanos;
use tokometer_record::ClockFit;

/// One message to the leader and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    /// When it was sent, on this machine's clock.
    pub(crate) sent: Nanos,
    /// When the leader received it, on the leader's clock.
    pub(crate) received: Nanos,
    /// When the leader answered, on the leader's clock.
    pub(crate) replied: Nanos,
    /// When the answer was here, on this machine's clock.
    pub(crate) returned: Nanos,
}

/// Clocks of machines differ in speed by less than this, in parts per million. Within one round trip
/// the offset may move by as much.
const DRIFT_PPM_MAX: u64 = 500;

/// An offset that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffsetSample {
    /// On this machine's clock.
    pub(crate) at: Nanos,
    /// Leader's clock minus this one, in nanoseconds.
    pub(crate) offset: i64,
    /// The true offset is no further away.
    pub(crate) bound: Nanos,
}

impl RoundTrip {
    /// What it says of the offset. `None` where it contradicts itself, as after a clock was set.
    pub(crate) fn sample(&self) -> Option<OffsetSample> {
        let most = self.received.signed_since(self.sent);
        let least = self.replied.signed_since(self.returned);
        let width = u64::try_from(i128::from(most) - i128::from(least)).ok()?;
        let span = self.returned.checked_sub(self.sent)?;
        let middle = i128::midpoint(i128::from(most), i128::from(least));
        let moved = span.0 / 1_000_000 * DRIFT_PPM_MAX / 2 + 1;
        Some(OffsetSample {
            at: self.sent + Nanos(span.0 / 2),
            offset: i64::try_from(middle).ok()?,
            bound: Nanos(width.div_ceil(2) + moved),
        })
    }
}

/// Windows that are kept at most; the best sample of each stays.
const WINDOWS_MAX: usize = 256;

/// The best offsets of a run, window by window.
#[derive(Debug, Clone)]
pub(crate) struct ClockSamples {
    best: Vec<OffsetSample>,
    window: Nanos,
    added: u32,
}

impl Default for ClockSamples {
    fn default() -> Self {
        Self { best: Vec::new(), window: Nanos::from_secs(1), added: 0 }
    }
}

impl ClockSamples {
    pub(crate) fn add(&mut self, trip: &RoundTrip) {
        let Some(sample) = trip.sample() else { return };
        self.added = self.added.saturating_add(1);
        keep_best(&mut self.best, sample, self.window);
        while self.best.len() > WINDOWS_MAX {
            self.window = Nanos(self.window.0 * 2);
            let all = std::mem::take(&mut self.best);
            for sample in all {
                keep_best(&mut self.best, sample, self.window);
            }
        }
    }

    /// The offset over the time that was measured. `None` before the first measurement.
    pub(crate) fn fit(&self) -> Option<ClockFit> {
        let whole = (self.best.first()?.at, self.best.last()?.at);
        let end = self.best.len().div_ceil(4);
        let (firsts, lasts) = (&self.best[..end], &self.best[self.best.len() - end..]);
        let (line, bound) = best_line(firsts, lasts, whole)?;
        let mut fit = ClockFit {
            from: whole.0,
            from_offset: line.offset_at(whole.0)?,
            to: whole.1,
            to_offset: line.offset_at(whole.1)?,
            bound,
            samples: self.added,
        };
        let contradiction = |sample: &OffsetSample| {
            let away = sample.offset.abs_diff(fit.offset_at(sample.at));
            away.saturating_sub(sample.bound.0).saturating_sub(fit.bound.0)
        };
        let worst = self.best.iter().map(contradiction).max().unwrap_or(0);
        fit.bound += Nanos(worst);
        Some(fit)
    }
}

/// Offsets are whole nanoseconds, at both ends of a line and between them.
const ROUNDING: Nanos = Nanos(2);

/// A straight line through two samples, the earlier one first.
#[derive(Debug, Clone, Copy)]
struct Line(OffsetSample, OffsetSample);

impl Line {
    fn span(&self) -> u64 {
        self.1.at.0.saturating_sub(self.0.at.0)
    }

    fn offset_at(&self, at: Nanos) -> Option<i64> {
        let Self(first, last) = self;
        let change = i128::from(last.offset) - i128::from(first.offset);
        let into = i128::from(at.signed_since(first.at));
        let moved = (change * into).checked_div(i128::from(self.span())).unwrap_or(0);
        i64::try_from(i128::from(first.offset) + moved).ok()
    }

    /// The error of the line at its worst between these times, if the clocks differ by a constant
    /// speed. Between the samples it is at most theirs; beyond them it grows with the distance.
    fn bound_over(&self, (begin, end): (Nanos, Nanos)) -> Nanos {
        let Self(first, last) = self;
        let both = first.bound + last.bound;
        let beyond = |distance: u64| grown(both, distance, self.span());
        let at_begin = first.bound + beyond(first.at.0.saturating_sub(begin.0));
        let at_end = last.bound + beyond(end.0.saturating_sub(last.at.0));
        at_begin.max(at_end) + ROUNDING
    }
}

/// The line from one of the first samples to one of the last with the smallest error over a time, and that
/// error. Of equal lines the first one.
fn best_line(
    firsts: &[OffsetSample],
    lasts: &[OffsetSample],
    whole: (Nanos, Nanos),
) -> Option<(Line, Nanos)> {
    let mut best: Option<(Line, Nanos)> = None;
    for first in firsts {
        for last in lasts {
            // No line is better than the worse of its samples, so most pairs need no division.
            let least = first.bound.max(last.bound) + ROUNDING;
            if best.is_some_and(|(_, bound)| least >= bound) {
                continue;
            }
            let line = Line(*first, *last);
            let bound = line.bound_over(whole);
            if best.is_none_or(|(_, known)| bound < known) {
                best = Some((line, bound));
            }
        }
    }
    best
}

/// An error over `span` as it is after `distance` more; none where there is no distance.
fn grown(error: Nanos, distance: u64, span: u64) -> Nanos {
    let product = u128::from(error.0) * u128::from(distance);
    let grown = if product == 0 { 0 } else { product.div_ceil(u128::from(span.max(1))) };
    Nanos(u64::try_from(grown).unwrap_or(u64::MAX))
}

/// The line of a fit as far as `until`, with the bound that holds until then: a shard that has lost the
/// leader goes on without measuring its clock.
pub(crate) fn reaching(fit: ClockFit, until: Nanos) -> ClockFit {
    let (span, beyond) = (fit.to.0.saturating_sub(fit.from.0), until.0.saturating_sub(fit.to.0));
    if beyond == 0 || fit.samples == 0 {
        return fit;
    }
    let unknown_drift = Nanos(beyond / 1_000_000 * DRIFT_PPM_MAX + DRIFT_PPM_MAX);
    let straight = Line(
        OffsetSample { at: fit.from, offset: fit.from_offset, bound: fit.bound },
        OffsetSample { at: fit.to, offset: fit.to_offset, bound: fit.bound },
    );
    let known_drift = grown(fit.bound + fit.bound, beyond, span);
    match straight.offset_at(until).filter(|_| span > 0 && known_drift < unknown_drift) {
        Some(to_offset) => {
            ClockFit { to: until, to_offset, bound: fit.bound + known_drift + ROUNDING, ..fit }
        }
        None => ClockFit { bound: fit.bound + unknown_drift, ..fit },
    }
}

/// Adds a sample to the list, instead of a worse one of its window.
fn keep_best(best: &mut Vec<OffsetSample>, sample: OffsetSample, window: Nanos) {
    let number = |at: Nanos| at.0 / window.0.max(1);
    match best.last_mut() {
        Some(last) if number(last.at) == number(sample.at) => {
            if sample.bound < last.bound {
                *last = sample;
            }
        }
        _ => best.push(sample),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The leader's clock at a time of this one: another zero, another speed.
    #[derive(Debug, Clone, Copy)]
    struct TrueClock {
        offset: i64,
        drift_ppb: i64,
    }

    impl TrueClock {
        fn offset_at(self, own: Nanos) -> i64 {
            let moved = i128::from(own.0) * i128::from(self.drift_ppb) / 1_000_000_000;
            self.offset + i64::try_from(moved).unwrap()
        }

        fn leader(self, own: Nanos) -> Nanos {
            Nanos(own.0.checked_add_signed(self.offset_at(own)).unwrap())
        }
    }

    fn trip(clock: TrueClock, sent: Nanos, (out, stay, back): (u64, u64, u64)) -> RoundTrip {
        let received = sent + Nanos(out);
        let replied = received + Nanos(stay);
        let returned = replied + Nanos(back);
        RoundTrip {
            sent,
            received: clock.leader(received),
            replied: clock.leader(replied),
            returned,
        }
    }

    proptest! {
        /// Whatever the delays of both ways, and however much they differ.
        #[test]
        fn the_true_offset_lies_within_the_bound(
            offset in 0_i64..1_000_000_000_000_000,
            drift_ppb in -100_000_i64..100_000,
            delays in prop::collection::vec((1_000_u64..50_000_000, 0_u64..100_000, 1_000_u64..50_000_000), 1..120),
            every in 1_000_000_u64..2_000_000_000,
        ) {
            let clock = TrueClock { offset, drift_ppb };
            let mut samples = ClockSamples::default();
            let mut at = Nanos::from_secs(1_000);
            for delays in &delays {
                samples.add(&trip(clock, at, *delays));
                at += Nanos(every);
            }
            let fit = samples.fit().unwrap();
            for tenth in 0..=10 {
                let at = fit.from + Nanos((fit.to - fit.from).0 / 10 * tenth);
                let error = fit.offset_at(at).abs_diff(clock.offset_at(at));
                // Two nanoseconds for the rounding of this test's own clock.
                prop_assert!(error <= fit.bound.0 + 2, "{error} beyond {:?}", fit);
            }
        }
    }

    proptest! {
        /// Equal bounds and equal times among them.
        #[test]
        fn the_best_line_is_the_first_of_the_smallest_error(
            samples in prop::collection::vec((0_u64..40, 0_u64..30), 1..60),
        ) {
            let mut at = 0;
            let sample = |(step, bound): &(u64, u64)| {
                at += step;
                OffsetSample { at: Nanos(at), offset: 0, bound: Nanos(*bound) }
            };
            let all: Vec<OffsetSample> = samples.iter().map(sample).collect();
            let whole = (all[0].at, all[all.len() - 1].at);
            let end = all.len().div_ceil(4);
            let (firsts, lasts) = (&all[..end], &all[all.len() - end..]);
            let lines = firsts.iter().flat_map(|first| lasts.iter().map(|last| Line(*first, *last)));
            let expected = lines.min_by_key(|line| line.bound_over(whole)).unwrap();
            let (found, bound) = best_line(firsts, lasts, whole).unwrap();
            prop_assert_eq!((found.0, found.1), (expected.0, expected.1));
            prop_assert_eq!(bound, expected.bound_over(whole));
        }
    }

    #[test]
    fn one_short_round_trip_is_worth_more_than_many_long_ones() {
        let clock = TrueClock { offset: 5_000, drift_ppb: 0 };
        let mut samples = ClockSamples::default();
        for at in 0..20 {
            samples.add(&trip(clock, Nanos::from_millis(at), (9_000_000, 0, 1_000_000)));
        }
        assert!(samples.fit().unwrap().bound > Nanos::from_millis(4));
        samples.add(&trip(clock, Nanos::from_millis(30), (20_000, 0, 20_000)));
        let fit = samples.fit().unwrap();
        assert!(fit.bound < Nanos::from_micros(21), "{fit:?}");
        assert_eq!((fit.offset_at(Nanos::ZERO), fit.samples), (5_000, 21));
    }

    /// The most exact round trip came 25 s after the start. The line ended there, so that the drift until
    /// then, 1.25 ms, was a part of the bound, and an error that a bound of a worse round trip could hide.
    #[test]
    fn a_drifting_clock_is_known_from_the_first_measurement_to_the_last() {
        let clock = TrueClock { offset: 9_000_000, drift_ppb: 50_000 };
        let mut samples = ClockSamples::default();
        for second in 0..=120 {
            let delay = if second == 25 || second == 95 { 10_000 } else { 300_000 };
            samples.add(&trip(clock, Nanos::from_secs(second), (delay, 0, 10_000)));
        }
        let fit = samples.fit().unwrap();
        assert!(fit.bound < Nanos::from_micros(25), "{fit:?}");
        for second in 0..=120 {
            let at = Nanos::from_secs(second);
            let error = fit.offset_at(at).abs_diff(clock.offset_at(at));
            assert!(error <= fit.bound.0, "{error} ns after {second} s, {fit:?}");
        }
    }

    /// The offset stayed as it was when the leader was lost, and so did the bound.
    #[test]
    fn a_shard_that_goes_on_without_its_leader_has_a_wider_bound() {
        let check = |drift_ppb, measured_s, until_s, bound_max: Nanos| {
            let clock = TrueClock { offset: 5_000_000, drift_ppb };
            let mut samples = ClockSamples::default();
            for second in 0..=measured_s {
                samples.add(&trip(clock, Nanos::from_secs(second), (60_000, 0, 20_000)));
            }
            let (fit, until) = (samples.fit().unwrap(), Nanos::from_secs(until_s));
            let reached = reaching(fit, until);
            let error = reached.offset_at(until).abs_diff(clock.offset_at(until));
            assert!(error <= reached.bound.0, "{error} ns, {reached:?}");
            assert!(reached.bound > fit.bound && reached.bound < bound_max, "{reached:?}");
            assert_eq!(reaching(fit, fit.to), fit);
        };
        // The drift of a minute goes on; that of a single measurement is unknown.
        check(40_000, 60, 90, Nanos::from_micros(90));
        check(-40_000, 0, 10, Nanos::from_micros(5_100));
        assert_eq!(reaching(ClockFit::SAME, Nanos::from_secs(9)), ClockFit::SAME);
    }

    #[test]
    fn a_clock_that_was_set_during_the_run_widens_the_bound() {
        let (before, after) = (
            TrueClock { offset: 1_000_000, drift_ppb: 0 },
            TrueClock { offset: 3_000_000, drift_ppb: 0 },
        );
        let mut samples = ClockSamples::default();
        for second in 0..40 {
            let clock = if second < 10 { before } else { after };
            samples.add(&trip(clock, Nanos::from_secs(second), (10_000, 0, 10_000)));
        }
        let bound = samples.fit().unwrap().bound;
        assert!(bound > Nanos::from_micros(1_000), "{bound}");
    }

    #[test]
    fn a_long_run_keeps_a_limited_number_of_samples() {
        let clock = TrueClock { offset: 77, drift_ppb: 20_000 };
        let mut samples = ClockSamples::default();
        for second in 0..20_000 {
            samples.add(&trip(clock, Nanos::from_secs(second), (50_000, 100, 60_000)));
        }
        assert!(samples.best.len() <= WINDOWS_MAX);
        let fit = samples.fit().unwrap();
        let drift =
            (fit.to_offset - fit.from_offset) * 1_000_000_000 / (fit.to - fit.from).0.cast_signed();
        assert!((drift - 20_000).abs() < 100, "{drift}");
    }

    #[test]
    fn a_trip_that_returned_before_it_left_says_nothing() {
        let trip = RoundTrip {
            sent: Nanos(100),
            received: Nanos(5),
            replied: Nanos(50),
            returned: Nanos(90),
        };
        assert_eq!(trip.sample(), None);
        let mut samples = ClockSamples::default();
        samples.add(&trip);
        assert!(samples.fit().is_none());
    }
}
