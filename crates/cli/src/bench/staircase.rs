//! A bare URL: a short staircase of concurrency, one run per step, and one table of all.
//!
//! Which step comes next is decided by [`tokometer_decide::staircase`] from the steps alone. The folder is
//! that of a sweep over `load.max_concurrency`, with the findings beside the steps.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tokometer_base::{Clock, Nanos};
use tokometer_decide::staircase::{
    StairEnd, StairNext, StairStep, Staircase, StaircaseFindings, knee,
};
use tokometer_measure::{IdentifiedServer, Measurement};
use tokometer_plan::{Plan, Rate, Shown};
use tokometer_record::write_whole;
use tokometer_report::Style;
use tokometer_report::staircase::{STAIRCASE, text as staircase_text};

use super::SummarisedRun;
use super::events::KeptEvents;
use super::folder::{Destination, Earlier, RunFolder};
use super::sweep::{Blame, Look, PointJob, SweepCourse, SweepSize, one, point_folder};
use crate::exit::{Exit, Refusal, RefusalKind};
use crate::lower::PlannedPoint;
use crate::shards::Role;
use crate::terminal::{print, print_message, print_note};

/// A staircase to climb.
pub(crate) struct StaircaseRun<'a> {
    /// Every step's plan but for its load.
    pub(crate) plan: &'a Plan,
    pub(crate) staircase: Staircase,
    pub(crate) server: IdentifiedServer,
    /// Time for the budget.
    pub(crate) clock: Arc<dyn Clock>,
    /// What becomes of the events of each step.
    pub(crate) events: KeptEvents,
}

/// The steps of a staircase with their runs.
pub(crate) struct Climbed {
    pub(crate) findings: StaircaseFindings,
    pub(crate) runs: Vec<SummarisedRun>,
    pub(crate) exit: Exit,
}

impl StaircaseRun<'_> {
    /// Measures step by step below `place`.
    pub(crate) fn climb(
        &self,
        measurement: &mut Measurement,
        place: &RunFolder,
        role: &Role,
    ) -> Result<Climbed, Refusal> {
        let begin = self.clock.now();
        let (mut steps, mut runs) = (Vec::new(), Vec::new());
        let mut course = SweepCourse::default();
        let ending = loop {
            let spent = self.clock.now() - begin;
            let (concurrency, length) = match self.staircase.next(&steps, spent) {
                StairNext::Done(end) => break end,
                StairNext::Measure { concurrency, length } => (concurrency, length),
            };
            let point = self.point(concurrency, length);
            let number = u32::try_from(steps.len()).unwrap_or(u32::MAX);
            let folder = point_folder(place.path(), number, &point, SweepSize::Sweep);
            let (style, size) = (Style::default(), SweepSize::Sweep);
            let look = Look { style, size, is_silent: true };
            let destination = Destination { folder: &folder, earlier: Earlier::Refused };
            let job = PointJob { point: &point, number, destination };
            match one(measurement, job, role, look) {
                Ok((shown, exit)) => {
                    self.events.settle(&folder);
                    steps.push(StairStep::new(concurrency, &shown.summary));
                    let left = self.staircase.budget.saturating_sub(self.clock.now() - begin);
                    print_note(&step_line(steps.last(), &shown, left));
                    course.point(exit, Blame::Server);
                    if runs.is_empty() {
                        say_step_remarks(&shown);
                    }
                    runs.push(shown);
                }
                Err(refusal) if runs.is_empty() => return Err(refusal),
                Err(refusal) if refusal.kind == RefusalKind::Interrupted => {}
                Err(refusal) => {
                    print_message(&format!("error: {concurrency} in flight: {refusal}"));
                    course.point(refusal.kind.into(), Blame::Server);
                    break StairEnd::Failing;
                }
            }
            if measurement.is_interrupted() {
                course.point(Exit::Interrupted, Blame::Server);
                break StairEnd::Interrupted;
            }
        };
        let findings = self.findings(steps, &runs, ending);
        Ok(Climbed { findings, runs, exit: course.overall(SweepSize::Sweep) })
    }

    fn point(&self, concurrency: u32, length: Nanos) -> PlannedPoint {
        let mut plan = self.plan.clone();
        plan.load.max_concurrency = Some(concurrency);
        plan.load.request_rate = Rate(f64::INFINITY);
        plan.load.num_prompts = None;
        (plan.load.ramp, plan.load.until) = (None, None);
        plan.load.duration_s = Some(length.as_secs_f64());
        let coordinates = vec![("max_concurrency".to_owned(), concurrency.to_string())];
        PlannedPoint { heading: None, coordinates, plan }
    }

    fn findings(
        &self,
        steps: Vec<StairStep>,
        runs: &[SummarisedRun],
        ending: StairEnd,
    ) -> StaircaseFindings {
        let place = knee(&steps);
        let target = runs.first().and_then(|run| run.info.targets.first());
        let model = target.map(|target| target.model.clone()).or(self.server.model.clone());
        let route = target.map_or("", |target| target.endpoint.as_str());
        // Beyond the knee latencies are those of a queue; without one the last step is the best guess.
        let edge = place.or(runs.len().checked_sub(1)).and_then(|at| runs.get(at));
        StaircaseFindings {
            server: self.server.identity.to_string(),
            address: target.map(|target| target.base_url.clone()).unwrap_or_default(),
            model: model.unwrap_or_default(),
            workload: format!("{route}, {}", super::next_command::workload(self.plan)),
            budget_s: self.staircase.budget.as_secs_f64(),
            ending,
            knee: place.map(|at| steps[at].concurrency),
            next: edge.map(super::next_command::capacity),
            steps,
        }
    }
}

