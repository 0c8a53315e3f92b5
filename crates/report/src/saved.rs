//! From the record of a run to what is shown of it: the same way for every command.

use std::path::Path;

use serde_json::{Value, json};
use tokometer_base::{Conventions, Refusal, RefusalKind};
use tokometer_compat::{self as classic, Layout, LayoutChoice, Metric};
use tokometer_decide::Slo;
use tokometer_decide::compare::{Comparison, Half};
use tokometer_figures::{Details, Family, Objectives, Quantity, Summary, SummaryOptions};
use tokometer_plan::{Metrics, Output, Plan, ab_blocks};
use tokometer_record::{RunInfo, RunReader, stored};

use crate::comparison;
use crate::objectives::{ObjectiveLine, objective_lines};
use crate::reading::Reading;
use crate::summary::short;
use crate::{
    Style, failure_lines, print_report, print_screen, print_summary, summary_csv, summary_json,
};

#[derive(Debug, Clone)]
pub struct RunView {
    pub layout: LayoutChoice,
    pub shown: classic::Selection,
    /// Limits that good requests meet, of `--goodput`.
    objectives: Objectives,
    /// What the run is judged by.
    slo: Slo,
    /// Families that result files need besides the block's.
    families: Vec<Family>,
    /// Whether values per request are wanted.
    details: Details,
}

impl RunView {
    /// The view that a plan asks for.
    pub fn new(metrics: &Metrics) -> Result<Self, Refusal> {
        let layout = LayoutChoice::named(&metrics.layout)
            .map_err(|why| Refusal::usage(why.to_string(), ""))?;
        let objective = |name: &str| metrics.goodput.get(name).copied();
        Ok(Self {
            layout,
            shown: classic::Selection {
                metrics: sections(&metrics.sections, layout),
                percentiles: metrics.percentiles.clone(),
            },
            objectives: Objectives {
                ttft_ms: objective("ttft"),
                tpot_ms: objective("tpot"),
                e2el_ms: objective("e2el"),
            },
            slo: asked_objectives(metrics)?,
            ..Self::plain(classic::Selection::default())
        })
    }

    /// Statistics alone, in the layout of the run's own tool.
    pub fn plain(shown: classic::Selection) -> Self {
        Self {
            layout: LayoutChoice::Auto,
            shown,
            objectives: Objectives::default(),
            slo: Slo::default(),
            families: Vec::new(),
            details: Details::Drop,
        }
    }

    /// The same view with what these objectives need.
    #[must_use]
    pub fn with_objectives(mut self, slo: &Slo) -> Self {
        self.shown.percentiles.extend(slo.percentiles());
        self.slo = slo.clone();
        self
    }

    /// The same view with the objectives of the run's own plan, unless it has others.
    #[must_use]
    fn for_run(mut self, info: &RunInfo) -> Self {
        let recorded = info.plan.pointer("/metrics/slo").and_then(Value::as_str);
        if let Some(text) = recorded.filter(|_| self.slo.objectives.is_empty()) {
            self.slo = Slo::parse(text).unwrap_or_default();
        }
        self
    }

    /// The same view with the definitions of one more tool.
    #[must_use]
    pub fn with_family(mut self, family: Family) -> Self {
        self.families.push(family);
        self
    }

    /// The same view with what the plan's result files need.
    #[must_use]
    pub fn with_files(mut self, output: &Output) -> Self {
        let (vllm, sglang) = (output.vllm_result.as_ref(), output.sglang_result.as_ref());
        self.families.extend(vllm.map(|_| Family::Vllm));
        self.families.extend(sglang.map(|_| Family::Sglang));
        let is_detailed = vllm.is_some_and(|file| file.is_detailed)
            || sglang.is_some_and(|file| file.is_detailed);
        self.details = if is_detailed { Details::Keep } else { Details::Drop };
        self
    }

    /// What has to be computed of the runs of a plan.
    pub fn figures(&self, plan: &Plan) -> SummaryOptions {
        let backend = plan.targets.first().map_or("", |target| target.backend.name());
        self.options(layout_for(self, plan.conventions, backend))
    }

    fn options(&self, layout: Layout) -> SummaryOptions {
        let mut families = self.families.clone();
        families.push(layout.family().unwrap_or(Family::Vllm));
        families.sort_unstable();
        families.dedup();
        let mut shown = self.shown.clone();
        if !self.slo.objectives.is_empty() {
            shown.percentiles.extend(self.slo.percentiles());
        }
        SummaryOptions {
            percentiles: shown.needed_percentiles(),
            objectives: self.objectives,
            own_objectives: self.slo.has_goodput().then(|| self.slo.request_limits()),
            lenses: tokometer_compat::family::lenses(families, self.details),
        }
    }
}

/// The sections of these names. V5 is V4 with the sections of the client's queue: who names it asks
/// for them.
fn sections(names: &[String], layout: LayoutChoice) -> Vec<Metric> {
    let mut found: Vec<Metric> =
        names.iter().filter_map(|name| Quantity::parse(name).ok().and_then(Metric::of)).collect();
    if layout == LayoutChoice::Named(Layout::V5) {
        for metric in [Metric::ClientQueue, Metric::QueuedE2el] {
            if !found.contains(&metric) {
                found.push(metric);
            }
        }
    }
    found
}

