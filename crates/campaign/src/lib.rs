//! Several runs under one procedure.
//!
//! A [`Procedure`] is a state machine: in go the runs measured so far, out comes the next run or the
//! findings. A single run, a sweep ([`Sweep`]), two targets in turn ([`Against`]), a staircase of concurrency ([`Stairs`]), a search for
//! capacity ([`Search`]) and the part of a run that another process decides ([`shards::Following`]) are
//! procedures. [`run`] drives one over an [`Executor`], which makes a run from its plan and returns the
//! record: [`Live`] against a server, [`shards::Sharded`] as one of several processes, [`Stored`] from the
//! folders of an interrupted measurement, [`Virtual`] in virtual time.
//!
//! Progress leaves as [`Event`]s. Nothing here prints, reads flags or chooses an exit code.

mod against;
mod capacity;
mod driver;
mod event;
mod executor;
mod folder;
mod kept_events;
mod outcome;
pub mod shards;
mod staircase;
mod stored;
mod sweep;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod virtual_time;

pub use against::{Against, Compared};
pub use capacity::{STAIRS, Search, SearchBounds, SearchSetting, StairFindings};
pub use driver::{Procedure, Step, run};
pub use event::{Event, Observer, SearchEvent};
pub use executor::{Executor, Live, RunRecord};
pub use folder::{Earlier, RunFolder, probe, shard_records, stamp};
pub use kept_events::KeptEvents;
pub use outcome::{Fate, Outcome, PlannedRun, Reading, RunRest};
pub use staircase::{Climbed, Stairs};
pub use stored::{Stored, check_stored_run, check_stored_sweep};
pub use sweep::{Sweep, SweepFindings, point_folder};
pub use virtual_time::Virtual;
