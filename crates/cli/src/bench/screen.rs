//! The runs of a campaign on the terminal.

use std::path::Path;

use serde_json::{Value, json};
use tokometer_campaign::{
    Event, Fate, KeptEvents, Observer, PlannedRun, Reading, RunRecord, RunRest, SweepFindings,
    point_folder,
};
use tokometer_decide::slo::ObjectiveOutcome;
use tokometer_figures::Severity;
use tokometer_figures::summary::FailureGroup;
use tokometer_measure::model_advice;
use tokometer_plan::{Plan, Shown};
use tokometer_report::Style;

use super::{RunView, SummarisedRun, SweepEntry, results, sweep_text};
use crate::args::{BenchArgs, JudgedArgs};
use crate::exit::{Exit, Refusal};
use crate::lower::{Lowered, PlannedPoint, Preset};
use crate::runs::READING;
use crate::terminal::{print, print_message, print_note};

impl From<Fate> for Exit {
    fn from(fate: Fate) -> Self {
        match (fate, fate.failure()) {
            (Fate::Invalid, _) => Self::Invalid,
            (_, None) => Self::Done,
            (_, Some(kind)) => kind.into(),
        }
    }
}

/// The exit code of all points of a sweep or staircase.
pub(crate) fn overall(found: &SweepFindings, look: Look) -> Exit {
    let worst = found.fates.iter().map(|fate| Exit::from(*fate)).max().unwrap_or(Exit::Done);
    match worst {
        Exit::Done | Exit::Interrupted => worst,
        _ if matches!(look, Look::Single | Look::Silent) || found.is_all_dead() => worst,
        _ => Exit::Points,
    }
}

/// The exit code of a shard whose points another process decides.
pub(crate) fn followed(found: &SweepFindings) -> Exit {
    let exits: Vec<Exit> = found.fates.iter().map(|fate| Exit::from(*fate)).collect();
    match exits.as_slice() {
        [only] => *only,
        all if all.iter().all(|exit| *exit == Exit::Done) => Exit::Done,
        // Shard 0 was interrupted: as for a run with one point.
        all if all.contains(&Exit::Interrupted) => Exit::Interrupted,
        _ => Exit::Points,
    }
}

/// What becomes of the events of points, as the flags say, or a preset.
pub(crate) fn kept_events(typed: &BenchArgs, presets: &[Preset]) -> KeptEvents {
    let is_plain = typed.keep_events || presets.iter().any(|preset| preset.fragment.keep_events);
    if is_plain { KeptEvents::Plain } else { KeptEvents::Packed }
}

/// The runs of a command line below the folder of the measurement.
pub(crate) fn planned_runs(lowered: &Lowered, folder: &Path) -> Result<Vec<PlannedRun>, Refusal> {
    let is_single = lowered.points.len() == 1;
    let run = |(number, point): (u32, &PlannedPoint)| {
        let (plan, label) = (point.plan.clone(), point.label());
        let view = RunView::new(&plan.metrics)?.with_files(&plan.output);
        let folder =
            if is_single { folder.to_owned() } else { point_folder(folder, number, &label) };
        Ok(PlannedRun {
            number,
            label,
            folder,
            figures: view.figures(&plan),
            plan,
            kept_events: KeptEvents::Plain,
            rest: RunRest::None,
        })
    };
    (0_u32..).zip(&lowered.points).map(run).collect()
}

/// Prints what needs no more than its words.
pub(crate) struct Say;