/// The objectives of a plan, or why they cannot be judged.
pub fn asked_objectives(metrics: &Metrics) -> Result<Slo, Refusal> {
    // The error brings its own hint.
    let slo = metrics.slo.as_deref().map(Slo::parse).transpose();
    let slo = slo.map_err(|why| Refusal::usage(format!("cannot use `--slo`: {why}"), ""))?;
    let slo = slo.unwrap_or_default();
    match slo.goodput_alone() {
        None => Ok(slo),
        Some(goodput) => {
            let why = format!("`{}` needs a limit for a single request", goodput.text);
            let hint = "add one, such as `p99 ttft < 2s`";
            Err(Refusal::usage(format!("cannot use `--slo`: {why}"), hint))
        }
    }
}

#[derive(Debug)]
pub struct SummarisedRun {
    pub info: RunInfo,
    pub summary: Summary,
    layout: Layout,
    pub statistics: classic::Selection,
    /// What it is judged by.
    slo: Slo,
    /// The other target, where two were measured in turn; this is then the first.
    against: Option<Box<Against>>,
}

/// The second of two targets that were measured in turn.
#[derive(Debug)]
struct Against {
    shown: SummarisedRun,
    /// Absent where one side has no success.
    comparison: Option<Comparison>,
}

/// The layout to print: by default the newest of the tool whose conventions the run followed. Some backends
/// (`truss`, `vllm-chat`) are names of SGLang's tool alone. Sections of the client's queue are in one
/// layout only.
pub fn layout_of(view: &RunView, info: &RunInfo) -> Layout {
    let backend = info.targets.first().map_or("", |target| target.backend.as_str());
    layout_for(view, info.family, backend)
}

fn layout_for(view: &RunView, family: Conventions, backend: &str) -> Layout {
    let is_queue = |metric: &Metric| matches!(metric, Metric::ClientQueue | Metric::QueuedE2el);
    let layout = match view.layout {
        LayoutChoice::Auto if family == Conventions::Sglang => Layout::S3,
        choice => choice.for_backend(backend),
    };
    let shows_queue = view.layout == LayoutChoice::Auto && view.shown.metrics.iter().any(is_queue);
    if shows_queue && layout == Layout::V4 { Layout::V5 } else { layout }
}

impl Reading {
    pub fn summarise(self, folder: &Path, view: &RunView) -> Result<SummarisedRun, Refusal> {
        self.summarise_read(&stored::open(folder)?, view)
    }

    /// The same of a run that is open.
    pub fn summarise_read(
        self,
        reader: &RunReader,
        view: &RunView,
    ) -> Result<SummarisedRun, Refusal> {
        let view = &view.clone().for_run(reader.info());
        let options = view.options(layout_of(view, reader.info()));
        let ab = ab_blocks(reader.info())?;
        let sides = Half::all(reader, ab, &options)?;
        let comparison = Comparison::of_sides(reader, ab, &sides)?;
        self.summarise_sides(sides, comparison, reader, view)
    }

    /// The same where the figures are known: of one target, or of two that took turns.
    pub fn summarise_sides(
        self,
        sides: Vec<Half>,
        comparison: Option<Comparison>,
        reader: &RunReader,
        view: &RunView,
    ) -> Result<SummarisedRun, Refusal> {
        let layout = layout_of(view, reader.info());
        self.show_damages(reader);
        let mut sides = sides.into_iter().map(|Half { info, summary }| SummarisedRun {
            info,
            summary,
            layout,
            statistics: view.shown.clone(),
            slo: view.slo.clone(),
            against: None,
        });
        let (first, second) = (sides.next(), sides.next());
        let Some(mut first) = first else {
            return Err(Refusal::new(RefusalKind::Internal, "a run has no target"));
        };
        if let Some(shown) = second {
            first.against = Some(Box::new(Against { shown, comparison }));
        }
        Ok(first)
    }
}

impl SummarisedRun {
    /// The second of two targets that were measured in turn, and their comparison where both have a
    /// success.
    pub fn against(&self) -> Option<(&Self, Option<&Comparison>)> {
        self.against.as_ref().map(|against| (&against.shown, against.comparison.as_ref()))
    }

    /// The second of two targets by itself; this is then the first alone.
    pub fn take_against(&mut self) -> Option<Self> {
        self.against.take().map(|against| against.shown)
    }

