//! Whole campaigns in virtual time.

use tokometer_base::Nanos;
use tokometer_base::refusal::{Refusal, RefusalKind};
use tokometer_decide::capacity::{Ending, Findings, LoadKind};
use tokometer_decide::search::SearchResult;
use tokometer_decide::staircase::{StairEnd, Staircase};
use tokometer_decide::{Slo, staircase};
use tokometer_sim::Profile;

use crate::testing::{figures, plan, run as single};
use crate::{
    Event, Executor, Fate, KeptEvents, Observer, PlannedRun, RunRecord, Search, SearchBounds,
    SearchSetting, Stairs, Sweep, Virtual, run,
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

#[test]
fn a_staircase_climbs_to_its_knee_within_its_budget() {
    let budget = Nanos::from_secs(120);
    let mut stairs = Stairs {
        staircase: Staircase { budget, most: 1_024 },
        plan: plan("{}"),
        folder: "stairs".into(),
        figures: figures(),
        kept_events: KeptEvents::Plain,
        begin: Nanos::ZERO,
    };
    let mut engine = engine();
    let climbed = run(&mut stairs, &mut engine, &mut ()).unwrap();
    assert_eq!(climbed.end, StairEnd::Flat, "{climbed:?}");
    assert!(staircase::knee(&climbed.steps).is_some(), "{climbed:?}");
    assert!(engine.now <= budget + Nanos::from_secs(30), "{}", engine.now);
}

fn search(budget: Option<Nanos>) -> (Findings, Nanos) {
    let slo_text = "p99 ttft < 2s".to_owned();
    let slo = Slo::parse(&slo_text).unwrap();
    let mut figures = figures();
    figures.objectives = slo.request_limits();
    let mut search = Search::new(SearchSetting {
        slo,
        slo_text,
        over: LoadKind::RequestRate,
        start: None,
        most: 4_096.0,
        resolution: 0.05,
        points: budget.is_none().then_some(12),
        bounds: SearchBounds {
            longest: budget.is_none().then_some(Nanos::from_secs(60)),
            ..SearchBounds::default()
        },
        gpus: None,
        budget,
        begin: Nanos::ZERO,
        plan: plan("{}"),
        folder: "search".into(),
        figures,
        kept_events: KeptEvents::Plain,
        stairs: None,
    })
    .unwrap();
    let mut engine = engine();
    (run(&mut search, &mut engine, &mut ()).unwrap(), engine.now)
}

/// The true capacity for these lengths is 8.27 requests per second (`lab/data/capacity.md`).
#[test]
fn a_search_finds_the_capacity_and_one_with_a_budget_ends_in_time() {
    for budget in [None, Some(Nanos::from_secs(300))] {
        let (findings, took) = search(budget);
        let load = match findings.ending {
            Ending::Answered(SearchResult::Found { load, .. }) if budget.is_none() => load,
            // A slow server leaves time for the bracket alone.
            Ending::Answered(SearchResult::Unfinished { highest_met: Some(load), .. }) => load,
            other => panic!("{budget:?}: {other:?}"),
        };
        assert!((load / 8.27 - 1.0).abs() < 0.25, "{budget:?}: {load}");
        assert!(budget.is_none_or(|budget| took.as_secs_f64() < 1.1 * budget.as_secs_f64()));
    }
}
