//! All points of a measurement, one after the other.

use std::path::{Path, PathBuf};

use tokometer_figures::Verdict;
use tokometer_figures::summary::FailureGroup;
use tokometer_measure::Measurement;
use tokometer_plan::{self as plan, Judgement};
use tokometer_record::{FailureKind, RunInfo, RunReader, Stop};
use tokometer_report::Style;

use super::document::SweepDocument;
use super::folder::{self, Destination, Earlier, RunFolder};
use super::{RunView, SummarisedRun, summarise_read};
use super::{SweepEntry, sweep_text};
use super::{results, resume};
use crate::exit::{Exit, Refusal, RefusalKind};
use crate::lower::{Lowered, PlannedPoint};
use crate::runs;
use crate::shards::{MadePoint, Role};
use crate::terminal::{print, print_message, print_note};

/// Whether a measurement is one run or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SweepSize {
    Single,
    Sweep,
}

/// How runs are shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) style: Style,
    pub(super) size: SweepSize,
    /// Whether stdout gets nothing of a single run.
    pub(super) is_silent: bool,
}

/// The points of a measurement, and how this process makes and shows them.
pub(crate) struct SweepRun<'a> {
    pub(crate) lowered: &'a Lowered,
    pub(crate) place: &'a RunFolder,
    pub(crate) earlier: Earlier,
    /// The part of every point that this process makes.
    pub(crate) role: &'a Role,
    pub(crate) style: Style,
}

/// What all points came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SweepOutcome {
    pub(crate) exit: Exit,
    /// Points that have a result.
    pub(crate) results: usize,
}

/// The points so far.
#[derive(Default)]
struct SweepProgress {
    course: SweepCourse,
    rows: Vec<SweepEntry>,
    document: SweepDocument,
}

