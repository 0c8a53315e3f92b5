//! HTML pages of saved runs: one run, several, a capacity search, a comparison, a history.
//!
//! [`tokometer_report::html`] draws them; here is what they are made of on disk.

mod capacity;
mod history;
mod several;
mod source;
mod staircase;

use std::path::Path;

use tokometer_decide::Slo;
use tokometer_record::write_whole;
use tokometer_report::html::{ObjectiveLine, Page, Price, SweepContext};

use crate::exit::{Exit, Refusal};

pub(crate) use capacity::{found as capacity_found, page as capacity_page, read as read_findings};
pub(crate) use history::history;
pub(crate) use several::page as page_of_runs;
pub(crate) use source::{PageSource, point_name};

/// What the user says of all runs of a page.
#[derive(Debug, Clone, Default)]
pub(crate) struct PageContext {
    /// GPUs behind the endpoint.
    pub(crate) gpus: Option<u32>,
    /// What a GPU costs.
    pub(crate) price: Option<Price>,
    /// Objectives to draw and to judge.
    pub(crate) slo: Option<Slo>,
}

impl PageContext {
    fn sweep(&self) -> SweepContext {
        let objectives = self.slo.iter().flat_map(|slo| &slo.objectives);
        let line = |one: &tokometer_decide::slo::Objective| ObjectiveLine {
            figure: one.figure,
            limit: one.limit,
            text: one.text.clone(),
        };
        SweepContext {
            gpus: self.gpus,
            price: self.price.clone(),
            objectives: objectives.map(line).collect(),
        }
    }
}

/// Writes a page.
pub(crate) fn write(page: Page, out: &Path) -> Result<(), Refusal> {
    write_whole(out, page.render().as_bytes()).map_err(|why| {
        Refusal::new(Exit::Write, format!("cannot write `{}`: {why}", out.display()))
    })
}
