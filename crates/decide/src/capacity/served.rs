//! The lower end of an answer that overload limits, not an objective.

use super::MeasuredPoint;
use crate::search::{PointOutcome, SearchResult};

impl SearchResult {
    /// The same, with a lower end that the server has served. Where no objective was missed, the highest load is
    /// the one that the server keeps up with. A point shows a small lack only after a long time, so the points
    /// alone would be too high.
    #[must_use]
    pub fn down_to_served(self, points: &[MeasuredPoint]) -> Self {
        let is_missed = points.iter().any(|point| point.fit == PointOutcome::Missed);
        let served = points.iter().filter_map(|point| point.requests_per_s).max_by(f64::total_cmp);
        match (self, served) {
            (
                Self::Found {
                    low: Some(low),
                    high,
                    load,
                    objective,
                    highest_met,
                    lowest_missed,
                    ..
                },
                Some(served),
            ) if !is_missed && served < low => {
                let margin = high.map(|high| (high - served) / 2.0);
                let low = Some(served);
                Self::Found { load, margin, low, high, objective, highest_met, lowest_missed }
            }
            (other, _) => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::search::Stage;

    fn point(load: f64, fit: PointOutcome, served: f64) -> MeasuredPoint {
        let failed = MeasuredPoint::failed(load, Stage::Estimate, Path::new(""));
        MeasuredPoint { fit, requests_per_s: Some(served), ..failed }
    }

    #[test]
    fn an_answer_by_overload_reaches_down_to_what_was_served() {
        let found = SearchResult::Found {
            load: 47.5,
            margin: Some(0.5),
            low: Some(47.0),
            high: Some(48.0),
            objective: None,
            highest_met: 47.0,
            lowest_missed: 48.0,
        };
        let ends = |above: PointOutcome| {
            let points = [point(47.0, PointOutcome::Met, 42.0), point(48.0, above, 40.0)];
            match found.clone().down_to_served(&points) {
                SearchResult::Found { low, high, margin, .. } => (low, high, margin),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(ends(PointOutcome::Overloaded), (Some(42.0), Some(48.0), Some(3.0)));
        assert_eq!(ends(PointOutcome::Missed), (Some(47.0), Some(48.0), Some(0.5)));
    }
}
