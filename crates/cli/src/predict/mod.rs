//! `tokometer predict`: what a measurement would show, computed in virtual time.
//!
//! In: the flags of `bench` and an engine profile. Out: the same reports from the same metrics code,
//! headed as predictions, with what is known of their errors. No server is contacted, no clock is
//! read, and the same plan and seed give the same bytes. Runs too large for timelines are reported
//! from weighted figures.

mod engine;

use std::path::Path;

use serde_json::Value;
use tokometer_campaign::virtual_time::{
    self, EXACT_TOKENS_MAX, PredictedDetail, PredictedPoint, PredictionDepth,
};
use tokometer_campaign::{
    Earlier, Event, Observer, PlannedRun, Reading, RunFolder, RunRecord, Sweep, Virtual, run,
};
use tokometer_compat::Report;
use tokometer_decide::compare::Half;
use tokometer_plan as plan;
use tokometer_record::RemoveEarlier;
use tokometer_report::prediction::{self, PredictionPage, beyond_text};
use tokometer_report::{self as report, TableFile, TableFormat};
use tokometer_twin as twin;

use crate::args::{BenchArgs, PredictArgs};
use crate::bench::{
    Look, RunFacts, RunView, Say, SweepDocument, SweepEntry, layout_of, overall, planned_runs,
    sweep_text, write_results,
};
use crate::exit::{Exit, Refusal, RefusalKind};
use crate::lower::{Environment, Lowered, PlannedPoint, lower};
use crate::runs::READING;
use crate::session::{say_remarks, show_plan};
use crate::terminal::{print, print_note};
use crate::version;

pub(crate) use engine::{EngineChoice, old_client};

struct ShownPoint {
    label: String,
    /// `None` where only figures were kept.
    entry: Option<SweepEntry>,
    block: Report,
}

/// Shows every prediction, and writes the files that belong to it.
struct PredictScreen<'a> {
    points: &'a [PlannedPoint],
    engine: EngineChoice,
    options: twin::PredictOptions,
    is_explained: bool,
    /// Whether every point of a sweep has a text of its own.
    has_texts: bool,
    style: report::Style,
    shown: Vec<ShownPoint>,
    document: SweepDocument,
    /// Removes what the first prediction replaces.
    remove_earlier: Option<RemoveEarlier>,
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
        return show_plan(&lowered.plan, &lowered);
    }
    let client = args.old_client.as_deref().map(old_client).transpose()?;
    let client = client.or(engine.profile.client).unwrap_or_default();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let options = twin::PredictOptions {
        replicas: args.replicas,
        routing: args.router,
        client,
        threads,
        ..twin::PredictOptions::default()
    };
    let mut executor = Virtual {
        options,
        depth: PredictionDepth::Seeds,
        remarks: engine.changes.iter().map(|change| format!("what-if: {change}")).collect(),
        secrets: lowered.secrets.clone(),
        version: version::long(),
        memory_bytes: free_memory(),
        ..Virtual::new(engine.profile.clone())
    };
    // A prediction has no points to resume, and must not replace a run by chance.
    let earlier = match Earlier::checked(&args.bench.output, &lowered.plan.output)? {
        Earlier::Resumed => Earlier::Refused,
        earlier => earlier,
    };
    let folder = lowered.plan.output.run_dir.as_deref();
    let mut folder = folder.map(|folder| RunFolder::named(folder, earlier)).transpose()?;
    let mut screen = PredictScreen {
        points: &lowered.points,
        engine,
        options,
        is_explained: args.explain,
        has_texts: args.explain || lowered.is_detailed || lowered.has_blocks,
        style: report::Style { is_detailed: lowered.is_detailed, ..environment.style() },
        shown: Vec::new(),
        document: SweepDocument::default(),
        remove_earlier: folder.as_mut().and_then(RunFolder::take_earlier),
    };
    let mut sweep = Sweep { runs: planned_runs(&lowered, Path::new(""))? };
    let found = run(&mut sweep, &mut executor, &mut screen);
    let shown = found.and_then(|found| {
        screen.show_all(lowered.plan.output.shown)?;
        Ok(overall(&found, Look::Sweep))
    });
    if let Some(folder) = folder {
        folder.leave_if_empty();
    }
    Ok(shown?)
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

