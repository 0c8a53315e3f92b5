//! The search of `tokometer capacity` in virtual time: the same procedure as in the product, with the engine's
//! model as its executor. What a real search spends besides its points, such as flushing a cache, takes no
//! time here.

use tokometer_base::Nanos;
use tokometer_base::refusal::Refusal;
use tokometer_campaign::{KeptEvents, Search, SearchBounds, SearchSetting, Virtual, run};
use tokometer_decide::capacity::{Ending, Findings, LoadKind};
use tokometer_decide::search::SearchResult;
use tokometer_decide::slo::Slo;
use tokometer_figures::SummaryOptions;
use tokometer_plan::Plan;
use tokometer_sim::Profile;

use super::search::Case;
use crate::virtual_runs::info;

/// A search that has ended.
pub(crate) struct Searched {
    pub(crate) answer: SearchResult,
    pub(crate) findings: Findings,
    /// Virtual time.
    pub(crate) took: Nanos,
}

impl Case {
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
    pub(crate) fn searched(&self, seed: u64, budget: Option<Nanos>) -> Result<Searched, Refusal> {
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
        let mut engine = Virtual::new(Profile::shipped(self.engine).expect("a shipped profile"));
        let findings = run(&mut Search::new(setting)?, &mut engine, &mut ())?;
        let Ending::Answered(answer) = findings.ending.clone() else {
            return Err(Refusal::usage(format!("no answer: {:?}", findings.ending), ""));
        };
        Ok(Searched { answer, findings, took: engine.now })
    }
}

/// Temporary: the copy beside the product.
#[expect(clippy::print_stdout, reason = "a table")]
pub(crate) fn compare(arguments: &[String]) {
    use super::search::{CASES, LENGTH, LIMITS};
    use crate::virtual_runs::in_parallel;
    let seeds: u64 = arguments.first().and_then(|word| word.parse().ok()).unwrap_or(40);
    println!("| case | budget | who | found | mean error | held | range | time |");
    for (at, case) in CASES.iter().enumerate() {
        if arguments.get(1).is_some_and(|word| !word.split(',').any(|one| one == at.to_string())) {
            continue;
        }
        for budget in [None, Some(Nanos::from_secs(300))] {
            let copy = in_parallel(seeds, |seed| match budget {
                None => {
                    let (answer, points) = case.search(seed, LIMITS, LENGTH);
                    let seconds = points.iter().map(|one| one.requests as f64 / one.load).sum();
                    (answer, seconds)
                }
                Some(budget) => {
                    let (answer, took) = case.search_within(seed, budget);
                    (answer, took.as_secs_f64())
                }
            });
            let own = in_parallel(seeds, |seed| {
                let one = case.searched(seed, budget).expect("an answer");
                (one.answer, one.took.as_secs_f64())
            });
            for (who, found) in [("copy", copy), ("product", own)] {
                let (mut errors, mut held, mut ranges, mut time) = (Vec::new(), 0, 0, 0.0);
                for (answer, took) in &found {
                    time += took;
                    match answer {
                        SearchResult::Found { load, low, high, .. } => {
                            errors.push(load / case.truth - 1.0);
                            held += usize::from(
                                low.is_none_or(|low| low <= case.truth)
                                    && high.is_none_or(|high| high >= case.truth),
                            );
                        }
                        _ => ranges += 1,
                    }
                }
                let count = errors.len().max(1) as f64;
                let mean = errors.iter().sum::<f64>() / count;
                let spread = (errors.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / count).sqrt();
                println!(
                    "| {at} | {budget:?} | {who} | {} | {:+.1} ± {:.1} % | {held} | {ranges} | {:.1} min |",
                    errors.len(), 100.0 * mean, 196.0 * spread / count.sqrt(), time / found.len() as f64 / 60.0
                );
            }
        }
    }
}
