//! Numbers known to a printed digit.

use std::ops::{Add, Div, Mul, Sub};

use tokometer_compat::model::Value;

/// All numbers that a printed figure may stand for. Never empty; ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Saved figures have all their digits; this allows for the order of floating-point sums.
const RELATIVE_SLACK: f64 = 1e-9;

impl Interval {
    /// A number known exactly.
    pub(crate) fn exact(number: f64) -> Self {
        Self { low: number, high: number }
    }

    /// What a value stands for: half a unit of its last printed digit to either side.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        let number = value.scalar.as_f64().filter(|number| number.is_finite())?;
        let slack = value.half_unit + number.abs() * RELATIVE_SLACK;
        Some(Self { low: number - slack, high: number + slack })
    }

    pub(crate) fn mid(self) -> f64 {
        f64::midpoint(self.low, self.high)
    }

    /// Whether both may stand for the same number.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// Whether every number of this lies above every number of `other`.
    pub(crate) fn is_above(self, other: Self) -> bool {
        self.low > other.high
    }

    /// Wider by a share of its ends on either side.
    pub(crate) fn widened(self, share: f64) -> Self {
        Self { low: self.low - self.low.abs() * share, high: self.high + self.high.abs() * share }
    }

    /// Around the same middle: a number that was truncated lies up to a whole digit away.
    pub(crate) fn twice_as_wide(self) -> Self {
        let half = self.high - self.mid();
        Self { low: self.low - half, high: self.high + half }
    }

    pub(crate) fn holds_whole_number(self) -> bool {
        self.low.ceil() <= self.high
    }

    fn hull(ends: [f64; 4]) -> Self {
        let fold = |pick: fn(f64, f64) -> f64| ends.into_iter().reduce(pick).unwrap_or(f64::NAN);
        Self { low: fold(f64::min), high: fold(f64::max) }
    }
}

impl Add for Interval {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { low: self.low + other.low, high: self.high + other.high }
    }
}

impl Sub for Interval {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { low: self.low - other.high, high: self.high - other.low }
    }
}

impl Mul for Interval {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self::hull([
            self.low * other.low,
            self.low * other.high,
            self.high * other.low,
            self.high * other.high,
        ])
    }
}

impl Mul<f64> for Interval {
    type Output = Self;
    fn mul(self, factor: f64) -> Self {
        self * Self::exact(factor)
    }
}

/// By an interval that does not hold zero; otherwise everything is possible.
impl Div for Interval {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        if other.low <= 0.0 && other.high >= 0.0 {
            return Self { low: f64::NEG_INFINITY, high: f64::INFINITY };
        }
        self * Self { low: 1.0 / other.high, high: 1.0 / other.low }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokometer_compat::model::Scalar;

    #[test]
    fn a_printed_figure_stands_for_half_a_digit_to_either_side() {
        let of = |number: f64, text: &str| {
            Interval::of(&Value::printed(Scalar::Number(number), text)).unwrap()
        };
        assert!(of(2.84, "2.84").overlaps(Interval::exact(3000.0) / of(1055.18, "1055.18")));
        assert!(!of(2.86, "2.86").overlaps(Interval::exact(3000.0) / of(1055.18, "1055.18")));
        assert!(of(512.0, "512.00").holds_whole_number());
        assert!(!of(85.81, "85.81").holds_whole_number());
    }

    #[test]
    fn dividing_by_what_may_be_zero_says_nothing() {
        let all = Interval::exact(1.0) / Interval { low: -1.0, high: 1.0 };
        assert!(all.overlaps(Interval::exact(1e300)));
    }
}
