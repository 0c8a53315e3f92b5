//! How far each number of a summary can be trusted.
//!
//! In: an [`Unjudged`] summary. Out: the same [`Summary`] with its notes and verdicts. No clock and no I/O,
//! like the figures themselves. `effects` bound how far the client and its machine may have moved each figure that
//! is `shown`, [`notes`] has the table of what is said about them, by its `code`, and [`verdict`] follows from both
//! and the [`limits`].

mod code;
mod effects;
pub mod limits;
pub mod notes;
mod shown;
pub mod verdict;

pub use notes::{NoteCode, explained, note_codes, notes_markdown};
pub use shown::figure_label;

use effects::Effects;
use tokometer_figures::{Summary, Unjudged};

pub fn judge(mut run: Unjudged) -> Summary {
    let effects = Effects::measure(&run);
    run.summary.notes = notes::find(&run, &effects);
    run.summary.figure_verdicts = verdict::judge(&run, &effects);
    run.summary.verdict = verdict::of_run(&run.summary);
    run.summary.parts = run.parts.into_iter().map(|part| part.judged(judge)).collect();
    run.summary
}
