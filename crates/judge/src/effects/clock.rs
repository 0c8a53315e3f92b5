//! Effects of steps of the wall clock.

use super::shifts::Shifts;
use super::touched;
use super::{Samples, Study};
use crate::code::NoteCode;
use crate::limits::NO_BOUND_FROM;
use crate::shown::ShownFigure;
use tokometer_figures::Quantity;
use tokometer_figures::rows::TimeSpan;
use tokometer_figures::summary::Summary;

/// Gaps that one wrong timestamp changes: those before and after its event.
const GAPS_PER_STAMP: f64 = 2.0;

impl Study<'_> {
    /// A packet that lies unread while the wall clock is set may get a wrong time: at most one of each
    /// request in flight. So figures are computed again without these requests. No rate comes from the
    /// wall clock.
    pub(super) fn clock_steps(&mut self, all: &Samples) {
        let (rows, summary) = (&self.input.rows, &self.input.summary);
        let Some(health) = self.input.health.as_ref().filter(|health| health.clock_steps > 0)
        else {
            return;
        };
        let steps = health.clock_step_times.as_ref();
        let touched = steps.and_then(|steps| {
            let spans = steps.iter().map(|step| TimeSpan { begin: step.begin, end: step.end });
            touched::leave_out_all(rows, spans)
        });
        let Some(touched) = touched else {
            // An older record does not say when; with most requests in flight at a step nothing is left
            // to compare with.
            return self
                .add_each(NoteCode::ClockStep, |shown| shown.metric.behind.map(|_| NO_BOUND_FROM));
        };
        let shifts = Shifts::without(self, all, &touched);
        let stamps = touched.count as f64 * f64::from(health.clock_steps);
        self.add_each(NoteCode::ClockStep, |shown| {
            shown.metric.behind?;
            if may_follow_gaps(summary, shown, GAPS_PER_STAMP * stamps) {
                return Some(NO_BOUND_FROM);
            }
            Some(shifts.of(shown))
        });
    }
}

/// Whether this is a percentile of gaps that so many wrong ones can move: half of what lies beyond it.
fn may_follow_gaps(summary: &Summary, shown: &ShownFigure, wrong: f64) -> bool {
    let gaps = summary.distribution(Quantity::Itl).filter(|_| shown.is_one_of(&[Quantity::Itl]));
    let beyond = gaps.zip(shown.statistic.percentile());
    beyond.is_some_and(|(gaps, percentile)| 2.0 * wrong > percentile.tail() * gaps.count as f64)
}
