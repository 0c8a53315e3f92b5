//! Whole runs without sockets, in virtual time.
//!
//! The run is the real one: owner, preparer, control and workers, each on its thread. The platform
//! below them lets one thread go on at a time, chosen by a seed, and moves the clock to the next thing
//! that happens when all of them wait. Bytes go to a server in memory that follows a script drawn from
//! the same seed. So a seed repeats a run to the last bit, faults included.

mod exactness;
mod faults;
mod network;
mod platform;
mod repetition;
mod scenario;
mod server;
mod stopping;
