//! The simulated server over loopback, seen by a client made of plain sockets.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod behaviour;
mod captures;
mod client;
mod faults;
