//! The time that bounds a search.

use tokometer_base::Nanos;
use tokometer_decide::search::{SecondStage, StageBudget, estimate_stage, hold_length};

/// A search may exceed its budget by this share, rather than lose its last point.
const SLACK: f64 = 0.03;

/// The time of a search that ends in time.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchTime {
    /// When the search proper begins, after its staircase.
    pub(super) begin: Nanos,
    pub(super) end: Nanos,
    /// Whether the number of points follows from the time.
    pub(super) are_points_open: bool,
    /// Whether their length does.
    pub(super) is_length_open: bool,
}

/// What the points so far took.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeSpent {
    /// For which they sent their load.
    pub(super) sent: Nanos,
    /// How many they are.
    pub(super) points: usize,
}

/// How long each point of the second stage should count.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedTime {
    pub(super) wanted: Nanos,
    /// Shorter ones would show a capacity that the server does not have.
    pub(super) least: Nanos,
}

impl SearchTime {
    /// The time until the end.
    pub(super) fn left(&self, now: Nanos) -> Nanos {
        self.end - now
    }

    /// Whether a further point of this length ends too late.
    pub(super) fn is_late(&self, length: Nanos, now: Nanos) -> bool {
        let slack = Nanos::from_secs_f64((self.end - self.begin).as_secs_f64() * SLACK);
        length > self.left(now) + slack
    }

    /// The second stage in its part of the time that is left.
    pub(super) fn second_stage(
        &self,
        now: Nanos,
        spent: TimeSpent,
        counted: CountedTime,
    ) -> Option<SecondStage> {
        estimate_stage(self.budget(now, spent, counted))
    }

    /// The time that each run of the third stage counts.
    pub(super) fn hold_length(&self, now: Nanos, spent: TimeSpent, counted: CountedTime) -> Nanos {
        hold_length(self.budget(now, spent, counted))
    }

    fn budget(&self, now: Nanos, spent: TimeSpent, counted: CountedTime) -> StageBudget {
        let all = now - self.begin;
        let overhead = Nanos((all - spent.sent).0 / spent.points.max(1) as u64);
        let CountedTime { wanted, least } = counted;
        StageBudget { left: self.left(now), overhead, wanted, least }
    }
}
