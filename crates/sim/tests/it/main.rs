//! The simulated server over loopback, seen by a client made of plain sockets.

mod behaviour;
mod captures;
mod client;
mod faults;
