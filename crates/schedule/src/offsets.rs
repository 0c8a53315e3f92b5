//! Intended times, one after the other, without storing them.
//!
//! Each gap is drawn for its own index, so a second pass gives the same times: vLLM's stretching,
//! which needs the sum of all gaps, costs one pass ahead and no memory. Offsets count from the start
//! of the measured phase and never decrease. In a stage with a number of sessions no request has a time:
//! [`Offsets::upcoming`] says when it begins and ends.

use std::sync::Arc;

use tokometer_base::{Nanos, Seed, Stream};

use crate::arrivals::{Arrivals, Error, First};
use crate::gamma;
use crate::limits::SendLimit;
use crate::share::Share;
use crate::stage::{Length, Stage, StageLoad};

/// The intended times of a run's measured requests, in order.
#[derive(Debug, Clone)]
pub struct Offsets {
    /// Empty for a load without times of its own.
    stages: Arc<[StageTimes]>,
    burstiness: Option<f64>,
    stream: Stream,
    share: Share,
    /// The next arrival, counted over all stages.
    index: u64,
    stage: usize,
    /// Arrivals of the stage so far, and the sum of their gaps.
    of_stage: u64,
    elapsed: f64,
}

/// When a stage begins and ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageSpan {
    pub stage: Stage,
    pub begin: Nanos,
    /// Excluded. `None`: the end of the run.
    pub end: Option<Nanos>,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upcoming {
    /// A request, at the time that [`Offsets::advance`] gives, if the load has times.
    Request,
    /// A time in which requests start whenever fewer sessions than these are in progress.
    ClosedLoop { begin: Nanos, end: Nanos, sessions: u32 },
    /// The last stage is over.
    End,
}

#[derive(Debug, Clone, Copy)]
struct StageTimes {
    span: StageSpan,
    /// `None`: as many as the run has.
    arrivals: Option<u64>,
    rule: Rule,
}

#[derive(Debug, Clone, Copy)]
enum Rule {
    /// Gaps of the rate at each request; `last` is the number of the last one, where it is known.
    Gaps { last: Option<u64>, stretch: f64, first: First },
    /// The number of requests until a time, which is `scale` times the sum of gaps of mean one.
    Counted { seconds: f64, scale: f64 },
}

impl Offsets {
    /// The times of this load under this seed.
    pub fn new(arrivals: &Arrivals, extent: SendLimit, seed: Seed) -> Result<Self, Error> {
        arrivals.check()?;
        let mut offsets = Self {
            stages: Arc::default(),
            burstiness: arrivals.pace().and_then(|pace| pace.burstiness),
            stream: seed.stream("arrivals"),
            share: Share::WHOLE,
            index: 0,
            stage: 0,
            of_stage: 0,
            elapsed: 0.0,
        };
        let (mut made, mut begin): (Vec<StageTimes>, _) = (Vec::new(), Nanos::ZERO);
        for stage in arrivals.pace().map_or(&[][..], |pace| &pace.stages) {
            let first = arrivals.pace().map(|pace| pace.first).unwrap_or_default();
            let mut times = offsets.times(*stage, begin, extent, first)?;
            if let Length::Requests(count) = stage.length {
                let last = offsets.clone().last_of(times, count);
                // The stage has its last request.
                times.span.end = Some(last + Nanos(1));
            }
            begin = times.span.end.unwrap_or(begin);
            offsets.index += times.arrivals.unwrap_or(0);
            made.push(times);
        }
        Ok(Self { stages: made.into(), index: 0, ..offsets })
    }

    fn last_of(mut self, times: StageTimes, count: u64) -> Nanos {
        self.stages = Arc::new([times]);
        (0..count).fold(times.span.begin, |_, _| self.step())
    }

    /// The times of one part of the run. The extent stays that of the whole run.
    #[must_use]
    pub fn of_share(self, share: Share) -> Self {
        Self { share, ..self }
    }

    /// When the stages begin and end; empty for a load without times of its own.
    pub fn spans(&self) -> impl Iterator<Item = StageSpan> {
        self.stages.iter().map(|times| times.span)
    }

