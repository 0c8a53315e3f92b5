//! One option: its names, its type with the parser, its default, what is valid, and what it sets.

use serde_json::{Map, Value};
use tokometer_base::redact::{HIDDEN, hide_in_url, redact};
use tokometer_base::{Conventions, Nanos, units};

use super::fragment::Fragment;
use crate::values::{Rate, counts, rates};

/// Seconds of anything that is waited for: thirty years.
const MOST_SECONDS: f64 = 1e9;

/// Reads one word as a value in the form of a plan file.
pub(super) type Parser = fn(&str) -> Result<Value, String>;

#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// No value: the flag sets its key to this word, number or `true`.
    Switch(&'static str),
    Text,
    Path,
    Count,
    /// A whole number; zero is the same as no flag.
    CountUnlessZero,
    Signed,
    /// A number that is not negative.
    Number,
    SignedNumber,
    Seconds,
    /// A time with its unit, such as `30s`; the plan has seconds.
    Time,
    /// A number, or `inf`.
    Rate,
    /// One whole number, or a list that makes a sweep.
    Counts,
    /// One rate, or a list that makes a sweep.
    Rates,
    Choice(&'static [&'static str]),
    Object,
    Parsed(Parser),
    /// The same, or this word where the flag has no value.
    Optional(&'static str, Parser),
    Texts,
    /// Several `NAME=VALUE` behind one flag.
    Pairs,
    /// One value; the flag may be repeated.
    Repeated(Parser),
    /// A list in one text; the flag may be repeated, which makes the list longer.
    Joined,
}

/// What the value of an option may hold that must not be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    Url,
    /// `NAME=VALUE`, where few names are public.
    Header,
    /// `NAME=VALUE`, where some names are those of secrets.
    Pair,
    Json,
    Command,
    /// A secret and nothing else.
    Key,
}

/// What an option sets besides or instead of a key of the plan.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    /// Nothing: the value of its key is all.
    Key,
    Text(fn(&mut Fragment) -> &mut Option<String>),
    Path(fn(&mut Fragment) -> &mut Option<std::path::PathBuf>),
    Flag(fn(&mut Fragment) -> &mut bool),
    /// Several things; called once for each word.
    Several(fn(&mut Fragment, &str) -> Result<(), String>),
}

#[derive(Debug, Clone, Copy)]
pub struct OtherName {
    /// The tool's flag, without dashes.
    pub flag: &'static str,
    /// The tools that have it; see [`OptionRow::tools`].
    pub tools: &'static str,
}

/// Default values by the conventions of a tool, as typed.
#[derive(Debug, Clone, Copy)]
pub struct Defaults {
    pub vllm: &'static str,
    pub sglang: &'static str,
}

impl Defaults {
    pub const fn by(self, conventions: Conventions) -> &'static str {
        match conventions {
            Conventions::Vllm => self.vllm,
            Conventions::Sglang => self.sglang,
        }
    }
}

/// One option. Its flag is also its key in the config file and, in capitals, its variable.
#[derive(Debug)]
pub struct OptionRow {
    /// The long flag, without dashes.
    pub flag: &'static str,
    pub short: Option<char>,
    /// What its value is called in the help; empty for a switch.
    pub value: &'static str,
    pub kind: Kind,
    /// One line.
    pub help: &'static str,
    /// Where its value stands in a plan; empty: nowhere.
    pub key: &'static str,
    pub(super) target: Target,
    /// Its default, where it depends on nothing but conventions.
    pub default: Option<Defaults>,
    pub most: Option<f64>,
    /// Of a dataset's option: the datasets that the flag is for. `Some` of none: for all that have it.
    pub datasets: Option<&'static [&'static str]>,
    /// It has an effect only together with one of these flags. Empty: always.
    pub only_with: &'static [&'static str],
    /// Flags that it cannot be combined with.
    pub without: &'static [&'static str],
    /// It is refused unless one of these flags is given. Empty: it needs none.
    pub needs: &'static [&'static str],
    /// A flag for the contrary: of both the last one applies.
    pub replaces: Option<&'static str>,
    pub holds: Option<Holds>,
    /// Whether it is meant for one command, so that no preset can set it.
    pub is_per_command: bool,
    /// Whether its value may begin with a minus sign.
    pub is_signed: bool,
    /// Whether `--flag.a.b VALUE` sets one value of its object.
    pub is_dotted: bool,
    /// The tools that have the same flag: `P` vLLM's Python client, `R` vLLM's Rust client, `S`
    /// SGLang's `bench_serving`, `O` the older `benchmark_serving.py` and its forks.
    pub tools: &'static str,
    /// What their users should know.
    pub remark: &'static str,
    pub also: &'static [OtherName],
}

