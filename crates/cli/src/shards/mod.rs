//! `bench` and `capacity` as one of several processes that make one run.
//!
//! [`tokometer_shards`] finds out which part this process makes and talks to the others;
//! [`tokometer_measure`] makes the part. Here both meet, with folders and messages.

mod coordination;
mod following;
mod lending;
mod order;
mod part;
mod remote;
mod role;
mod setup;

pub(crate) use order::Varied;
pub(crate) use part::{PartRequest, RunPart};
pub(crate) use role::{MadePoint, Role, shard_records};
pub(crate) use setup::{membership, note_uneven_cap, note_unused_cap, refuse};
