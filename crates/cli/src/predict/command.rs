//! `tokometer predict`: every point of a plan, predicted and shown.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;
use tokometer_campaign::virtual_time::{
    self, Asks, EXACT_TOKENS_MAX, PredictedDetail, PredictedPoint, PredictionSetting,
};
use tokometer_campaign::{Earlier, RunFolder};
use tokometer_compat::Report;
use tokometer_measure::Credentials;
use tokometer_plan as plan;
use tokometer_record::{RunInfo, RunState};
use tokometer_report::prediction::{self, PredictionPage, beyond_text};
use tokometer_report::{self as report, TableFormat};
use tokometer_twin as twin;

use super::engine::{EngineChoice, old_client};
use crate::args::{BenchArgs, PredictArgs};
use crate::bench::{
    RunFacts, RunView, SweepDocument, SweepEntry, layout_of, summarise_kept, sweep_text,
    write_results,
};
use crate::exit::{Exit, Refusal, RefusalKind};
use crate::lower::{Environment, Lowered, PlannedPoint, lower, written};
use crate::session::say_remarks;
use crate::terminal::{print, print_message, print_note};
use crate::version;

/// A predicted point, for the table and the document of a sweep.
struct ShownPoint {
    /// What distinguishes it from the others.
    label: String,
    /// `None` where only figures were kept.
    entry: Option<SweepEntry>,
    block: Report,
    json: Value,
}

struct PredictRun<'a> {
    engine: EngineChoice,
    options: twin::PredictOptions,
    is_explained: bool,
    secrets: &'a Credentials,
    style: report::Style,
}

pub(crate) fn predict(
    args: &PredictArgs,
    order: &[String],
    environment: &Environment,
) -> anyhow::Result<Exit> {
    let engine =
        EngineChoice::open(args.engine.as_deref(), args.roofline.as_deref())?.set(&args.set)?;
    let lowered = prediction_plan(args.engine.as_deref(), &args.bench, order, environment)?;
    say_remarks(&lowered);
    if args.bench.print_plan {
        print(&written(&lowered.plan, &lowered.origins).context("cannot show the plan")?)?;
        return Ok(Exit::Done);
    }
    let client = args.old_client.as_deref().map(old_client).transpose()?.unwrap_or_default();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let options = twin::PredictOptions {
        replicas: args.replicas,
        routing: args.router,
        client,
        threads,
        ..twin::PredictOptions::default()
    };
    let command = PredictRun {
        engine,
        options,
        is_explained: args.explain,
        secrets: &lowered.secrets,
        style: environment.style(),
    };
    // A prediction has no points to resume, and must not replace a run by chance.
    let earlier = match Earlier::checked(&args.bench.output, &lowered.plan.output)? {
        Earlier::Resumed => Earlier::Refused,
        earlier => earlier,
    };
    let place = lowered.plan.output.run_dir.as_deref();
    let place = place.map(|folder| RunFolder::named(folder, earlier)).transpose()?;
    let outcome = command.all(&lowered);
    if let Some(place) = place {
        place.leave_if_empty();
    }
    Ok(outcome?)
}

/// The plan of a prediction: that of a bench whose target is the engine.
pub(crate) fn prediction_plan(
    engine: Option<&str>,
    bench: &BenchArgs,
    order: &[String],
    environment: &Environment,
) -> Result<Lowered, Refusal> {
    crate::shards::refuse(&bench.shards, "predict")?;
    let mut bench = bench.clone();
    if bench.has_any(&["against", "switch-command"]) {
        return Err(Refusal::usage(
            "cannot predict two targets in one run",
            "predict each engine separately, then run `tokometer compare`",
        ));
    }
    bench.given.retain(|flag| !["base-url", "host", "port"].contains(flag));
    bench.add("sim", engine.unwrap_or("default"))?;
    bench.part.name.get_or_insert_with(|| "prediction".to_owned());
    let lowered = lower(&bench, order, environment)?;
    if lowered.plan.load.until.is_some() {
        return Err(Refusal::usage(
            "cannot use `--until` in a prediction: its length is set by requests or time",
            "use `--num-prompts` or `--duration` instead of `--until`",
        ));
    }
    Ok(lowered)
}

