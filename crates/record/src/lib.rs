//! What happened in a run, in memory and on disk.
//!
//! Before the record the program uses network and clocks; after it every number is a pure function
//! of the record. In: [`Timeline`]s as requests end. Out: a run folder that other tools can read, and
//! [`RunReader`], which returns the same timelines, also from a folder whose writer was killed. No
//! network and no metric is known here.
//!
//! - One attempt: [`timeline`], its [`event`]s, and [`failure`], how it ended.
//! - A run: [`run`], its `load`, what its plan says (`planned`), its `end`, the client's [`health`], the server's
//!   metrics ([`server`]), and [`sharding`] where several processes made it.
//! - On disk: `writer` writes the files of a [`folder`] and `reader` reads them. `columns` turn timelines into Arrow columns
//!   and back, `batches` reads Arrow streams that may be damaged, and `whole_file` writes files that are
//!   complete or not there. [`stored`] opens folders that a user names.

mod ahead;
mod batch_file;
mod batches;
mod columns;
mod end;
pub mod event;
pub mod failure;
pub mod folder;
pub mod health;
mod load;
mod planned;
mod reader;
mod rows;
pub mod run;
pub mod server;
pub mod sharding;
pub mod stored;
pub mod timeline;
mod whole_file;
mod writer;

pub use end::{RunEnd, RunState, Stop};
pub use event::{Event, EventKind};
pub use failure::{Failure, FailureKind, Outcome};
pub use folder::Error;
pub use health::Health;
pub use load::{RecordedLoad, RecordedRamp, RecordedStage};
pub use planned::AskedForm;
pub use reader::RunReader;
pub use rows::{PendingRows, SentAttempt, timeline_bytes};
pub use run::{RecordedClass, RunInfo, TargetInfo};
pub use sharding::{
    ClockFit, CommonStart, MergedRun, MergedShard, ShardClock, ShardInfo, Sharding,
};
pub use timeline::{
    AttemptId, Connection, ContentBytes, CountSource, MergeWaits, Phase, RequestedLengths,
    ServerTimings, StampSource, TcpStats, Timeline, Times, Usage,
};
pub use whole_file::{STDOUT, WholeFile, write_whole};
pub use writer::{RemoveEarlier, RunWriter};