impl Observer for Say {
    fn event(&mut self, event: Event<'_>) -> Result<(), Refusal> {
        match event {
            Event::Note(text) => print_note(&text),
            Event::Problem(text) => print_message(&text),
            Event::Waiting => print_note("the server does not respond; waiting for it"),
            _ => {}
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// One run alone.
    Single,
    /// One of several: a line for each, and their table. JSON is part of a document.
    Sweep,
    /// One of several, whose blocks another tool's flags ask for: each follows its heading.
    Blocks,
    Silent,
}

/// The points of a sweep so far: each is the document of a single run with its values under `point`.
#[derive(Debug, Default)]
pub(crate) struct SweepDocument(Vec<Value>);

impl SweepDocument {
    /// Adds a point of the command line: the JSON of its run, or why there is none.
    pub(crate) fn push(&mut self, point: Option<&PlannedPoint>, run: Result<Value, &Refusal>) {
        let Some(point) = point else { return };
        // `inf` is a word.
        let number = |text: &str| {
            let number = serde_json::from_str::<serde_json::Number>(text);
            number.map_or_else(|_| text.into(), Value::Number)
        };
        let values = point.coordinates.iter().map(|(name, value)| (name.clone(), number(value)));
        let mut entry = run.unwrap_or_else(|refusal| json!({ "error": refusal.message }));
        entry["point"] = values.collect();
        if let Some(heading) = &point.heading {
            entry["heading"] = heading.as_str().into();
        }
        self.0.push(entry);
    }

    pub(crate) fn text(&self) -> String {
        format!("{:#}\n", json!({ "points": self.0 }))
    }
}

/// Shows every run when it ends, and writes the files that belong to it.
pub(crate) struct Screen<'a> {
    /// The points of the command line; empty where a procedure chooses them.
    pub(crate) points: &'a [PlannedPoint],
    pub(crate) style: Style,
    pub(crate) look: Look,
    /// The runs so far, where a table is made of them.
    pub(crate) runs: Vec<SummarisedRun>,
    rows: Vec<SweepEntry>,
    document: SweepDocument,
    is_stored: bool,
    /// The worst of all objectives of all runs; `None` without any.
    judged: Option<ObjectiveOutcome>,
}

impl<'a> Screen<'a> {
    pub(crate) fn new(points: &'a [PlannedPoint], style: Style, look: Look) -> Self {
        let (runs, rows, document) = (Vec::new(), Vec::new(), SweepDocument::default());
        Self { points, style, look, runs, rows, document, is_stored: false, judged: None }
    }

    /// The exit code by the objectives of runs that did not fail.
    pub(crate) fn exit_by_objectives(&self, judged: &JudgedArgs) -> Exit {
        match self.judged {
            Some(ObjectiveOutcome::Fail) => Exit::Missed,
            Some(ObjectiveOutcome::CannotTell) if judged.require_power => Exit::CannotTell,
            _ => Exit::Done,
        }
    }

    pub(crate) fn results(&self) -> usize {
        self.rows.len()
    }

    /// Prints what the points have in common: the table or the document of a sweep.
    pub(crate) fn show_all(&self, shown: Shown) -> Result<(), Refusal> {
        match shown {
            _ if matches!(self.look, Look::Single | Look::Silent) => Ok(()),
            Shown::Text => {
                let gap = if self.has_texts() { "\n" } else { "" };
                print(&format!("{gap}{}", sweep_text(&self.rows, self.style)))
            }
            Shown::Json => print(&self.document.text()),
            Shown::Nothing => Ok(()),
        }
    }

    /// Whether every run of a sweep has a text of its own.
    fn has_texts(&self) -> bool {
        self.look == Look::Blocks || self.style.is_detailed
    }

    fn started(&mut self, run: &PlannedRun) -> Result<(), Refusal> {
        let point = self.points.get(run.number as usize).filter(|_| self.has_texts());
        if let Some(point) = point.filter(|_| run.plan.output.shown == Shown::Text) {
            let gap = if run.number > 0 { "\n" } else { "" };
            let heading = point.heading.as_ref().map(|heading| format!("{heading}\n"));
            print(&format!("{gap}{}", heading.unwrap_or_default()))?;
        }
        if self.is_stored {
            let (number, folder) = (run.number, run.folder.display());
            print_message(&format!("skipping point {number}: already measured in {folder}"));
        }
        Ok(())
    }

