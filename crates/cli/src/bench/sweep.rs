//! All points of a measurement, one after the other.

use std::path::{Path, PathBuf};

use tokometer_base::WallNanos;
use tokometer_measure::Measurement;
use tokometer_metrics::Verdict;
use tokometer_metrics::summary::FailureGroup;
use tokometer_plan::{self as plan, Judgement};
use tokometer_record::{FailureKind, RunReader, Stop};
use tokometer_report::Style;

use super::document::SweepDocument;
use super::folder::{self, Earlier, RunFolder};
use super::present::{RunView, SummarisedRun, summarise_read};
use super::signals::Signals;
use super::sweep_view::{SweepEntry, sweep_text};
use super::{results, resume};
use crate::exit::{Exit, Refusal};
use crate::lower::{Lowered, PlannedPoint};
use crate::runs;
use crate::shards::{MadePoint, Role};
use crate::terminal::{print, print_message};

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

/// Runs every point, shows each when it ends, and returns the exit code of all. The time of the
/// beginning names the folder. `after` gets the folder once a point has a result.
pub(crate) fn run(
    measurement: &mut Measurement,
    lowered: &Lowered,
    (begin, earlier): (WallNanos, Earlier),
    (signals, style): (&Signals, Style),
    after: &dyn Fn(&Path) -> Result<(), Refusal>,
) -> Result<Exit, Refusal> {
    results::check(&lowered.plan.output)?;
    let place = RunFolder::open(&lowered.plan.output, &lowered.plan.name, (begin, earlier))?;
    let (exit, results) =
        points_in(measurement, lowered, (&place, earlier), (&Role::Whole, signals, style))?;
    if results > 0 {
        after(place.path())?;
    }
    Ok(exit)
}

/// The same in a folder that is open, for the part of the run that this process makes.
pub(crate) fn run_in(
    measurement: &mut Measurement,
    lowered: &Lowered,
    place: (&RunFolder, Earlier),
    setting: (&Role, &Signals, Style),
) -> Result<Exit, Refusal> {
    points_in(measurement, lowered, place, setting).map(|(exit, _)| exit)
}

/// The exit code of all points, and the number of those that have a result.
fn points_in(
    measurement: &mut Measurement,
    lowered: &Lowered,
    (place, earlier): (&RunFolder, Earlier),
    (role, signals, style): (&Role, &Signals, Style),
) -> Result<(Exit, usize), Refusal> {
    results::check(&lowered.plan.output)?;
    place.announce(signals);
    measurement.set_points(lowered.points.len());
    let size = if lowered.points.len() == 1 { SweepSize::Single } else { SweepSize::Sweep };
    let outcome =
        all(measurement, lowered, (place, earlier), (role, Look { style, size, is_silent: false }));
    place.leave_if_empty();
    outcome
}

fn all(
    measurement: &mut Measurement,
    lowered: &Lowered,
    (place, earlier): (&RunFolder, Earlier),
    (role, look): (&Role, Look),
) -> Result<(Exit, usize), Refusal> {
    let size = look.size;
    if earlier == Earlier::Resumed {
        for (number, point) in (0_u32..).zip(&lowered.points) {
            role.recover(&point_folder(place.path(), number, point, size))?;
        }
        check_stored(place.path(), lowered, size)?;
    }
    let mut course = SweepCourse::default();
    let mut rows: Vec<SweepEntry> = Vec::new();
    let mut document = SweepDocument::default();
    for (number, point) in (0_u32..).zip(&lowered.points) {
        if lowered.plan.output.shown == plan::Shown::Text {
            print(&above(number, point))?;
        }
        let folder = point_folder(place.path(), number, point, size);
        let stored = if earlier == Earlier::Resumed { folder::stored_end(&folder) } else { None };
        let outcome = if let Some(stop) = stored {
            print_message(&format!(
                "skipping point {number}: already measured in {}",
                folder.display()
            ));
            stored_point(point, stop, &folder, look)
        } else {
            one(measurement, (point, number), (&folder, earlier), (role, look))
        };
        document.push(point, outcome.as_ref().map(|(shown, _)| shown.json()));
        match outcome {
            Ok((shown, exit)) => {
                rows.push(SweepEntry::new(point.label(), &shown));
                let blame = if shown.is_rejected() { Blame::Requests } else { Blame::Server };
                course.point(exit, blame);
            }
            // A server that was never reached will not be there for the next point either.
            Err(refusal) if rows.is_empty() && refusal.exit == Exit::Target => return Err(refusal),
            Err(refusal) if refusal.exit == Exit::Interrupted && !rows.is_empty() => {
                course.point(Exit::Interrupted, Blame::Server);
            }
            Err(refusal) => course.point(failed(refusal, size, point)?, Blame::Server),
        }
        if measurement.is_interrupted() {
            break;
        }
        let left = lowered.points.len() - course.exits.len();
        if left > 0 && course.is_dead() {
            print_message(&format!(
                "error: skipping the remaining {left} points: no request succeeds"
            ));
            break;
        }
    }
    match lowered.plan.output.shown {
        plan::Shown::Text if size == SweepSize::Sweep => {
            print(&format!("\n{}", sweep_text(&rows, look.style)))?;
        }
        plan::Shown::Json if size == SweepSize::Sweep => print(&document.text())?,
        _ => {}
    }
    if place.is_kept() && lowered.plan.output.shown == plan::Shown::Text {
        print_message(&format!("record: {}", place.path().display()));
    }
    Ok((course.overall(size), rows.len()))
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
    Ok(refusal.exit)
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

/// Measures a point.
pub(super) fn one(
    measurement: &mut Measurement,
    (point, number): (&PlannedPoint, u32),
    (folder, earlier): (&Path, Earlier),
    (role, look): (&Role, Look),
) -> Result<(SummarisedRun, Exit), Refusal> {
    let plan = &point.plan;
    let made = role.make(measurement, (plan, number), (folder, earlier))?;
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
        print_message(&format!("results: {}", path.display()));
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
    point: (&PlannedPoint, u32),
    place: (&Path, Earlier),
    (role, style): (&Role, Style),
) -> Result<Exit, Refusal> {
    let look = Look { style, size: SweepSize::Sweep, is_silent: true };
    one(measurement, point, place, (role, look)).map(|(_shown, exit)| exit)
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
        print_message(&format!("error: {why}\n  results up to that point are reported above"));
        return Exit::Write;
    }
    judged(made.end.stop, shown, plan)
}

/// The exit code of a recorded run, whether it was just made or stored before.
fn judged(stop: Stop, shown: &SummarisedRun, plan: &plan::Plan) -> Exit {
    let is_strict = plan.metrics.judgement == Judgement::Strict;
    let dead = shown.dead_targets();
    match stop {
        Stop::Interrupted => Exit::Interrupted,
        Stop::DiskFull => Exit::Write,
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