impl SweepRun<'_> {
    /// Runs every point and shows each when it ends.
    pub(crate) fn run(&self, measurement: &mut Measurement) -> Result<SweepOutcome, Refusal> {
        results::check(&self.lowered.plan.output)?;
        measurement.set_points(self.lowered.points.len());
        let outcome = self.all(measurement);
        self.place.leave_if_empty();
        outcome
    }

    fn size(&self) -> SweepSize {
        if self.lowered.points.len() == 1 { SweepSize::Single } else { SweepSize::Sweep }
    }

    fn folder(&self, number: u32, point: &PlannedPoint) -> PathBuf {
        point_folder(self.place.path(), number, point, self.size())
    }

    fn all(&self, measurement: &mut Measurement) -> Result<SweepOutcome, Refusal> {
        if self.earlier == Earlier::Resumed {
            for (number, point) in (0_u32..).zip(&self.lowered.points) {
                self.role.recover(&self.folder(number, point))?;
            }
            check_stored(self.place.path(), self.lowered, self.size())?;
        }
        let mut progress = SweepProgress::default();
        for (number, point) in (0_u32..).zip(&self.lowered.points) {
            let outcome = self.point(measurement, number, point)?;
            self.take(&mut progress, point, outcome)?;
            if measurement.is_interrupted() {
                break;
            }
            let left = self.lowered.points.len() - progress.course.exits.len();
            if left > 0 && progress.course.is_dead() {
                print_message(&format!(
                    "error: skipping the remaining {left} points: no request succeeds"
                ));
                break;
            }
        }
        self.show_all(&progress)?;
        Ok(SweepOutcome {
            exit: progress.course.overall(self.size()),
            results: progress.rows.len(),
        })
    }

    /// Measures a point, or reads it where it is already there. The inner result is the point's own.
    fn point(
        &self,
        measurement: &mut Measurement,
        number: u32,
        point: &PlannedPoint,
    ) -> Result<Result<(SummarisedRun, Exit), Refusal>, Refusal> {
        if self.lowered.plan.output.shown == plan::Shown::Text {
            print(&above(number, point))?;
        }
        let folder = self.folder(number, point);
        let look = Look { style: self.style, size: self.size(), is_silent: false };
        let is_resumed = self.earlier == Earlier::Resumed;
        let Some(stop) = folder::stored_end(&folder).filter(|_| is_resumed) else {
            let destination = Destination { folder: &folder, earlier: self.earlier };
            let job = PointJob { point, number, destination };
            return Ok(one(measurement, job, self.role, look));
        };
        print_message(&format!(
            "skipping point {number}: already measured in {}",
            folder.display()
        ));
        Ok(stored_point(point, stop, &folder, look))
    }

    /// Adds the outcome of a point. The error is one that ends the whole sweep.
    fn take(
        &self,
        progress: &mut SweepProgress,
        point: &PlannedPoint,
        outcome: Result<(SummarisedRun, Exit), Refusal>,
    ) -> Result<(), Refusal> {
        progress.document.push(point, outcome.as_ref().map(|(shown, _)| shown.json()));
        let is_first = progress.rows.is_empty();
        match outcome {
            Ok((shown, exit)) => {
                progress.rows.push(SweepEntry::new(point.label(), &shown));
                let blame = if shown.is_rejected() { Blame::Requests } else { Blame::Server };
                progress.course.point(exit, blame);
            }
            // A server that was never reached will not be there for the next point either.
            Err(refusal) if is_first && refusal.kind == RefusalKind::Target => return Err(refusal),
            Err(refusal) if refusal.kind == RefusalKind::Interrupted && !is_first => {
                progress.course.point(Exit::Interrupted, Blame::Server);
            }
            Err(refusal) => {
                progress.course.point(failed(refusal, self.size(), point)?, Blame::Server);
            }
        }
        Ok(())
    }

    /// Prints what the points have in common: the table or the document of a sweep, and the folder.
    fn show_all(&self, progress: &SweepProgress) -> Result<(), Refusal> {
        let shown = self.lowered.plan.output.shown;
        match shown {
            plan::Shown::Text if self.size() == SweepSize::Sweep => {
                print(&format!("\n{}", sweep_text(&progress.rows, self.style)))?;
            }
            plan::Shown::Json if self.size() == SweepSize::Sweep => {
                print(&progress.document.text())?;
            }
            _ => {}
        }
        if self.place.is_kept() && shown == plan::Shown::Text {
            print_note(&format!("record: {}", self.place.path().display()));
        }
        Ok(())
    }
}

/// Refuses stored points of another plan, before anything is measured.
fn check_stored(place: &Path, lowered: &Lowered, size: SweepSize) -> Result<(), Refusal> {
    let folder = |(number, point)| point_folder(place, number, point, size);
    let folders: Vec<PathBuf> = (0_u32..).zip(&lowered.points).map(folder).collect();
    resume::check_points(place, &folders)?;
    for (folder, point) in folders.iter().zip(&lowered.points) {
        // A run that was killed while it began is measured again, whatever it left.
        if folder::stored_end(folder).is_some() || runs::open(folder).is_ok() {
            resume::check(folder, &point.plan)?;
        }
    }
    Ok(())
}

/// The lines before a point's report: a blank line after the previous point, and the heading.
fn above(number: u32, point: &PlannedPoint) -> String {
    let gap = if number > 0 { "\n" } else { "" };
    let heading = point.heading.as_ref().map(|heading| format!("{heading}\n"));
    format!("{gap}{}", heading.unwrap_or_default())
}

pub(super) fn point_folder(
    place: &Path,
    number: u32,
    point: &PlannedPoint,
    size: SweepSize,
) -> PathBuf {
    if size == SweepSize::Single {
        return place.to_owned();
    }
    place.join(folder::slug(&format!("{number:03}-{}", point.label())).trim_end_matches('-'))
}

/// A point that cannot be measured does not end a sweep; a single run ends the program.
fn failed(refusal: Refusal, size: SweepSize, point: &PlannedPoint) -> Result<Exit, Refusal> {
    if size == SweepSize::Single {
        return Err(refusal);
    }
    print_message(&format!("error: point `{}` failed: {refusal}", point.label()));
    Ok(refusal.kind.into())
}

