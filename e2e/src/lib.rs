//! What the end-to-end tests share: the program under test and simulated servers for it.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails the test")]

pub mod program;
