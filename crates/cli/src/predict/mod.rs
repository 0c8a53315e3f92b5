//! `tokometer predict`: what a measurement would show, computed in virtual time.
//!
//! In: the flags of `bench` and an engine profile. Out: the same reports from the same metrics code,
//! headed as predictions, with what is known of their errors. No server is contacted, no clock is
//! read, and the same plan and seed give the same bytes. Runs too large for timelines are reported
//! from weighted figures.

mod command;
mod engine;

pub(crate) use command::{free_memory, predict, prediction_plan};
pub(crate) use engine::{EngineChoice, old_client};