/// What the failure of all requests of a point is due to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blame {
    /// The server rejects what this point asks for, such as prompts that are too long.
    Requests,
    /// The server, or anything else that the next point shares.
    Server,
}

/// How the points of a sweep came out so far.
#[derive(Debug, Default)]
pub(super) struct SweepCourse {
    exits: Vec<Exit>,
    /// Points at the end without a success.
    dead_in_a_row: usize,
    /// What a failure of the last point is due to.
    blame: Option<Blame>,
}

impl SweepCourse {
    pub(super) fn point(&mut self, exit: Exit, blame: Blame) {
        let is_dead = matches!(exit, Exit::NoSuccess | Exit::Target);
        self.dead_in_a_row = if is_dead { self.dead_in_a_row + 1 } else { 0 };
        self.blame = Some(blame);
        self.exits.push(exit);
    }

    /// Whether further points would only repeat the failure of the last. A point whose requests the
    /// server rejects, such as prompts that are too long, says nothing of the next one.
    fn is_dead(&self) -> bool {
        match self.dead_in_a_row {
            0 => false,
            1 if self.blame == Some(Blame::Requests) => self.exits.len() == 1,
            _ => true,
        }
    }

    pub(super) fn overall(&self, size: SweepSize) -> Exit {
        let worst = self.exits.iter().copied().max().unwrap_or(Exit::Done);
        match worst {
            Exit::Done | Exit::Interrupted => worst,
            // No point has a success.
            _ if size == SweepSize::Single || self.dead_in_a_row == self.exits.len() => worst,
            _ => Exit::Points,
        }
    }
}

/// One point to measure.
#[derive(Clone, Copy)]
pub(crate) struct PointJob<'a> {
    pub(crate) point: &'a PlannedPoint,
    /// Its number in the measurement. The content of prompts depends on it.
    pub(crate) number: u32,
    pub(crate) destination: Destination<'a>,
}

/// Measures a point.
pub(super) fn one(
    measurement: &mut Measurement,
    job: PointJob<'_>,
    role: &Role,
    look: Look,
) -> Result<(SummarisedRun, Exit), Refusal> {
    let plan = &job.point.plan;
    let made = role.make(measurement, plan, job.number, job.destination)?;
    let shown = match &made.reader {
        Some(kept) => show(kept, plan, look)?,
        None => show(&runs::open(&made.folder)?, plan, look)?,
    };
    let begin = Some(made.end.measure_begin);
    let facts = results::RunFacts { begin, server_info: measurement.server_info(plan) };
    // A result file of zeros would be read as a measurement.
    let written = if shown.summary.is_unmeasured() {
        Vec::new()
    } else {
        results::write(&shown, plan, &facts)?
    };
    for path in written {
        print_note(&format!("results: {}", path.display()));
    }
    let mut exit = made.exit.unwrap_or(judged_fresh(&made, &shown, plan));
    if exit == Exit::Done && has_refused_connections(&shown) && measurement.is_target_gone() {
        print_message(
            "error: the server became unreachable during the run\n  results up to that point are reported above",
        );
        exit = Exit::Target;
    }
    if exit != Exit::Write {
        results::write_summary(&shown, &made.folder)?;
    }
    Ok((shown, exit))
}

/// Measures a point and shows nothing of it.
pub(crate) fn measure_silently(
    measurement: &mut Measurement,
    job: PointJob<'_>,
    role: &Role,
    style: Style,
) -> Result<Exit, Refusal> {
    let look = Look { style, size: SweepSize::Sweep, is_silent: true };
    one(measurement, job, role, look).map(|(_shown, exit)| exit)
}

/// A point that an earlier session measured: shown and judged like a fresh one.
fn stored_point(
    point: &PlannedPoint,
    stop: Stop,
    folder: &Path,
    look: Look,
) -> Result<(SummarisedRun, Exit), Refusal> {
    let shown = show(&runs::open(folder)?, &point.plan, look)?;
    let exit = judged(stop, &shown, &point.plan);
    Ok((shown, exit))
}

