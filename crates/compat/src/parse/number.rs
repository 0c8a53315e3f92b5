//! Numbers as people and other programs write them: separators, units, comments.
//!
//! Only what has one meaning is read. `1/1`, `~12` or `12 34` have none, so they stay text.

use super::decimal::{DecimalMark, is_ambiguous_count};
use super::labels::Label;
use crate::layout::table::{Format, without_comment};
use crate::model::{Field, Key, Scalar, Value};

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NumberUnit {
    /// Time, in seconds per unit.
    Time(f64),
    /// Something per second.
    Rate,
    /// Percent.
    Percent,
    /// Tokens or requests.
    Things,
}

/// The unit of latencies in all layouts.
pub(super) const MILLIS: NumberUnit = NumberUnit::Time(1e-3);

/// Spellings of each unit, separated by commas.
const UNITS: [(NumberUnit, &str); 8] = [
    (MILLIS, "ms,msec,msecs,millisecond,milliseconds"),
    (NumberUnit::Time(1.0), "s,sec,secs,second,seconds"),
    (NumberUnit::Time(1e-6), "us,µs,μs,usec,microseconds"),
    (NumberUnit::Time(1e-9), "ns,nanoseconds"),
    (NumberUnit::Time(60.0), "min,mins,minutes"),
    (
        NumberUnit::Rate,
        "tok/s,toks/s,token/s,tokens/s,tok/sec,tokens/sec,tokens/second,t/s,tps,req/s,reqs/s,request/s,\
         requests/s,req/sec,requests/sec,requests/second,inputs/s,per sec,per second,rps,qps",
    ),
    (NumberUnit::Percent, "%"),
    (NumberUnit::Things, "tok,token,tokens,req,reqs,requests"),
];

/// The unit of this word, in any case and with or without brackets.
pub(super) fn unit(word: &str) -> Option<NumberUnit> {
    let word = word.trim_matches(['(', ')', '[', ']', '.', ',', ';', ' ']);
    let is_it = |name: &str| name.eq_ignore_ascii_case(word);
    UNITS.iter().find(|(_, names)| names.split(',').any(is_it)).map(|(unit, _)| *unit)
}

/// The unit that reports have for a value, as far as it decides how the value is read.
fn own_unit(key: Key) -> Option<NumberUnit> {
    match key {
        Key::Latency(..) | Key::Field(Field::ProbeMedian | Field::ProbeP99 | Field::ProbeMax) => {
            Some(NumberUnit::Time(1e-3))
        }
        Key::Field(Field::Duration) => Some(NumberUnit::Time(1.0)),
        Key::Position(_)
        | Key::Field(
            Field::SpecAcceptanceRate
            | Field::CacheHitRate
            | Field::CacheHitDevice
            | Field::CacheHitHost
            | Field::Attainment
            | Field::TtftAttainment
            | Field::TpotAttainment
            | Field::E2elAttainment,
        ) => Some(NumberUnit::Percent),
        Key::Field(_) => None,
    }
}

/// What a number in `unit` is multiplied by to be a value of `key`; `None` where it cannot be one.
fn factor(key: Key, unit: Option<NumberUnit>) -> Option<f64> {
    match (own_unit(key), unit) {
        (_, None)
        | (Some(NumberUnit::Percent), Some(NumberUnit::Percent))
        | (None, Some(NumberUnit::Rate | NumberUnit::Things)) => Some(1.0),
        // Rounded: a thousand must be 1000 and not the quotient of two rounded numbers.
        (Some(NumberUnit::Time(own)), Some(NumberUnit::Time(given))) => {
            let factor = given / own;
            Some(if factor >= 1.0 { factor.round() } else { 1.0 / (own / given).round() })
        }
        _ => None,
    }
}

/// A value that was read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reading {
    pub(super) scalar: Scalar,
    /// Half a unit of its last digit.
    half_unit: f64,
}

impl Reading {
    fn exact(scalar: Scalar) -> Self {
        Self { scalar, half_unit: 0.0 }
    }

    /// The value, with the text that it was read from.
    pub(super) fn written(self, text: &str) -> Value {
        Value { scalar: self.scalar, text: Some(text.to_owned()), half_unit: self.half_unit }
    }
}

/// The value of this label. A unit beside the number overrules that of the label. `None` when the text
/// has no single meaning.
pub(super) fn read(label: Label, mark: DecimalMark, text: &str) -> Option<Reading> {
    let Label { key, format, unit: label_unit } = label;
    let text = text.trim_matches(|letter: char| letter.is_whitespace() || is_mark(letter));
    if let Some(words @ Scalar::Words(_)) = format.read(without_comment(text)) {
        return Some(Reading::exact(words));
    }
    let is_whole = matches!(format, Format::Count | Format::CountOrWords);
    // Words such as `nan` and `inf`, which have no digits and no unit.
    if !is_whole && !text.contains(|letter: char| letter.is_ascii_digit()) {
        return text.parse::<f64>().ok().map(|number| Reading::exact(Scalar::Number(number)));
    }
    let (digits, rest) = number(text, mark)?;
    let factor = factor(key, unit_of_rest(rest)?.or(label_unit))?;
    if is_whole {
        let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
        let is_known = mark != DecimalMark::Unknown || !is_ambiguous_count(&digits);
        let is_exact = is_known && fraction.bytes().all(|byte| byte == b'0');
        let count = whole.parse().ok().filter(|_| is_exact);
        return count.map(|count| Reading::exact(Scalar::Count(count)));
    }
    let scalar = Scalar::Number(scaled(&digits, factor)?);
    Some(Reading { scalar, half_unit: half_unit(&digits) * factor })
}

