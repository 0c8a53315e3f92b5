//! From what was typed to what is meant.
//!
//! In: flags, a plan file, the environment, the config file. Out: one [`Plan`](tokometer_plan::Plan)
//! per point, and the keys, which are never part of a plan. Flags override the plan file, which
//! overrides `TOKOMETER_*` variables, which override the config file, which overrides the defaults.
//! Defaults depend on the backend's family. This is the only place that reads the environment; nothing
//! reads a flag after it.

mod bare_url;
mod check;
mod constraints;
mod defaults;
mod display;
mod environment;
mod figures;
mod file;
mod foreign;
mod origin;
mod points;
mod pooling;
mod preset;
mod resolve;
mod route;
mod secrets;
#[cfg(test)]
pub(crate) mod tests;
mod turns;

pub(crate) use bare_url::{OwnDefaults, PROMPT_LEN, dataset_for, load_flag, put_address};
pub(crate) use defaults::dialect;
pub(crate) use display::{Display, ProgressView, SelfCheck};
pub(crate) use environment::{Environment, TerminalCodes};
pub(crate) use figures::{objective, seconds, sections};
pub(crate) use file::{key_variable, written};
pub(crate) use points::PlannedPoint;
pub(crate) use preset::{Preset, layered};
pub(crate) use resolve::{Lowered, complete_part, lower, lower_over};
pub(crate) use secrets::{of_words, shown_words};
