//! What one call of the program has: environment, clock and signals, and the remarks on its plan.

use std::sync::Arc;

use anyhow::Context as _;
use tokometer_base::Clock;
use tokometer_plan::Plan;

use crate::exit::Exit;
use crate::lower::{Bar, Environment, Lowered, written};
use crate::signals::Signals;
use crate::terminal::{be_quiet, print, print_note};

pub(crate) struct Given {
    pub(crate) environment: Environment,
    pub(crate) clock: Arc<dyn Clock>,
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

pub(crate) fn show_plan(plan: &Plan, lowered: &Lowered) -> anyhow::Result<Exit> {
    print(&written(plan, &lowered.origins).context("cannot show the plan")?)?;
    Ok(Exit::Done)
}
