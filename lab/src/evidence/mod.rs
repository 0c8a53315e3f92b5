//! `cargo lab evidence`: does a calibrated model predict runs of a real server that no fit has seen?
//!
//! `run` starts a server, measures the list of [`plan`] twice and packs the records; it needs no cargo
//! and no network, so that a carried binary does it on a bare machine. `table` calibrates on some of the
//! records, predicts the others, compares with the noise between repeats and with interpolation between
//! neighbours, and prints the tables of `lab/data/evidence.md`. The list, the split and the comparison
//! were written down in `lab/data/evidence-plan.md` before the runs.

mod analysis;
mod figures;
mod measure;
mod neighbours;
mod page;
mod plan;
mod rig;
mod table;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo lab evidence run --server llamacpp|transformers --out FOLDER [--program FILE]
           [--python FILE] [--wheels FOLDER] [--deadline-s N] [--quick]
       cargo lab evidence table FOLDER [--program FILE]
       cargo lab evidence plan

  run               start the server, measure the whole list twice, pack the records into FOLDER
    --program FILE    the tokometer to measure with, instead of building one
    --python FILE     the Python that has the server's packages [default: python3]
    --wheels FOLDER   packages to install for the server first, without a network
    --deadline-s N    leave out what is not done after so many seconds [default: 540]
    --quick           a tiny model and a few requests, to see that everything works
  table             calibrate, predict, compare, and print the tables, from the packed records in FOLDER
  plan              print the list of runs";

/// Runs the task.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((word, rest)) if word == "run" => measure::run(rest),
        Some((word, rest)) if word == "table" => table::run(rest),
        Some((word, _)) if word == "plan" => {
            page::print(&plan::ALL.map(plan::markdown).join("\n"));
            Ok(())
        }
        _ => bail!("{USAGE}"),
    }
}
