//! The search for capacity against an engine in virtual time: the same search, the same length of
//! points, the same rule for overload and the same figures as `tokometer capacity`, but each point is
//! run by the twin with a seed of its own.

use tokometer_base::{Nanos, Seed};
use tokometer_decide::search::{
    Allowance, Climb, Next, Point, PointLength, SearchLimits, SearchResult, Stage, discard_preload,
    fit, wait_trend, with_preload,
};
use tokometer_decide::sequential::overloaded_at as stopped_at;
use tokometer_decide::slo::Slo;
use tokometer_figures::figure::Quantity;
use tokometer_figures::{Collector, SummaryOptions};
use tokometer_record::{Health, RunEnd, RunState, Stop, Timeline};
use tokometer_schedule::Arrivals;
use tokometer_sim::Profile;
use tokometer_twin::{self as twin, KeptDetail, RequestLoad, predict};

use crate::virtual_runs::{Drawn, in_parallel, info};

/// The flags of the command, with their defaults.
pub(crate) const LIMITS: SearchLimits = SearchLimits {
    start: 1.0,
    least: 1.0 / 64.0,
    most: 4096.0,
    resolution: 0.05,
    points: 20,
    is_whole: false,
    climb: Climb::Far,
};

/// The time of a point, likewise.
pub(crate) const LENGTH: PointLength =
    PointLength { shortest: Nanos::from_secs(10), longest: Nanos::from_secs(180) };

/// An engine, what is asked of it, and the objective.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    /// Shipped profile.
    pub(crate) engine: &'static str,
    /// Mean lengths of prompts and answers; both vary by half.
    pub(crate) lengths: (u32, u32),
    /// The objective.
    pub(crate) slo: &'static str,
    /// The highest rate that meets it, from long runs: see [`truth`].
    pub(crate) truth: f64,
}

/// Three engines, two objectives each. The truths are those that [`Case::long_truth`] finds.
pub(crate) const CASES: [Case; 6] = [
    Case { engine: "default", lengths: (512, 128), slo: "p99 ttft < 200ms", truth: 41.28 },
    Case { engine: "default", lengths: (512, 128), slo: "p99 tpot < 30ms", truth: 34.15 },
    Case { engine: "small", lengths: (256, 64), slo: "p99 ttft < 2s", truth: 8.27 },
    Case { engine: "small", lengths: (256, 64), slo: "p99 tpot < 25ms", truth: 4.20 },
    Case { engine: "sglang-rust", lengths: (512, 128), slo: "p99 ttft < 2s", truth: 11.04 },
    Case { engine: "sglang-rust", lengths: (512, 128), slo: "p99 tpot < 100ms", truth: 6.86 },
];

/// A point of a search, with what else a search in time needs to know of it.
pub(crate) struct TimedPoint {
    pub(crate) point: Point,
    /// Mean E2E in seconds.
    pub(crate) e2e_s: Option<f64>,
    /// From the first request to the last response, or to the end of the drain after an overload.
    pub(crate) took: Nanos,
}

/// Requests in flight may end for so long after a point was stopped for overload, as in `drive`.
const DRAIN: Nanos = Nanos::from_secs(5);

/// When a run was stopped for overload.
fn overloaded_at(timelines: &[Timeline], seconds: f64, rate: f64) -> Option<f64> {
    stopped_at(timelines, seconds, rate).map(Nanos::as_secs_f64)
}

