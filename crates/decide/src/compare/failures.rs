//! Whether requests of one side fail more often than those of the other.
//!
//! In: how many requests succeeded and failed on each side. Out: both shares, and the interval of their
//! difference. A server that fails requests has less to do, so that those which are left look fast: where
//! the shares differ by more than chance, no figure speaks for the side that fails more.

use serde::Serialize;
use tokometer_figures::statistics::share_interval;

use super::comparison::Side;

/// A rule fails where a larger share of B's requests failed, whatever it is about.
pub const MOST_FAILED: f64 = 0.05;

/// Shares of failed requests from 0 to 1; a request counts once, whatever its number of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Failures {
    /// Of A's requests.
    pub a: f64,
    /// Of B's requests.
    pub b: f64,
    /// Lower end of the 95 % confidence interval of B minus A.
    pub low: f64,
    pub high: f64,
}

impl Failures {
    /// The difference after Newcombe. `None` where a side does not state its requests.
    pub(super) fn of(a: &Side, b: &Side) -> Option<Self> {
        let share = |side: &Side| {
            let all = (side.succeeded + side.failed) as f64;
            let share = side.failed as f64 / all;
            (all > 0.0).then(|| (share, share_interval(share, all)))
        };
        let ((a, of_a), (b, of_b)) = (share(a)?, share(b)?);
        Some(Self {
            a,
            b,
            low: b - a - (b - of_b.0).hypot(of_a.1 - a),
            high: b - a + (of_b.1 - b).hypot(a - of_a.0),
        })
    }

    /// Whether B fails more often, by more than chance.
    pub fn are_more_in_b(&self) -> bool {
        self.low > 0.0
    }

    /// The same of A.
    pub fn are_more_in_a(&self) -> bool {
        self.high < 0.0
    }

    /// Whether the shares differ by more than chance.
    pub fn differ(&self) -> bool {
        self.are_more_in_a() || self.are_more_in_b()
    }

    /// Whether so many of B's requests failed that no rule about B can pass.
    pub fn are_too_many(&self) -> bool {
        self.b > MOST_FAILED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(succeeded: u64, failed: u64) -> Side {
        let (runs, targets) = (Vec::new(), Vec::new());
        Side { runs, targets, processes: None, succeeded, failed, verdict: None }
    }

    /// By hand: Wilson gives 5.522 to 17.437 % for 10 of 100, and 0 to 3.699 % for none of 100.
    #[test]
    fn the_difference_of_two_shares_has_an_interval() {
        let found = Failures::of(&side(100, 0), &side(90, 10)).unwrap();
        assert!((found.low - 0.042_00).abs() < 1e-4, "{found:?}");
        assert!((found.high - 0.174_37).abs() < 1e-4, "{found:?}");
        assert!(found.are_more_in_b() && found.differ() && found.are_too_many());
        assert_eq!(Failures::of(&side(0, 0), &side(90, 10)), None);
    }

    #[test]
    fn a_few_failures_more_are_chance() {
        let found = Failures::of(&side(997, 3), &side(995, 5)).unwrap();
        assert!(!found.differ() && !found.are_too_many(), "{found:?}");
        let found = Failures::of(&side(900, 100), &side(999, 1)).unwrap();
        assert!(found.are_more_in_a() && !found.are_more_in_b());
    }
}
