//! One point predicted: the run of the plan's seed, and how much other seeds differ.

use std::sync::Arc;

use tokometer_base::{Nanos, Seed};
use tokometer_plan::Plan;
use tokometer_schedule::Arrivals;
use tokometer_twin::workload::in_flight_max;
use tokometer_twin::{
    self as twin, BeyondRange, InPlay, KeptDetail, Prediction, RequestLoad, SEEDS, SeedInterval,
    Seeds, beyond_range, in_play,
};

use super::asks::Asks;
use super::executor::Virtual;
use tokometer_base::refusal::Refusal;

/// Answer tokens up to which every event of every request is kept, so that the usual code makes the
/// usual report; larger runs use weighted figures.
pub const EXACT_TOKENS_MAX: u64 = 8_000_000;

/// How a predicted run is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PredictedDetail {
    /// By its timelines.
    Exact,
    /// By weighted figures.
    Figures,
}

/// One point, predicted.
#[derive(Debug)]
pub struct PredictedPoint {
    /// The run of the plan's seed.
    pub prediction: Prediction,
    /// How it is known.
    pub detail: PredictedDetail,
    /// The main figures over [`SEEDS`] seeds; empty for a run that is known by figures alone.
    pub intervals: Vec<SeedInterval>,
    /// Parts of the model that it used.
    pub in_play: Vec<InPlay>,
    /// Sides of the load that the profile's data do not cover.
    pub beyond: Vec<BeyondRange>,
}

/// What is wanted of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PredictionDepth {
    /// The run of the plan's seed, with its timelines.
    Run,
    /// Also how much other seeds differ; runs that are too large for timelines by figures alone.
    Seeds,
}

impl Virtual {
    /// Predicts one point.
    pub(super) fn predict(&self, plan: &Plan, asks: &mut Asks) -> Result<PredictedPoint, Refusal> {
        let seed = Seed(plan.seed);
        let (workload, quick) = self.settled(plan, asks, seed)?;
        let beyond = beyond_range(&self.profile, &workload, &quick.explanation);
        let has_seeds = self.depth == PredictionDepth::Seeds;
        if has_seeds && quick.figures.output_tokens > EXACT_TOKENS_MAX {
            let in_play = in_play(&self.profile, &workload, &quick.explanation);
            let (prediction, detail) = (quick, PredictedDetail::Figures);
            let intervals = Vec::new();
            return Ok(PredictedPoint { prediction, detail, intervals, in_play, beyond });
        }
        let intervals =
            if has_seeds { self.over_seeds(seed, asks, &workload)? } else { Vec::new() };
        let workload = workload.sent_only(quick.figures.over());
        let options = twin::PredictOptions { keep: KeptDetail::Timelines, ..self.options };
        let prediction = twin::predict(&self.profile, &workload, seed, options)?;
        let in_play = in_play(&self.profile, &workload, &prediction.explanation);
        let detail = PredictedDetail::Exact;
        Ok(PredictedPoint { prediction, detail, intervals, in_play, beyond })
    }

    /// The workload of the plan and its figures. A run that ends by time at an infinite rate is tried with
    /// more and more requests until it leaves some unsent.
    fn settled(
        &self,
        plan: &Plan,
        asks: &mut Asks,
        seed: Seed,
    ) -> Result<(RequestLoad, Prediction), Refusal> {
        let load = &plan.load;
        let arrivals = load.arrivals(plan.conventions);
        let all = asks.count();
        let is_open_ended = arrivals == Arrivals::AtOnce && load.num_prompts.is_none();
        let cap = load.max_concurrency.map_or(u64::MAX, u64::from);
        if is_open_ended && load.max_concurrency.is_none() {
            return Err(Refusal::usage(
                "cannot predict an infinite rate for a duration: the number of requests is unlimited",
                "set `--request-rate`, `--max-concurrency` or `--num-prompts`",
            ));
        }
        let mut count = if is_open_ended { all.min(cap.saturating_mul(4).max(1_024)) } else { all };
        loop {
            let workload = RequestLoad {
                asks: asks.source(count, seed)?,
                arrivals: arrivals.clone(),
                max_concurrency: load.max_concurrency,
                max_sessions: load.most_sessions(plan.conventions),
                duration: load.duration_s.map(Nanos::from_secs_f64),
                in_flight_max: in_flight_max(self.memory_bytes),
            };
            let options = twin::PredictOptions { keep: KeptDetail::Figures, ..self.options };
            let quick = twin::predict(&self.profile, &workload, seed, options)?;
            // A short time may hold no arrival.
            if quick.figures.over() == 0 && count > 0 && load.duration_s.is_none() {
                return Err(Refusal::usage(
                    "cannot predict this run: no request of it ends within the time that can be counted",
                    "check the costs of the engine: `--set`, `--roofline` and its profile",
                ));
            }
            let is_used_up = quick.figures.over() >= count;
            if !is_open_ended || !is_used_up || count >= all {
                return Ok((workload, quick));
            }
            count = all.min(count * 4);
        }
    }

    /// The main figures over several seeds of lengths, arrivals and the engine's own noise. Rows of a
    /// dataset stay the plan's own. Figures that no request has, such as the TPOT of single tokens, have
    /// no interval.
    fn over_seeds(
        &self,
        first: Seed,
        asks: &Asks,
        workload: &RequestLoad,
    ) -> Result<Vec<SeedInterval>, Refusal> {
        let count = workload.asks.count();
        let of_seed = |seed: Seed| match asks {
            Asks::Drawn(drawn) => {
                RequestLoad { asks: Arc::new(drawn.with_seed(seed, count)), ..workload.clone() }
            }
            Asks::Listed(_) => workload.clone(),
        };
        let seeds = Seeds { first, count: SEEDS };
        Ok(twin::intervals(&self.profile, &of_seed, seeds, self.options)?)
    }
}
