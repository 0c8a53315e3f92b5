//! `tokometer bench`.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use tokometer_base::Clock as _;

use super::Given;
use crate::args::BenchArgs;
use crate::bench::{self, Bar, Earlier, measurement};
use crate::exit::Exit;
use crate::instrument;
use crate::lower::{ProgressView, SelfCheck, key_variable, lower, written};
use crate::shards;
use crate::terminal::{print, print_message, style};

/// Measures what the arguments say, point by point.
pub(crate) fn bench(args: &BenchArgs, order: &[String], given: &Given) -> anyhow::Result<Exit> {
    let mut lowered = lower(args, order, &given.environment)?;
    for remark in &lowered.remarks {
        print_message(&format!("note: {remark}"));
    }
    if args.print_plan {
        print(&written(&lowered.plan, &lowered.origins).context("cannot show the plan")?)?;
        return Ok(Exit::Done);
    }
    lowered.require_secrets()?;
    let variable = args.plan.as_deref().and_then(key_variable);
    if let Some(variable) = variable.filter(|_| lowered.secrets.api_key.is_none()) {
        print_message(&format!(
            "note: the run of this plan sent the key in `{variable}`, which is not set\n  set it if the server needs a key"
        ));
    }
    let earlier = Earlier::checked(&args.output, &lowered.plan.output)?;
    let is_live = lowered.display.progress == ProgressView::Live;
    if is_live && !std::io::stderr().is_terminal() {
        print_message(
            "note: `--live` has no effect here: stderr is not a terminal\n  \
             run it in a terminal; elsewhere progress is one line every 10 s, and `--prometheus-port PORT` serves counters",
        );
    }
    let bar = Bar::from(lowered.display);
    let mut look = style(&given.environment);
    if lowered.display.calibration == SelfCheck::Asked {
        look.error = instrument::calibrate(&lowered.plan, given)?;
    }
    if let Some(found) = shards::membership(args, &lowered, given)? {
        return Ok(shards::bench(&found, args, &mut lowered, (given, bar, look))?);
    }
    let begin = (given.clock.wall(), earlier);
    let mut measurement = measurement(&lowered.secrets, &given.signals, bar, &given.clock);
    Ok(bench::run(&mut measurement, &lowered, begin, (&given.signals, look))?)
}
