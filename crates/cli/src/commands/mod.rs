//! One file per command.

mod bench;
mod dataset;
mod doctor;
mod kit;
mod merge;
mod report;
mod sim;

use std::path::Path;
use std::sync::Arc;

use clap_complete::Shell;
use tokometer_base::Clock;
use tokometer_base::neighbours::suggestion;
use tokometer_base::redact::redact;
use tokometer_judge::{explained, note_codes};

use crate::activity::Activity;
use crate::args::{BenchArgs, Command, DocPage, ParsedArguments, declaration};
use crate::exit::{Exit, Refusal, RefusalKind};
use crate::lower::Environment;
use crate::session::Given;
use crate::signals::Signals;
use crate::terminal::{be_quiet, hide, print, print_message, print_note};

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

/// The flags of a measurement, where the command takes them.
fn flags(command: &Command) -> Option<&BenchArgs> {
    match command {
        Command::Bench(args) => Some(&args.bench),
        Command::Capacity(args) => Some(&args.bench),
        Command::Dataset(args) => Some(&args.bench),
        Command::Predict(args) => Some(&args.bench),
        _ => None,
    }
}

pub(crate) fn run(typed: ParsedArguments, clock: Arc<dyn Clock>) -> anyhow::Result<Exit> {
    let ParsedArguments { command, order, remarks, colour } = typed;
    let environment = Environment::read().with_colour(colour)?.reaching_hub(Arc::clone(&clock));
    hide(&environment.secrets);
    if let Some(flags) = flags(&command) {
        if flags.output.quiet {
            be_quiet();
        }
        flags.output.run_dir.as_deref().map_or(Ok(()), refuse_store)?;
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
        Command::Bench(args) => bench::bench(&args, &order, &given),
        Command::Dataset(args) => dataset::dataset(&args, &order, environment),
        Command::Report(args) => report::report(&args, environment),
        Command::Compare(args) => crate::compare::compare(&args),
        Command::Capacity(args) => crate::capacity::capacity(&args, &order, &given),
        Command::Predict(args) => crate::predict::predict(&args, &order, environment),
        Command::Calibrate(args) => crate::calibrate::calibrate(&args),
        Command::Merge(args) => merge::merge(&args),
        Command::Doctor(args) => doctor::doctor(&args, &given),
        Command::Sim(args) => sim::sim(&args, &*given.clock),
        Command::Explain { note } => explain(&note),
        Command::Completions { shell } => completions(shell),
        Command::Man { folder } => man(&folder),
        Command::Docs { page } => {
            print(&match page {
                DocPage::Migrating => crate::args::compat::migrating_markdown(),
                DocPage::PlanFile => tokometer_plan::options::keys_markdown(),
            })?;
            Ok(Exit::Done)
        }
    }
}

/// Refuses an address (`s3://…`), which would become a folder of this name.
fn refuse_store(folder: &Path) -> Result<(), Refusal> {
    let Some(_) = folder.to_str().filter(|text| text.contains("://")) else { return Ok(()) };
    Err(Refusal::usage(
        format!("cannot use `{}`: a run is recorded in a folder", folder.display()),
        "copy the folder to the store when the run has ended",
    ))
}

fn explain(note: &str) -> anyhow::Result<Exit> {
    let Some(page) = explained(note) else {
        let codes = note_codes();
        let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
        let message = format!("there is no note `{}`", redact(note));
        return Err(Refusal::usage(message, suggestion(note, &codes)).into());
    };
    print(&page)?;
    Ok(Exit::Done)
}

fn completions(shell: Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut declaration(), "tokometer", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(Exit::Done)
}

fn man(folder: &Path) -> anyhow::Result<Exit> {
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(declaration(), folder));
    written.map_err(|why| {
        Refusal::new(RefusalKind::Write, format!("cannot write to `{}`: {why}", folder.display()))
    })?;
    print_message(&format!("wrote the manual pages to {}", folder.display()));
    Ok(Exit::Done)
}
