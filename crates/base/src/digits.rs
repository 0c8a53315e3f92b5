//! How many digits of a measured number are worth printing for people.

/// Decimals that leave at most four significant digits, and never more than three.
pub fn decimals(value: f64) -> usize {
    match value.abs() {
        size if size < 1.0 => 3,
        size if size < 100.0 => 2,
        size if size < 1_000.0 => 1,
        _ => 0,
    }
}

pub fn digits(value: f64) -> String {
    format!("{value:.*}", decimals(value))
}

/// The number with at most four significant digits and without zeros at its end, for values that are
/// usually typed: `25`, `0.05`, `8.292`.
pub fn brief(value: f64) -> String {
    let mut decimals = 0;
    let mut size = value.abs();
    while size < 1_000.0 && decimals < 6 {
        size *= 10.0;
        decimals += 1;
    }
    let text = format!("{value:.decimals$}");
    match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brief_number_has_no_digits_that_say_nothing() {
        let shown = [0.0, 25.0, 0.05, 8.292_249_585_050_207, 55.800_000_000_000_004].map(brief);
        assert_eq!(shown, ["0", "25", "0.05", "8.292", "55.8"]);
        assert_eq!([1_000.0, 12_345.678, 0.000_5].map(brief), ["1000", "12346", "0.0005"]);
    }

    #[test]
    fn a_number_has_at_most_four_digits_and_a_whole_one_keeps_all() {
        let shown = [0.0, 0.123_456, 12.345_6, -123.456, 1_234.56, 123_456.7].map(digits);
        assert_eq!(shown, ["0.000", "0.123", "12.35", "-123.5", "1235", "123457"]);
    }
}
