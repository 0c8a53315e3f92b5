//! A measurement as meant: every option resolved, nothing left to look up.
//!
//! A plan is made once, from flags and plan files, and read-only after. It is what `--print-plan`
//! shows, what a run stores in its `plan.json` and what `--plan` reads, as TOML or JSON. An unknown
//! key is an error that names its neighbours. Each struct has a partial twin whose fields may be
//! unset: defaults, file, section and flags are partial plans that are merged field by field. A plan in
//! memory holds the keys and tokens that it was given; what is written or shown of it does not. Nothing
//! here opens a file or a connection.
//!
//! - `plan` is the whole. Its parts: `target`, `prompts`, `load`, `classes`, `phases`, `request`, `client`, `metrics`,
//!   `output`, `interleave` (two targets in turn) and `canary`.
//! - `options` is the table of all options, from which flags, presets and plan files are read.
//! - `resolve` merges what flags, presets and files say into one plan per point.
//! - `sweep` has fields with several values, `field` their names, types and which of them differ between
//!   stored runs, `values` lists as typed.
//! - `likeness` compares plans, `secret` keeps secrets out of what is written, and `laws_tests` tests
//!   what holds for every plan.

mod canary;
mod classes;
mod client;
mod field;
mod interleave;
#[cfg(test)]
mod laws_tests;
mod likeness;
mod load;
mod metrics;
pub mod options;
mod output;
mod phases;
mod plan;
mod prompts;
mod renamed;
mod request;
pub mod resolve;
mod secret;
mod sweep;
mod target;
mod valid;
mod values;

pub use canary::{CanaryPlan, CanaryRow, PartialCanaryPlan};
pub use classes::{Class, ClassDraw, ClassOrder, PartialClass};
pub use client::{Client, PartialClient};
pub use field::{PlanField, varied_fields};
pub use interleave::{Interleave, PartialInterleave, TurnOrder};
pub use likeness::{KnownPlan, PlanCoverage, differing_lines, first_change};
pub use load::{Load, Overload, PartialLoad, PartialUntil, Timing, Until};
pub use metrics::{Judgement, Metrics, PartialMetrics};
pub use output::{
    FirstExchange, Output, PartialOutput, PartialSglangResult, PartialVllmResult, Record,
    SglangResult, Shown, VllmResult,
};
pub use phases::{Cache, PartialPhases, Phases, Profiler};
pub use plan::{Content, Error, PartialPlan, Plan, ab_blocks};
pub use prompts::{Form, PartialPrompts, Prompts};
pub use renamed::renamed_flag;
pub use request::{PartialRequest, Request};
pub use secret::{Metadata, Missing, ShellCommand, UrlText};
pub use sweep::{Axis, AxisValues, PlanSection, SweepValue};
pub use target::{Address, CertificateFiles, PartialTarget, ProxyUse, Target};
pub use values::Rate;
