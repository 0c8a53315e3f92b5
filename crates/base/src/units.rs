//! Quantities as typed: `2s`, `4m30s`, `100ms`, `99%`, `inf`.
//!
//! Syntax only: whether a rate of zero makes sense is decided by the caller.

use crate::time::Nanos;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("`{0}` does not start with a number")]
    NotANumber(String),
    #[error("`{text}` has the unit `{unit}`: use one of {expected}")]
    UnknownUnit { text: String, unit: String, expected: &'static str },
    #[error("`{0}` is negative")]
    Negative(String),
    #[error("`{text}` has no unit after `{number}`: write it as in `4m30s`")]
    PartWithoutUnit { text: String, number: String },
    #[error("`{0}` names its units in the wrong order: write the larger one first, as in `4m30s`")]
    UnitOrder(String),
    #[error("`{0}` may mean {0} % or {0} times: write `{0}%`, or a share below 1")]
    NoPercentSign(String),
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

/// A span of time: a number with its unit (`2s`), several of them from the largest unit to the
/// smallest (`4m30s`, `1h 30m`), or a bare number in units of `bare_unit`.
pub fn parse_span(text: &str, bare_unit: Nanos) -> Result<Nanos, Error> {
    let text = text.trim();
    let (mut number, mut rest) = split(text)?;
    if rest.is_empty() {
        return Ok(Nanos::from_secs_f64(number * bare_unit.0 as f64 / 1e9));
    }
    let mut sum = Nanos::ZERO;
    let mut unit_before = f64::INFINITY;
    loop {
        let end = rest.find(is_next_part).unwrap_or(rest.len());
        let nanos_per_unit = match &rest[..end] {
            "" => return Err(bare_part(text, number)),
            unit => nanos_per(unit).ok_or_else(|| unknown(text, unit, "ns, us, ms, s, m, h"))?,
        };
        if nanos_per_unit >= unit_before {
            return Err(Error::UnitOrder(text.to_owned()));
        }
        sum += Nanos::from_secs_f64(number * nanos_per_unit / 1e9);
        unit_before = nanos_per_unit;
        rest = rest[end..].trim_start();
        if rest.is_empty() {
            return Ok(sum);
        }
        // What is wrong with a part is said about the whole text, which is what was typed.
        (number, rest) = split(rest).map_err(|why| match why {
            Error::Negative(_) => Error::Negative(text.to_owned()),
            _ => unknown(text, rest, "ns, us, ms, s, m, h"),
        })?;
    }
}

/// Where a unit has ended.
fn is_next_part(letter: char) -> bool {
    letter.is_ascii_digit() || letter.is_whitespace() || matches!(letter, '.' | '+' | '-')
}

fn nanos_per(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" | "sec" | "secs" => 1e9,
        "m" | "min" | "mins" => 60e9,
        "h" | "hr" | "hrs" => 3_600e9,
        _ => return None,
    })
}

fn bare_part(text: &str, number: f64) -> Error {
    Error::PartWithoutUnit { text: text.to_owned(), number: number.to_string() }
}

/// A share from `99%` or `0.99`. More than one needs the sign: `5` is neither 5 % nor 500 %.
pub fn parse_share(text: &str) -> Result<f64, Error> {
    match split(text)? {
        (number, "%") => Ok(number / 100.0),
        (number, "") if number > 1.0 => Err(Error::NoPercentSign(text.trim().to_owned())),
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

/// Such as `1 run` or `3 runs`.
pub fn counted<N>(count: N, what: &str) -> String
where
    N: std::fmt::Display + PartialEq + From<u8> + Copy,
{
    if count == N::from(1) { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        check("3 mins", 180_000_000_000);
        assert!(matches!(parse_span("5 apples", Nanos(1)), Err(Error::UnknownUnit { .. })));
        assert!(matches!(parse_span("soon", Nanos(1)), Err(Error::NotANumber(_))));
        assert!(matches!(parse_span("-1s", Nanos(1)), Err(Error::Negative(_))));
    }

    /// `4m30s` was refused, and people type it.
    #[test]
    fn a_span_may_have_several_parts_from_the_largest_unit_to_the_smallest() {
        let read = |text: &str| parse_span(text, Nanos::from_secs(1));
        let check = |text: &str, expected: u64| {
            assert_eq!(read(text), Ok(Nanos::from_millis(expected)), "{text}");
        };
        check("4m30s", 270_000);
        check("1h30m", 5_400_000);
        check("1m 30s", 90_000);
        check(" 1 h 2 min 3.5 s ", 3_723_500);
        check("1s500ms", 1_500);
        check("0m0.5s", 500);
        let refused = |text: &str, part: &str| {
            let said = read(text).unwrap_err().to_string();
            assert!(said.contains(&format!("`{text}`")) && said.contains(part), "{said}");
        };
        refused("1m30", "no unit after `30`");
        refused("1m 30", "no unit after `30`");
        refused("30s4m", "wrong order");
        refused("1m1m", "wrong order");
        refused("4m-30s", "negative");
        refused("1m30apples", "the unit `apples`");
        refused("1:30", "the unit `:`");
        refused("1m.", "the unit `.`");
        refused("1m, 30s", "the unit `m,`");
    }

    proptest! {
        /// Writing a span in parts, with or without blanks, changes nothing.
        #[test]
        fn the_parts_of_a_span_add_up(
            (hours, minutes, seconds, millis) in (0..500_u64, 0..60_u64, 0..60_u64, 0..1_000_u64),
            blank in prop::sample::select(vec!["", " ", "  "]),
            kept in 1..16_u32,
        ) {
            let parts = [
                (hours, "h", 3_600_000), (minutes, "m", 60_000), (seconds, "s", 1_000), (millis, "ms", 1),
            ];
            let kept: Vec<_> =
                parts.iter().enumerate().filter(|(at, _)| kept & (1 << at) != 0).map(|(_, part)| part).collect();
            let text: Vec<String> =
                kept.iter().map(|(count, unit, _)| format!("{count}{blank}{unit}")).collect();
            let expected = kept.iter().map(|(count, _, millis)| count * millis).sum();
            prop_assert_eq!(
                parse_span(&text.join(blank), Nanos::from_secs(1)),
                Ok(Nanos::from_millis(expected))
            );
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9.+\\-eEhmsnuµ :]{0,12}|\\PC{0,12}") {
            let _read = parse_span(&text, Nanos::from_secs(1));
        }
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
        assert_eq!(parse_share("500%"), Ok(5.0));
        assert_eq!(parse_share("1"), Ok(1.0));
        assert_eq!(parse_share(" 5 "), Err(Error::NoPercentSign("5".to_owned())));
        assert_eq!(parse_rate("inf"), Ok(f64::INFINITY));
        assert_eq!(parse_rate("12.5 req/s"), Ok(12.5));
        assert!(parse_rate("fast").is_err());
    }
}