/// A rate as a tool prints it in words, `20.0` or `inf`, or as somebody wrote it behind the label.
pub(crate) fn rate_in_words(words: &str) -> Option<f64> {
    let key = Key::Field(Field::RateConfigured);
    let label = Label { key, format: Format::Fixed, unit: None };
    read(label, DecimalMark::Unknown, words)?.scalar.as_f64().filter(|rate| !rate.is_nan())
}

/// A power of ten moves the point, so that `0.46385 s` is the same number as `463.85 ms`.
fn scaled(digits: &str, factor: f64) -> Option<f64> {
    let shift = factor.log10();
    let is_power = (shift - shift.round()).abs() < 1e-9;
    if is_power && !digits.contains(['e', 'E']) {
        return format!("{digits}e{shift:.0}").parse().ok();
    }
    digits.parse::<f64>().ok().map(|number| number * factor)
}

/// Characters around a value that belong to a table, a quotation or an emphasis.
fn is_mark(letter: char) -> bool {
    matches!(letter, '|' | '│' | '┃' | '║' | '`' | '*' | '"' | '\'' | '†' | '‡')
}

/// Half a unit of the last digit of a plain number. Zero for what is no number.
pub(crate) fn half_unit(text: &str) -> f64 {
    let text = text.trim();
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let decimals = mantissa.split_once('.').map_or("", |(_, digits)| digits);
    let decimals = decimals.bytes().take_while(u8::is_ascii_digit).count();
    let exponent = exponent.parse::<i32>().unwrap_or(0).clamp(-300, 300);
    0.5 * 10_f64.powi(exponent - i32::try_from(decimals).unwrap_or(300).min(300))
}

/// A number in Rust's spelling, and what follows it.
fn number(text: &str, mark: DecimalMark) -> Option<(String, &str)> {
    let is_body = |letter: char| letter.is_ascii_digit() || is_separator(letter);
    let unsigned = text.strip_prefix(['+', '-', '−']).unwrap_or(text);
    let sign = if text.len() > unsigned.len() && !text.starts_with('+') { "-" } else { "" };
    let end = unsigned.find(|letter| !is_body(letter)).unwrap_or(unsigned.len());
    // A separator at the end is punctuation: `12.3, which is slow`.
    let body = unsigned[..end].trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let mut rest = &unsigned[body.len()..];
    let mut digits = sign.to_owned() + &without_separators(&mark.with_point(body))?;
    if let Some(exponent) = exponent(rest) {
        digits.push_str(exponent);
        rest = &rest[exponent.len()..];
    }
    Some((digits, rest))
}

fn is_separator(letter: char) -> bool {
    matches!(letter, '.' | ',' | '_' | '\'' | '’' | '\u{2009}' | '\u{202f}')
}

fn exponent(rest: &str) -> Option<&str> {
    let signed = rest.strip_prefix(['e', 'E'])?;
    let digits = signed.strip_prefix(['+', '-']).unwrap_or(signed);
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    (1..=3).contains(&length).then(|| &rest[..rest.len() - digits.len() + length])
}

/// The digits with at most one point: thousands separators removed, a decimal comma replaced.
fn without_separators(body: &str) -> Option<String> {
    let last = body.rfind(is_separator);
    let mut kinds: Vec<char> = body.chars().filter(|letter| is_separator(*letter)).collect();
    let last_kind = kinds.last().copied();
    let repeats = kinds.iter().filter(|kind| Some(**kind) == last_kind).count();
    kinds.dedup();
    let (whole, fraction) = match (last, last_kind) {
        (Some(at), Some(kind @ ('.' | ','))) if repeats == 1 => {
            let after = &body[at + kind.len_utf8()..];
            // `1,024` has a thousands separator; `463,85` a decimal comma. A point is a point.
            let is_group = kind == ',' && kinds.len() == 1 && is_grouped(body);
            if is_group { (body, "") } else { (&body[..at], after) }
        }
        _ => (body, ""),
    };
    let is_plain = !whole.is_empty() && whole.bytes().all(|byte| byte.is_ascii_digit());
    if !(is_plain || is_grouped(whole)) || whole.is_empty() {
        return None;
    }
    let mut digits: String = whole.chars().filter(char::is_ascii_digit).collect();
    if !fraction.is_empty() {
        digits.push('.');
        digits.push_str(fraction);
    }
    Some(digits)
}

