//! A stretch of a load, as it is typed and as a plan holds it: `2m@5/s`, `30s@5..50/s`, `2m@8 sessions`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tokometer_base::{Nanos, units};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage {
    pub length: Length,
    pub load: StageLoad,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Time(Nanos),
    Requests(u64),
    /// As long as the run: its number of requests or its duration.
    Run,
}

/// The load of a stage. Rates are in requests, or sessions, per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StageLoad {
    Flat {
        rate: f64,
    },
    /// Equal steps: from request to request in a stage of requests, over time in a stage of time.
    Linear {
        from: f64,
        to: f64,
    },
    /// Equal ratios, likewise.
    Exponential {
        from: f64,
        to: f64,
    },
    /// A closed loop: the next session starts when one ends.
    Sessions {
        count: u32,
    },
}

const WRITE: &str = "write it as `2m@5/s`, `30s@5..50/s`, `500 requests@5/s` or `2m@8 sessions`";

impl Stage {
    pub fn whole_run(load: StageLoad) -> Self {
        Self { length: Length::Run, load }
    }

    /// The stages of a list with commas.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        text.split(',').map(str::parse).collect()
    }

    /// How many requests it has in a run of these seconds; infinite for a closed loop.
    pub fn requests_in(&self, run_seconds: f64) -> f64 {
        match (self.length, self.load) {
            (_, StageLoad::Sessions { .. }) => f64::INFINITY,
            (Length::Requests(count), _) => count as f64,
            (Length::Time(time), load) => load.requests_in(time.as_secs_f64()),
            (Length::Run, load) => load.requests_in(run_seconds),
        }
    }

    /// Why it cannot be run; `None` for one that can.
    pub fn fault(&self) -> Option<&'static str> {
        let (from, to) = match self.load {
            StageLoad::Flat { rate } => (rate, rate),
            StageLoad::Linear { from, to } | StageLoad::Exponential { from, to } => (from, to),
            StageLoad::Sessions { count: 0 } => return Some("it has no session"),
            StageLoad::Sessions { .. } => (1.0, 1.0),
        };
        let has_zero = from == 0.0 || to == 0.0;
        let is_timed = matches!(self.length, Length::Time(_));
        match self.length {
            Length::Time(Nanos(0)) | Length::Requests(0) => {
                Some("its length must be greater than zero")
            }
            _ if !(from >= 0.0 && to >= 0.0) => Some("a rate must not be negative"),
            _ if !(from.is_finite() && to.is_finite()) => Some("a rate must be a finite number"),
            _ if has_zero && matches!(self.load, StageLoad::Exponential { .. }) => {
                Some("equal ratios never reach zero: write a small rate, or omit `exponential`")
            }
            _ if has_zero && !is_timed => Some("at a rate of zero it has no end: give it a time"),
            _ if !is_timed && matches!(self.load, StageLoad::Sessions { .. }) => {
                Some("a number of sessions needs a time, such as `2m@8 sessions`")
            }
            _ => None,
        }
    }
}

impl StageLoad {
    /// The rate when this fraction of the stage, between 0 and 1, has passed; zero for sessions.
    pub fn rate_at(self, fraction: f64) -> f64 {
        match self {
            Self::Flat { rate } => rate,
            Self::Linear { from, to } => from + (to - from) * fraction,
            Self::Exponential { from, to } => from * libm::pow(to / from, fraction),
            Self::Sessions { .. } => 0.0,
        }
    }

    /// How many requests these seconds have.
    pub fn requests_in(self, seconds: f64) -> f64 {
        match self {
            Self::Flat { rate } => rate * seconds,
            Self::Linear { from, to } => 0.5 * (from + to) * seconds,
            Self::Exponential { from, to } if is_flat(from, to) => from * seconds,
            Self::Exponential { from, to } => (to - from) * seconds / libm::log(to / from),
            Self::Sessions { .. } => 0.0,
        }
    }

    /// When so many of the requests of a stage of these seconds have started, in seconds.
    pub(crate) fn time_of(self, requests: f64, seconds: f64) -> f64 {
        match self {
            _ if requests <= 0.0 => 0.0,
            Self::Flat { rate } => requests / rate,
            Self::Linear { from, to } => {
                let square = from * from + 2.0 * (to - from) * requests / seconds;
                2.0 * requests / (from + libm::sqrt(square.max(0.0)))
            }
            Self::Exponential { from, to } if is_flat(from, to) => requests / from,
            Self::Exponential { from, to } => {
                let growth = libm::log(to / from);
                seconds * libm::log1p(requests * growth / (from * seconds)) / growth
            }
            Self::Sessions { .. } => 0.0,
        }
    }
}