    /// Shows a run, and writes its result files and its summary.
    fn done(
        &mut self,
        run: &PlannedRun,
        record: &RunRecord,
        reading: &mut Reading,
    ) -> Result<(), Refusal> {
        let (plan, reader) = (&run.plan, &record.reader);
        let view = RunView::new(&plan.metrics)?.with_files(&plan.output);
        let sides = std::mem::take(&mut reading.sides);
        let shown = READING.summarise_sides(sides, reading.comparison.clone(), reader, &view)?;
        match (plan.output.shown, self.look) {
            (_, Look::Silent) | (Shown::Nothing, _) => {}
            (Shown::Text, Look::Blocks) if !self.style.is_detailed => {
                print(&shown.block(self.style)?)?;
            }
            (Shown::Text, Look::Sweep) if !self.style.is_detailed => {
                let (number, of) = (run.number + 1, self.points.len());
                print_note(&format!("{number} of {of}: {}", shown.line(&run.label)));
            }
            (Shown::Text, _) => print(&shown.text(self.style)?)?,
            (Shown::Json, Look::Single) => print(&format!("{:#}\n", shown.json()))?,
            (Shown::Json, _) => {}
        }
        // A result file of zeros would be read as a measurement.
        if !self.is_stored && !shown.summary.is_unmeasured() {
            let server_info = record.server_info.clone();
            let begin = Some(record.end.measure_begin);
            let point = (self.look != Look::Single).then_some(run.number);
            let facts = results::RunFacts { begin, server_info, point };
            for path in results::write(&shown, plan, &facts)? {
                print_note(&format!("results: {}", path.display()));
            }
        }
        for line in shown.objectives() {
            self.judged = self.judged.max(Some(line.outcome));
            let is_in_report = self.look == Look::Single || self.style.is_detailed;
            match plan.output.shown {
                Shown::Nothing if line.outcome != ObjectiveOutcome::Pass => {
                    print_message(&line.text);
                }
                Shown::Text if !is_in_report => print_note(&line.text),
                _ => {}
            }
        }
        say_fate(reading, record, &shown, plan);
        if !self.is_stored && reading.fate != Fate::Unwritten {
            results::write_summary(&shown, reader.folder())?;
        }
        self.rows.push(SweepEntry::new(run.label.clone(), &shown));
        match self.points.get(run.number as usize) {
            None => self.runs.push(shown),
            point => self.document.push(point, Ok(shown.json())),
        }
        Ok(())
    }
}

impl Observer for Screen<'_> {
    fn event(&mut self, event: Event<'_>) -> Result<(), Refusal> {
        match event {
            Event::Started { run, is_stored } => {
                self.is_stored = is_stored;
                self.started(run)
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

/// Says why a run has no results, or not all.
fn say_fate(reading: &Reading, record: &RunRecord, shown: &SummarisedRun, plan: &Plan) {
    match (reading.fate, &record.write_failure) {
        (Fate::Unwritten, Some(why)) => {
            let kept = match plan.output.shown {
                Shown::Nothing => {
                    format!(
                        "the record up to that point is in {}",
                        record.reader.folder().display()
                    )
                }
                _ => "results up to that point are reported above".to_owned(),
            };
            print_message(&format!("error: {why}\n  {kept}"));
        }
        (Fate::NoSuccess | Fate::Rejected, _) => {
            for words in shown.dead_targets() {
                print_message(&format!("error: {words}"));
            }
            let first = shown.summary.failures.first();
            if let Some(advice) = first.and_then(|group| advice(group, shown, plan)) {
                print_message(&format!("  {advice}"));
            }
        }
        (Fate::TargetGone, _) => print_message(
            "error: the server became unreachable during the run\n  results up to that point are reported above",
        ),
        (Fate::Invalid, _) => {
            let both = [Some(shown), shown.against().map(|(against, _)| against)];
            let mut notes = both.into_iter().flatten().flat_map(|side| &side.summary.notes);
            let worst = notes.find(|note| note.severity == Severity::Invalid);
            let why = worst.map_or(String::new(), |note| format!(": {}", note.found));
            print_message(&format!("error: the run is INVALID (`--strict`){why}"));
        }
        // Elsewhere the report says it.
        (fate, _) if fate != Fate::Done && plan.output.shown == Shown::Nothing => {
            let why = record.end.stop.reason();
            print_message(&format!("error: the run ended early: {why}"));
        }
        _ => {}
    }
}

fn advice(group: &FailureGroup, shown: &SummarisedRun, plan: &Plan) -> Option<String> {
    let target = shown.info.targets.first();
    let route = target.map_or("", |target| target.endpoint.as_str());
    let model = target.map_or("", |target| target.model.as_str());
    if matches!(group.status, Some(400 | 404))
        && let Some(advice) = model_advice(model, &group.example, &shown.info.remarks)
    {
        return Some(advice);
    }
    let backend = plan.targets.first().map_or("", |target| target.backend.name());
    Some(match group.status {
        Some(401 | 403) => "set OPENAI_API_KEY, or use `--api-key` or `--api-key-file`".to_owned(),
        Some(404 | 405 | 410 | 501) => format!(
            "`POST {route}` is not accepted: check `--endpoint`, `--base-url`, `--model` and `--backend {backend}`"
        ),
        Some(429) => "lower `--max-concurrency` or `--request-rate`, or use `--retries`".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::RefusalKind;

    #[test]
    fn the_exit_code_of_several_points_tells_some_failures_from_all() {
        let found = |fates: &[Fate]| SweepFindings { fates: fates.to_vec() };
        let check = |fates: &[Fate], sweep, shard| {
            let found = found(fates);
            assert_eq!(
                (overall(&found, Look::Sweep), followed(&found)),
                (sweep, shard),
                "{fates:?}"
            );
        };
        let unusable = Fate::Refused(RefusalKind::Usage);
        check(&[Fate::Done, Fate::Done], Exit::Done, Exit::Done);
        check(&[Fate::NoSuccess], Exit::NoSuccess, Exit::NoSuccess);
        check(&[Fate::Done, Fate::NoSuccess], Exit::Points, Exit::Points);
        check(&[Fate::Done, unusable], Exit::Points, Exit::Points);
        // An interrupt of shard 0 is one in the other shards of a sweep, too.
        check(&[Fate::Done, Fate::Interrupted], Exit::Interrupted, Exit::Interrupted);
        check(&[], Exit::Done, Exit::Done);
        assert_eq!(overall(&found(&[unusable]), Look::Single), Exit::Usage);
    }

    #[test]
    fn the_worst_objective_of_all_runs_decides_the_exit_code() {
        let exit = |outcomes: &[ObjectiveOutcome], require_power: bool| {
            let mut screen = Screen::new(&[], Style::default(), Look::Sweep);
            screen.judged = outcomes.iter().copied().max();
            screen.exit_by_objectives(&JudgedArgs { require_power })
        };
        let (pass, open, fail) =
            (ObjectiveOutcome::Pass, ObjectiveOutcome::CannotTell, ObjectiveOutcome::Fail);
        assert_eq!([exit(&[], true), exit(&[pass, pass], true)], [Exit::Done, Exit::Done]);
        assert_eq!([exit(&[pass, fail], true), exit(&[fail, open], true)], [Exit::Missed; 2]);
        assert_eq!(exit(&[pass, open], false), Exit::Done);
        assert_eq!(exit(&[pass, open], true), Exit::CannotTell);
    }

    #[test]
    fn points_with_and_without_a_run_are_one_document() {
        let plan = crate::lower::complete_part(tokometer_plan::PartialPlan::default()).unwrap();
        let point = |rate: &str| PlannedPoint {
            heading: None,
            coordinates: vec![("request_rate".to_owned(), rate.to_owned())],
            plan: plan.clone(),
        };
        let mut document = SweepDocument::default();
        document.push(Some(&point("4")), Ok(json!({"summary": {"a": 1}})));
        let refusal = Refusal::new(RefusalKind::Target, "cannot reach it");
        document.push(Some(&point("inf")), Err(&refusal));
        let page: Value = serde_json::from_str(&document.text()).unwrap();
        let expected = json!({"points": [
            {"point": {"request_rate": 4}, "summary": {"a": 1}},
            {"point": {"request_rate": "inf"}, "error": "cannot reach it"},
        ]});
        assert_eq!(page, expected);
    }
}
