//! The search of `tokometer capacity --budget` in virtual time: a staircase, then a search whose points
//! fit into the time that is left.
//!
//! The decisions are those of `decide`; the order in which they are asked for is that of the command
//! (`crates/cli/src/capacity`). What a real search spends besides its points, such as flushing a cache,
//! takes no time here.

use tokometer_base::{Nanos, Seed};
use tokometer_decide::capacity::LoadKind;
use tokometer_decide::search::{
    Climb, Next, Point, PointLength, PointOutcome, SearchLimits, SearchOptions, SearchResult,
    StageBudget, UNLIMITED_POINTS, first_lengths, least, second_stage, wanted, with_preload,
};
use tokometer_decide::slo::Slo;
use tokometer_decide::staircase::{StairNext, StairStep, Staircase};
use tokometer_figures::{Collector, SummaryOptions};
use tokometer_record::{Health, RunEnd, RunState, Stop};
use tokometer_twin::{self as twin, KeptDetail, RequestLoad, predict};

use super::search::{Case, LIMITS, TimedPoint};
use crate::virtual_runs::{Drawn, info};

/// The staircase, as in the command: its part of the budget, its longest time, its most requests in
/// flight, and the first load as a share of its highest throughput.
const PART: u64 = 6;
const LONGEST: Nanos = Nanos::from_secs(60);
const MOST_IN_FLIGHT: u32 = 1_024;
const FIRST: f64 = 0.78;
/// A search may exceed its budget by this share.
const SLACK: f64 = 0.03;

/// A search in time.
struct TimedSearch<'a> {
    case: &'a Case,
    slo: Slo,
    limits: SearchLimits,
    length: PointLength,
    /// Begin of the search proper, its end, and the time now.
    begin: Nanos,
    end: Nanos,
    now: Nanos,
    /// The time for which the points so far sent their load.
    sent: Nanos,
    done: Vec<TimedPoint>,
}

impl Case {
    /// One step of the staircase: its figures, and the time that it took.
    fn stair(&self, concurrency: u32, length: Nanos, seed: Seed) -> (StairStep, Nanos) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "far more requests than are sent in the time"
        )]
        let count = (200.0 * length.as_secs_f64()) as u64 + 2 * u64::from(concurrency);
        let asks = Drawn { lengths: self.lengths, count, seed };
        let closed = RequestLoad::burst(asks).capped(concurrency);
        let workload = RequestLoad { duration: Some(length), ..closed };
        let options =
            twin::PredictOptions { keep: KeptDetail::Timelines, ..twin::PredictOptions::default() };
        let run = predict(&self.profile(), &workload, seed, options).expect("a sound workload");
        let options = SummaryOptions::default();
        let mut collector = Collector::new(&info(f64::INFINITY, Some(length)), options);
        run.timelines.iter().for_each(|timeline| collector.push(timeline));
        let end = RunEnd {
            stop: Stop::Complete,
            measure_begin: Nanos::ZERO,
            measure_end: run.end,
            abandoned: 0,
            never_sent: 0,
            health: Health::default(),
        };
        let summary = collector.finish(&RunState::Ended(Box::new(end))).summary;
        (StairStep::new(concurrency, &summary), run.end)
    }

    /// The first load, and the time that the staircase took.
    fn first_load(&self, budget: Nanos, seed: Seed) -> (f64, Nanos) {
        let staircase =
            Staircase { budget: Nanos(budget.0 / PART).min(LONGEST), most: MOST_IN_FLIGHT };
        let (mut steps, mut spent) = (Vec::new(), Nanos::ZERO);
        while let StairNext::Measure { concurrency, length } = staircase.next(&steps, spent) {
            let seed = Seed(seed.stream("stair").draw(steps.len() as u64));
            let (step, took) = self.stair(concurrency, length, seed);
            steps.push(step);
            spent += took;
        }
        let most = steps.iter().filter_map(|step| step.requests_per_s).max_by(f64::total_cmp);
        ((FIRST * most.unwrap_or(1.0)).clamp(0.1, LIMITS.most), spent)
    }

    /// A whole search within `budget`, and the time that it took.
    pub(crate) fn search_within(&self, seed: u64, budget: Nanos) -> (SearchResult, Nanos) {
        let (start, spent) = self.first_load(budget, Seed(seed));
        let length = first_lengths(budget - spent, Some(start));
        let limits = SearchOptions {
            over: LoadKind::RequestRate,
            start,
            most: LIMITS.most,
            resolution: LIMITS.resolution,
            points: UNLIMITED_POINTS,
            longest: length.longest,
        }
        .limits();
        let search = TimedSearch {
            case: self,
            slo: Slo::parse(self.slo).expect("a sound objective"),
            limits: SearchLimits { climb: Climb::Near, ..limits },
            length,
            begin: spent,
            end: budget,
            now: spent,
            sent: Nanos::ZERO,
            done: Vec::new(),
        };
        search.run(Seed(seed))
    }
}

impl TimedSearch<'_> {
    fn points(&self) -> Vec<Point> {
        self.done.iter().map(|one| one.point.clone()).collect()
    }

    fn run(mut self, seed: Seed) -> (SearchResult, Nanos) {
        loop {
            self.fit_into_time();
            let (load, stage) = match self.limits.next(&self.points()) {
                Next::Done(answer) => return (answer, self.now),
                Next::Measure { load, stage } => (load, stage),
            };
            let duration = with_preload(self.length.next(&self.slo, stage, Some(load)));
            let slack = Nanos::from_secs_f64((self.end - self.begin).as_secs_f64() * SLACK);
            if !self.done.is_empty() && duration > self.end - self.now + slack {
                // Without a further point, what is known is the answer.
                self.limits = self.limits.with_points(self.done.len());
                continue;
            }
            let seed = Seed(seed.stream("point").draw(self.done.len() as u64));
            let measured = self.case.point(load, stage, duration, seed);
            self.sent += duration;
            self.now += measured.took;
            self.done.push(measured);
        }
    }

    /// Before the first point of the second stage: gives it as many points, of such a length, as fit.
    fn fit_into_time(&mut self) {
        let points = self.points();
        let Some((first, design)) = self.limits.second_stage(&points) else { return };
        if points.len() != first {
            return;
        }
        let rate = Some(design.centre);
        let (wanted, least) =
            (wanted(&self.slo, rate), least(&self.slo, rate, self.response_time()));
        let overhead = Nanos((self.now - self.begin - self.sent).0 / first.max(1) as u64);
        let left = self.end - self.now;
        match second_stage(StageBudget { left, overhead, wanted, least }) {
            None => self.limits = self.limits.with_points(first),
            Some(stage) => {
                self.limits = self.limits.with_points(first + stage.points);
                self.length = PointLength { shortest: stage.counted, longest: stage.counted };
            }
        }
    }

    /// Mean E2E in seconds at the highest load that met the objectives.
    fn response_time(&self) -> Option<f64> {
        let met = self.done.iter().filter(|one| one.point.fit == PointOutcome::Met);
        met.max_by(|a, b| a.point.load.total_cmp(&b.point.load)).and_then(|one| one.e2e_s)
    }
}
