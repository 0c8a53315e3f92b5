//! Lists of values as typed: `1,2,4`, `1,2,...,4096`, `1,2,inf`.
//!
//! A flag that takes such a list turns a bench into a sweep when the list holds more than one value.
//! Syntax only: whether a value makes sense is decided by lowering.

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tokometer_base::units;

/// Requests per second. `inf` sends without waiting; it is a word and not a number on disk, because
/// JSON has no infinity.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Rate(pub f64);

impl Rate {
    pub fn is_infinite(self) -> bool {
        self.0.is_infinite()
    }
}

impl Serialize for Rate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_infinite() { "inf".serialize(serializer) } else { self.0.serialize(serializer) }
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum WrittenValues {
            Number(f64),
            Word(String),
        }
        match WrittenValues::deserialize(deserializer)? {
            WrittenValues::Number(rate) => Ok(Self(rate)),
            WrittenValues::Word(word) => word.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl FromStr for Rate {
    type Err = units::Error;

    fn from_str(text: &str) -> Result<Self, units::Error> {
        units::parse_rate(text).map(Self)
    }
}

/// No series is longer: a slip of a digit must not plan a year of runs.
const SERIES_MAX: usize = 4_096;

/// One or more counts, in the order in which they are to be run.
pub(crate) fn counts(text: &str) -> Result<Vec<u64>, String> {
    let count = |word: &str| word.parse::<u64>().map(|count| count as f64);
    Ok(series(text, count)?.into_iter().map(units::nearest_count).collect())
}

/// One or more rates, in the order in which they are to be run.
pub(crate) fn rates(text: &str) -> Result<Vec<Rate>, String> {
    Ok(series(text, units::parse_rate)?.into_iter().map(Rate).collect())
}

fn series<E: Display>(
    text: &str,
    parse: impl Fn(&str) -> Result<f64, E>,
) -> Result<Vec<f64>, String> {
    let term = |word: &str| {
        parse(word).map_err(|why| {
            if word.is_empty() { "an empty value in the list".to_owned() } else { why.to_string() }
        })
    };
    let mut values = Vec::new();
    let mut words = text.split(',').map(str::trim);
    while let Some(word) = words.next() {
        if word == "..." {
            let last = words.next().ok_or_else(|| "`...` needs a last value".to_owned())?;
            continue_series(&mut values, term(last)?, text)?;
        } else {
            values.push(term(word)?);
        }
    }
    Ok(values)
}

/// Appends the terms up to `last`: doubling when the second given term is twice the first, else with
/// the step between them.
fn continue_series(values: &mut Vec<f64>, last: f64, text: &str) -> Result<(), String> {
    let [.., first, second] = *values.as_slice() else {
        return Err("`...` needs two values before it, such as `1,2,...,64`".to_owned());
    };
    let doubles = (second - 2.0 * first).abs() < 1e-9 && first > 0.0;
    let step = second - first;
    let next = |at: f64| if doubles { at * 2.0 } else { at + step };
    let mut at = second;
    let mut length = 0;
    while at < last - 1e-9 && next(at) > at && length < SERIES_MAX {
        at = next(at);
        values.push(at);
        length += 1;
    }
    if (at - last).abs() < 1e-9 {
        return Ok(());
    }
    let way = if doubles { "doubling" } else { "stepping" };
    Err(format!("{way} through `{text}` never reaches {last}; list the values instead"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_in_order_and_an_ellipsis_goes_on_as_its_start_suggests() {
        let check = |text: &str, expected: &[u64]| assert_eq!(counts(text), Ok(expected.to_vec()));
        check("7", &[7]);
        check("1,2,4", &[1, 2, 4]);
        check("8, 1 ,64", &[8, 1, 64]);
        check("1,2,...,16", &[1, 2, 4, 8, 16]);
        check("2,4,8,...,64", &[2, 4, 8, 16, 32, 64]);
        check("10,15,...,30", &[10, 15, 20, 25, 30]);
        check("1,3,...,7,100", &[1, 3, 5, 7, 100]);
        assert_eq!(counts("1,2,...,4096").unwrap().len(), 13);
    }

    #[test]
    fn a_series_that_misses_its_end_is_refused() {
        let check = |text: &str, part: &str| {
            let message = counts(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        };
        check("1,2,...,100", "never reaches 100");
        check("10,15,...,31", "never reaches 31");
        check("5,...,10", "two values before it");
        check("1,2,...", "needs a last value");
        check("4,3,...,1", "never reaches 1");
        check("1,,2", "an empty value");
        check("1,x", "invalid digit");
    }

    #[test]
    fn rates_may_be_infinite_and_survive_json() {
        let read = rates("1,2.5,inf").unwrap();
        let text = serde_json::to_string(&read).unwrap();
        assert_eq!(text, r#"[1.0,2.5,"inf"]"#);
        assert_eq!(serde_json::from_str::<Vec<Rate>>(&text).unwrap(), read);
        assert!(rates("1,fast").is_err());
    }
}