impl PredictScreen<'_> {
    fn is_single(&self) -> bool {
        self.points.len() == 1
    }

    fn show_all(&mut self, shown: plan::Shown) -> Result<(), Refusal> {
        match shown {
            plan::Shown::Text if !self.is_single() => print(&format!("\n{}", self.table())),
            plan::Shown::Json if !self.is_single() => print(&self.document.text()),
            _ => Ok(()),
        }
    }

    /// The table of a sweep: that of `bench`, where every point has its requests.
    fn table(&mut self) -> String {
        let shown = std::mem::take(&mut self.shown);
        if shown.iter().all(|one| one.entry.is_some()) {
            let entries: Vec<SweepEntry> = shown.into_iter().filter_map(|one| one.entry).collect();
            return sweep_text(&entries, self.style);
        }
        let file = |one: ShownPoint| TableFile {
            name: one.label,
            reports: vec![one.block],
            verdict: None,
        };
        let rows: Vec<TableFile> = shown.into_iter().map(file).collect();
        format!("PREDICTED, not measured\n{}", report::table(&rows, TableFormat::Text))
    }

    /// Shows a point, and leaves its run in a folder where the plan names one.
    fn done(
        &mut self,
        run: &PlannedRun,
        record: &RunRecord,
        reading: &mut Reading,
    ) -> Result<(), Refusal> {
        let Some(predicted) = record.predicted.as_deref() else { return Ok(()) };
        let sides = std::mem::take(&mut reading.sides);
        let (text, json, shown) = self.views(run, record, predicted, sides)?;
        let output = &run.plan.output;
        let is_text = output.shown == plan::Shown::Text && (self.is_single() || self.has_texts);
        for beyond in &predicted.beyond {
            let said = format!("OUTSIDE the fitted range: {}\n", beyond_text(*beyond));
            if is_text { print(&said)? } else { print_note(said.trim_end()) }
        }
        if is_text {
            print(&text)?;
        }
        if let Some(folder) = &output.run_dir {
            let folder = if self.is_single() {
                folder.clone()
            } else {
                folder.join(format!("{:03}", run.number))
            };
            if let Some(remove) = self.remove_earlier.take() {
                remove().map_err(|why| Refusal::new(RefusalKind::Write, why.to_string()))?;
            }
            save(&folder, record, predicted)?;
            if output.shown == plan::Shown::Text {
                print_note(&format!("record: {}", folder.display()));
            }
        }
        if self.is_single() && output.shown == plan::Shown::Json {
            print(&format!("{json:#}\n"))?;
        }
        self.document.push(self.points.get(run.number as usize), Ok(json));
        self.shown.push(shown);
        Ok(())
    }

    /// The point as text, as JSON, and as what the others are shown with.
    fn views(
        &self,
        run: &PlannedRun,
        record: &RunRecord,
        predicted: &PredictedPoint,
        sides: Vec<Half>,
    ) -> Result<(String, Value, ShownPoint), Refusal> {
        let (plan, info, label) = (&run.plan, record.reader.info(), run.label.clone());
        let number = run.number;
        let view = RunView::new(&plan.metrics)?.with_files(&plan.output);
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
            beyond: &predicted.beyond,
            options: self.options,
            is_explained: self.is_explained,
            peak_memory_bytes: if is_large { peak() } else { None },
        };
        if is_figures {
            let layout = layout_of(&view, info);
            let block = prediction::block(info, &predicted.prediction.figures, layout, &view.shown);
            let text =
                format!("{}\n{}", report::print_report(&block, layout, self.style), page.text());
            let json = serde_json::json!({ "prediction": page.json() });
            return Ok((text, json, ShownPoint { label, entry: None, block }));
        }
        let run = READING.summarise_sides(sides, None, &record.reader, &view)?;
        let point = (!self.is_single()).then_some(number);
        for path in write_results(&run, plan, &RunFacts { point, ..RunFacts::default() })? {
            print_note(&format!("results: {}", path.display()));
        }
        let mut json = run.json();
        json["prediction"] = page.json();
        let text = format!("{}\n{}", run.text(self.style)?, page.text());
        let (entry, block) = (Some(SweepEntry::new(label.clone(), &run)), run.report()?);
        Ok((text, json, ShownPoint { label, entry, block }))
    }
}

impl Observer for PredictScreen<'_> {
    fn event(&mut self, event: Event<'_>) -> Result<(), Refusal> {
        match event {
            Event::Started { run, .. } => {
                let point = self.points.get(run.number as usize);
                let heading = point.and_then(|point| point.heading.as_ref());
                match heading.filter(|_| run.plan.output.shown == plan::Shown::Text) {
                    Some(heading) => print(&format!("{heading}\n")),
                    None => Ok(()),
                }
            }
            Event::Done { run, record, reading } => self.done(run, record, reading),
            Event::Failed { run, refusal } => {
                self.document.push(self.points.get(run.number as usize), Err(refusal));
                Ok(())
            }
            other => Say.event(other),
        }
    }
}

/// Leaves the run in a folder, where a plan names one.
fn save(folder: &Path, record: &RunRecord, predicted: &PredictedPoint) -> Result<(), Refusal> {
    if predicted.detail == PredictedDetail::Figures {
        return Err(Refusal::usage(
            "cannot save the run: a prediction of this size keeps figures only, no timelines",
            "omit `--run-dir`, or predict fewer requests",
        ));
    }
    virtual_time::write(folder, record)
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
