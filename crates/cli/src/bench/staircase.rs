//! A staircase of concurrency on the terminal: a line per step, and one table of all.

use std::path::Path;

use serde_json::{Value, json};
use tokometer_base::Nanos;
use tokometer_campaign::{Event, Observer};
use tokometer_decide::staircase::{StairEnd, StairStep, StaircaseFindings, knee};
use tokometer_figures::{Quantity, Summary};
use tokometer_measure::IdentifiedServer;
use tokometer_plan::{Plan, Shown};
use tokometer_report::Style;
use tokometer_report::export::write_file;
use tokometer_report::staircase::{STAIRCASE, text as staircase_text};

use super::SummarisedRun;
use super::screen::{Look, Screen};
use crate::exit::Refusal;
use crate::terminal::{print, print_note};

pub(crate) struct StairsScreen<'a> {
    screen: Screen<'a>,
    /// Every step's plan but for its load.
    pub(crate) plan: &'a Plan,
    pub(crate) server: IdentifiedServer,
    pub(crate) budget: Nanos,
}

pub(crate) struct ShownStairs {
    pub(crate) findings: StaircaseFindings,
    pub(crate) runs: Vec<SummarisedRun>,
}

impl<'a> StairsScreen<'a> {
    pub(crate) fn new(plan: &'a Plan, server: IdentifiedServer, budget: Nanos) -> Self {
        let screen = Screen::new(&[], Style::default(), Look::Silent);
        Self { screen, plan, server, budget }
    }

    pub(crate) fn shown(&mut self, steps: &[StairStep], ending: StairEnd) -> ShownStairs {
        // Of each step the last run, which is its longest.
        let mut runs: Vec<SummarisedRun> = Vec::new();
        for run in std::mem::take(&mut self.screen.runs) {
            let cap = |run: &SummarisedRun| run.info.load.max_concurrency;
            match runs.iter_mut().find(|known| cap(known) == cap(&run)) {
                Some(known) => *known = run,
                None => runs.push(run),
            }
        }
        let knee = knee(steps);
        let target = runs.first().and_then(|run| run.info.targets.first());
        let model = target.map(|target| target.model.clone()).or(self.server.model.clone());
        let route = target.map_or("", |target| target.endpoint.as_str());
        let highest = steps.iter().filter_map(|step| step.requests_per_s).max_by(f64::total_cmp);
        let findings = StaircaseFindings {
            server: self.server.identity.to_string(),
            address: target.map(|target| target.base_url.clone()).unwrap_or_default(),
            model: model.unwrap_or_default(),
            workload: format!("{route}, {}", super::next_command::workload(self.plan)),
            budget_s: self.budget.as_secs_f64(),
            ending,
            knee: knee.map(|at| steps[at].concurrency),
            next: runs.first().map(|first| super::next_command::capacity(first, highest)),
            steps: steps.to_vec(),
        };
        ShownStairs { findings, runs }
    }
}

impl Observer for StairsScreen<'_> {
    fn event(&mut self, event: Event<'_>) -> Result<(), Refusal> {
        match event {
            Event::Step { step, left } => {
                let runs = &self.screen.runs;
                if runs.len() == 1 {
                    print_note(&row(GROWING.map(str::to_owned)));
                }
                if let Some(last) = runs.last() {
                    print_note(&step_line(step, last, left));
                }
                if let [first] = runs.as_slice() {
                    say_step_remarks(first);
                }
                Ok(())
            }
            other => self.screen.event(other),
        }
    }
}

fn say_step_remarks(shown: &SummarisedRun) {
    for text in &shown.info.remarks {
        print_note(&format!("note: {text}"));
    }
}

/// The columns of a step's line while the staircase grows; the table of all has more.
const GROWING: [&str; 6] = ["in flight", "req/s", "tok/s", "TTFT p50", "E2E p50", "left"];

fn row(cells: [String; 6]) -> String {
    cells.map(|cell| format!("{cell:>9}")).join("  ")
}

/// `        8     12.1     1548   26.0 ms    790 ms       61 s`.
fn step_line(step: &StairStep, shown: &SummarisedRun, left: Nanos) -> String {
    let summary = &shown.summary;
    let median = |quantity: Quantity| {
        let entry = summary.distribution(quantity)?.percentile(50.0)?;
        entry.value.map(|value| Nanos::from_millis_f64(value).to_string())
    };
    let rate = |quantity| summary.figure(quantity).map(|value: f64| format!("{value:.1}"));
    let known = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let failed = Some(format!("  {} failed", summary.counts.failed));
    row([
        step.concurrency.to_string(),
        known(rate(Quantity::Requests)),
        known(rate(Quantity::Output)),
        known(median(Quantity::Ttft)),
        known(median(Quantity::E2e)),
        format!("{} s", left.whole_seconds()),
    ]) + &failed.filter(|_| summary.counts.failed > 0).unwrap_or_default()
}

impl ShownStairs {
    pub(crate) fn write(&self, folder: &Path) -> Result<(), Refusal> {
        let text = serde_json::to_string_pretty(&self.findings).unwrap_or_default();
        write_file(&folder.join(STAIRCASE), &text)
    }

    pub(crate) fn show(&self, shown: Shown, style: Style) -> Result<(), Refusal> {
        match shown {
            Shown::Text => {
                let runs: Vec<&Summary> = self.runs.iter().map(|run| &run.summary).collect();
                print(&staircase_text(&self.findings, &runs, style))
            }
            Shown::Json => {
                let runs: Vec<Value> = self.runs.iter().map(SummarisedRun::json).collect();
                print(&format!("{:#}\n", json!({ "staircase": self.findings, "runs": runs })))
            }
            Shown::Nothing => Ok(()),
        }
    }
}