/// One to three digits and then groups of three behind one kind of separator.
fn is_grouped(text: &str) -> bool {
    let mut groups = text.split(is_separator);
    let is_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let first = groups.next().unwrap_or_default();
    let mut kinds: Vec<char> = text.chars().filter(|letter| is_separator(*letter)).collect();
    kinds.dedup();
    kinds.len() == 1
        && (1..=3).contains(&first.len())
        && is_digits(first)
        && groups.all(|group| group.len() == 3 && is_digits(group))
}

/// The unit behind a number, if only a unit and a comment stand there. `None` for anything else.
#[expect(clippy::option_option, reason = "no unit and no meaning are two answers")]
fn unit_of_rest(rest: &str) -> Option<Option<NumberUnit>> {
    let after = rest.trim_start();
    let stop = |letter: char| letter.is_whitespace() || "#,;|<*".contains(letter);
    let end = after.find(stop).unwrap_or(after.len());
    if let Some(unit) = unit(&after[..end]).filter(|_| end > 0) {
        return is_comment(&after[end..]).then_some(Some(unit));
    }
    is_comment(rest).then_some(None)
}

/// Whether a text behind a value says nothing that could change it.
fn is_comment(rest: &str) -> bool {
    const MARKS: [&str; 14] =
        ["#", "//", "<", "(", "[", "; ", ", ", "!", "*", "|", "│", "←", "±", "--"];
    let text = rest.trim_start();
    let is_apart = rest.starts_with(char::is_whitespace);
    let has_digits = text.contains(|letter: char| letter.is_ascii_digit());
    let is_arrow = text.starts_with("->") || text.starts_with(['→', '/', '=', '~', '-']);
    // A comma at the end is that of a list or of an object.
    matches!(text, "" | "," | ";")
        || MARKS.iter().any(|mark| text.starts_with(mark))
        || (is_apart && !has_digits && !is_arrow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Metric, Stat};

    const LATENCY: Key = Key::Latency(Metric::Ttft, Stat::Mean);

    fn read_as(key: Key, format: Format, text: &str) -> Option<Reading> {
        read(Label { key, format, unit: None }, DecimalMark::Unknown, text)
    }

    fn latency(text: &str) -> Option<f64> {
        read_as(LATENCY, Format::Fixed, text).and_then(|read| read.scalar.as_f64())
    }

    fn count(text: &str) -> Option<f64> {
        let key = Key::Field(Field::Successful);
        read_as(key, Format::Count, text).and_then(|read| read.scalar.as_f64())
    }

    #[test]
    fn numbers_are_read_in_every_spelling_that_has_one_meaning() {
        let check = |text: &str, expected: f64| {
            let found = latency(text).unwrap_or_else(|| panic!("{text}"));
            assert!((found - expected).abs() < 1e-9, "{text}: {found}");
        };
        check("463.85", 463.85);
        check("463,85", 463.85);
        check("1,463.85", 1463.85);
        check("1.463,85", 1463.85);
        check("12,345,678.9", 12_345_678.9);
        check("1_463.85", 1463.85);
        check("1\u{202f}463,85", 1463.85);
        check("1'463.85", 1463.85);
        check("**463.85**", 463.85);
        check("463.85 ms", 463.85);
        check("463.85ms", 463.85);
        check("0.46385 s", 463.85);
        check("463850 µs", 463.85);
        check("463.85 [ms]", 463.85);
        check("463.85   # includes warm-up of 5", 463.85);
        check("463.85 <-- look", 463.85);
        check("463.85 (was 512.00)", 463.85);
        check("463.85, which is slow", 463.85);
        check("463.85,", 463.85);
        check("463.85    rather slow", 463.85);
        check("463.85 ± 3.1", 463.85);
        check("4.6385e2", 463.85);
        check("463.85 │", 463.85);
    }

    #[test]
    fn what_has_no_single_meaning_is_not_read() {
        for text in [
            "N/A",
            "...",
            "…",
            "1/1",
            "",
            "-",
            "~12",
            "12 34",
            "12:34",
            "1,2,3",
            "12 -> 14",
            "12.3 tok/s",
            "12 %",
            "fast",
            "1.2.3",
            "0x10",
            "12-14",
            "1k",
            ">100",
        ] {
            assert_eq!(latency(text), None, "{text}");
        }
        for text in ["12.5", "-3", "nan", "1/1", "1,02", "99 %", "3 s", "3.000", "696.991"] {
            assert_eq!(count(text), None, "{text}");
        }
        assert_eq!(count("3,000"), Some(3000.0));
        assert_eq!(count("3000.0"), Some(3000.0));
        assert_eq!(count("3000 requests"), Some(3000.0));
        assert_eq!(count("3000 (100%)"), Some(3000.0));
        assert!(latency("nan").is_some_and(f64::is_nan));
    }

    #[test]
    fn the_last_digit_is_known_in_every_spelling() {
        let check = |text: &str, expected: f64| {
            let half = read_as(LATENCY, Format::Fixed, text).unwrap().half_unit;
            assert!((half - expected).abs() < expected * 1e-9, "{text}: {half}");
        };
        check("463.85", 0.005);
        check("463,85", 0.005);
        check("1,463", 0.5);
        check("0.46 s", 5.0);
        check("4.6e2", 5.0);
    }
}
