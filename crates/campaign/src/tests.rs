//! Whole campaigns in virtual time.

use tokometer_base::Nanos;
use tokometer_base::refusal::{Refusal, RefusalKind};
use tokometer_decide::capacity::{Ending, Findings, LoadKind};
use tokometer_decide::compare::{Conclusion, FailRule, RuleOutcome};
use tokometer_decide::search::{PointOutcome, SearchResult, Stage};
use tokometer_decide::staircase;
use tokometer_decide::staircase::{StairAim, Staircase};
use tokometer_plan::Judgement;
use tokometer_sim::Profile;
use tokometer_sim::what_if::changed;

use crate::testing::{figures, plan, run as single, search_setting};
use crate::{
    Against, Event, Executor, Fate, KeptEvents, Observer, PlannedRun, RunRecord, Search, Stairs,
    Sweep, Virtual, run,
};

fn engine() -> Virtual {
    Virtual::new(Profile::shipped("small").unwrap())
}

/// Fails at the runs of these numbers.
struct Failing {
    inner: Virtual,
    at: &'static [u32],
    kind: RefusalKind,
}

impl Executor for Failing {
    fn run(&mut self, run: &PlannedRun, observer: &mut dyn Observer) -> Result<RunRecord, Refusal> {
        if self.at.contains(&run.number) {
            return Err(Refusal::new(self.kind, "as it was told"));
        }
        self.inner.run(run, observer)
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }
}

/// The problems that were told.
#[derive(Default)]
struct Told(Vec<String>);

impl Observer for Told {
    fn event(&mut self, event: Event<'_>) -> Result<(), Refusal> {
        if let Event::Problem(text) = event {
            self.0.push(text);
        }
        Ok(())
    }
}

#[test]
fn a_point_that_cannot_be_measured_does_not_end_a_sweep_but_an_unreached_server_does() {
    let sweep = || Sweep { runs: (0..3).map(|number| PlannedRun { number, ..single() }).collect() };
    let check = |at, kind| {
        let mut told = Told::default();
        let found = run(&mut sweep(), &mut Failing { inner: engine(), at, kind }, &mut told);
        (found.map(|found| found.fates), told.0.len())
    };
    let (fates, told) = check(&[1], RefusalKind::Usage);
    let failed = Fate::Refused(RefusalKind::Usage);
    assert_eq!((fates.unwrap(), told), (vec![Fate::Done, failed, Fate::Done], 1));
    let (fates, told) = check(&[0], RefusalKind::Target);
    assert_eq!((fates.unwrap_err().kind, told), (RefusalKind::Target, 0));
    // Two points in a row without a success: the third would be another.
    let (fates, told) = check(&[1, 2], RefusalKind::Target);
    assert_eq!((fates.unwrap().len(), told), (2, 2));
}

/// Every run's number in flight and its time.
#[derive(Default)]
struct StairRuns {
    runs: Vec<(u32, f64)>,
    spent: f64,
}

impl Observer for StairRuns {
    fn event(&mut self, event: Event<'_>) -> Result<(), Refusal> {
        if let Event::Step { step, left } = event {
            let spent = -left.as_secs_f64();
            self.runs.push((step.concurrency, spent - self.spent));
            self.spent = spent;
        }
        Ok(())
    }
}

/// Every step is twice the one before, at least 95 % of the budget is used, and most of it at the knee
/// and the two steps beside it.
fn check_staircase(profile: &str, seconds: u64, load: &str) {
    let budget = Nanos::from_secs(seconds);
    let mut stairs = Stairs {
        staircase: Staircase { budget, most: 1_024, aim: StairAim::Knee },
        plan: plan(load),
        folder: "stairs".into(),
        figures: figures(),
        kept_events: KeptEvents::Plain,
        begin: Nanos::ZERO,
    };
    let mut engine = Virtual::new(Profile::shipped(profile).unwrap());
    let mut told = StairRuns { spent: -(seconds as f64), ..StairRuns::default() };
    let climbed = run(&mut stairs, &mut engine, &mut told).unwrap();
    let rising: Vec<u32> = climbed.steps.iter().map(|step| step.concurrency).collect();
    let doubled: Vec<u32> = (0..rising.len()).map(|at| 1 << at).collect();
    assert_eq!(rising, doubled, "{profile}, {seconds} s");
    let used = engine.now.as_secs_f64() / seconds as f64;
    let knee = staircase::knee(&climbed.steps);
    let around = knee.or(rising.len().checked_sub(1)).unwrap();
    let around = rising[around.saturating_sub(1)]..=2 * rising[around];
    let at_knee = told.runs.iter().filter(|(flights, _)| around.contains(flights));
    let at_knee = at_knee.map(|(_, took)| took).sum::<f64>() / seconds as f64;
    let shown = format!(
        "{profile}, {seconds} s: {:.1} % used, {:.1} % around {:?}, {:?}: {:?}",
        100.0 * used,
        100.0 * at_knee,
        knee.map(|at| rising[at]),
        climbed.end,
        told.runs
    );
    println!("{shown}");
    assert!((0.95..1.03).contains(&used), "{shown}");
    assert!(at_knee > 0.5 || knee.is_none(), "{shown}");
}

