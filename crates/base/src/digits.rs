//! How many digits of a measured number are worth printing for people.

/// Decimal places that leave at most four significant digits, and never more than three.
pub fn places(value: f64) -> usize {
    match value.abs() {
        size if size < 1.0 => 3,
        size if size < 100.0 => 2,
        size if size < 1_000.0 => 1,
        _ => 0,
    }
}

/// The number with its [`places`].
pub fn digits(value: f64) -> String {
    format!("{value:.*}", places(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_at_most_four_digits_and_a_whole_one_keeps_all() {
        let shown = [0.0, 0.123_456, 12.345_6, -123.456, 1_234.56, 123_456.7].map(digits);
        assert_eq!(shown, ["0.000", "0.123", "12.35", "-123.5", "1235", "123457"]);
    }
}