impl FromStr for Stage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (length, load) = text
            .split_once('@')
            .ok_or_else(|| format!("the stage `{text}` has no length; {WRITE}"))?;
        let wrong = |part: &str| format!("cannot read `{part}` of the stage `{text}`; {WRITE}");
        let count = |part: &str, one: &str, many: &str| {
            let digits = part.strip_suffix(many).or_else(|| part.strip_suffix(one))?;
            Some(digits.trim_end().to_owned())
        };
        let (length, load) = (length.trim(), load.trim());
        let length = if length == "run" {
            Length::Run
        } else if let Some(digits) = count(length, "request", "requests") {
            Length::Requests(digits.parse().map_err(|_| wrong(length))?)
        } else {
            let is_bare = length.ends_with(|last: char| last.is_ascii_digit());
            let time = units::parse_span(length, Nanos::from_secs(1)).ok().filter(|_| !is_bare);
            Length::Time(time.ok_or_else(|| wrong(length))?)
        };
        let load = if let Some(digits) = count(load, "session", "sessions") {
            StageLoad::Sessions { count: digits.parse().map_err(|_| wrong(load))? }
        } else {
            let (rates, shape) = load.split_once("/s").ok_or_else(|| wrong(load))?;
            let rate = |part: &str| part.trim().parse::<f64>().map_err(|_| wrong(part));
            match (rates.split_once(".."), shape.trim()) {
                (None, "") => StageLoad::Flat { rate: rate(rates)? },
                (Some((from, to)), "" | "linear") => {
                    StageLoad::Linear { from: rate(from)?, to: rate(to)? }
                }
                (Some((from, to)), "exponential") => {
                    StageLoad::Exponential { from: rate(from)?, to: rate(to)? }
                }
                (_, shape) => return Err(wrong(shape)),
            }
        };
        let stage = Self { length, load };
        stage.fault().map_or(Ok(stage), |why| Err(format!("cannot use the stage `{text}`: {why}")))
    }
}

/// Between equal rates nothing grows, and a logarithm to divide by is zero.
fn is_flat(from: f64, to: f64) -> bool {
    (from - to).abs() <= f64::EPSILON * from
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length {
            Length::Run => f.write_str("run")?,
            Length::Requests(count) => write!(f, "{count} requests")?,
            Length::Time(time) if time.0 % 60_000_000_000 == 0 => {
                write!(f, "{}m", time.0 / 60_000_000_000)?;
            }
            Length::Time(time) => write!(f, "{}s", time.as_secs_f64())?,
        }
        match self.load {
            StageLoad::Flat { rate } => write!(f, "@{rate}/s"),
            StageLoad::Linear { from, to } => write!(f, "@{from}..{to}/s"),
            StageLoad::Exponential { from, to } => write!(f, "@{from}..{to}/s exponential"),
            StageLoad::Sessions { count } => write!(f, "@{count} sessions"),
        }
    }
}

impl Serialize for Stage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Stage {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_read_and_written() {
        let check = |text: &str, shown: &str| {
            let stage: Stage = text.parse().unwrap();
            assert_eq!(stage.to_string(), shown);
            assert_eq!(shown.parse::<Stage>().unwrap(), stage, "{shown}");
        };
        check("2m@5/s", "2m@5/s");
        check(" 1m30s @ 5 .. 50/s linear", "90s@5..50/s");
        check("500ms@50..5/s exponential", "0.5s@50..5/s exponential");
        check("120s@1 session", "2m@1 sessions");
        check("500 requests@0.5/s", "500 requests@0.5/s");
        check("run@1..10/s", "run@1..10/s");
        check("10s@0/s", "10s@0/s");
    }

    #[test]
    fn a_stage_that_cannot_be_run_says_what_to_write_instead() {
        let check = |text: &str, words: &str| {
            let said = Stage::list(text).unwrap_err();
            assert!(said.contains(words) && said.contains('`'), "{text}: {said}");
        };
        check("2m@5/s, 5/s", "has no length; write it as `2m@5/s`");
        check("2@5/s", "cannot read `2`");
        check("0s@5/s", "greater than zero");
        check("2m@-5/s", "must not be negative");
        check("2m@inf/s", "finite");
        check("2m@5..x/s", "cannot read `x`");
        check("2m@5..9/s steep", "cannot read `steep`");
        check("2m@0..9/s exponential", "never reach zero");
        check("5 requests@0/s", "give it a time");
        check("5 requests@8 sessions", "needs a time");
        check("2m@0 sessions", "no session");
        check("2m@", "cannot read");
    }

    #[test]
    fn ramps_meet_their_ends_and_the_middle() {
        let check = |load: StageLoad, fraction, expected: f64| {
            assert!((load.rate_at(fraction) - expected).abs() < 1e-12, "{load:?} at {fraction}");
        };
        check(StageLoad::Linear { from: 2.0, to: 10.0 }, 0.0, 2.0);
        check(StageLoad::Linear { from: 2.0, to: 10.0 }, 0.5, 6.0);
        check(StageLoad::Linear { from: 2.0, to: 10.0 }, 1.0, 10.0);
        check(StageLoad::Exponential { from: 1.0, to: 100.0 }, 0.5, 10.0);
    }

    /// Halves of a stage, counted by small steps of the rate itself.
    #[test]
    fn the_time_of_a_request_is_where_the_rate_has_added_up_to_it() {
        for load in [
            StageLoad::Flat { rate: 7.0 },
            StageLoad::Linear { from: 0.0, to: 30.0 },
            StageLoad::Linear { from: 30.0, to: 0.0 },
            StageLoad::Exponential { from: 1.0, to: 50.0 },
        ] {
            let (seconds, steps) = (20.0, 200_000);
            let step = seconds / f64::from(steps);
            let rate = |at: i32| load.rate_at((f64::from(at) + 0.5) / f64::from(steps)) * step;
            let all: f64 = (0..steps).map(rate).sum();
            assert!((all / load.requests_in(seconds) - 1.0).abs() < 1e-6, "{load:?}");
            let half: f64 = (0..steps / 2).map(rate).sum();
            let at = load.time_of(half, seconds);
            assert!((at - seconds / 2.0).abs() < 1e-4, "{load:?}: {at}");
        }
    }
}
