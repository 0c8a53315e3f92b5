//! A search on the terminal: a table that grows by a row with each point.

use std::path::Path;

use tokometer_base::Nanos;
use tokometer_campaign::{Event, Observer, SearchEvent};
use tokometer_report::capacity as views;
use tokometer_report::staircase;

use crate::bench::{Say, StairsScreen};
use crate::exit::Refusal;
use crate::terminal::print_note;

/// Points shorter than this end before an overloaded server's queue has grown.
const SHORT_POINT: Nanos = Nanos::from_secs(1);

pub(super) struct SearchScreen<'a> {
    pub(super) stairs: StairsScreen<'a>,
    pub(super) folder: &'a Path,
    pub(super) is_climbing: bool,
    pub(super) longer: &'static str,
    pub(super) is_warned: bool,
}

impl SearchScreen<'_> {
    fn course(&mut self, event: &SearchEvent<'_>) {
        print_note(&match *event {
            SearchEvent::FirstLoad(budget) => {
                self.stairs.budget = budget;
                format!("finding the first load: a staircase of at most {budget}")
            }
            SearchEvent::Forecast { forecast, resolution, rate, needed } => {
                views::forecast(forecast, resolution, rate, needed)
            }
            SearchEvent::NoEstimate(least) => views::no_estimate(least),
            SearchEvent::SecondStage { design, over, seconds, more, expected } => {
                views::second_stage(design, over, seconds, more, expected)
            }
            SearchEvent::ThirdStage { estimate, counted } => views::third_stage(estimate, counted),
            SearchEvent::Course { points, over, left } => views::course(points, over, left),
        });
    }
}

impl Observer for SearchScreen<'_> {
    fn event(&mut self, event: Event<'_>) -> Result<(), Refusal> {
        match event {
            Event::StairsDone { steps, end } => {
                self.is_climbing = false;
                let stairs = self.stairs.shown(steps, end);
                stairs.write(self.folder)?;
                print_note(&staircase::sentence(&stairs.findings));
            }
            Event::Search(event) => self.course(&event),
            event if self.is_climbing => return self.stairs.event(event),
            Event::Started { run, is_stored: false } => {
                let length = Nanos::from_secs_f64(run.plan.load.duration_s.unwrap_or(0.0));
                if length < SHORT_POINT && !std::mem::replace(&mut self.is_warned, true) {
                    print_note(&views::short_points(self.longer));
                }
            }
            other => return Say.event(other),
        }
        Ok(())
    }
}
