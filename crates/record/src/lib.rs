//! The narrow waist: what happened in a run, and its form on disk.
//!
//! Left of this room the program touches the world; right of it every number is a pure function of
//! what is written here. In: [`Timeline`]s as requests end. Out: a run folder that other tools can
//! read, and [`RunReader`], which gives the same timelines back, also from a folder whose writer was
//! killed. No runtime, no network, no metric lives here.

mod batches;
mod columns;
#[cfg(test)]
mod damaged_records;
pub mod event;
pub mod failure;
pub mod folder;
pub mod health;
pub mod run;
pub mod server;
pub mod timeline;

pub use event::{Event, EventKind};
pub use failure::{Failure, FailureKind, Outcome};
pub use folder::{Error, RunReader, RunWriter};
pub use health::Health;
pub use run::{RecordedLoad, RunEnd, RunInfo, RunState, Stop, Target};
pub use timeline::{
    Asked, Connection, CountSource, Identity, Network, Phase, ServerTimings, StampSource, Timeline,
    Times, Usage,
};
