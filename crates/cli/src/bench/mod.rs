//! `bench` on the terminal: all points of a measurement, shown as they end.
//!
//! [`tokometer_measure`] makes the runs. What is shown comes from the record alone, so `report`
//! shows the same.

mod document;
mod events;
mod exporter;
mod folder;
mod identified;
mod next_command;
mod observer;
mod progress;
mod results;
mod resume;
mod signals;
mod silence;
mod staircase;
mod sweep;

pub(crate) use crate::runs::summarise_read;
pub(crate) use document::SweepDocument;
pub(crate) use events::KeptEvents;
pub(crate) use folder::{Destination, Earlier, RunFolder, lock as lock_folder};
pub(crate) use identified::identified;
pub(crate) use next_command::workload as workload_words;
pub(crate) use observer::measurement;
pub(crate) use progress::{Bar, waiting_for_shards};
pub(crate) use results::{
    RunFacts, check as check_result_files, write as write_results, write_summary,
};
pub(crate) use resume::check as check_resumed;
pub(crate) use signals::{Signals, heeded};
pub(crate) use silence::Silence;
pub(crate) use staircase::{Climbed, StaircaseRun};
pub(crate) use sweep::{PointJob, SweepOutcome, SweepRun, measure_silently};
pub(crate) use tokometer_report::saved::{RunView, SummarisedRun, layout_of, summarise_kept};
pub(crate) use tokometer_report::staircase::next_line;
pub(crate) use tokometer_report::sweep::{SweepEntry, sweep_text};
