//! What a pass over the timelines asks of another tool's definitions.
//!
//! The definitions themselves are not here: who wants a tool's figures passes its lens in
//! [`crate::SummaryOptions`], and gets them in [`crate::Summary::families`].

use std::fmt;

use tokometer_base::Nanos;
use tokometer_record::{RunInfo, Timeline};

use crate::attempts::LastOfEach;
use crate::family::{Family, FamilyFigures};
use crate::goodput::Objectives;
use crate::route::Route;

/// One tool's definitions, applied to timelines that stream past.
pub trait Lens: fmt::Debug + Send {
    /// Adds one measured attempt, or one side request.
    fn push(&mut self, timeline: &Timeline, route: Route);

    fn finish(self: Box<Self>, frame: &Frame<'_>) -> FamilyFigures;
}

#[derive(Debug, Clone, Copy)]
pub struct LensChoice {
    pub family: Family,
    pub details: Details,
    /// Makes it, for a run that began at this time.
    pub make: fn(Family, Details, Nanos) -> Box<dyn Lens>,
}

/// Whether values per request are kept for detailed result files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Details {
    /// Memory grows with every token.
    Keep,
    /// Dropped as soon as they are counted.
    #[default]
    Drop,
}

#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    pub info: &'a RunInfo,
    pub begin: Nanos,
    pub duration: Nanos,
    /// In the order in which a layout prints them.
    pub percentiles: &'a [f64],
    pub objectives: Objectives,
    /// Accepted tokens per step of speculative decoding, as the server reports it.
    pub accept_length: Option<f64>,
    pub last: &'a LastOfEach,
}
