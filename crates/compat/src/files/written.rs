//! Numbers of result files with the digits that they were written with.
//!
//! A tool or a script may round what it saves. A number stands for all that round to it, as in a printed
//! report; one with all its digits is known as good as exactly.

use serde_json::Value as Json;
use tokometer_base::units::nearest_count;

use crate::file_keys::is_counted;
use crate::model::{Field, Scalar, Value};
use crate::quantity::half_unit;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WrittenNumber {
    number: f64,
    /// All its digits, where it is a whole number without a point.
    whole: Option<u64>,
    /// Half a unit of its last digit.
    half_unit: f64,
}

impl WrittenNumber {
    /// `None` for what is not a number.
    pub(super) fn of(value: &Json) -> Option<Self> {
        let number = value.as_f64()?;
        // The shortest decimal that reads as this number has the digits of the file, but for zeros at its
        // end. `2.0` is taken for one decimal: a rounded 2.00 would be judged too strictly otherwise.
        let digits = if value.is_f64() { format!("{number:?}") } else { number.to_string() };
        Some(Self { number, whole: value.as_u64(), half_unit: half_unit(&digits) })
    }

    /// A finite number inside quotes.
    pub(super) fn of_text(text: &str) -> Option<Self> {
        let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite())?;
        Some(Self { number, whole: None, half_unit: half_unit(text) })
    }

    /// As a measured value, in another unit.
    pub(super) fn scaled(self, factor: f64) -> Value {
        let scalar = Scalar::Number(self.number * factor);
        Value { scalar, text: None, half_unit: self.half_unit * factor }
    }

    /// So many things divided by this number of them per second, in seconds; `None` where it is not above
    /// zero.
    pub(super) fn dividing(self, things: f64) -> Option<Value> {
        let seconds = things / self.number;
        let half_unit = seconds * self.half_unit / self.number;
        let is_time = self.number > 0.0 && seconds.is_finite();
        is_time.then_some(Value { scalar: Scalar::Number(seconds), text: None, half_unit })
    }

    /// As a value of this field; a whole number of things is a count and exact.
    pub(super) fn of_field(self, field: Field) -> Value {
        let is_whole = self.number >= 0.0 && self.number.fract() == 0.0;
        let count = self.whole.or_else(|| is_whole.then(|| nearest_count(self.number)));
        match count.filter(|_| is_counted(field)) {
            Some(count) => Value { scalar: Scalar::Count(count), text: None, half_unit: 0.0 },
            None => self.scaled(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_stands_for_all_that_round_to_its_digits() {
        let check = |value: Json, expected: f64| {
            let found = WrittenNumber::of(&value).unwrap().scaled(1.0).half_unit;
            assert!((found - expected).abs() <= expected * 1e-9, "{value}: {found}");
        };
        check(json!(2.7), 0.05);
        check(json!(2.666), 0.0005);
        check(json!(120.0), 0.05);
        check(json!(3), 0.5);
        check(json!(1e-7), 0.5e-7);
        assert!(WrittenNumber::of(&json!(2.665_852_689_000_530_5)).unwrap().half_unit < 1e-15);
        let quoted = WrittenNumber::of_text("7.50").unwrap().half_unit;
        assert!((quoted - 0.005).abs() < 1e-12, "{quoted}");
        assert_eq!(WrittenNumber::of_text("inf"), None);
        let count = WrittenNumber::of(&json!(20.0)).unwrap().of_field(Field::Successful);
        assert_eq!((count.scalar, count.half_unit), (Scalar::Count(20), 0.0));
        let in_millis = WrittenNumber::of(&json!(0.25)).unwrap().scaled(1e3);
        assert_eq!((in_millis.scalar, in_millis.half_unit), (Scalar::Number(250.0), 5.0));
    }
}
