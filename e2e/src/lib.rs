//! What the end-to-end tests share: the program under test, simulated servers and scripted ones.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails the test")]

pub mod large_run;
pub mod program;
pub mod schemas;
pub mod scripted;
pub mod soak;