impl PredictRun<'_> {
    fn all(&self, lowered: &Lowered) -> Result<Exit, Refusal> {
        let is_single = lowered.points.len() == 1;
        let is_text = lowered.plan.output.shown == plan::Shown::Text;
        let mut shown: Vec<ShownPoint> = Vec::new();
        let mut document = SweepDocument::default();
        let mut exit = Exit::Done;
        for (number, point) in lowered.points.iter().enumerate() {
            if let Some(heading) = point.heading.as_ref().filter(|_| is_text) {
                print(&format!("{heading}\n"))?;
            }
            let folder = point.plan.output.run_dir.as_deref().map(|place| {
                if is_single { place.to_owned() } else { place.join(format!("{number:03}")) }
            });
            let outcome = self.one(point, folder);
            document.push(point, outcome.as_ref().map(|one| one.json.clone()));
            match outcome {
                Ok(one) => {
                    if is_single && lowered.plan.output.shown == plan::Shown::Json {
                        print(&format!("{:#}\n", one.json))?;
                    }
                    shown.push(one);
                }
                Err(refusal) if is_single => return Err(refusal),
                Err(refusal) => {
                    print_message(&format!("error: point `{}` failed: {refusal}", point.label()));
                    exit = Exit::Points;
                }
            }
        }
        match lowered.plan.output.shown {
            plan::Shown::Text if !is_single => print(&format!("\n{}", self.table(shown)))?,
            plan::Shown::Json if !is_single => print(&document.text())?,
            _ => {}
        }
        Ok(exit)
    }

    /// The table of a sweep: that of `bench`, where every point has its requests.
    fn table(&self, shown: Vec<ShownPoint>) -> String {
        if shown.iter().all(|one| one.entry.is_some()) {
            let entries: Vec<SweepEntry> = shown.into_iter().filter_map(|one| one.entry).collect();
            return sweep_text(&entries, self.style);
        }
        let rows: Vec<(String, Vec<Report>)> =
            shown.into_iter().map(|one| (one.label, vec![one.block])).collect();
        format!("PREDICTED, not measured\n{}", report::table(&rows, TableFormat::Text))
    }

    /// The point as rows of tables and as JSON; its text is printed.
    fn one(&self, point: &PlannedPoint, folder: Option<PathBuf>) -> Result<ShownPoint, Refusal> {
        let plan = &point.plan;
        let profile = &self.engine.profile;
        let mut asks = Asks::open(plan, profile, self.secrets)?;
        for remark in asks.remarks() {
            print_note(&format!("note: {remark}"));
        }
        let (memory_bytes, version) = (free_memory(), &version::long());
        let setting =
            PredictionSetting { plan, profile, options: self.options, memory_bytes, version };
        let mut predicted = virtual_time::predict(setting, &mut asks)?;
        if let Some(beyond) = predicted.beyond {
            print_note(&format!("note: {}", beyond_text(beyond)));
        }
        let mut info = virtual_time::info(setting, &asks);
        info.remarks.extend(self.engine.changes.iter().map(|change| format!("what-if: {change}")));
        let view = RunView::new(&plan.metrics)?.with_files(&plan.output);
        let (text, shown) = self.views(&info, &predicted, &view, point)?;
        if plan.output.shown == plan::Shown::Text {
            print(&text)?;
        }
        if let Some(folder) = folder {
            save(&folder, &info, &mut predicted)?;
            if plan.output.shown == plan::Shown::Text {
                print_note(&format!("record: {}", folder.display()));
            }
        }
        Ok(shown)
    }

    /// The point as text, and as what the others are shown with.
    fn views(
        &self,
        info: &RunInfo,
        predicted: &PredictedPoint,
        view: &RunView,
        point: &PlannedPoint,
    ) -> Result<(String, ShownPoint), Refusal> {
        let is_figures = predicted.detail == PredictedDetail::Figures;
        let is_large = is_figures || self.options.replicas > 1;
        let peak = || kibibytes("/proc/self/status", "VmHWM:");
        let page = PredictionPage {
            profile: &self.engine.profile,
            uncertainty: self.engine.uncertainty,
            changes: &self.engine.changes,
            prediction: &predicted.prediction,
            figures_above: is_figures.then_some(EXACT_TOKENS_MAX),
            intervals: &predicted.intervals,
            in_play: &predicted.in_play,
            beyond: predicted.beyond,
            options: self.options,
            is_explained: self.is_explained,
            peak_memory_bytes: if is_large { peak() } else { None },
        };
        if is_figures {
            let layout = layout_of(view, info);
            let block = prediction::block(info, &predicted.prediction.figures, layout, &view.shown);
            let text =
                format!("{}\n{}", report::print_report(&block, layout, self.style), page.text());
            let json = serde_json::json!({ "prediction": page.json() });
            return Ok((text, ShownPoint { label: point.label(), entry: None, block, json }));
        }
        let end = virtual_time::end(&predicted.prediction, info);
        let state = RunState::Ended(Box::new(end));
        let run = summarise_kept(info.clone(), &predicted.prediction.timelines, &state, view);
        for path in write_results(&run, &point.plan, &RunFacts::default())? {
            print_note(&format!("results: {}", path.display()));
        }
        let mut json = run.json();
        json["prediction"] = page.json();
        let text = format!("{}\n{}", run.text(self.style)?, page.text());
        let (label, block) = (point.label(), run.report()?);
        let entry = Some(SweepEntry::new(label.clone(), &run));
        Ok((text, ShownPoint { label, entry, block, json }))
    }
}

/// Leaves the run in a folder, where a plan names one.
fn save(folder: &Path, info: &RunInfo, predicted: &mut PredictedPoint) -> Result<(), Refusal> {
    if predicted.detail == PredictedDetail::Figures {
        return Err(Refusal::usage(
            "cannot save the run: a prediction of this size keeps figures only, no timelines",
            "omit `--run-dir`, or predict fewer requests",
        ));
    }
    let end = virtual_time::end(&predicted.prediction, info);
    let timelines = std::mem::take(&mut predicted.prediction.timelines);
    virtual_time::write(folder, info, timelines, &end)
        .map_err(|why| Refusal::new(RefusalKind::Write, why.to_string()))
}

/// Memory that a prediction may use, in bytes. `None` where the kernel does not report it.
pub(crate) fn free_memory() -> Option<u64> {
    kibibytes("/proc/meminfo", "MemAvailable:")
}

/// A field in kibibytes of one of the kernel's files, in bytes.
fn kibibytes(path: &str, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|count| count * 1_024)
}
