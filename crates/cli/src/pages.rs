//! Where HTML pages go: checked before a run, written after it.

use std::path::{Path, PathBuf};

use tokometer_plan::Shown;
use tokometer_record::{WholeFile, write_whole};
use tokometer_report::html::{Page, PageContext};
use tokometer_report::saved::RunView;
use tokometer_report::{PageSource, several};

use crate::exit::{Refusal, RefusalKind, reason};
use crate::files::is_standard;
use crate::lower::Lowered;
use crate::runs::READING;
use crate::terminal::print_note;

pub(crate) fn write(page: Page, out: &Path) -> Result<(), Refusal> {
    write_whole(out, page.render().as_bytes()).map_err(|why| unwritable(out, &why))
}

pub(crate) fn write_runs(folders: &[PathBuf], view: &RunView, out: &Path) -> Result<(), Refusal> {
    let context = PageContext::default();
    write(several::page(READING, &PageSource::of(folders, &[])?, view, &context)?, out)
}

/// Names a page that was written; standard output needs no name.
pub(crate) fn say_page(out: &Path) {
    if !is_standard(out) {
        print_note(&format!("page: {}", out.display()));
    }
}

/// Refuses a page that could not be written, before anything is measured for it.
pub(crate) fn check(out: Option<&Path>, lowered: &Lowered) -> Result<(), Refusal> {
    let Some(out) = out else { return Ok(()) };
    if is_standard(out) && lowered.plan.output.shown == Shown::Json {
        return Err(Refusal::usage(
            "cannot print both the page and the JSON to standard output",
            "write the page to a file, such as `--html page.html`",
        ));
    }
    // The run folder is made with the run.
    let is_in_run = lowered.plan.output.run_dir.as_ref().is_some_and(|run| out.starts_with(run));
    // A pipe is opened once: its reader would take the end of a trial for the end of the page.
    let is_other = std::fs::metadata(out).is_ok_and(|found| !found.is_file() && !found.is_dir());
    if is_in_run || is_other {
        return Ok(());
    }
    // The trial is removed again.
    WholeFile::create(out).map(drop).map_err(|why| unwritable(out, &why))
}

/// Leaves standard output to a page that goes there.
pub(crate) fn clear_stdout(out: Option<&Path>, lowered: &mut Lowered) {
    if out.is_some_and(is_standard) {
        let points = lowered.points.iter_mut().map(|point| &mut point.plan);
        for plan in points.chain([&mut lowered.plan]) {
            plan.output.shown = Shown::Nothing;
        }
    }
}

fn unwritable(out: &Path, why: &std::io::Error) -> Refusal {
    let refusal = Refusal::new(
        RefusalKind::Write,
        format!("cannot write `{}`: {}", out.display(), reason(why)),
    );
    match out.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        Some(folder) => refusal.hint(format!("create the folder `{}` first", folder.display())),
        None => refusal,
    }
}
