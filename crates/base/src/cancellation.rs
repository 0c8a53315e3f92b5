//! Which requests their user cancels, and when.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::seed::{Seed, unit_float};
use crate::time::Nanos;
use crate::units;

/// How it is typed.
const FORM: &str = "write `10% after 20 tokens` or `10% after 2s`";

/// A share of the requests, each of which is drawn by its index.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cancellation {
    /// From 0 to 1.
    pub share: f64,
    pub after: CancelAfter,
}

/// What a user waits for before giving up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAfter {
    /// So many tokens of the answer. An event of unknown size counts as one.
    Tokens(u32),
    /// So long after the last byte of the request.
    Time(Nanos),
}

impl Cancellation {
    /// When request `index` is cancelled; `None`: never.
    pub fn of(&self, seed: Seed, index: u64) -> Option<CancelAfter> {
        let draw = unit_float(&mut seed.stream("cancellations").at(index));
        (draw < self.share).then_some(self.after)
    }
}

impl CancelAfter {
    /// Whether an answer of this length is complete before so many tokens are exceeded.
    pub fn is_beyond(self, answer_tokens: u32) -> bool {
        matches!(self, Self::Tokens(tokens) if tokens >= answer_tokens)
    }
}

impl FromStr for Cancellation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (share, after) = text.split_once(" after ").ok_or(FORM)?;
        let percent = share.trim().strip_suffix('%').ok_or(FORM)?.trim();
        let percent: f64 = percent.parse().map_err(|_| FORM.to_owned())?;
        if !(0.0..=100.0).contains(&percent) {
            return Err(format!("a share lies between 0% and 100%; {FORM}"));
        }
        let after = after.trim();
        let tokens = after.strip_suffix("tokens").or_else(|| after.strip_suffix("token"));
        let after = match tokens {
            Some(count) => CancelAfter::Tokens(count.trim().parse().map_err(|_| {
                format!("`{}` is not a whole number of tokens; {FORM}", count.trim())
            })?),
            None if after.ends_with(|last: char| last.is_ascii_digit()) => {
                return Err(format!("`{after}` has no unit; {FORM}"));
            }
            None => {
                let span = units::parse_span(after, Nanos::from_secs(1));
                CancelAfter::Time(span.map_err(|why| format!("{why}; {FORM}"))?)
            }
        };
        match after {
            CancelAfter::Tokens(0) => Err(format!(
                "a user who waits for no token cancels after a time, such as `10% after 1ms`; {FORM}"
            )),
            _ => Ok(Self { share: percent / 100.0, after }),
        }
    }
}

impl fmt::Display for CancelAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens(1) => f.write_str("1 token"),
            Self::Tokens(count) => write!(f, "{count} tokens"),
            Self::Time(span) => write!(f, "{}ms", span.as_millis_f64()),
        }
    }
}

impl fmt::Display for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A share such as 0.07 is 7.000000000000001 % in floats.
        let percent = (self.share * 1e8).round() / 1e6;
        write!(f, "{percent}% after {}", self.after)
    }
}

impl TryFrom<String> for Cancellation {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Cancellation> for String {
    fn from(cancellation: Cancellation) -> Self {
        cancellation.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancellation_is_a_share_and_what_is_waited_for() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let read = text.parse::<Cancellation>().map(|read| read.to_string());
            match (&read, expected) {
                (Ok(read), Ok(expected)) => {
                    assert_eq!(read, expected);
                    assert_eq!(read.parse(), text.parse::<Cancellation>(), "{text}");
                }
                (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
                _ => panic!("{text}: {read:?}"),
            }
        };
        check("10% after 20 tokens", Ok("10% after 20 tokens"));
        check("7 % after 1 token", Ok("7% after 1 token"));
        check("0.5% after 2s", Ok("0.5% after 2000ms"));
        check("100% after 150ms", Ok("100% after 150ms"));
        check("0% after 1.5s", Ok("0% after 1500ms"));
        check("101% after 2s", Err("between 0% and 100%"));
        check("-1% after 2s", Err("between 0% and 100%"));
        check("nan% after 2s", Err("between 0% and 100%"));
        check("0.1 after 2s", Err("write `10% after 20 tokens`"));
        check("10% 20 tokens", Err("write `10% after 20 tokens`"));
        check("10% after 2", Err("has no unit"));
        check("10% after 0 tokens", Err("such as `10% after 1ms`"));
        check("10% after 2.5 tokens", Err("not a whole number"));
        check("10% after -2s", Err("write `10% after 20 tokens`"));
    }

    #[test]
    fn the_share_of_the_requests_is_drawn_by_index_and_seed() {
        let some: Cancellation = "25% after 3 tokens".parse().unwrap();
        let drawn = |seed| -> Vec<u64> {
            (0..4_000).filter(|index| some.of(Seed(seed), *index).is_some()).collect()
        };
        // Five standard deviations of a binomial count.
        assert!((drawn(1).len() as f64 - 1_000.0).abs() < 137.0, "{}", drawn(1).len());
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let all: Cancellation = "100% after 3 tokens".parse().unwrap();
        assert!((0..99).all(|index| all.of(Seed(7), index) == Some(CancelAfter::Tokens(3))));
    }
}