    /// How a stage is timed whose first arrival is the next one.
    fn times(
        &self,
        stage: Stage,
        begin: Nanos,
        extent: SendLimit,
        first: First,
    ) -> Result<StageTimes, Error> {
        let span = |end| StageSpan { stage, begin, end };
        let (time, count) = match stage.length {
            Length::Time(time) => (Some(time), None),
            Length::Requests(count) => (None, Some(count)),
            Length::Run => (extent.duration, extent.count),
        };
        let is_flat = matches!(stage.load, StageLoad::Flat { .. });
        let is_own = stage.length != Length::Run;
        // A stage as long as a run follows the rules of the tools.
        let is_counted = is_own && self.burstiness.is_none() || !is_flat;
        let Some(time) = time.filter(|_| count.is_none() && is_counted) else {
            if !is_flat && count.is_none() {
                let why = "the run has no end that is known: add `-n` or `--duration`";
                return Err(Error::Stage { stage: stage.to_string(), why });
            }
            let first = if is_own { First::Waits } else { first };
            let stretch = match stage.load {
                StageLoad::Flat { rate } if first == First::Waits => {
                    self.stretch(rate, time, count)
                }
                _ => None,
            };
            let last = count.map(|count| count.saturating_sub(1).max(1));
            let rule = Rule::Gaps { last, stretch: stretch.unwrap_or(1.0), first };
            let in_time = time.map(|time| whole(stage.load.requests_in(time.as_secs_f64())));
            let arrivals = count.or(in_time).filter(|_| is_own);
            return Ok(StageTimes {
                span: span(time.filter(|_| is_own).map(|time| begin + time)),
                arrivals,
                rule,
            });
        };
        let seconds = time.as_secs_f64();
        let expected = stage.load.requests_in(seconds);
        let arrivals = whole(expected);
        let sum = match self.burstiness {
            None => arrivals as f64,
            // The first request that the stage does not hold lies at its end.
            Some(_) => (0..=arrivals).map(|at| self.gap(self.index + at)).sum(),
        };
        let rule = Rule::Counted { seconds, scale: expected / sum };
        Ok(StageTimes { span: span(Some(begin + time)), arrivals: Some(arrivals), rule })
    }

    /// The factor that makes the gaps add up to what the rate gives: the last of a known number of requests
    /// starts at number ÷ rate, and in a known time as many start as belong to it.
    fn stretch(&self, rate: f64, time: Option<Nanos>, count: Option<u64>) -> Option<f64> {
        // Equal gaps add up already.
        let shape = self.burstiness?;
        let (gaps, seconds) = match (time, count) {
            // The first request that the time does not hold lies at its end.
            (Some(time), _) => {
                let seconds = time.as_secs_f64();
                (whole(rate * seconds).max(1) + 1, seconds)
            }
            (None, Some(count)) => (count, count as f64 / rate),
            (None, None) => return None,
        };
        let gap =
            |at: u64| gamma::draw(&mut self.stream.at(self.index + at), shape) / (rate * shape);
        let sum: f64 = (0..gaps).map(gap).sum();
        (sum > 0.0).then_some(seconds / sum)
    }

    /// The gap before an arrival, of mean one.
    fn gap(&self, index: u64) -> f64 {
        let draw = |shape| gamma::draw(&mut self.stream.at(index), shape) / shape;
        self.burstiness.map_or(1.0, draw)
    }

    /// What comes next for this part of the run.
    pub fn upcoming(&mut self) -> Upcoming {
        while let Some(times) = self.stages.get(self.stage) {
            let StageSpan { stage, begin, end } = times.span;
            if let (StageLoad::Sessions { count }, Some(end)) = (stage.load, end) {
                let sessions = self.share.of_cap(count);
                return Upcoming::ClosedLoop { begin, end, sessions };
            }
            if times.arrivals.is_some_and(|all| self.of_stage >= all) {
                self.leave_stage();
            } else if self.share.has(self.index) {
                return Upcoming::Request;
            } else {
                let _time = self.step();
            }
        }
        if self.stages.is_empty() { Upcoming::Request } else { Upcoming::End }
    }

