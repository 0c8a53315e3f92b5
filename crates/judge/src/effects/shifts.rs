//! By how much figures move without the requests that a delay touched.

use super::touched::Touched;
use super::{Samples, Study};
use crate::shown::{self, ShownFigure};

struct Shift {
    figure: String,
    share: f64,
}

pub(super) struct Shifts(Vec<Shift>);

impl Shifts {
    /// Computes the shown latencies again without the touched requests. The values of all requests of a large
    /// run take megabytes, so they are computed only where some are left out, and not kept.
    pub(super) fn without(study: &Study<'_>, all: &Samples, touched: &Touched) -> Self {
        let (count, left_out) = (touched.is_touched.len(), touched.count);
        if left_out == 0 || left_out == count {
            return Self(Vec::new());
        }
        let rows = &study.input.rows;
        let clean = Samples::of(rows, |at| !touched.is_touched[at], |_, _, value| value);
        // A mean or percentile of a part of the requests scatters about that of all by this much.
        let scatter = (count as f64 / (count - left_out) as f64 - 1.0).sqrt();
        let shift = |shown: &ShownFigure| {
            let one = shown.metric.behind?;
            let share = clean.difference(all, one, shown.statistic)?;
            let margin = shown::margin(&study.input.summary, shown)
                .or_else(|| all.margin(one, shown.statistic))?;
            (share > margin * scatter).then(|| Shift { figure: shown.key(), share })
        };
        Self(study.shown.iter().filter_map(shift).collect())
    }

    /// The share of one figure; zero where it moves less than leaving out as many others would move it.
    pub(super) fn of(&self, shown: &ShownFigure) -> f64 {
        let key = shown.key();
        self.0.iter().find(|one| one.figure == key).map_or(0.0, |one| one.share)
    }
}
