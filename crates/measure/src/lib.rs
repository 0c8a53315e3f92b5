//! One measurement: from a plan to the record of each of its runs.
//!
//! In: a [`tokometer_plan::Plan`], keys, a clock and an [`Observer`]. Out: a run folder for each
//! point. Each file is one step: connect to the target, open tokenizer and prompts, drive and record
//! the run, scrape the server's metrics beside it. Nothing here prints, parses flags or computes
//! results: progress and remarks go to the observer, and reports are made from the record.

mod alternating;
mod between;
mod canary;
mod devices;
mod hub;
mod identify;
mod live_notes;
mod measured_run;
mod measurement;
mod observer;
mod open_session;
mod preparer;
mod probe;
mod readiness;
mod ready_targets;
mod recorder;
mod replay;
mod retokenize;
mod run;
mod run_config;
mod scraper;
mod secrets;
mod shard;
mod simulator;
mod stream_load;
mod target;
mod tokenizer;
mod tools;
mod transcript;
mod watch;
mod workload;

pub use alternating::BlockTimes;
pub use hub::HubDownloads;
pub use identify::{IdentifiedServer, ServerIdentity, identify};
pub use live_notes::{LiveBins, LiveGauges, LiveNotes, LivePercentiles, OtherRequests};
pub use measured_run::MeasuredRun;
pub use measurement::Measurement;
pub use observer::{Goal, Guard, Observer, RunInProgress};
pub use replay::Replay;
pub use secrets::Credentials;
pub use shard::{CapRule, Coordination, ShardPart, ShardRun, check_division};
pub use simulator::Simulator;
pub use stream_load::StreamLoad;
pub use target::model_advice;
pub use tokenizer::tokenizer;
pub use tokometer_base::refusal::{Refusal as Error, RefusalKind as ErrorKind};
pub use tools::Tools;
pub use workload::{OpenedWorkload, WorkloadInputs, open, prompts_needed};
