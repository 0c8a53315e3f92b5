//! Quantities as typed: `2s`, `100ms`, `4m30s`, `99%`, `1.5GiB`, `inf`.
//!
//! Syntax only: whether a rate of zero makes sense is decided by the caller.

use crate::time::Nanos;

/// Why a quantity could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No number at the start of the text.
    #[error("`{0}` does not start with a number")]
    NotANumber(String),
    /// A number with a unit that is none of `expected`.
    #[error("`{text}` has the unit `{unit}`: use one of {expected}")]
    UnknownUnit {
        /// The text as typed.
        text: String,
        /// Its unit.
        unit: String,
        /// The units that would do.
        expected: &'static str,
    },
    /// A negative quantity.
    #[error("`{0}` is negative")]
    Negative(String),
}

fn split(text: &str) -> Result<(f64, &str), Error> {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|(at, c)| {
            let is_exponent = matches!(c, 'e' | 'E')
                && text[at + 1..].starts_with(|next: char| next.is_ascii_digit() || next == '-');
            !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-') || is_exponent)
        })
        .map_or(text.len(), |(at, _)| at);
    let number: f64 = text[..end].parse().map_err(|_| Error::NotANumber(text.to_owned()))?;
    if number < 0.0 {
        return Err(Error::Negative(text.to_owned()));
    }
    Ok((number, text[end..].trim()))
}

fn unknown(text: &str, unit: &str, expected: &'static str) -> Error {
    Error::UnknownUnit { text: text.trim().to_owned(), unit: unit.to_owned(), expected }
}

/// A span of time, also in parts such as `4m30s`. A bare number is in units of `bare_unit`.
pub fn parse_span(text: &str, bare_unit: Nanos) -> Result<Nanos, Error> {
    let mut nanos = 0.0;
    let mut rest = text;
    loop {
        let (number, after) = split(rest)?;
        let end = after.find(|letter: char| letter.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let is_bare_part = unit.is_empty() && rest.len() < text.len();
        let per_unit = nanos_per_unit(unit.trim(), bare_unit).filter(|_| !is_bare_part);
        let unknown_unit =
            || unknown(text, split(text).map_or(after, |(_, unit)| unit), SPAN_UNITS);
        nanos += number * per_unit.ok_or_else(unknown_unit)?;
        if next.is_empty() {
            return Ok(Nanos::from_secs_f64(nanos / 1e9));
        }
        rest = next;
    }
}

const SPAN_UNITS: &str = "ns, us, ms, s, m, h";

fn nanos_per_unit(unit: &str, bare_unit: Nanos) -> Option<f64> {
    Some(match unit {
        "" => bare_unit.0 as f64,
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" | "sec" | "secs" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3_600e9,
        _ => return None,
    })
}

/// A share between 0 and 1, from `99%` or `0.99`.
pub fn parse_share(text: &str) -> Result<f64, Error> {
    match split(text)? {
        (number, "%") => Ok(number / 100.0),
        (number, "") => Ok(number),
        (_, other) => Err(unknown(text, other, "% or none")),
    }
}

/// A rate per second; `inf` (in any case) means without waiting.
pub fn parse_rate(text: &str) -> Result<f64, Error> {
    if text.trim().eq_ignore_ascii_case("inf") || text.trim().eq_ignore_ascii_case("infinity") {
        return Ok(f64::INFINITY);
    }
    match split(text)? {
        (number, "" | "/s" | "req/s" | "rps") => Ok(number),
        (_, other) => Err(unknown(text, other, "/s, req/s or none")),
    }
}

/// The count nearest to a number that is one in all but its type. Below zero and not a number: zero;
/// beyond the largest count: that.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float to integer casts saturate, which is what is promised"
)]
pub fn nearest_count(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_take_a_unit_or_the_default_one() {
        let check = |text: &str, expected: u64| {
            assert_eq!(parse_span(text, Nanos::from_secs(1)), Ok(Nanos(expected)), "{text}");
        };
        check("2s", 2_000_000_000);
        check(" 100 ms ", 100_000_000);
        check("1.5", 1_500_000_000);
        check("2m", 120_000_000_000);
        check("250us", 250_000);
        check("1e3ms", 1_000_000_000);
        check("4m30s", 270_000_000_000);
        check("1h 2m 3.5s", 3_723_500_000_000);
        for text in ["1m30", "4m30x", "30s4", "1h-2m"] {
            let unit = &text[text.find(char::is_alphabetic).unwrap()..];
            let fault = parse_span(text, Nanos(1)).unwrap_err();
            assert!(fault.to_string().contains(&format!("the unit `{unit}`")), "{text}: {fault}");
        }
        assert!(matches!(parse_span("5 apples", Nanos(1)), Err(Error::UnknownUnit { .. })));
        assert!(matches!(parse_span("soon", Nanos(1)), Err(Error::NotANumber(_))));
        assert!(matches!(parse_span("-1s", Nanos(1)), Err(Error::Negative(_))));
    }

    #[test]
    fn the_nearest_count_never_wraps() {
        for (number, expected) in
            [(2.5, 3), (2.49, 2), (-1.0, 0), (f64::NAN, 0), (1e300, u64::MAX), (0.0, 0)]
        {
            assert_eq!(nearest_count(number), expected, "{number}");
        }
    }

    #[test]
    fn shares_and_rates_are_read_as_typed() {
        assert_eq!(parse_share("99%"), Ok(0.99));
        assert_eq!(parse_share("0.5"), Ok(0.5));
        assert_eq!(parse_rate("inf"), Ok(f64::INFINITY));
        assert_eq!(parse_rate("12.5 req/s"), Ok(12.5));
        assert!(parse_rate("fast").is_err());
    }
}