#[test]
fn a_staircase_skips_no_step_uses_its_budget_and_spends_most_of_it_around_the_knee() {
    const VARIED: &str = r#"{"workload": {
        "dataset": "random", "input_len": 512, "output_len": 128, "prefix_len": 0,
        "content_path": null, "range_ratio": 0.5
    }}"#;
    for profile in ["small", "default"] {
        for seconds in [60, 120, 300] {
            check_staircase(profile, seconds, VARIED);
        }
    }
}

fn search(budget: Option<Nanos>) -> (Findings, Nanos) {
    let mut search = Search::new(search_setting(budget)).unwrap();
    let mut engine = engine();
    (run(&mut search, &mut engine, &mut ()).unwrap(), engine.now)
}

/// Of server B against server A, whose steps take this many times as long.
fn against(scale: f64, load: &str) -> Vec<(String, f64, Option<Conclusion>)> {
    let turns = r#""interleave": {"block_requests": 20, "order": "drawn"}"#;
    let mut plan = plan(&format!(r#"{{"load": {{"num_prompts": 400, {load}}}, {turns}}}"#));
    plan.targets.push(plan.targets[0].clone());
    let (slower, _) = changed(engine().profile, &[format!("cost.scale={scale}")]).unwrap();
    let mut engines = Virtual { against: Some(slower), ..engine() };
    let mut procedure = Against { run: PlannedRun { plan, ..single() } };
    let found = run(&mut procedure, &mut engines, &mut ()).unwrap();
    assert_eq!(found.fate, Fate::Done);
    let comparison = found.comparison.unwrap();
    assert_eq!(
        (comparison.pairs, comparison.a.succeeded, comparison.b.succeeded),
        (Some(10), 200, 200)
    );
    let row = |row: &tokometer_decide::compare::ComparedFigure| {
        (row.figure.label(), row.change(), row.conclusion)
    };
    comparison.rows.iter().map(row).collect()
}

#[test]
fn two_equal_servers_in_turn_do_not_differ_and_a_slower_one_does() {
    for load in [r#""request_rate": 4.0"#, r#""request_rate": "inf", "max_concurrency": 4"#] {
        for (figure, change, conclusion) in against(1.0, load) {
            let is_other = matches!(conclusion, Some(Conclusion::Better | Conclusion::Worse));
            assert!(!is_other, "{figure} {change} {conclusion:?} at {load}");
        }
        let slower = against(1.2, load);
        let tpot = slower.iter().find(|(figure, ..)| figure == "mean TPOT").unwrap();
        assert_eq!(tpot.2, Some(Conclusion::Worse), "{tpot:?} at {load}");
        assert!((0.1..0.4).contains(&tpot.1), "{tpot:?} at {load}");
    }
}

/// The gate of `docs/ci-gate.md` as printed: how often it ended INVALID, and how often a rule failed.
#[derive(Debug, Default, PartialEq, Eq)]
struct GateCount {
    invalid: u64,
    broken: u64,
}

/// So many gates, where the steps of server B take this many times as long.
fn gates(count: u64, scale: f64) -> GateCount {
    let change = r#"{"load": {"num_prompts": 2000, "request_rate": "inf", "max_concurrency": 32},
        "interleave": {"block_requests": 50, "order": "drawn"}}"#;
    let rules = ["p99 ttft worse by 5%", "throughput worse by 3%"];
    let rules = rules.map(|rule| FailRule::parse(rule).unwrap());
    let profile = Profile::shipped("default").unwrap();
    let (other, _) = changed(profile.clone(), &[format!("cost.scale={scale}")]).unwrap();
    let mut found = GateCount::default();
    for seed in 0..count {
        let mut plan = plan(change);
        plan.seed = seed;
        plan.metrics.judgement = Judgement::Strict;
        plan.targets.push(plan.targets[0].clone());
        let mut engines = Virtual { against: Some(other.clone()), ..Virtual::new(profile.clone()) };
        let mut procedure = Against { run: PlannedRun { plan, ..single() } };
        let compared = run(&mut procedure, &mut engines, &mut ()).unwrap();
        let judged = compared.comparison.unwrap().judged(&rules);
        found.invalid += u64::from(compared.fate == Fate::Invalid);
        found.broken +=
            u64::from(judged.rules.iter().any(|rule| rule.outcome == RuleOutcome::Broken));
    }
    found
}

/// Blocks of 50 requests on 32 slots drain, which was a slow refill: equal servers ended INVALID. 40 of 40
/// passed, and 40 of 40 with a server that is 20 % slower failed (`TOKOMETER_GATES=40`).
#[test]
fn the_gate_passes_equal_servers_and_fails_one_that_is_a_fifth_slower() {
    #[expect(clippy::disallowed_methods, reason = "a longer study, on request")]
    let count = std::env::var("TOKOMETER_GATES").ok().and_then(|count| count.parse().ok());
    let count = count.unwrap_or(2);
    assert_eq!(gates(count, 1.0), GateCount::default());
    assert_eq!(gates(count, 1.2), GateCount { invalid: 0, broken: count });
}

/// Of the engine `small` with these lengths, in requests per second (`lab/data/capacity.md`).
const TRUTH: f64 = 8.27;

#[test]
fn a_search_states_an_interval_that_holds_the_capacity() {
    let (findings, _) = search(None);
    let Ending::Answered(SearchResult::Found { load, low, high, .. }) = findings.ending else {
        panic!("{:?}", findings.ending)
    };
    assert!((load / TRUTH - 1.0).abs() < 0.1, "{load}");
    assert!(low.is_none_or(|low| low < TRUTH) && high.is_some_and(|high| high > TRUTH));
}

/// Conversations of three turns, with a pause of two seconds before each next one.
#[test]
fn a_search_finds_how_many_sessions_are_held_by_an_objective_on_their_time() {
    let mut setting = search_setting(None);
    let slo_text = "p90 session < 8s".to_owned();
    let slo = tokometer_decide::Slo::parse(&slo_text).unwrap();
    (setting.over, setting.start, setting.points) = (LoadKind::Sessions, Some(4.0), Some(6));
    (setting.figures.percentiles, setting.slo, setting.slo_text) =
        (vec![50.0, 90.0], slo, slo_text);
    setting.plan = plan(
        r#"{"load": {"num_prompts": 3000}, "prompts": {"turns": {"least": 3, "most": 3, "think_ms": 2000.0}},
        "workload": {"dataset": "random", "input_len": 64, "output_len": 16, "prefix_len": 0,
        "range_ratio": 0.0, "content_path": null}}"#,
    );
    let found = run(&mut Search::new(setting).unwrap(), &mut engine(), &mut ()).unwrap();
    assert!(found.sentence.contains("sessions"), "{}", found.sentence);
    let of = |fit: PointOutcome| found.points.iter().filter(move |point| point.fit == fit);
    let met = of(PointOutcome::Met).map(|point| point.load).max_by(f64::total_cmp).unwrap();
    let missed = of(PointOutcome::Missed).map(|point| point.load).min_by(f64::total_cmp).unwrap();
    assert!(met >= 4.0 && met < missed, "{met} {missed}");
    for point in &found.points {
        let value = point.objectives[0].value.unwrap_or(f64::INFINITY);
        assert_eq!(point.fit == PointOutcome::Met, value < 8_000.0, "{point:?}");
    }
}

