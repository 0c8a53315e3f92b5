//! How far each number of a summary can be trusted.
//!
//! In: an [`Unjudged`] summary. Out: the same [`Summary`] with its notes and verdicts. No clock and no I/O,
//! like the figures themselves. [`verdict`] bounds how far the client and its machine may have moved each
//! figure, [`notes`] has the table of what is said about them.

pub mod notes;
pub mod verdict;

pub use notes::{NoteCode, notes_markdown};
pub use verdict::figure_label;

use notes::CheckInput;
use tokometer_figures::{Summary, Unjudged};
use verdict::{EffectInput, Effects};

pub fn judge(unjudged: Unjudged) -> Summary {
    let Unjudged { mut summary, info, rows, health, observed, unsteady, overload } = unjudged;
    let (info, rows, observed) = (&info, &rows, &observed);
    let health = health.as_ref();
    let effects =
        Effects::measure(&EffectInput { info, summary: &summary, rows, health, observed });
    summary.notes = notes::find(&CheckInput {
        info,
        summary: &summary,
        health,
        observed,
        unsteady,
        overload,
        effects: &effects,
    });
    summary.figure_verdicts = verdict::judge(&summary, info, health, &effects);
    summary.verdict = verdict::of_run(&summary);
    summary
}

#[cfg(test)]
mod pages {
    /// A changed note also changes its page.
    #[test]
    fn the_generated_page_says_what_the_table_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/notes.md");
        let expected = crate::notes_markdown();
        if std::env::var_os("TOKOMETER_WRITE_PAGES").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == expected, "{path} is out of date: run with TOKOMETER_WRITE_PAGES=1");
    }
}
