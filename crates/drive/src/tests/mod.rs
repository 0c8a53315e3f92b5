//! Whole runs against small servers on the loopback interface.
//!
//! The servers are threads of the test that follow a script; every order of events is forced by what
//! a server waits for, never by sleeping. Times are not asserted, only their order and their presence.

mod behaviour;
mod blocks;
mod closing;
mod server;
mod turns;
