//! Comparisons of saved runs: read from both sides, made by [`tokometer_decide::compare`], and shown as
//! text, Markdown or a page.

mod answer;
mod page;
mod points;
mod sides;
mod text;

use std::path::{Path, PathBuf};

use tokometer_base::Refusal;
use tokometer_decide::compare::{Comparison, Criteria};
use tokometer_plan::{ab_blocks, differing_lines};
use tokometer_record::stored;

use crate::reading::Reading;

pub use answer::answer;
pub use page::page;
pub use points::{PairedPoints, PointRuns, paired};
pub use sides::options;
pub(crate) use text::{changed, percent, verdict};
pub use text::{markdown, outcome, text, unchecked};

/// The comparison of two sides: run folders, result files, printed reports.
pub fn of_sides(
    reading: Reading,
    a: &[PathBuf],
    b: &[PathBuf],
    criteria: Criteria<'_>,
) -> Result<Comparison, Refusal> {
    if a.is_empty() || b.is_empty() {
        let missing = if a.is_empty() { "--a" } else { "--b" };
        return Err(Refusal::usage(
            format!("cannot compare: no runs given for `{missing}`"),
            "try `tokometer compare A B`; three runs or more on each side tell more",
        ));
    }
    let [a, b] = sides::sides(reading, a, b, criteria.figures)?;
    let lines = differing_lines(&a.plans, &b.plans);
    Ok(Comparison::of_runs(&a.runs, &b.runs, criteria, lines))
}

/// The comparison of the two targets of one run.
pub fn of_run(folder: &Path, criteria: Criteria<'_>) -> Result<Comparison, Refusal> {
    let reader = stored::open(folder)?;
    let Some(ab) = ab_blocks(reader.info())? else {
        return Err(Refusal::usage(
            format!("cannot compare `{}` with itself: it has only one target", folder.display()),
            "give two runs, `tokometer compare A B`, or measure both targets in one run with `bench --against`",
        ));
    };
    Comparison::of_targets(&reader, ab, criteria)
}
