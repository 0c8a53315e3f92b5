//! One call of a model as a trace records it, before it becomes a turn of a session.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use tokometer_base::{Fingerprint, Nanos};

use super::flaw::{Flaw, FlawKind};
use crate::trace_time::TraceTime;

/// One call of a model. What a trace does not say is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Call {
    /// Calls with the same key belong to one session.
    pub(super) session: Option<u64>,
    pub(super) agent: Option<Agent>,
    pub(super) order: Order,
    /// When it was sent.
    pub(super) start: Option<Nanos>,
    pub(super) duration: Option<Nanos>,
    /// From its start to its first token.
    pub(super) ttft: Option<Nanos>,
    /// The stated pause between the call before it and its start.
    pub(super) pause_before: Option<Nanos>,
    pub(super) pause_after: Option<Nanos>,
    /// `None` where the content is given as text.
    pub(super) input: Option<u32>,
    pub(super) output: Option<u32>,
    pub(super) prompt: Content,
    /// The recorded answer: a JSON message.
    pub(super) answer: Option<String>,
    pub(super) class: Option<String>,
    /// A JSON object that is merged into the request's body.
    pub(super) extra_body: Option<String>,
}

/// An agent other than the session's first: its calls follow each other beside those of its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Agent {
    pub(super) key: u64,
    /// The agent that began it; `None` for the session's first.
    pub(super) parent: Option<u64>,
    /// Whether the parent may wait for it.
    pub(super) joins: bool,
}

/// Which calls of its session a call waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// Those that had ended when it began.
    #[default]
    ByTime,
    /// One that the trace names.
    After { id: u64, parent: Option<u64> },
}

/// What a prompt is made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Content {
    /// Nothing that another prompt has.
    #[default]
    Fresh,
    Blocks(Blocks),
    /// The beginning of the call before it and of its answer, then something new.
    Keeps(u32),
    /// All of the call before it, its answer, and a new part: blocks, or else `input` tokens.
    Adds(Option<Blocks>),
    /// Messages: a JSON list. Behind those of the call before it and its answer, if `adds`.
    Messages {
        list: String,
        adds: bool,
    },
    Text {
        text: String,
        adds: bool,
    },
}

/// Blocks of a prefix cache. Equal ids are equal tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) ids: Vec<u64>,
    pub(super) tokens: u32,
    /// Where ids have a meaning: everywhere, or in one session alone.
    pub(super) scope: u64,
}

impl Blocks {
    /// Whether blocks of this size can make up a prompt: the last one may be shorter, and fewer tokens than one
    /// block may follow it.
    fn fit(&self, tokens: u32, input: u32) -> bool {
        let count = self.ids.len() as u64;
        let (tokens, input) = (u64::from(tokens), u64::from(input));
        count == input.div_ceil(tokens) || count == input / tokens
    }

    /// Refuses a block size that the length of the prompt contradicts, naming one that fits.
    pub(super) fn check(&self, input: u32) -> Result<(), Flaw> {
        // A prompt of no tokens is a flaw of its own.
        if self.ids.is_empty() || input == 0 || self.fit(self.tokens, input) {
            return Ok(());
        }
        let fitting = (4..16).map(|power| 1 << power).find(|tokens| self.fit(*tokens, input));
        let hint = fitting.map_or(String::new(), |tokens| {
            format!("\n  blocks of {tokens} tokens fit: try `--trace-block-size {tokens}`")
        });
        let count = self.ids.len();
        Err(FlawKind::BlockSize.with(format!(
            "{count} blocks of {} tokens do not make up a prompt of {input}{hint}",
            self.tokens
        )))
    }
}

/// The key of a name: equal for equal names.
pub(super) fn key(name: &str) -> u64 {
    Fingerprint::default().with(name.as_bytes()).value()
}

/// An id as traces write them: a number or a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(pub(super) u64);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Ids;
        impl Visitor<'_> for Ids {
            type Value = Id;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an id")
            }
            fn visit_u64<E>(self, id: u64) -> Result<Id, E> {
                Ok(Id(id))
            }
            fn visit_i64<E>(self, id: i64) -> Result<Id, E> {
                Ok(Id(id.cast_unsigned()))
            }
            fn visit_str<E>(self, id: &str) -> Result<Id, E> {
                Ok(Id(id.parse().unwrap_or_else(|_| key(id))))
            }
        }
        from.deserialize_any(Ids)
    }
}

/// A number of tokens, also as `600.0` or a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tokens(pub(super) u32);

impl Tokens {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        crate::tables::token_count(text).map(Self)
    }
}

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl Visitor<'_> for Numbers {
            type Value = Tokens;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of tokens")
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Tokens, E> {
                let tokens = u32::try_from(number).map(Tokens);
                tokens.map_err(|_| E::custom(format!("`{number}` is not a number of tokens")))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Tokens, E> {
                Tokens::parse(&number.to_string()).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Tokens, E> {
                Err(E::custom(format!("`{number}` is not a number of tokens")))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Tokens, E> {
                Tokens::parse(text).map_err(E::custom)
            }
        }
        from.deserialize_any(Numbers)
    }
}

/// A time or a span: a number in the form's own unit, or a date.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Moment {
    Number(f64),
    Date(Nanos),
}

pub(super) const MILLISECOND: Nanos = Nanos::from_millis(1);
pub(super) const SECOND: Nanos = Nanos::from_secs(1);

impl Moment {
    pub(super) fn parse(text: &str) -> Result<Self, Flaw> {
        if let Ok(number) = text.parse() {
            return Ok(Self::Number(number));
        }
        let date = TraceTime::parse(text).and_then(TraceTime::since_1970);
        date.map(Self::Date).ok_or_else(|| FlawKind::NoTime.with(format!("`{text}` is not a time")))
    }

    /// The time or span in nanoseconds, where numbers count in `unit`s.
    pub(super) fn nanos(self, unit: Nanos) -> Result<Nanos, Flaw> {
        match self {
            Self::Date(date) => Ok(date),
            Self::Number(number) if number < 0.0 => {
                Err(FlawKind::NegativeTime.with(format!("the time `{number}` is below zero")))
            }
            // Four centuries: nanoseconds have no room for more.
            Self::Number(number) if number * unit.as_secs_f64() < 1.2e10 => {
                Ok(Nanos::from_secs_f64(number * unit.as_secs_f64()))
            }
            Self::Number(number) => Err(FlawKind::NoTime.with(format!("`{number}` is not a time"))),
        }
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Moments;
        impl Visitor<'_> for Moments {
            type Value = Moment;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time")
            }
            fn visit_u64<E>(self, number: u64) -> Result<Moment, E> {
                Ok(Moment::Number(number as f64))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Moment, E> {
                Ok(Moment::Number(number as f64))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Moment, E> {
                Ok(Moment::Number(number))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
                Moment::parse(text).map_err(|flaw| E::custom(flaw.text))
            }
        }
        from.deserialize_any(Moments)
    }
}

/// The nanoseconds of a time that may be absent.
pub(super) fn nanos(moment: Option<Moment>, unit: Nanos) -> Result<Option<Nanos>, Flaw> {
    moment.map(|moment| moment.nanos(unit)).transpose()
}
