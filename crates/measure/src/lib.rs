//! One measurement: from a plan to the record of each of its runs.
//!
//! In: a [`tokometer_plan::Plan`], keys, a clock and an [`Observer`]. Out: a run folder for each
//! point. Every file is one part of the way: the target is reached, the tokenizer and the prompts
//! are opened, the run is driven and recorded, the server's metrics are scraped beside it. Nothing
//! here prints, parses flags or computes results: progress and remarks go to the observer, and
//! reports are made from the record.

mod alternating;
mod between;
mod conversation;
mod devices;
mod error;
mod live_notes;
mod measurement;
mod observer;
mod preparer;
mod probe;
mod readiness;
mod recorder;
mod retokenize;
mod run_config;
mod scraper;
mod secrets;
mod simulator;
mod stream_load;
mod target;
mod tokenizer;
mod watch;
mod workload;

pub use error::{Error, Kind};
pub use live_notes::LiveNotes;
pub use measurement::{Measured, Measurement, Tools};
pub use observer::{Goal, Guard, Observer, Underway};
pub use preparer::adapter;
pub use secrets::Secrets;
pub use simulator::Simulator;
pub use stream_load::StreamLoad;
pub use tokenizer::tokenizer;
pub use workload::{Means, Opened, open, prompts_needed};
