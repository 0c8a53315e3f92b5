//! Comparisons of saved runs: read from both sides, made by [`tokometer_decide::compare`], and shown as
//! text, Markdown or a page.

mod made;
mod page;
mod points;
mod sides;
mod text;

pub use made::{of_run, of_sides};
pub use page::page;
pub use points::{PairedPoints, PointRuns, paired};
pub use sides::options;
pub(crate) use text::{changed, percent, verdict};
pub use text::{markdown, outcome, text, unchecked};
