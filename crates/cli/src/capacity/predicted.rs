//! `tokometer capacity --engine`: the same search against an engine model in virtual time.
//!
//! Every point is predicted instead of measured; the search, its figures and its interval are those of
//! a measurement. Lists in `--set` and `--replicas` give one search per combination, which answers how
//! many replicas, which batch limit or which token budget holds the objectives. Everything shown is
//! headed as a prediction.

use std::path::PathBuf;

use tokometer_campaign::{Search, SearchSetting, Virtual, run};
use tokometer_decide::capacity::{Ending, LoadKind};
use tokometer_decide::search::SearchResult;
use tokometer_plan as plan;
use tokometer_report::capacity::{
    PredictedCapacities, PredictedCapacity, PredictedChoice, predictions,
};
use tokometer_twin as twin;

use super::{asked_budget, say_objectives, setting};
use crate::activity::Activity;
use crate::args::{CapacityArgs, EngineArgs};
use crate::bench::{Say, workload_words};
use crate::exit::{Exit, Refusal};
use crate::predict::{EngineChoice, free_memory, prediction_plan};
use crate::session::{Given, say_remarks, show_plan};
use crate::terminal::print;
use crate::version;

/// So many searches take a while even in virtual time.
const MOST_SEARCHES: usize = 64;

/// Every combination of the lists; the first list varies slowest.
fn combinations(args: &EngineArgs) -> Result<Vec<PredictedChoice>, Refusal> {
    let mut found = vec![Vec::new()];
    for setting in &args.set {
        let (key, values) = setting.split_once('=').unwrap_or((setting, ""));
        let each: Vec<String> =
            values.split(',').map(|value| format!("{key}={}", value.trim())).collect();
        found = found
            .iter()
            .flat_map(|set| {
                each.iter().map(|one| [set.as_slice(), std::slice::from_ref(one)].concat())
            })
            .collect();
    }
    let replicas = if args.replicas.is_empty() { &[1][..] } else { &args.replicas };
    let of = |set: &Vec<String>| {
        let of = |replicas: &usize| PredictedChoice { replicas: *replicas, set: set.clone() };
        replicas.iter().map(of).collect::<Vec<_>>()
    };
    let all: Vec<PredictedChoice> = found.iter().flat_map(of).collect();
    if all.len() > MOST_SEARCHES {
        return Err(Refusal::usage(
            format!(
                "cannot search {} combinations: at most {MOST_SEARCHES} are searched",
                all.len()
            ),
            "shorten the lists of `--set` and `--replicas`",
        ));
    }
    Ok(all)
}

/// A prediction has no target and draws nothing.
fn check_flags(args: &CapacityArgs) -> Result<(), Refusal> {
    if args.at.url.is_some() || args.bench.has_any(&["base-url", "host", "sim"]) {
        return Err(Refusal::usage(
            "cannot use `--engine` with a server: it predicts without one",
            "omit `--engine` to measure, or the target to predict",
        ));
    }
    if let Some(page) = &args.bench.html {
        return Err(Refusal::usage(
            format!("cannot write `{}`: `--engine` measures nothing to draw", page.display()),
            "use `--format json` for the predicted points",
        ));
    }
    Ok(())
}

pub(super) fn capacity(
    args: &CapacityArgs,
    order: &[String],
    given: &Given,
) -> anyhow::Result<Exit> {
    check_flags(args)?;
    let name = args.engine.engine.as_deref().unwrap_or("default");
    let lowered = prediction_plan(Some(name), &args.bench, order, &given.environment)?;
    say_remarks(&lowered);
    if args.bench.print_plan {
        return show_plan(&lowered.plan, &lowered);
    }
    // Virtual time is free, so only a budget that was asked for bounds a search.
    let budget = asked_budget(args, &given.environment.presets.layers()?)?;
    say_objectives(&Search::new(setting(args, &lowered.plan, PathBuf::new())?)?);
    let over = LoadKind::from(args.over);
    let wanted = match over {
        LoadKind::RequestRate => {
            Some(lowered.plan.load.request_rate.0).filter(|rate| rate.is_finite())
        }
        LoadKind::Sessions => lowered.plan.load.max_sessions.map(f64::from),
        LoadKind::Concurrency => lowered.plan.load.max_concurrency.map(f64::from),
    };
    let mut found = PredictedCapacities {
        is_prediction: true,
        engine: name.to_owned(),
        workload: workload_words(&lowered.plan),
        wanted,
        beyond_range: None,
        capacities: Vec::new(),
    };
    let combinations = combinations(&args.engine)?;
    let (activity, total) = (Activity::start("capacity: predicting"), combinations.len());
    for (done, combination) in combinations.into_iter().enumerate() {
        activity.reporter()(done, total, "searches");
        let engine = EngineChoice::open(Some(name), None)?.set(&combination.set)?;
        let mut engine = Virtual {
            options: twin::PredictOptions {
                replicas: combination.replicas,
                routing: args.engine.router,
                client: engine.profile.client.unwrap_or_default(),
                ..twin::PredictOptions::default()
            },
            secrets: lowered.secrets.clone(),
            version: version::long(),
            memory_bytes: free_memory(),
            ..Virtual::new(engine.profile)
        };
        let setting = setting(args, &lowered.plan, PathBuf::new())?;
        let mut search = Search::new(SearchSetting { budget, ..setting })?;
        let findings = run(&mut search, &mut engine, &mut Say)?;
        found.beyond_range = engine.beyond.max(found.beyond_range);
        found.capacities.push(PredictedCapacity { combination, findings });
    }
    drop(activity);
    match lowered.plan.output.shown {
        plan::Shown::Text => print(&predictions(&found))?,
        plan::Shown::Json => print(&format!("{}\n", serde_json::to_string_pretty(&found)?))?,
        plan::Shown::Nothing => {}
    }
    let holds_none = |one: &PredictedCapacity| {
        matches!(one.findings.ending, Ending::Answered(SearchResult::NoneMeets { .. }))
            || one.findings.unreached().is_some()
    };
    Ok(if found.capacities.iter().all(holds_none) { Exit::Missed } else { Exit::Done })
}

#[cfg(test)]
mod tests {
    use tokometer_twin::Routing;

    use super::*;

    fn args(set: &[&str], replicas: &[usize]) -> EngineArgs {
        EngineArgs {
            engine: Some("default".to_owned()),
            set: set.iter().map(|one| (*one).to_owned()).collect(),
            replicas: replicas.to_vec(),
            router: Routing::default(),
        }
    }

    #[test]
    fn lists_give_every_combination() {
        let names = |args: &EngineArgs| {
            combinations(args).unwrap().iter().map(PredictedChoice::name).collect::<Vec<_>>()
        };
        assert_eq!(names(&args(&[], &[])), ["replicas=1"]);
        assert_eq!(
            names(&args(&["scheduler.max_seqs=64, 128", "cost.scale=1.1"], &[1, 2])),
            [
                "replicas=1 scheduler.max_seqs=64 cost.scale=1.1",
                "replicas=2 scheduler.max_seqs=64 cost.scale=1.1",
                "replicas=1 scheduler.max_seqs=128 cost.scale=1.1",
                "replicas=2 scheduler.max_seqs=128 cost.scale=1.1",
            ]
        );
        let many: Vec<usize> = (1..=65).collect();
        let refusal = combinations(&args(&[], &many)).unwrap_err().to_string();
        assert!(refusal.contains("cannot search 65 combinations"), "{refusal}");
    }
}