/// Remarks about the first step, which hold for all.
fn say_step_remarks(shown: &SummarisedRun) {
    for text in &shown.info.remarks {
        print_note(&format!("note: {text}"));
    }
}

/// `8 in flight: 12.1 req/s · 1548 tok/s · p50 TTFT 26 ms · p50 E2E 790 ms (61 s left)`.
fn step_line(step: Option<&StairStep>, shown: &SummarisedRun, left: Nanos) -> String {
    let summary = &shown.summary;
    let median = |key: &str| {
        let entry = summary.distribution(key)?.percentile(50.0)?;
        entry.value.map(Nanos::from_millis_f64)
    };
    let rate = |value: Option<f64>, unit: &str| value.map(|value| format!("{value:.1} {unit}"));
    let parts: Vec<String> = [
        rate(summary.figure("requests_per_s"), "req/s"),
        rate(summary.figure("output_tokens_per_s"), "tok/s"),
        median("ttft_ms").map(|time| format!("p50 TTFT {time}")),
        median("e2e_ms").map(|time| format!("p50 E2E {time}")),
        Some(format!("{} failed", summary.counts.failed)).filter(|_| summary.counts.failed > 0),
    ]
    .into_iter()
    .flatten()
    .collect();
    let flights = step.map_or(0, |step| step.concurrency);
    format!("{flights} in flight: {} ({} s left)", parts.join(" · "), left.whole_seconds())
}

impl Climbed {
    /// Keeps the findings beside the steps.
    pub(crate) fn write(&self, place: &Path) -> Result<(), Refusal> {
        let path = place.join(STAIRCASE);
        let text = serde_json::to_string_pretty(&self.findings).unwrap_or_default();
        write_whole(&path, text.as_bytes()).map_err(|why| {
            Refusal::new(RefusalKind::Write, format!("cannot write `{}`: {why}", path.display()))
        })
    }

    /// The whole staircase for other programs.
    pub(crate) fn json(&self) -> Result<String, Refusal> {
        let internal =
            |why: serde_json::Error| Refusal::new(RefusalKind::Internal, why.to_string());
        let runs: Vec<Value> = self
            .runs
            .iter()
            .map(|run| serde_json::from_str(&run.json()))
            .collect::<Result<_, _>>()
            .map_err(internal)?;
        let document = json!({ "staircase": self.findings, "runs": runs });
        serde_json::to_string_pretty(&document).map(|text| text + "\n").map_err(internal)
    }

    /// Prints what the plan asks for.
    pub(crate) fn show(&self, shown: Shown, style: Style) -> Result<(), Refusal> {
        match shown {
            Shown::Text => {
                let runs: Vec<&SummarisedRun> = self.runs.iter().collect();
                print(&staircase_text(&self.findings, &runs, style))
            }
            Shown::Json => print(&self.json()?),
            Shown::Nothing => Ok(()),
        }
    }
}
