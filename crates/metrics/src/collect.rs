//! One pass over a run.

use tokometer_record::server::Scrape;
use tokometer_record::{RunInfo, RunState, Timeline};

use crate::family::Family;
use crate::goodput::Objectives;
use crate::summary::Summary;

/// What is wanted of a summary.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Percentiles to compute, in the order in which a layout prints them.
    pub percentiles: Vec<f64>,
    /// What a good request must meet.
    pub objectives: Objectives,
    /// Families whose figures are wanted.
    pub families: Vec<Family>,
    /// Whether values per request are kept for detailed result files.
    pub keep_detail: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            percentiles: vec![99.0],
            objectives: Objectives::default(),
            families: vec![Family::Vllm],
            keep_detail: false,
        }
    }
}

/// Takes the rows of a run and keeps what the summary needs.
#[derive(Debug)]
pub struct Collector {
    summary: Summary,
}

impl Collector {
    /// A collector for the run described by `info`.
    pub fn new(_info: &RunInfo, _options: Options) -> Self {
        Self { summary: Summary::default() }
    }

    /// Takes one finished attempt of one request, in any order.
    pub fn push(&mut self, _timeline: &Timeline) {}

    /// Takes one scrape of the server's metrics.
    pub fn push_scrape(&mut self, _scrape: &Scrape) {}

    /// The summary of all that was pushed.
    pub fn finish(self, _state: &RunState) -> Summary {
        self.summary
    }
}