    /// Goes on behind a closed loop.
    pub fn leave_stage(&mut self) {
        self.stage += 1;
        (self.of_stage, self.elapsed) = (0, 0.0);
    }

    /// The intended time of the next request that has one. `None` where the load has no times of its own (at
    /// an infinite rate, and where the items bring theirs), and after the last.
    pub fn advance(&mut self) -> Option<Nanos> {
        loop {
            match self.upcoming() {
                Upcoming::Request if self.stages.is_empty() => return None,
                Upcoming::Request => return Some(self.step()),
                Upcoming::ClosedLoop { .. } => self.leave_stage(),
                Upcoming::End => return None,
            }
        }
    }

    /// Passes over one arrival of the stage.
    fn step(&mut self) -> Nanos {
        let StageTimes { span: StageSpan { stage, begin, .. }, rule, .. } = self.stages[self.stage];
        let (index, at) = (self.index, self.of_stage);
        let seconds = match rule {
            Rule::Gaps { last, stretch, first } => {
                // SGLang draws the gap after a request, so that gap belongs to the request before.
                let before = match first {
                    First::Waits => Some(0),
                    First::Immediate => at.checked_sub(1).map(|_| 1),
                };
                if let Some(before) = before {
                    let of = at - before;
                    let fraction = last.map_or(0.0, |last| of as f64 / last as f64).min(1.0);
                    let rate = stage.load.rate_at(fraction);
                    self.elapsed += match self.burstiness {
                        None => 1.0 / rate,
                        Some(shape) => {
                            gamma::draw(&mut self.stream.at(index - before), shape) / (rate * shape)
                        }
                    };
                }
                self.elapsed * stretch
            }
            Rule::Counted { seconds, scale } => {
                // Equal gaps have half a gap at both ends.
                let half = if self.burstiness.is_none() && at == 0 { 0.5 } else { 1.0 };
                self.elapsed += half * self.gap(index);
                stage.load.time_of(self.elapsed * scale, seconds)
            }
        };
        self.index += 1;
        self.of_stage += 1;
        begin + Nanos::from_secs_f64(seconds)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of requests")]
fn whole(requests: f64) -> u64 {
    requests.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::Pace;

    fn offsets(pace: Pace, count: u64) -> Vec<Nanos> {
        let extent = SendLimit { count: Some(count), duration: None };
        let mut offsets = Offsets::new(&Arrivals::Paced(pace), extent, Seed(3)).unwrap();
        (0..count).map_while(|_| offsets.advance()).collect()
    }

    fn flat(rate: f64, burstiness: Option<f64>, first: First) -> Pace {
        Pace::flat(rate, burstiness, first)
    }

    fn staged(stages: &str, burstiness: Option<f64>) -> Arrivals {
        let stages = Stage::list(stages).unwrap();
        Arrivals::Paced(Pace { stages, burstiness, first: First::Waits })
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
                let arrivals = Arrivals::Paced(pace.clone());
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
        let Arrivals::Paced(pace) = staged("run@1..5/s", None) else { unreachable!() };
        let expected: f64 = [1.0, 2.0, 3.0, 4.0, 5.0].iter().map(|rate| 1.0 / rate).sum();
        let last = offsets(pace, 5)[4];
        assert!((last.as_secs_f64() - expected).abs() < 1e-8, "{last}");
    }

    /// These are the times that `--ramp-up-strategy` had before there were stages.
    #[test]
    fn a_ramp_over_a_number_of_requests_keeps_its_times() {
        let check = |stage: &str, shape, expected: [u64; 4]| {
            let Arrivals::Paced(pace) = staged(stage, Some(shape)) else { unreachable!() };
            let of_run: Vec<u64> = offsets(pace, 4).iter().map(|at| at.0).collect();
            assert_eq!(of_run, expected, "{stage}");
            let own = stage.replace("run", "4 requests");
            let mut own =
                Offsets::new(&staged(&own, Some(shape)), SendLimit::default(), Seed(3)).unwrap();
            let own: Vec<u64> = std::iter::from_fn(|| own.advance()).map(|at| at.0).collect();
            assert_eq!(own, expected, "a stage of requests has the same");
        };
        check("run@1..10/s", 1.0, [40_091_039, 177_128_299, 221_204_418, 334_171_715]);
        check(
            "run@1..10/s exponential",
            0.5,
            [1_070_188_221, 2_342_754_323, 3_024_476_029, 3_034_254_249],
        );
    }

    #[test]
    fn a_run_without_an_end_has_no_ramp() {
        let ramp = staged("run@1..5/s", None);
        let refused = Offsets::new(&ramp, SendLimit::default(), Seed(3)).unwrap_err();
        assert!(refused.to_string().contains("`run@1..5/s`: the run has no end"), "{refused}");
        let both = staged("run@1..5/s, 1m@5/s", None);
        assert!(matches!(both.check(), Err(Error::Stage { .. })));
    }

    /// The number of a stage is what its rate gives, whatever the gaps are, and all lie inside it.
    #[test]
    fn every_stage_has_as_many_requests_as_its_rate_gives() {
        let text =
            "10s@5/s, 4s@5..50/s, 2s@0/s, 30 requests@10/s, 3s@50..0/s, 5s@1..9/s exponential";
        for shape in [None, Some(1.0), Some(0.3)] {
            for seed in 0..5 {
                let mut all =
                    Offsets::new(&staged(text, shape), SendLimit::default(), Seed(seed)).unwrap();
                let spans: Vec<StageSpan> = all.spans().collect();
                let times: Vec<Nanos> = std::iter::from_fn(|| all.advance()).collect();
                assert!(times.is_sorted() && all.upcoming() == Upcoming::End);
                let inside = |span: &StageSpan| {
                    let end = span.end.unwrap();
                    times.iter().filter(|at| (span.begin..end).contains(at)).count()
                };
                let counts: Vec<usize> = spans.iter().map(inside).collect();
                assert_eq!(counts, [50, 110, 0, 30, 75, 18], "{shape:?} {seed}");
            }
        }
    }

    #[test]
    fn a_stage_alone_is_the_run_of_its_rate_and_time() {
        let extent = SendLimit { count: None, duration: Some(Nanos::from_secs(60)) };
        let mut run = Offsets::new(&Arrivals::poisson(7.0), extent, Seed(5)).unwrap();
        let stage = staged("1m@7/s", Some(1.0));
        let mut stage = Offsets::new(&stage, SendLimit::default(), Seed(5)).unwrap();
        let times: Vec<Nanos> = std::iter::from_fn(|| stage.advance()).collect();
        assert_eq!(times.len(), 420);
        assert!(times.iter().all(|at| run.advance() == Some(*at)));
    }

    #[test]
    fn a_closed_loop_has_no_times_and_the_stage_behind_it_begins_at_its_end() {
        let load = staged("2s@5/s, 3s@7 sessions, 2s@5/s", None);
        let mut all = Offsets::new(&load, SendLimit::default(), Seed(1)).unwrap();
        let share = Share::new(1, 2).unwrap();
        let mut own = all.clone().of_share(share);
        assert_eq!((0..5).filter_map(|_| own.advance()).count(), 5);
        let (begin, end) = (Nanos::from_secs(2), Nanos::from_secs(5));
        assert_eq!(own.upcoming(), Upcoming::ClosedLoop { begin, end, sessions: 3 });
        own.leave_stage();
        let first = (0..11).filter_map(|_| all.advance()).last().unwrap();
        assert_eq!(first, Nanos::from_millis(5_100));
        assert_eq!(
            own.advance(),
            Some(Nanos::from_millis(5_300)),
            "the second belongs to this part"
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
        let times = offsets(pace.clone(), 200);
        assert!(times.is_sorted());
        assert_eq!(times, offsets(pace.clone(), 200));
        let extent = SendLimit { count: Some(200), duration: None };
        let mut other = Offsets::new(&Arrivals::Paced(pace), extent, Seed(4)).unwrap();
        assert_ne!(other.advance(), Some(times[0]));
    }
}
