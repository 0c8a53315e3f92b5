//! A search as the user asks for it, and the limits that follow.

use tokometer_base::Nanos;

use super::{Climb, SearchLimits};
use crate::capacity::LoadKind;

/// A load this many times below the first one is still tried.
const BELOW_START: f64 = 64.0;
/// Requests that the longest point sends at least, so that the least load still says something.
const LEAST_REQUESTS: f64 = 20.0;

/// A search as the user asks for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchOptions {
    pub over: LoadKind,
    pub start: f64,
    pub most: f64,
    /// Precision of the answer, as a share of it.
    pub resolution: f64,
    pub points: usize,
    pub longest: Nanos,
}

impl SearchOptions {
    /// Whether there is anything to search.
    pub fn is_sound(&self) -> bool {
        self.start > 0.0 && self.most >= self.start && self.resolution > 0.0
    }

    /// The limits of the search. Requests in flight are whole numbers; a rate is at least so high
    /// that the longest point has some requests.
    pub fn limits(&self) -> SearchLimits {
        let least = (self.start / BELOW_START).max(LEAST_REQUESTS / self.longest.as_secs_f64());
        let is_whole = self.over == LoadKind::Concurrency;
        SearchLimits {
            start: self.start,
            least: if is_whole { 1.0 } else { least.min(self.start) },
            most: self.most,
            resolution: self.resolution,
            points: self.points,
            is_whole,
            climb: Climb::Far,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: SearchOptions = SearchOptions {
        over: LoadKind::RequestRate,
        start: 6.4,
        most: 100.0,
        resolution: 0.05,
        points: 20,
        longest: Nanos::from_secs(10),
    };

    #[test]
    fn the_least_rate_still_fills_the_longest_point_and_flights_are_whole() {
        let limits = |options: SearchOptions| {
            let limits = options.limits();
            (limits.least, limits.is_whole)
        };
        assert_eq!(limits(RATES), (2.0, false));
        assert_eq!(
            limits(SearchOptions { longest: Nanos::from_secs(1_000), ..RATES }),
            (0.1, false)
        );
        assert_eq!(limits(SearchOptions { start: 0.5, ..RATES }), (0.5, false));
        assert_eq!(limits(SearchOptions { over: LoadKind::Concurrency, ..RATES }), (1.0, true));
    }

    #[test]
    fn a_search_needs_a_start_a_width_and_a_limit_above_its_start() {
        assert!(RATES.is_sound());
        assert!(!SearchOptions { start: 0.0, ..RATES }.is_sound());
        assert!(!SearchOptions { most: 1.0, ..RATES }.is_sound());
        assert!(!SearchOptions { resolution: 0.0, ..RATES }.is_sound());
    }
}
