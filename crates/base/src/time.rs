//! Time as integer nanoseconds.
//!
//! [`Nanos`] is a point on the machine's monotonic clock or the distance between two such points;
//! two processes of one host share the clock, so a server's log and a client's record compare
//! directly. [`WallNanos`] is a calendar time and is kept apart by its type: no difference of wall
//! times ever becomes a latency.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Nanoseconds: a point on the monotonic clock, or a span between two points.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// Nanoseconds since the Unix epoch on the wall clock. Only for showing when something happened.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct WallNanos(pub u64);

/// Days from the first of January 1970 to a date of the Gregorian calendar. Years are counted from March, so that a
/// leap day is the last of its year. A day beyond its month's end is one of the next month.
pub const fn days_since_1970(year: i32, month: u32, day: u32) -> i64 {
    let year = if month > 2 { year as i64 } else { year as i64 - 1 };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * ((month as i64 + 9) % 12) + 2) / 5 + day as i64 - 1;
    // 1970-01-01 is day 719,468 of this count.
    365 * year + leap_days + day_of_year - 719_468
}

impl Nanos {
    pub const ZERO: Self = Self(0);
    /// Later than any clock reading.
    pub const MAX: Self = Self(u64::MAX);

    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// A span given in seconds. Negative and non-numbers become zero, what is too large becomes the
    /// longest span: callers that must refuse such input check it before.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float to integer casts saturate, which is what this function promises"
    )]
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1e9).round() as u64)
    }

    /// A span given in milliseconds, with the limits of [`Nanos::from_secs_f64`].
    pub fn from_millis_f64(millis: f64) -> Self {
        Self::from_secs_f64(millis / 1e3)
    }

    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    pub const fn whole_seconds(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// The span in milliseconds, the unit of printed latencies.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The distance to an earlier point, or zero when `earlier` is in fact later.
    #[must_use]
    pub const fn saturating_sub(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The distance to an earlier point, or `None` when `earlier` is in fact later.
    pub fn checked_sub(self, earlier: Self) -> Option<Self> {
        self.0.checked_sub(earlier.0).map(Self)
    }

    /// The later of two points if it does not overflow, else the end of time.
    #[must_use]
    pub const fn saturating_add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// How far this point lies after `other`; negative when it lies before.
    pub fn signed_since(self, other: Self) -> i64 {
        let (forward, backward) = (self.0.wrapping_sub(other.0), other.0.wrapping_sub(self.0));
        if self >= other {
            i64::try_from(forward).unwrap_or(i64::MAX)
        } else {
            i64::try_from(backward).map_or(i64::MIN, |span| -span)
        }
    }

    pub const fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl From<Duration> for Nanos {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, span: Self) -> Self {
        self.saturating_add(span)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, span: Self) {
        *self = *self + span;
    }
}

/// Saturates at zero: clocks of different sources may be off by microseconds, and a latency must
/// never wrap around.
impl Sub for Nanos {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        self.saturating_sub(earlier)
    }
}

/// Three significant digits with a fitting unit: `1.23 s`, `45.6 ms`, `789 µs`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0 as f64;
        let (value, unit) = match self.0 {
            0 => return f.pad("0 s"),
            1..1_000 => (nanos, "ns"),
            1_000..1_000_000 => (nanos / 1e3, "µs"),
            1_000_000..1_000_000_000 => (nanos / 1e6, "ms"),
            _ => (nanos / 1e9, "s"),
        };
        let digits = match value {
            v if v < 9.995 => 2,
            v if v < 99.95 => 1,
            _ => 0,
        };
        f.pad(&format!("{value:.digits$} {unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_print_three_significant_digits() {
        let check = |nanos: u64, expected: &str| assert_eq!(Nanos(nanos).to_string(), expected);
        check(0, "0 s");
        check(789, "789 ns");
        check(789_400, "789 µs");
        check(45_600_000, "45.6 ms");
        check(9_996_000, "10.0 ms");
        check(1_234_000_000, "1.23 s");
        check(120_000_000_000, "120 s");
    }

    #[test]
    fn dates_are_days_since_1970() {
        assert_eq!(days_since_1970(1970, 1, 1), 0);
        assert_eq!(days_since_1970(1969, 12, 31), -1);
        assert_eq!(days_since_1970(2000, 2, 29) + 1, days_since_1970(2000, 3, 1));
        assert_eq!(days_since_1970(1900, 2, 28) + 1, days_since_1970(1900, 3, 1));
        assert_eq!(days_since_1970(2024, 3, 1), 19_783);
        assert_eq!(days_since_1970(1600, 1, 1), -135_140);
    }

    #[test]
    fn a_later_point_minus_itself_is_zero_and_never_wraps() {
        assert_eq!(Nanos(5) - Nanos(7), Nanos::ZERO);
        assert_eq!(Nanos(5).signed_since(Nanos(7)), -2);
        assert_eq!(Nanos(7).signed_since(Nanos(5)), 2);
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
    }

    #[test]
    fn seconds_as_floats_saturate_instead_of_wrapping() {
        assert_eq!(Nanos::from_secs_f64(-1.0), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(f64::NAN), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(f64::INFINITY), Nanos::MAX);
        assert_eq!(Nanos::from_millis_f64(1.5), Nanos(1_500_000));
    }
}
