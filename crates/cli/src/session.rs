//! What one call of the program has: environment, clock and signals, and the remarks on its plan.

use std::sync::Arc;

use tokometer_base::Clock;

use crate::lower::{Bar, Environment, Lowered};
use crate::signals::Signals;
use crate::terminal::{be_quiet, print_note};

pub(crate) struct Given {
    /// The variables that mean something.
    pub(crate) environment: Environment,
    pub(crate) clock: Arc<dyn Clock>,
    /// Ctrl-C and other signals that end the program.
    pub(crate) signals: Signals,
}

/// Prints what lowering has to say; nothing where a flag or a preset asks for errors alone.
pub(crate) fn say_remarks(lowered: &Lowered) {
    if lowered.bar == Bar::Silent {
        be_quiet();
    }
    for remark in &lowered.remarks {
        print_note(&format!("note: {remark}"));
    }
}
