//! From a run's record to numbers, notes and a verdict.
//!
//! In: [`tokometer_record::RunInfo`], the timelines one by one, server scrapes, and how the run
//! ended. Out: one [`Summary`]. Every definition of our own stands in [`define`], every other tool's
//! in [`family`]; statistics know nothing of requests. No clock, no I/O, no runtime: the same record
//! always gives the same summary. Rows leave memory as soon as they are pushed; what stays is a few
//! dozen bytes per request and a bounded sample per distribution.

pub mod anatomy;
pub mod attempts;
mod blocks;
pub mod collect;
pub mod define;
pub mod family;
pub mod figure;
pub mod figures;
pub mod goodput;
pub mod instrument;
pub mod linear;
mod measure;
pub mod notes;
mod observe;
mod rows;
pub mod sample;
pub mod sends;
pub mod server;
pub mod statistics;
pub mod steady;
pub mod steps;
pub mod summary;
mod ticks;
mod told;
pub mod totals;
pub mod windows;

#[cfg(test)]
mod testing;

pub use collect::{Collector, Options};
pub use define::metrics_markdown;
pub use family::Family;
pub use family::aggregate::Details;
pub use figure::{Better, Figure, Quantity, Statistic};
pub use figures::{Detail, FamilyFigures, Stats};
pub use goodput::Objectives;
pub use notes::{Note, Severity, Verdict, notes_markdown};
pub use summary::{Distribution, Percentile, Summary};

#[cfg(test)]
mod pages {
    /// The page on disk, so that a changed definition cannot leave its page behind.
    fn check(name: &str, expected: &str) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/").to_owned() + name;
        if std::env::var_os("TOKOMETER_WRITE_PAGES").is_some() {
            std::fs::write(&path, expected).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "{path} is out of date: run with TOKOMETER_WRITE_PAGES=1");
    }

    #[test]
    fn the_generated_pages_say_what_the_tables_say() {
        check("metrics.md", &crate::metrics_markdown());
        check("notes.md", &crate::notes_markdown());
    }
}
