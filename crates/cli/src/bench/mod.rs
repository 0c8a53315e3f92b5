//! One measurement from its plan to its report.
//!
//! Every file is one part of the way: the target is made ready, prompts are opened, the run is
//! driven and recorded, and the record is read back and shown. What is shown comes from the record
//! alone, so `report` shows the same.

mod alternating;
mod between;
mod conversation;
mod devices;
mod exporter;
mod folder;
mod measure;
mod preparer;
mod present;
mod probe;
mod progress;
mod readiness;
mod recorder;
mod results;
mod retokenize;
mod scraper;
mod sidelights;
mod signals;
mod simulator;
mod sweep;
mod target;
mod tokenizer;
mod watch;
mod workload;

pub(crate) use folder::Place;
pub(crate) use measure::Session;
pub(crate) use preparer::adapter;
pub(crate) use present::{Shown, View, layout_of, summarise, summarise_kept};
pub(crate) use progress::Bar;
pub(crate) use results::{Facts, write as write_results};
pub(crate) use sidelights::Sidelights;
pub(crate) use signals::Signals;
pub(crate) use simulator::Simulator;
pub(crate) use sweep::{Resume, run};
pub(crate) use tokenizer::tokenizer;
pub(crate) use workload::{Means, Opened, count, open};