pub(super) const fn option(
    flag: &'static str,
    value: &'static str,
    kind: Kind,
    help: &'static str,
) -> OptionRow {
    OptionRow {
        flag,
        short: None,
        value,
        is_signed: matches!(kind, Kind::Signed | Kind::SignedNumber),
        is_dotted: matches!(kind, Kind::Object),
        kind,
        help,
        key: "",
        target: Target::Key,
        default: None,
        most: None,
        datasets: None,
        only_with: &[],
        without: &[],
        needs: &[],
        replaces: None,
        holds: None,
        is_per_command: false,
        tools: "",
        remark: "",
        also: &[],
    }
}

pub(super) const fn switch(
    flag: &'static str,
    word: &'static str,
    help: &'static str,
) -> OptionRow {
    option(flag, "", Kind::Switch(word), help)
}

macro_rules! columns {
    ($( $name:ident($( $argument:ident: $type:ty ),*) => $($column:ident).+ = $value:expr; )*) => {
        impl OptionRow {
            $(
                #[doc = concat!("Fills the column `", stringify!($($column).+), "`.")]
                pub(super) const fn $name(mut self $(, $argument: $type)*) -> Self {
                    self.$($column).+ = $value;
                    self
                }
            )*
        }
    };
}

columns! {
    short(letter: char) => short = Some(letter);
    sets(key: &'static str) => key = key;
    text(slot: fn(&mut Fragment) -> &mut Option<String>) => target = Target::Text(slot);
    path(slot: fn(&mut Fragment) -> &mut Option<std::path::PathBuf>) => target = Target::Path(slot);
    flag(slot: fn(&mut Fragment) -> &mut bool) => target = Target::Flag(slot);
    put(put: fn(&mut Fragment, &str) -> Result<(), String>) => target = Target::Several(put);
    default(text: &'static str) => default = Some(Defaults { vllm: text, sglang: text });
    defaults(vllm: &'static str, sglang: &'static str) => default = Some(Defaults { vllm, sglang });
    most(number: f64) => most = Some(number);
    of(datasets: &'static [&'static str]) => datasets = Some(datasets);
    only_with(flags: &'static [&'static str]) => only_with = flags;
    without(flags: &'static [&'static str]) => without = flags;
    needs(flags: &'static [&'static str]) => needs = flags;
    replaces(flag: &'static str) => replaces = Some(flag);
    holds(holds: Holds) => holds = Some(holds);
    per_command() => is_per_command = true;
    signed() => is_signed = true;
    dotted() => is_dotted = true;
    known(tools: &'static str) => tools = tools;
    remark(remark: &'static str) => remark = remark;
    also(names: &'static [OtherName]) => also = names;
}

pub(super) const fn other(flag: &'static str, tools: &'static str) -> OtherName {
    OtherName { flag, tools }
}

impl OptionRow {
    pub fn described(&self) -> String {
        match self.default {
            Some(Defaults { vllm, sglang }) if vllm == sglang => {
                format!("{} [default: {vllm}]", self.help)
            }
            Some(Defaults { vllm, sglang }) => {
                format!("{} [default: {vllm}; SGLang's conventions: {sglang}]", self.help)
            }
            None => self.help.to_owned(),
        }
    }

    /// A word of its value as it can be repeated to the user.
    pub fn shown(&self, word: &str) -> String {
        match self.holds {
            None => redact(word),
            Some(Holds::Url) => hide_in_url(word),
            Some(_) => HIDDEN.to_owned(),
        }
    }

    pub const fn takes_value(&self) -> bool {
        !matches!(self.kind, Kind::Switch(_))
    }

    pub const fn takes_words(&self) -> bool {
        matches!(self.kind, Kind::Texts | Kind::Pairs)
    }

    pub const fn makes_sweep(&self) -> bool {
        matches!(self.kind, Kind::Counts | Kind::Rates)
    }

    /// Whether a number that is neither finite nor positive means nothing.
    pub(crate) const fn is_unsigned(&self) -> bool {
        matches!(self.kind, Kind::Number | Kind::Seconds | Kind::Time)
    }

    pub(crate) fn limit(&self) -> Option<f64> {
        let is_time = matches!(self.kind, Kind::Seconds | Kind::Time);
        self.most.or(is_time.then_some(MOST_SECONDS))
    }

    /// Whether a sweep can vary it: single values of what is measured.
    pub(crate) fn is_swept(&self) -> bool {
        let is_single = !matches!(
            self.kind,
            Kind::Object | Kind::Texts | Kind::Pairs | Kind::Repeated(_) | Kind::Switch("")
        );
        let root = self.key.split('.').next().unwrap_or_default();
        let fixed = ["", "name", "conventions", "metrics", "output", "interleave"];
        is_single && !fixed.contains(&root) && self.key != "workload.dataset"
    }

    /// One word as a value in the form of a plan file; the reason where it is none.
    pub fn parse(&self, word: &str) -> Result<Value, String> {
        let number = |is_right: fn(f64) -> bool, why: &str| {
            let number: f64 = word.parse().map_err(|_| "it is not a number".to_owned())?;
            if !number.is_finite() {
                return Err("it must be a finite number".to_owned());
            }
            if is_right(number) { Ok(Value::from(number)) } else { Err(why.to_owned()) }
        };
        match self.kind {
            Kind::Switch(word) => {
                Ok(serde_json::from_str(word).unwrap_or_else(|_| Value::from(word)))
            }
            Kind::Text | Kind::Joined | Kind::Path | Kind::Texts => Ok(Value::from(word)),
            Kind::Count | Kind::CountUnlessZero => super::number::<u64>(word).map(Value::from),
            Kind::Signed => super::number::<i64>(word).map(Value::from),
            Kind::Number | Kind::Seconds => {
                number(|number| number >= 0.0, "it must not be negative")
            }
            Kind::SignedNumber => number(|_| true, ""),
            Kind::Time => time(word).map(Value::from),
            Kind::Rate => word.parse::<Rate>().map(rate).map_err(|why| why.to_string()),
            Kind::Counts | Kind::Rates => {
                self.list(word)?.into_iter().next().ok_or_else(|| "the list is empty".to_owned())
            }
            Kind::Choice(words) if words.contains(&word) => Ok(Value::from(word)),
            Kind::Choice(words) => Err(format!("the choices are {}", words.join(", "))),
            Kind::Object => {
                serde_json::from_str::<Map<String, Value>>(word).map(Value::Object).map_err(|why| {
                    format!("{why}; write a JSON object, such as '{{\"min_tokens\": 5}}'")
                })
            }
            Kind::Parsed(parser) | Kind::Optional(_, parser) | Kind::Repeated(parser) => {
                parser(word)
            }
            Kind::Pairs => pair(word),
        }
    }

    /// The values of a word that may be a list.
    pub(super) fn list(&self, word: &str) -> Result<Vec<Value>, String> {
        Ok(match self.kind {
            Kind::Counts => counts(word)?.into_iter().map(Value::from).collect(),
            Kind::Rates => rates(word)?.into_iter().map(rate).collect(),
            _ => vec![self.parse(word)?],
        })
    }

    pub(super) fn value_of(&self, words: &[String]) -> Result<Value, String> {
        match self.kind {
            Kind::Texts | Kind::Pairs | Kind::Repeated(_) => words
                .iter()
                .map(|word| self.parse(word))
                .collect::<Result<_, _>>()
                .map(Value::Array),
            Kind::Joined => Ok(Value::from(words.join(", "))),
            _ => self.parse(words.last().map_or("", String::as_str)),
        }
    }
}

/// A time with its unit, in seconds.
pub fn time(text: &str) -> Result<f64, String> {
    let span = units::parse_span(text, Nanos::from_secs(1)).map_err(|why| {
        format!("{why}; write numbers with units, such as `30s`, `500ms` or `4m30s`")
    })?;
    Ok(span.as_secs_f64())
}

/// JSON has no infinity, and a word instead.
fn rate(rate: Rate) -> Value {
    serde_json::to_value(rate).unwrap_or_default()
}

/// `NAME=VALUE`, the value possibly with more equals signs.
fn pair(text: &str) -> Result<Value, String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or_else(|| "write it as NAME=VALUE".to_owned())?;
    Ok(Value::from(vec![name, value]))
}
