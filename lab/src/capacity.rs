//! `cargo lab capacity [SEARCHES] [budget=TIME] [from=SEED] [truth] [verbose] [case=N]`: how near
//! `tokometer capacity` comes to known truths, in virtual time.
//!
//! The truth is found by bisection over runs that are so long that little is left to chance; the
//! searches are the product's own with the engine's model as their executor, with the command's default
//! flags or with `--budget`, each with seeds of its own. What a real search spends besides its points,
//! such as flushing a cache, takes no time here. Prints the tables of `lab/data/capacity.md`.

use anyhow::Result;
use tokometer_base::refusal::Refusal;
use tokometer_base::{Nanos, Partial as _, Seed, units};
use tokometer_campaign::{
    KeptEvents, Search, SearchBounds, SearchSetting, Virtual, run as run_search,
};
use tokometer_decide::capacity::{Ending, Findings, LoadKind};
use tokometer_decide::search::SearchResult;
use tokometer_decide::slo::Slo;
use tokometer_figures::SummaryOptions;
use tokometer_figures::figure::Quantity;
use tokometer_plan::{PartialPlan, Plan};
use tokometer_schedule::Arrivals;
use tokometer_sim::Profile;
use tokometer_twin::{PredictOptions, RequestLoad, predict};

use crate::virtual_runs::{Drawn, in_parallel};

/// An engine, what is asked of it, and the objective.
#[derive(Debug, Clone, Copy)]
struct Case {
    engine: &'static str,
    /// Mean lengths of prompts and answers; both vary by half.
    lengths: (u32, u32),
    slo: &'static str,
    /// The highest rate that meets it, from long runs: see [`Case::long_truth`].
    truth: f64,
}

/// Three engines, two objectives each, and two cases on which nothing was tuned. The truths are those that
/// [`Case::long_truth`] finds.
const CASES: [Case; 8] = [
    Case { engine: "default", lengths: (512, 128), slo: "p99 ttft < 200ms", truth: 41.28 },
    Case { engine: "default", lengths: (512, 128), slo: "p99 tpot < 30ms", truth: 34.15 },
    Case { engine: "small", lengths: (256, 64), slo: "p99 ttft < 2s", truth: 8.27 },
    Case { engine: "small", lengths: (256, 64), slo: "p99 tpot < 25ms", truth: 4.20 },
    Case { engine: "sglang-rust", lengths: (512, 128), slo: "p99 ttft < 2s", truth: 11.04 },
    Case { engine: "sglang-rust", lengths: (512, 128), slo: "p99 tpot < 100ms", truth: 6.86 },
    Case { engine: "vllm-percentiles", lengths: (256, 128), slo: "p99 tpot < 80ms", truth: 4.75 },
    Case {
        engine: "vllm-prefill-decode",
        lengths: (1_024, 64),
        slo: "p95 ttft < 500ms",
        truth: 20.50,
    },
];

struct Searched {
    findings: Findings,
    /// In virtual time.
    took: Nanos,
    /// The load held, and whether a run ten times as long meets the objective at it.
    held: Option<HeldAgain>,
}

#[derive(Debug, Clone, Copy)]
struct HeldAgain {
    load: f64,
    is_met: bool,
}

impl Case {
    fn profile(&self) -> Profile {
        Profile::shipped(self.engine).expect("a shipped profile")
    }

    /// What `tokometer capacity` would be given.
    fn plan(&self, seed: u64) -> Plan {
        let fixture = include_str!("../../fixtures/run/plan.json");
        let mut plan: serde_json::Value = serde_json::from_str(fixture).expect("JSON");
        plan["workload"]["input_len"] = self.lengths.0.into();
        plan["workload"]["output_len"] = self.lengths.1.into();
        plan["seed"] = seed.into();
        let plan = PartialPlan::from_record(plan).expect("the fixture is a plan");
        plan.complete().expect("the fixture is a plan")
    }

