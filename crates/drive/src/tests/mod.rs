//! Whole runs: in virtual time without sockets, and against small servers on the loopback interface.
//!
//! The servers on loopback are threads of the test that follow a script; every order of events is
//! forced by what a server waits for, never by sleeping. Times are not asserted there, only their order
//! and their presence. What asserts times, or needs many runs, is in [`virtual_time`].

mod behaviour;
mod blocks;
mod closing;
mod early;
mod server;
mod turns;
mod virtual_time;
