//! Whole runs: in virtual time without sockets, and against small servers on loopback.
//!
//! The loopback servers are scripted threads of the test. What a server waits for forces the order of
//! events; no test sleeps. These tests assert presence and order of times, not values. Tests of
//! times, and tests that need many runs, are in [`virtual_time`].

mod behaviour;
mod blocks;
mod closing;
mod early;
mod leaving;
mod server;
mod traces;
mod turns;
mod virtual_time;
mod wave;