    /// A whole search with the command's defaults; within `budget` where there is one.
    fn search(&self, seed: u64, budget: Option<Nanos>) -> Result<Searched, Refusal> {
        let slo = Slo::parse(self.slo).expect("a sound objective");
        let setting = SearchSetting {
            figures: SummaryOptions {
                percentiles: slo.percentiles(),
                objectives: slo.request_limits(),
                ..SummaryOptions::default()
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
        let findings = run_search(&mut Search::new(setting)?, &mut engine, &mut ())?;
        let held = findings.held_point().map(|point| {
            let length = Nanos::from_secs_f64(10.0 * point.requests as f64 / point.sent());
            HeldAgain { load: point.sent(), is_met: self.is_met(point.sent(), length, seed) }
        });
        Ok(Searched { findings, took: engine.now, held })
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

    /// Whether this load meets the objective in a run of this length.
    fn is_met(&self, rate: f64, length: Nanos, seed: u64) -> bool {
        let slo = Slo::parse(self.slo).expect("a sound objective");
        let objective = &slo.objectives[0];
        let percentile = objective.figure.statistic.percentile().expect("a percentile");
        let seed = Seed(seed).stream("again").draw(0);
        let workload = self.workload(rate, length, Seed(seed));
        let run = predict(&self.profile(), &workload, Seed(seed), PredictOptions::default());
        let figures = run.expect("a sound workload").figures;
        let is_ttft = objective.figure.quantity == Quantity::Ttft;
        let sample = if is_ttft { figures.ttft } else { figures.tpot };
        sample.percentiles_ms(&[percentile.percent()])[0] <= objective.limit
    }

    /// The highest rate that meets the objective in the long run: the share of requests beyond the
    /// limit, over sixteen runs of an hour, is what the percentile allows. (The mean of the runs' own
    /// percentiles would be something else where the tail comes in rare bursts.) Only for one
    /// percentile of one latency.
    fn long_truth(&self) -> f64 {
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

/// What the searches of one case came to.
#[derive(Default)]
struct Tally {
    errors: Vec<f64>,
    /// Half widths of the intervals, as shares of the truth. An open end counts as infinite.
    margins: Vec<f64>,
    held: usize,
    /// Searches that ended with a range instead of an estimate, and those whose range held the truth.
    ranges: usize,
    held_ranges: usize,
    others: usize,
    /// Loads held as shares of the truth, and how many of them met the objective again.
    loads_held: Vec<f64>,
    met_again: usize,
    /// Virtual time of all searches, in seconds.
    seconds: f64,
}

impl Tally {
    fn add(&mut self, answer: &SearchResult, truth: f64) {
        match answer {
            SearchResult::Found { load, low, high, .. } => {
                self.errors.push(load / truth - 1.0);
                let (low, high) = (low.unwrap_or(0.0), high.unwrap_or(f64::INFINITY));
                self.margins.push((high - low) / 2.0 / truth);
                self.held += usize::from(low <= truth && truth <= high);
            }
            SearchResult::Unfinished { highest_met, lowest_missed } => {
                self.ranges += 1;
                let is_held = highest_met.is_none_or(|load| load <= truth)
                    && lowest_missed.is_none_or(|load| truth <= load);
                self.held_ranges += usize::from(is_held);
            }
            SearchResult::LimitedByMost { .. } | SearchResult::NoneMeets { .. } => self.others += 1,
        }
    }

    /// The mean relative error and its 95 % margin.
    fn bias(&self) -> (f64, f64) {
        let count = self.errors.len() as f64;
        let bias = self.errors.iter().sum::<f64>() / count;
        let spread = self.errors.iter().map(|error| (error - bias).powi(2)).sum::<f64>();
        (bias, 1.96 * spread.sqrt() / count)
    }
}

struct Study {
    /// Seeds of the searches of each case.
    seeds: std::ops::Range<u64>,
    /// Time of each; `None`: default flags, whose points bound a search.
    budget: Option<Nanos>,
    is_verbose: bool,
}

impl Study {
    #[expect(clippy::print_stderr, reason = "only where `verbose` asks for every point")]
    fn tally(&self, case: &Case) -> Result<Tally> {
        let mut tally = Tally::default();
        let count = self.seeds.end - self.seeds.start;
        let found = in_parallel(count, |at| case.search(self.seeds.start + at, self.budget));
        for (seed, found) in self.seeds.clone().zip(found) {
            let Searched { findings, took, held } = found?;
            tally.loads_held.extend(held.map(|held| held.load / case.truth));
            tally.met_again += usize::from(held.is_some_and(|held| held.is_met));
            tally.seconds += took.as_secs_f64();
            match &findings.ending {
                Ending::Answered(answer) => tally.add(answer, case.truth),
                _ => tally.others += 1,
            }
            if self.is_verbose {
                let (engine, ending) = (case.engine, &findings.ending);
                eprintln!("{engine} {} seed {seed}, {took}: {ending:?} {held:?}", case.slo);
                findings.points.iter().for_each(|point| eprintln!("    {:?}", point.point()));
            }
        }
        Ok(tally)
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Searches every case, or the one that `case=N` names, and prints its row.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is the result")]
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let searches = arguments.first().and_then(|word| word.parse().ok()).unwrap_or(20);
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let of = |key: &str| arguments.iter().find_map(|word| word.strip_prefix(key));
    let only: Option<usize> = of("case=").map(str::parse).transpose()?;
    let first: u64 = of("from=").map_or(Ok(0), str::parse)?;
    let second = Nanos::from_secs(1);
    let budget = of("budget=").map(|text| units::parse_span(text, second)).transpose()?;
    let seeds = first..first + searches;
    let study = Study { seeds, budget, is_verbose: has("verbose") };
    println!("Seeds {first} to {} of each case.\n", first + searches - 1);
    let header = [
        "| engine | prompt, answer | objective | true capacity | estimates | interval contains it | bias | error: median | margin: median | only a range: held | loads held | met again, ten times as long | their mean / truth | time |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ];
    header.iter().for_each(|line| println!("{line}"));
    for (number, mut case) in CASES.into_iter().enumerate() {
        if only.is_some_and(|only| only != number) {
            continue;
        }
        if has("truth") {
            case.truth = case.long_truth();
            eprintln!("{} {}: {:.3}", case.engine, case.slo, case.truth);
        }
        print_row(&case, study.tally(&case)?, searches);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the table is the result")]
fn print_row(case: &Case, mut found: Tally, searches: u64) {
    let (bias, margin_of_bias) = found.bias();
    let mut sizes: Vec<f64> = found.errors.iter().map(|error| error.abs()).collect();
    let (held, estimates, loads_held) = (found.held, found.errors.len(), found.loads_held.len());
    println!(
        "| `{}` | {}, {} | `{}` | {:.2} req/s | {estimates} of {searches} | {held} of {estimates} ({:.1} %) | {:+.1} ± {:.1} % | {:.1} % | ±{:.1} % | {} of {} | {loads_held} of {searches} | {} ({:.0} %) | {:.1} % | {:.1} min |",
        case.engine,
        case.lengths.0,
        case.lengths.1,
        case.slo,
        case.truth,
        100.0 * held as f64 / estimates as f64,
        100.0 * bias,
        100.0 * margin_of_bias,
        100.0 * median(&mut sizes),
        100.0 * median(&mut found.margins),
        found.held_ranges,
        found.ranges,
        found.met_again,
        100.0 * found.met_again as f64 / loads_held as f64,
        100.0 * found.loads_held.iter().sum::<f64>() / loads_held as f64,
        found.seconds / searches as f64 / 60.0,
    );
    if found.others > 0 {
        println!("{} searches had no answer", found.others);
    }
}
