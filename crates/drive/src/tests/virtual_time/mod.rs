//! Whole runs without sockets, in virtual time.
//!
//! The run is the real one: owner, preparer, reference thread and workers, each on its thread. The
//! platform lets one thread run at a time, chosen by a seed, and advances the clock to the next event
//! when all of them wait. Bytes go to a server in memory that follows a script drawn from the same
//! seed. So a seed repeats a run exactly, faults included.

mod addresses;
mod cancelling;
mod exactness;
mod faults;
mod lending;
mod network;
mod platform;
mod repetition;
mod scenario;
mod server;
mod shares;
mod stopping;
mod waiting;
