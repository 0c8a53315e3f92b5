//! A measurement as meant: every option resolved, nothing left to look up.
//!
//! A plan is made once, from flags and plan files, and read-only after. It is what `--print-plan`
//! shows, what a run stores in its `plan.json` and what `--plan` reads, as TOML or JSON. An unknown
//! key is an error. No key or token is ever part of it: fields that look like one are left out on
//! writing. Nothing here opens a file or a connection.

mod client;
mod interleave;
mod load;
mod metrics;
mod output;
mod phases;
mod plan;
mod prompts;
mod request;
mod sweep;
mod target;
mod values;

pub use client::Client;
pub use interleave::Interleave;
pub use load::{Load, Overload, Ramp, Strategy, Timing, Until};
pub use metrics::{Judgement, Metrics};
pub use output::{Output, Record, SglangResult, Shown, VllmResult};
pub use phases::{Cache, Phases, Profiler};
pub use plan::{Content, Plan};
pub use prompts::{Form, Prompts};
pub use request::{Assignment, Lora, Request};
pub use sweep::{Axis, AxisValues, Section};
pub use target::{Address, Target, Trust};
pub use values::{Rate, Term, Values};
