//! The HTTP side of the simulated server: one thread, one poller, real time.
//!
//! The thread that writes tokens to sockets is the one that drives the engine, so that the truth log
//! can hold the time just before and just after each `send`: behind a runtime's task queue those
//! times would be somebody else's. It also keeps the cost of a token at one formatted event and one
//! system call; 2,048 streams of 50 tokens per second need a fraction of a core. Deadlines are
//! absolute: a late step does not delay the next.

mod answer;
mod connection;
mod delivery;
mod incoming;
mod listener;
mod posting;
mod reactor;
mod stream;
mod timers;

pub use listener::{Error, SimServer};
