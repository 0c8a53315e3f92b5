//! Numbers from a record.
//!
//! In: [`tokometer_record::RunInfo`], the timelines one by one, scrapes of the server, and how the
//! run ended. Out: one [`Unjudged`] summary. Our own definitions are in [`define`]; other tools' are
//! passed in as a [`lens`]. The statistics do not know requests. No clock and no I/O: the same record
//! always gives the same summary. Timelines are not kept; what stays is a few dozen bytes per request
//! and a bounded sample per distribution.
//!
//! - Definitions: [`define`] lists every metric, `measure` has the formulas of one timeline, [`figure`] the
//!   names of figures, each a statistic of a `quantity`; `distribution` is what is kept of many values.
//! - One pass: [`collect`] fills [`rows`] (one per request), [`totals`], `series` and `completed` (values over
//!   time), [`observe`] and [`sends`] (what shows the client's health), [`quality`], [`steps`] and
//!   [`anatomy`]; [`attempts`] keeps the last attempt of a retried request. [`summary`] is the result,
//!   [`family`] other tools' figures.
//! - Statistics that know no requests: [`statistics`], [`sample`], [`linear`], [`ticks`], [`blocks`] of time,
//!   and [`interval`], with `interval_gate` for the figures that get none.
//! - Over the run: its [`parts`](summary::parts) (stages and classes), [`steady`] part and overload, [`windows`], [`addresses`],
//!   [`goodput`], the [`server`]'s own metrics, [`sessions`] with `survival`, [`reported`] values that are
//!   impossible, `joined` reads.
//! - [`judgement`] is the shape of what `judge` says of a summary. [`instrument`] compares the client with a
//!   server's log.

pub mod addresses;
pub mod anatomy;
pub mod attempts;
pub mod blocks;
pub mod collect;
mod completed;
pub mod define;
mod distribution;
mod failure_messages;
pub mod family;
pub mod figure;
pub mod goodput;
pub mod instrument;
pub mod interval;
mod interval_gate;
mod joined;
pub mod judgement;
pub mod lens;
pub mod linear;
mod measure;
pub mod observe;
pub mod outside;
pub mod quality;
mod quantity;
pub mod reported;
pub mod route;
pub mod rows;
pub mod sample;
pub mod sends;
mod series;
pub mod server;
pub mod sessions;
pub mod statistics;
pub mod steady;
pub mod steps;
pub mod summary;
mod survival;
pub mod tail;
pub mod ticks;
pub mod totals;
pub mod windows;

#[cfg(test)]
mod coverage_tests;
#[doc(hidden)]
pub mod testing;

pub use addresses::AddressShare;
pub use collect::{Collector, SummaryOptions};
pub use define::metrics_markdown;
pub use family::{Detail, Family, FamilyFigures, ListStats};
pub use figure::{Better, Figure, Quantity, Statistic};
pub use goodput::Objectives;
pub use interval::{ConfidenceInterval, NoInterval};
pub use joined::Joined;
pub use judgement::{FigureVerdict, Note, Severity, Verdict};
pub use lens::{Details, Lens, LensChoice};
pub use route::Route;
pub use summary::parts::{Part, PartKind, PartSummary, Recovery};
pub use summary::{Distribution, PercentileValue, Summary, Unjudged};

#[cfg(test)]
mod pages {
    /// Compares a generated page with the file, so that a changed definition also changes its page.
    fn check(name: &str, expected: &str) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/").to_owned() + name;
        if std::env::var_os("TOKOMETER_WRITE_PAGES").is_some() {
            std::fs::write(&path, expected).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "{path} is out of date: run with TOKOMETER_WRITE_PAGES=1");
    }

    #[test]
    fn the_generated_page_says_what_the_table_says() {
        check("metrics.md", &crate::metrics_markdown());
    }
}
