//! From what was typed to what is meant.
//!
//! In: flags, a plan file, the environment, the config file. Out: one [`Plan`](tokometer_plan::Plan)
//! per point, and the keys, which are never part of a plan. [`tokometer_plan::resolve`] merges them; this
//! is the only module that reads the environment, and nothing reads a flag after it.

mod environment;
mod file;
mod lowered;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use environment::{Environment, TerminalCodes};
pub(crate) use file::key_variable;
pub(crate) use lowered::{Bar, Lowered, lower, lower_over};
pub(crate) use tokometer_plan::resolve::{
    OwnDefaults, PROMPT_LEN, PlannedPoint, Preset, complete_part, dataset_for, dialect, layered,
    load_flag, objective, of_words, put_address, seconds, sections, shown_words, written,
};
