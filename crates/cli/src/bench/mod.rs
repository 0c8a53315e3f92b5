//! `bench` on the terminal: all points of a measurement, shown as they end.
//!
//! [`tokometer_campaign`] makes the runs. What is shown comes from the record alone, so `report`
//! shows the same.

mod exporter;
mod identified;
mod intention;
mod next_command;
mod observer;
mod progress;
mod results;
mod screen;
mod staircase;

pub(crate) use identified::identified;
pub(crate) use intention::{say_intention, say_search};
pub(crate) use next_command::{say_varied, workload as workload_words};
pub(crate) use observer::measurement;
pub(crate) use results::{
    RunFacts, check as check_result_files, result as result_file, write as write_results,
    write_summary,
};
pub(crate) use screen::{
    Look, Say, Screen, SweepDocument, followed, kept_events, overall, planned_runs,
};
pub(crate) use staircase::{ShownStairs, StairsScreen};
pub(crate) use tokometer_report::saved::{RunView, SummarisedRun, layout_of};
pub(crate) use tokometer_report::staircase::next_line;
pub(crate) use tokometer_report::sweep::{SweepEntry, sweep_text};
