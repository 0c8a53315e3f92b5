//! A measurement as meant: every option resolved, nothing left to look up.
//!
//! A plan is made once, from flags and plan files, and read-only after. It is what `--print-plan`
//! shows, what a run stores in its `plan.json` and what `--plan` reads, as TOML or JSON. An unknown
//! key is an error that names its neighbours. Each struct has a partial twin whose fields may be
//! unset: defaults, file, section and flags are partial plans that are merged field by field. No key or token is ever part of it: fields that look like one are left out on
//! writing. Nothing here opens a file or a connection.

mod canary;
mod client;
mod error;
mod field;
mod interleave;
#[cfg(test)]
mod laws;
mod likeness;
mod load;
mod metrics;
mod object;
mod output;
mod phases;
mod plan;
mod prompts;
mod request;
mod secret;
mod sweep;
mod target;
mod values;
mod variation;

pub use canary::{CanaryPlan, CanaryRow, PartialCanaryPlan};
pub use client::{Client, PartialClient};
pub use error::Error;
pub use field::{FieldError, PlanField};
pub use interleave::{Interleave, NoBlock, PartialInterleave, TurnOrder};
pub use likeness::{KnownPlan, PlanCoverage, differing_lines, first_change};
pub use load::{
    Load, Overload, PartialLoad, PartialRamp, PartialUntil, Ramp, Strategy, Timing, Until,
};
pub use metrics::{Judgement, Metrics, PartialMetrics};
pub use object::PartialObject;
pub use output::{
    Output, PartialOutput, PartialSglangResult, PartialVllmResult, Record, SglangResult, Shown,
    VllmResult,
};
pub use phases::{Cache, PartialPhases, Phases, Profiler};
pub use plan::{Content, PartialPlan, Plan, ab_blocks};
pub use prompts::{Form, PartialPrompts, Prompts};
pub use request::{Assignment, Lora, PartialLora, PartialRequest, Request};
pub use secret::{Metadata, Missing, ShellCommand, UrlText};
pub use sweep::{Axis, AxisValues, PlanSection, SweepValue};
pub use target::{Address, CertificateFiles, PartialTarget, ProxyUse, Target};
pub use values::{FlagValues, Rate, Term};
pub use variation::varied_fields;
