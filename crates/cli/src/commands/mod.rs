//! One file per command.

mod bench;
mod dataset;
mod doctor;
mod export;
mod report;
mod sim;
mod source;

pub(crate) use source::expanded;

use crate::args::{Command, DocPage, Typed};
use crate::exit::Exit;
use crate::lower::Environment;
use crate::terminal::{print, tell};

/// Does what was asked.
pub(crate) fn run(typed: Typed) -> anyhow::Result<Exit> {
    let Typed { command, order, remarks } = typed;
    for remark in remarks {
        tell(&format!("note: {remark}"));
    }
    let environment = Environment::read();
    match command {
        Command::Bench(args) => bench::bench(&args, &order, &environment),
        Command::Dataset(args) => dataset::dataset(&args, &order, &environment),
        Command::Report(args) => report::report(&args, &environment),
        Command::Compare(args) => crate::compare::compare(&args),
        Command::Capacity(args) => crate::capacity::capacity(&args, &order, &environment),
        Command::Predict(args) => crate::predict::predict(&args, &order, &environment),
        Command::Calibrate(args) => crate::calibrate::calibrate(&args),
        Command::Doctor(args) => doctor::doctor(&args, &environment),
        Command::Sim(args) => sim::sim(&args),
        Command::Docs { page: DocPage::Migrating } => {
            print(&crate::args::compat::migrating_markdown())?;
            Ok(Exit::Done)
        }
    }
}
