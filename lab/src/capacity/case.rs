//! The search of `tokometer capacity` in virtual time, the product's own with the engine's model as its
//! executor, and the truths that it is compared with. What a real search spends besides its points, such as
//! flushing a cache, takes no time here.

use tokometer_base::refusal::Refusal;
use tokometer_base::{Nanos, Seed};
use tokometer_campaign::{KeptEvents, Search, SearchBounds, SearchSetting, Virtual, run};
use tokometer_decide::capacity::{Findings, LoadKind};
use tokometer_decide::slo::Slo;
use tokometer_figures::SummaryOptions;
use tokometer_figures::figure::Quantity;
use tokometer_plan::Plan;
use tokometer_schedule::Arrivals;
use tokometer_sim::Profile;
use tokometer_twin::{PredictOptions, RequestLoad, predict};

use crate::virtual_runs::{Drawn, in_parallel, info};

/// An engine, what is asked of it, and the objective.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    /// Shipped profile.
    pub(crate) engine: &'static str,
    /// Mean lengths of prompts and answers; both vary by half.
    pub(crate) lengths: (u32, u32),
    /// The objective.
    pub(crate) slo: &'static str,
    /// The highest rate that meets it, from long runs: see [`Case::long_truth`].
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

/// A search that has ended.
pub(crate) struct Searched {
    pub(crate) findings: Findings,
    /// Virtual time.
    pub(crate) took: Nanos,
}

impl Case {
    fn profile(&self) -> Profile {
        Profile::shipped(self.engine).expect("a shipped profile")
    }

    /// What `tokometer capacity` would be given.
    fn plan(&self, seed: u64) -> Plan {
        let mut info = info(f64::INFINITY, None);
        info.plan = serde_json::from_str(include_str!("../../../fixtures/run/plan.json"))
            .expect("the fixture is a plan");
        let workload = &mut info.plan["workload"];
        workload["input_len"] = self.lengths.0.into();
        workload["output_len"] = self.lengths.1.into();
        info.plan["seed"] = seed.into();
        Plan::of(&info).expect("the fixture is a plan")
    }

    /// A whole search with the command's defaults; within `budget` where there is one.
    pub(crate) fn search(&self, seed: u64, budget: Option<Nanos>) -> Result<Searched, Refusal> {
        let slo = Slo::parse(self.slo).expect("a sound objective");
        let setting = SearchSetting {
            figures: SummaryOptions {
                percentiles: slo.percentiles(),
                objectives: slo.request_limits(),
                lenses: Vec::new(),
            },
            slo,
            slo_text: self.slo.to_owned(),
            over: LoadKind::RequestRate,
            start: None,
            most: 4_096.0,
            resolution: 0.05,
            points: None,
            bounds: SearchBounds::default(),
            gpus: None,
            budget,
            begin: Nanos::ZERO,
            plan: self.plan(seed),
            folder: "search".into(),
            kept_events: KeptEvents::Plain,
            stairs: None,
        };
        let mut engine = Virtual::new(self.profile());
        let findings = run(&mut Search::new(setting)?, &mut engine, &mut ())?;
        Ok(Searched { findings, took: engine.now })
    }

    fn workload(&self, rate: f64, duration: Nanos, seed: Seed) -> RequestLoad {
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
                let run = predict(&self.profile(), &workload, seed, PredictOptions::default());
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
}
