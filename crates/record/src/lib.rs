//! What happened in a run, in memory and on disk.
//!
//! Before the record the program uses network and clocks; after it every number is a pure function
//! of the record. In: [`Timeline`]s as requests end. Out: a run folder that other tools can read, and
//! [`RunReader`], which returns the same timelines, also from a folder whose writer was killed. No
//! network and no metric is known here.
//!
//! - One attempt: [`timeline`], its [`event`]s, and [`failure`], how it ended.
//! - A run: [`run`], what its plan says (`planned`), the client's [`health`], the server's metrics ([`server`]), and [`sharding`] where
//!   several processes made it.
//! - On disk: `writer` writes a folder and [`folder`] reads it. `columns` turn timelines into Arrow columns
//!   and back, `batches` reads Arrow streams that may be damaged, and `whole_file` writes files that are
//!   complete or not there. [`stored`] opens folders that a user names.

mod ahead;
mod batches;
mod columns;
#[cfg(test)]
mod damaged_records;
pub mod event;
pub mod failure;
pub mod folder;
pub mod health;
mod planned;
pub mod run;
pub mod server;
pub mod sharding;
pub mod stored;
pub mod timeline;
mod whole_file;
mod writer;

pub use event::{Event, EventKind};
pub use failure::{Failure, FailureKind, Outcome};
pub use folder::{Error, RunReader};
pub use health::Health;
pub use planned::AskedForm;
pub use run::{RecordedLoad, RunEnd, RunInfo, RunState, Stop, TargetInfo};
pub use sharding::{
    ClockFit, CommonStart, MergedRun, MergedShard, ShardClock, ShardInfo, Sharding,
};
pub use timeline::{
    AttemptId, Connection, ContentBytes, CountSource, MergeWaits, Phase, RequestedLengths,
    ServerTimings, StampSource, TcpStats, Timeline, Times, Usage,
};
pub use whole_file::{STDOUT, WholeFile, write_whole};
pub use writer::{PendingRows, RemoveEarlier, RunWriter, SentAttempt, timeline_bytes};
