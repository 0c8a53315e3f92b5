//! `cargo lab real --server NAME`: the built program against a real inference server.
//!
//! Has the server installed below `target/real` (`cargo xtask server`), makes a tiny model with random
//! weights, starts the server on loopback, drives `tokometer` through completions, chat, errors, more
//! requests than slots and a cancelled run, and compares the record with the server's own counters.
//! Prints a table and fails when a row failed. A server's recipe is one value of [`recipe`];
//! everything else is the same for all of them. [`routes`] has the newer routes.

mod checks;
mod counters;
mod install;
mod recipe;
mod routes;
mod server;
mod stage;
mod task;

pub(crate) use task::run;