impl Case {
    pub(crate) fn workload(&self, rate: f64, duration: Nanos, seed: Seed) -> RequestLoad {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "far more requests than are sent in the time"
        )]
        let count = (rate * duration.as_secs_f64() * 2.0) as u64 + 1_000;
        let asks = Drawn { lengths: self.lengths, count, seed };
        let paced = RequestLoad::burst(asks).arriving(Arrivals::poisson(rate));
        RequestLoad { duration: Some(duration), ..paced }
    }

    pub(crate) fn profile(&self) -> Profile {
        Profile::shipped(self.engine).expect("a shipped profile")
    }

    /// One point, as `capacity` would have measured it.
    pub(crate) fn point(&self, load: f64, stage: Stage, duration: Nanos, seed: Seed) -> TimedPoint {
        let slo = Slo::parse(self.slo).expect("a sound objective");
        let options =
            twin::PredictOptions { keep: KeptDetail::Timelines, ..twin::PredictOptions::default() };
        let workload = self.workload(load, duration, seed);
        let mut run = predict(&self.profile(), &workload, seed, options).expect("a sound workload");
        let stopped = overloaded_at(&run.timelines, duration.as_secs_f64(), load);
        let stop = if stopped.is_some() { Stop::Overloaded } else { Stop::Complete };
        let options = SummaryOptions {
            percentiles: slo.percentiles(),
            objectives: slo.request_limits(),
            lenses: Vec::new(),
        };
        let from = discard_preload(&mut run.timelines).unwrap_or(Nanos::ZERO);
        let mut collector = Collector::new(&info(load, Some(duration)), options);
        let mut allowance = Allowance::new(&slo);
        for timeline in &run.timelines {
            collector.push(timeline);
            allowance.push(timeline);
        }
        let end = RunEnd {
            stop,
            measure_begin: from,
            measure_end: run.end,
            abandoned: 0,
            never_sent: 0,
            health: Health::default(),
        };
        let summary = collector.finish(&RunState::Ended(Box::new(end))).summary;
        let point = Point {
            load,
            stage,
            fit: fit(&slo, &summary, Some(stop), wait_trend(&run.timelines, slo.wait_limit(None))),
            requests: allowance.requests(),
            uses: allowance.uses(&summary),
        };
        let e2e = summary.mean(Quantity::E2e);
        let drained = |at: f64| (Nanos::from_secs_f64(at) + DRAIN).min(run.end);
        let took = stopped.map_or(run.end, drained);
        TimedPoint { point, e2e_s: e2e.map(|millis| millis / 1e3), took }
    }

    /// The highest rate that meets the objective in the long run: the share of requests beyond the
    /// limit, over sixteen runs of an hour, is what the percentile allows. (The mean of the runs' own
    /// percentiles would be something else where the tail comes in rare bursts.) Only for one
    /// percentile of one latency.
    pub(crate) fn long_truth(&self) -> f64 {
        const SEEDS: u64 = 16;
        let slo = Slo::parse(self.slo).expect("a sound objective");
        let objective = &slo.objectives[0];
        let Some(percentile) = objective.figure.statistic.percentile() else { return f64::NAN };
        let percent = percentile.percent();
        let ladder: Vec<f64> = (0..2_500).map(|step| 50.0 + 0.02 * f64::from(step)).collect();
        let mean_share = |rate: f64| {
            let shares = in_parallel(SEEDS, |seed| {
                let seed = Seed(1_000 + seed);
                let workload = self.workload(rate, Nanos::from_secs(3_600), seed);
                let run =
                    predict(&self.profile(), &workload, seed, twin::PredictOptions::default());
                let figures = run.expect("a sound workload").figures;
                let sample = if objective.figure.quantity == Quantity::Ttft {
                    figures.ttft
                } else {
                    figures.tpot
                };
                let values = sample.percentiles_ms(&ladder);
                let within = values.partition_point(|value| *value <= objective.limit);
                100.0 - ladder.get(within).copied().unwrap_or(100.0)
            });
            shares.iter().sum::<f64>() / SEEDS as f64
        };
        let (mut low, mut high) = (0.5 * self.truth, 1.5 * self.truth);
        while high / low > 1.005 {
            let middle = f64::midpoint(low, high);
            if mean_share(middle) <= 100.0 - percent {
                low = middle;
            } else {
                high = middle;
            }
        }
        f64::midpoint(low, high)
    }

    /// A whole search. Every point has a seed of its own.
    pub(crate) fn search(
        &self,
        seed: u64,
        limits: SearchLimits,
        length: PointLength,
    ) -> (SearchResult, Vec<Point>) {
        let slo = Slo::parse(self.slo).expect("a sound objective");
        let mut points = Vec::new();
        loop {
            match limits.next(&points) {
                Next::Done(answer) => return (answer, points),
                Next::Measure { load, stage } => {
                    let duration = with_preload(length.next(&slo, stage, Some(load)));
                    let seed = Seed(Seed(seed).stream("point").draw(points.len() as u64));
                    points.push(self.point(load, stage, duration, seed).point);
                }
            }
        }
    }
}