    /// Its objectives, judged; those of a second target follow. Two targets are named `a` and `b`.
    pub fn objectives(&self) -> Vec<ObjectiveLine> {
        let of = |run: &Self| objective_lines(&run.slo, &run.summary, &run.info);
        let named = |name: &'static str, run: &Self| {
            of(run)
                .into_iter()
                .map(move |one| ObjectiveLine { text: format!("{name}  {}", one.text), ..one })
        };
        match &self.against {
            None => of(self),
            Some(against) => named("a", self).chain(named("b", &against.shown)).collect(),
        }
    }

    /// What was measured, and its objectives.
    pub fn text(&self, style: Style) -> Result<String, Refusal> {
        let lines = self.objectives();
        let mut text = self.figures_text(style)?;
        for (index, line) in lines.iter().enumerate() {
            text.push_str(if index == 0 { "\n" } else { "" });
            text.push_str(&line.text);
            text.push('\n');
        }
        Ok(text)
    }

    /// The classic block with the first screen under it, or with everything. Of two targets that took
    /// turns, the answer.
    fn figures_text(&self, style: Style) -> Result<String, Refusal> {
        let Some(against) = &self.against else { return self.own_text(style) };
        let comparison = match &against.comparison {
            None => "comparison: not possible, because one target has no successful request\n"
                .to_owned(),
            Some(comparison) if style.is_detailed => comparison::text(comparison),
            Some(comparison) => return Ok(comparison::answer(comparison)),
        };
        let (a, b) = (self.own_text(style)?, against.shown.own_text(style)?);
        Ok(format!("target a\n{a}\ntarget b\n{b}\n{comparison}"))
    }

    fn own_text(&self, style: Style) -> Result<String, Refusal> {
        let block = self.shown_report()?;
        let own = if style.is_detailed {
            print_summary(&self.summary, &self.info, block.as_ref(), style)
        } else {
            print_screen(&self.summary, &self.info, style)
        };
        Ok(match &block {
            None => own,
            Some(block) => format!("{}\n{own}", print_report(block, self.layout, style)),
        })
    }

    /// The report that a block shows. `None` in our own layout, and for a run that measured nothing: a
    /// block of zeros would look like a measurement.
    fn shown_report(&self) -> Result<Option<classic::Report>, Refusal> {
        let has_block = self.layout != Layout::Tokometer && !self.summary.is_unmeasured();
        has_block.then(|| self.report()).transpose()
    }

    /// The run in a line: what it is called, its rates, a median latency and its verdict.
    pub fn line(&self, label: &str) -> String {
        let rate = |quantity: Quantity, unit: &str| {
            self.summary.figure(quantity).map(|value| format!("{} {unit}", short(value)))
        };
        let median = |quantity: Quantity| {
            let value = self.summary.distribution(quantity)?.percentile(50.0)?.value?;
            Some(format!("p50 {} {} ms", quantity.label(), short(value)))
        };
        let counts = self.summary.counts;
        let parts = [
            Some(label.to_owned()),
            rate(Quantity::Requests, "req/s"),
            rate(Quantity::Output, "tok/s"),
            median(Quantity::Ttft).or_else(|| median(Quantity::E2e)),
            (counts.failed > 0).then(|| format!("{} failed", counts.failed)),
            (!self.info.is_prediction()).then(|| self.summary.verdict.name().to_owned()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }

    pub fn block(&self, style: Style) -> Result<String, Refusal> {
        let block = self.shown_report()?;
        Ok(block.map(|block| print_report(&block, self.layout, style)).unwrap_or_default())
    }

    pub fn json(&self) -> Value {
        let own = summary_json(&self.summary, &self.info, self.slo.results(&self.summary));
        match &self.against {
            None => own,
            Some(against) => {
                json!({ "a": own, "b": against.shown.json(), "comparison": against.comparison })
            }
        }
    }

    /// The targets of which no request succeeded, with their most frequent failure. Two targets are
    /// named `a` and `b`.
    pub fn dead_targets(&self) -> Vec<String> {
        let side = |name: &str, run: &Self| {
            (run.summary.counts.succeeded == 0)
                .then(|| format!("no request{name} succeeded{}", run.causes()))
        };
        match &self.against {
            None => side("", self).into_iter().collect(),
            Some(against) => {
                let sides = [side(" to target a", self), side(" to target b", &against.shown)];
                sides.into_iter().flatten().collect()
            }
        }
    }

    /// All causes of failure, on lines of their own.
    fn causes(&self) -> String {
        let lines = failure_lines(&self.summary);
        if lines.is_empty() {
            ": none was sent".to_owned()
        } else {
            format!("\n{}", lines.join("\n"))
        }
    }

    pub fn csv(&self) -> String {
        summary_csv(&self.summary)
    }

    pub fn report(&self) -> Result<classic::Report, Refusal> {
        classic::from_summary(&self.summary, &self.info, self.layout, &self.statistics)
            .map_err(|why| Refusal::new(RefusalKind::Usage, why.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_s_sections_are_asked_for_by_name_or_by_naming_v5() {
        let check = |names: &[&str], layout: LayoutChoice, expected: &[Metric]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(sections(&names, layout), expected, "{names:?} {layout:?}");
        };
        let v5 = LayoutChoice::Named(Layout::V5);
        let (queue, queued) = (Metric::ClientQueue, Metric::QueuedE2el);
        check(&["ttft"], LayoutChoice::Auto, &[Metric::Ttft]);
        check(&["ttft"], v5, &[Metric::Ttft, queue, queued]);
        check(&["client_queue_time"], LayoutChoice::Auto, &[queue]);
        check(&["e2el_including_client_queue", "ttft"], v5, &[queued, Metric::Ttft, queue]);
    }
}