fn show(reader: &RunReader, plan: &plan::Plan, look: Look) -> Result<SummarisedRun, Refusal> {
    let view = RunView::new(&plan.metrics)?.with_files(&plan.output);
    let shown = summarise_read(reader, &view)?;
    let printed = if look.is_silent { plan::Shown::Nothing } else { plan.output.shown };
    match printed {
        plan::Shown::Text => print(&shown.text(look.style)?)?,
        plan::Shown::Json if look.size == SweepSize::Single => print(&shown.json())?,
        // The points of a sweep are one document.
        plan::Shown::Json | plan::Shown::Nothing => {}
    }
    Ok(shown)
}

fn has_refused_connections(shown: &SummarisedRun) -> bool {
    shown.summary.failures.iter().any(|group| group.kind == FailureKind::Connect)
}

/// What to try about a cause of failure.
fn advice(group: &FailureGroup, shown: &SummarisedRun, plan: &plan::Plan) -> Option<String> {
    let route = shown.info.targets.first().map_or("", |target| target.endpoint.as_str());
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

/// The exit code of a run that was just made: an incomplete record takes precedence.
fn judged_fresh(made: &MadePoint, shown: &SummarisedRun, plan: &plan::Plan) -> Exit {
    if let Some(why) = &made.write_failure {
        let place = match plan.output.shown {
            plan::Shown::Nothing => {
                format!("the record up to that point is in {}", made.folder.display())
            }
            _ => "results up to that point are reported above".to_owned(),
        };
        print_message(&format!("error: {why}\n  {place}"));
        return Exit::Write;
    }
    judged(made.end.stop, shown, plan)
}

/// Whether this is a shard of a run that has fewer requests than shards: it has done its part.
fn has_no_part(info: &RunInfo) -> bool {
    info.shard().is_some() && info.load.planned_requests == Some(0)
}

/// The exit code of a recorded run, whether it was just made or stored before.
fn judged(stop: Stop, shown: &SummarisedRun, plan: &plan::Plan) -> Exit {
    let is_strict = plan.metrics.judgement == Judgement::Strict;
    let dead = shown.dead_targets();
    match stop {
        Stop::Interrupted => Exit::Interrupted,
        Stop::DiskFull => Exit::Write,
        _ if has_no_part(&shown.info) => Exit::Done,
        _ if !dead.is_empty() => {
            for words in &dead {
                print_message(&format!("error: {words}"));
            }
            let first = shown.summary.failures.first();
            if let Some(advice) = first.and_then(|group| advice(group, shown, plan)) {
                print_message(&format!("  {advice}"));
            }
            Exit::NoSuccess
        }
        Stop::TargetLost => Exit::Target,
        Stop::ShardsLost => Exit::Points,
        _ if is_strict && shown.summary.verdict == Verdict::Invalid => Exit::Invalid,
        _ => Exit::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_ends_with_a_dead_server_and_not_with_a_rejected_point() {
        let check = |points: &[(Exit, Blame)], is_dead, overall| {
            let mut course = SweepCourse::default();
            for (exit, blame) in points {
                course.point(*exit, *blame);
            }
            assert_eq!((course.is_dead(), course.overall(SweepSize::Sweep)), (is_dead, overall));
        };
        let (done, dead, rejected) = (
            (Exit::Done, Blame::Server),
            (Exit::NoSuccess, Blame::Server),
            (Exit::NoSuccess, Blame::Requests),
        );
        check(&[done, done], false, Exit::Done);
        check(&[dead], true, Exit::NoSuccess);
        check(&[rejected], true, Exit::NoSuccess);
        check(&[(Exit::Target, Blame::Server)], true, Exit::Target);
        check(&[done, dead], true, Exit::Points);
        check(&[done, rejected], false, Exit::Points);
        check(&[done, rejected, rejected], true, Exit::Points);
        check(&[done, (Exit::Usage, Blame::Server)], false, Exit::Points);
        check(&[done, (Exit::Interrupted, Blame::Server)], false, Exit::Interrupted);
    }
}
