//! One file per command.

mod bench;
mod dataset;
mod doctor;
mod kit;
mod merge;
mod report;
mod shell;
mod sim;

use std::sync::Arc;

use tokometer_base::Clock;

use crate::activity::Activity;
use crate::args::{Command, DocPage, ParsedArguments};
use crate::exit::Exit;
use crate::lower::Environment;
use crate::session::Given;
use crate::signals::Signals;
use crate::store;
use crate::terminal::{be_quiet, hide, print, print_note};

/// Progress of commands that show none of their own.
fn activity(command: &Command) -> Option<Activity> {
    let what = match command {
        Command::Report(_) => "report: reading",
        Command::Compare(_) => "compare: reading",
        Command::Predict(_) => "predict: computing",
        Command::Merge(_) => "merge: reading",
        Command::Dataset(_) => "dataset: preparing",
        _ => return None,
    };
    Some(Activity::start(what))
}

fn is_quiet(command: &Command) -> bool {
    match command {
        Command::Bench(args) => args.bench.output.quiet,
        Command::Capacity(args) => args.bench.output.quiet,
        Command::Dataset(args) => args.bench.output.quiet,
        Command::Predict(args) => args.bench.output.quiet,
        _ => false,
    }
}

pub(crate) fn run(typed: ParsedArguments, clock: Arc<dyn Clock>) -> anyhow::Result<Exit> {
    let ParsedArguments { command, order, remarks, colour } = typed;
    let environment = Environment::read().with_colour(colour)?;
    hide(&environment.secrets);
    if is_quiet(&command) {
        be_quiet();
    }
    for remark in remarks {
        print_note(&format!("note: {remark}"));
    }
    // The simulated server stops in an orderly way, so that its logs are whole.
    let signals = match &command {
        Command::Sim(_) => Signals::default(),
        _ => Signals::catch(),
    };
    let given = Given { environment, clock, signals };
    let environment = &given.environment;
    let _activity = activity(&command);
    match command {
        Command::Bench(mut args) => {
            let mut output = args.bench.output.clone();
            store::recorded(&mut output, |output| {
                args.bench.output = output.clone();
                bench::bench(&args, &order, &given)
            })
        }
        Command::Dataset(args) => dataset::dataset(&args, &order, environment),
        Command::Report(args) => report::report(&args, environment),
        Command::Compare(args) => crate::compare::compare(&args),
        Command::Capacity(mut args) => {
            let mut output = args.bench.output.clone();
            store::recorded(&mut output, |output| {
                args.bench.output = output.clone();
                crate::capacity::capacity(&args, &order, &given)
            })
        }
        Command::Predict(args) => crate::predict::predict(&args, &order, environment),
        Command::Calibrate(args) => crate::calibrate::calibrate(&args),
        Command::Merge(args) => merge::merge(&args),
        Command::Doctor(args) => doctor::doctor(&args, &given),
        Command::Sim(args) => sim::sim(&args, &*given.clock),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man { folder } => shell::man(&folder),
        Command::Docs { page } => {
            print(&match page {
                DocPage::Migrating => crate::args::compat::migrating_markdown(),
                DocPage::PlanFile => tokometer_plan::options::keys_markdown(),
            })?;
            Ok(Exit::Done)
        }
    }
}
