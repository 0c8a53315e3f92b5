//! The built binary against servers: one test binary, asserting on records and JSON rather than on
//! the looks of a terminal. Nothing here depends on how quick or quiet the machine is.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails the test")]

mod audio;
mod bad_input;
mod bench;
mod cancel;
mod capacity;
mod compare;
mod connections;
mod dialects;
mod disk;
mod experiments;
mod faults;
mod help;
mod install;
mod instrument;
mod killed;
mod lines;
mod messages;
mod names;
mod newer_flags;
mod objectives;
mod packaging;
mod pages;
mod plans;
mod pooling;
mod predict;
mod presets;
mod properties;
mod quality;
mod readiness;
mod reasoning;
mod reports;
mod scrapes;
mod secrets;
mod shard_faults;
mod shard_limits;
mod shard_once;
mod shard_points;
mod shards;
mod signals;
mod soak;
mod staircase;
mod sweeps;
mod traces;
mod truth;
mod verdicts;
mod waiting;

use tokometer_e2e::program;
use tokometer_e2e::scripted;
