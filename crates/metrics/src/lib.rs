//! From a run's record to numbers, notes and a verdict.
//!
//! In: [`tokometer_record::RunInfo`], the timelines one by one, server scrapes, and how the run
//! ended. Out: one [`Summary`]. Every definition of our own stands in [`define`], every other tool's
//! in [`family`]; statistics know nothing of requests. No clock, no I/O, no runtime: the same record
//! gives the same summary for ever. Rows leave memory as soon as they are pushed; what stays is a few
//! dozen bytes per request and a bounded sample per distribution.

pub mod collect;
pub mod family;
pub mod figures;
pub mod goodput;
pub mod notes;
pub mod server;
pub mod steady;
pub mod summary;
pub mod windows;

pub use collect::{Collector, Options};
pub use family::Family;
pub use figures::{Detail, FamilyFigures, Stats};
pub use goodput::Objectives;
pub use notes::{Note, Severity, Verdict};
pub use summary::{Distribution, Percentile, Summary};
