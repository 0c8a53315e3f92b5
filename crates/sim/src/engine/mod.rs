//! The engine: a pure state machine that turns waiting requests into tokens, step by step.
//!
//! In: requests with known lengths, cancellations, and the time at which a step begins. Out: when that
//! step ends and which requests get how many tokens then. It reads no clock, does no I/O and draws its
//! randomness from one seed, so the HTTP front drives it in real time and the twin in virtual time, and
//! both see the same steps.

mod blocks;
mod decoders;
mod ids;
mod job;
mod machine;
mod policy;
mod reports;
#[cfg(test)]
mod tests;

pub use job::{Job, JobRefusal};
pub use machine::Engine;
pub use reports::{Admission, Counters, Occupancy, Produced, Step, StepKind};