/// Five minutes contain too few requests of a slow server: the bracket is what is known.
#[test]
fn a_search_with_a_budget_ends_in_time_and_states_no_more_than_it_knows() {
    let budget = Nanos::from_secs(300);
    let (findings, took) = search(Some(budget));
    assert_eq!(findings.held, None);
    let Ending::Answered(SearchResult::Unfinished { highest_met, lowest_missed }) = findings.ending
    else {
        panic!("{:?}", findings.ending)
    };
    let (Some(met), Some(missed)) = (highest_met, lowest_missed) else { panic!("no bracket") };
    assert!(met < missed && missed < 1.3 * met, "{met} {missed}");
    assert!((met / TRUTH - 1.0).abs() < 0.2, "{met}");
    assert!(took.as_secs_f64() < 1.05 * budget.as_secs_f64(), "{took}");
}

/// The estimate was the whole answer, and the server missed the objectives at it. Loads were those that were
/// asked for, which a short point does not send.
#[test]
fn a_search_ends_with_a_load_that_was_run_and_met_the_objectives() {
    let mut setting = search_setting(Some(Nanos::from_secs(300)));
    let slo = tokometer_decide::Slo::parse("p99 ttft < 200ms").unwrap();
    (setting.figures.objectives, setting.slo) = (slo.request_limits(), slo);
    let mut engine = Virtual::new(Profile::shipped("default").unwrap());
    let found = run(&mut Search::new(setting).unwrap(), &mut engine, &mut ()).unwrap();
    let point = found.held_point().unwrap();
    assert!(point.objectives[0].value.is_some_and(|value| value < 200.0) && !point.is_short);
    assert!(found.sentence.contains("req/s held (p99 ttft"), "{}", found.sentence);
    let after = found.points.iter().position(|one| one.stage == Stage::Hold).unwrap();
    let estimate = &found.points[after - 1];
    assert!(estimate.stage == Stage::Estimate && estimate.requests < point.requests);
    for point in &found.points {
        let away = point.sent() / point.load - 1.0;
        assert!(away.abs() > 1e-9 && away.abs() < 0.02, "{} of {}", point.sent(), point.load);
        let served = point.requests_per_s.unwrap();
        assert!(point.fit != PointOutcome::Met || (served / point.sent() - 1.0).abs() < 0.15);
    }
    assert!(engine.now < Nanos::from_secs(315), "{}", engine.now);
}
