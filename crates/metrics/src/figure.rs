//! A figure is one number of a run: a metric, and the statistic taken of it, such as `p99 TTFT`.
//!
//! In: the words that people, flags and result files use for figures. Out: one [`Figure`] with its
//! unit, the direction in which it is better, its name for people and its key for programs. Every
//! rule, table and file names figures through this module, so that `p99 ttft`, `ttft p99`,
//! `ttft_ms_p99` and vLLM's `p99_ttft_ms` mean one thing and are printed in one way.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::define::{self, Formula, Unit};

/// Which way is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Smaller values: latencies.
    Lower,
    /// Larger values: throughputs.
    Higher,
}

/// What is measured. Definitions stand in [`define`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// Requests per second.
    Requests,
    /// Output tokens per second.
    Output,
    /// Prompt tokens per second.
    Prompt,
    /// Prompt and output tokens per second.
    Total,
    /// Most output tokens within one second.
    PeakOutput,
    /// Share of requests that met every objective.
    Goodput,
    /// Requests per second that met every objective.
    GoodputRate,
    /// Time to the first token.
    Ttft,
    /// Time per output token after the first.
    Tpot,
    /// Time between two events of a stream, which other tools call ITL.
    Itl,
    /// Time to the last token.
    E2e,
    /// Wait inside the client before the send.
    ClientQueue,
    /// TTFT from the intended send.
    TtftFromIntended,
    /// E2E from the intended send.
    E2eFromIntended,
    /// Output tokens per second of one request.
    UserSpeed,
}

/// The names of a quantity.
struct Names {
    quantity: Quantity,
    /// Key of [`define::METRICS`].
    key: &'static str,
    label: &'static str,
    /// Other spellings, in lower case with single spaces, without a unit `ms`.
    words: &'static [&'static str],
}

const fn names(
    quantity: Quantity,
    key: &'static str,
    label: &'static str,
    words: &'static [&'static str],
) -> Names {
    Names { quantity, key, label, words }
}

/// One row per quantity, in the order of the enum.
static NAMES: [Names; 15] = [
    names(
        Quantity::Requests,
        "requests_per_s",
        "Request throughput",
        &["requests", "req s", "requests s"],
    ),
    names(
        Quantity::Output,
        "output_tokens_per_s",
        "Output throughput",
        &["output", "throughput", "output token throughput", "output tok s", "tok s"],
    ),
    names(
        Quantity::Prompt,
        "prompt_tokens_per_s",
        "Prompt throughput",
        &["input throughput", "prompt token throughput", "input token throughput", "prompt tok s"],
    ),
    names(
        Quantity::Total,
        "total_tokens_per_s",
        "Total throughput",
        &["total", "total token throughput", "total tok s"],
    ),
    names(
        Quantity::PeakOutput,
        "peak_output_tokens_per_s",
        "Peak output throughput",
        &["max output tokens per s", "peak output token throughput"],
    ),
    names(Quantity::Goodput, "goodput_share", "Goodput", &[]),
    names(
        Quantity::GoodputRate,
        "goodput_requests_per_s",
        "Request goodput",
        &["goodput rate", "goodput req s"],
    ),
    names(Quantity::Ttft, "ttft_ms", "TTFT", &["time to first token"]),
    names(Quantity::Tpot, "tpot_ms", "TPOT", &["time per output token"]),
    names(Quantity::Itl, "gap_ms", "ITL", &["inter token latency", "inter chunk gap"]),
    names(
        Quantity::E2e,
        "e2e_ms",
        "E2E",
        &["e2el", "latency", "e2e latency", "end to end latency"],
    ),
    names(
        Quantity::ClientQueue,
        "client_queue_ms",
        "client queue",
        &["queue", "client queue time"],
    ),
    names(Quantity::TtftFromIntended, "ttft_from_intended_ms", "TTFT from intended", &[]),
    names(
        Quantity::E2eFromIntended,
        "e2e_from_intended_ms",
        "E2E from intended",
        &["e2el from intended", "e2el including client queue"],
    ),
    names(
        Quantity::UserSpeed,
        "tokens_per_s_per_user",
        "speed per user",
        &["user speed", "tok s per user"],
    ),
];

impl Quantity {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|names| names.quantity)
    }

    fn names(self) -> &'static Names {
        &NAMES[self as usize]
    }

    /// Its key among the metrics' definitions, with the unit last.
    pub fn key(self) -> &'static str {
        self.names().key
    }

    /// Its name for people: `TTFT`, `Output throughput`.
    pub fn label(self) -> &'static str {
        self.names().label
    }

    /// The definition.
    pub fn metric(self) -> &'static define::Metric {
        define::metric(self.key()).expect("a test finds every quantity among the definitions")
    }

    /// The unit of its values.
    pub fn unit(self) -> Unit {
        self.metric().unit
    }

    /// Whether it has a distribution, of which a statistic is taken.
    pub fn is_distribution(self) -> bool {
        !matches!(self.metric().formula, Formula::Run(_))
    }

    /// Whether it has one value per request.
    pub fn is_per_request(self) -> bool {
        matches!(self.metric().formula, Formula::Latency(_) | Formula::Value(_))
    }

    /// Which way is good.
    pub fn better(self) -> Better {
        if self.unit() == Unit::Millis { Better::Lower } else { Better::Higher }
    }

    /// The word that vLLM's flags and result files use, such as `e2el`. `None` for what has no section
    /// in its report.
    pub fn section(self) -> Option<&'static str> {
        match self {
            Self::Ttft => Some("ttft"),
            Self::Tpot => Some("tpot"),
            Self::Itl => Some("itl"),
            Self::E2e => Some("e2el"),
            Self::ClientQueue => Some("client_queue_time"),
            Self::E2eFromIntended => Some("e2el_including_client_queue"),
            _ => None,
        }
    }

    /// The quantity of these words, without a statistic.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let words = normal(text);
        named(&words).ok_or_else(|| unknown(text, &words))
    }
}

/// A percentile as people write it, such as 99 or 99.9, held in millionths of a percent so that it
/// can be compared exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percentile(u32);

const MILLIONTHS: u32 = 1_000_000;

impl Percentile {
    /// The percentile of a whole number of percent.
    pub const fn whole(percent: u32) -> Self {
        Self(percent * MILLIONTHS)
    }

    /// The percentile nearest to `percent`; `None` outside 0 to 100.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range check keeps the product between 0 and 1e8"
    )]
    pub fn from_percent(percent: f64) -> Option<Self> {
        let in_range = (0.0..=100.0).contains(&percent);
        in_range.then(|| Self((percent * f64::from(MILLIONTHS)).round() as u32))
    }

    /// The percentile as written in a label: digits, and decimals where needed.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        text.parse().ok().filter(|_| is_plain).and_then(Self::from_percent)
    }

    /// In percent.
    pub fn percent(self) -> f64 {
        f64::from(self.0) / f64::from(MILLIONTHS)
    }

    /// As a share of 1.
    pub fn share(self) -> f64 {
        self.percent() / 100.0
    }

    /// The part of a sample beyond it, on its thinner side.
    pub fn tail(self) -> f64 {
        self.share().min(1.0 - self.share())
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.percent())
    }
}

/// What is taken of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Statistic {
    /// The value itself: a throughput has no distribution.
    Whole,
    /// Arithmetic mean.
    Mean,
    /// Population standard deviation.
    Std,
    /// Smallest value.
    Min,
    /// Largest value.
    Max,
    /// Value below which this share lies.
    Percentile(Percentile),
}

impl Statistic {
    /// The 50th percentile.
    pub const MEDIAN: Self = Self::Percentile(Percentile::whole(50));
    /// The 99th percentile.
    pub const P99: Self = Self::Percentile(Percentile::whole(99));

    /// The percentile, where it is one.
    pub fn percentile(self) -> Option<Percentile> {
        if let Self::Percentile(percentile) = self { Some(percentile) } else { None }
    }

    fn named(word: &str) -> Option<Result<Self, Error>> {
        let statistic = match word {
            "mean" | "avg" | "average" => Self::Mean,
            "median" => Self::MEDIAN,
            "std" => Self::Std,
            "min" => Self::Min,
            "max" => Self::Max,
            _ => {
                let digits = word.strip_prefix('p')?;
                let is_number = digits.starts_with(|first: char| first.is_ascii_digit());
                let inner = |one: &Percentile| (1..100 * MILLIONTHS).contains(&one.0);
                let percentile = Percentile::parse(digits).filter(inner).map(Self::Percentile);
                let refused = || Error::Percentile { word: word.to_owned() };
                return is_number.then(|| percentile.ok_or_else(refused));
            }
        };
        Some(Ok(statistic))
    }
}

/// `mean`, `p99.9`; `value` for what is no statistic. It is the suffix of a key and the column of a
/// table.
impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("value"),
            Self::Mean => f.write_str("mean"),
            Self::Std => f.write_str("std"),
            Self::Min => f.write_str("min"),
            Self::Max => f.write_str("max"),
            Self::Percentile(percentile) => write!(f, "p{percentile}"),
        }
    }
}

/// One number of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Figure {
    /// What is measured.
    pub quantity: Quantity,
    /// What is taken of it.
    pub statistic: Statistic,
}

/// Why words are no figure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No metric among the words.
    #[error("`{text}` is not a metric\n  {hint}")]
    Unknown {
        /// The words as typed.
        text: String,
        /// The nearest known words, or all of them.
        hint: String,
    },
    /// A percentile that no sample has.
    #[error(
        "`{word}` is not a percentile\n  use one above p0 and below p100, such as p99 or p99.9"
    )]
    Percentile {
        /// The word.
        word: String,
    },
    /// A statistic of what is a single value.
    #[error("{} is one value per run and has no {statistic}\n  leave out `{statistic}`", .quantity.label())]
    NoDistribution {
        /// The quantity.
        quantity: Quantity,
        /// The statistic asked for.
        statistic: Statistic,
    },
    /// Two statistics at once.
    #[error("`{text}` names two statistics\n  use one, such as `p99 ttft`")]
    TwoStatistics {
        /// The words as typed.
        text: String,
    },
}

/// Lower case, single spaces between words.
fn normal(text: &str) -> String {
    let is_separator = |one: char| one.is_whitespace() || matches!(one, '_' | '-' | '/');
    let lower = text.to_lowercase();
    lower.split(is_separator).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The quantity of normal words.
fn named(words: &str) -> Option<Quantity> {
    let without_unit =
        |words: &str| words.split(' ').filter(|word| *word != "ms").collect::<Vec<_>>().join(" ");
    let is_named = |names: &&Names| {
        let key = normal(names.key);
        let is_ms = names.key.ends_with("_ms");
        let typed = if is_ms { without_unit(words) } else { words.to_owned() };
        normal(names.label) == typed
            || names.words.contains(&typed.as_str())
            || (if is_ms { without_unit(&key) } else { key }) == typed
    };
    NAMES.iter().find(is_named).map(|names| names.quantity)
}

/// Spellings that are alike are at least this near.
const NEAR: f64 = 0.75;

fn unknown(text: &str, words: &str) -> Error {
    let spellings = NAMES.iter().flat_map(|names| {
        let own = [names.label.to_lowercase(), normal(names.key)];
        own.into_iter()
            .chain(names.words.iter().map(|word| (*word).to_owned()))
            .map(|spelling| (strsim::jaro_winkler(words, &spelling), names.label))
    });
    let mut near: Vec<(f64, &str)> = spellings.filter(|(alike, _)| *alike >= NEAR).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut labels: Vec<&str> = Vec::new();
    for (_, label) in near {
        if !labels.contains(&label) && labels.len() < 3 {
            labels.push(label);
        }
    }
    let hint = if labels.is_empty() {
        let known: Vec<&str> = NAMES.iter().map(|names| names.label).collect();
        format!("the metrics are {}", known.join(", "))
    } else {
        format!("did you mean {}?", labels.join(" or "))
    };
    Error::Unknown { text: text.trim().to_owned(), hint }
}

impl Figure {
    /// A statistic of a quantity.
    pub const fn new(quantity: Quantity, statistic: Statistic) -> Self {
        Self { quantity, statistic }
    }

    /// The value of a quantity that has no distribution.
    pub const fn whole(quantity: Quantity) -> Self {
        Self::new(quantity, Statistic::Whole)
    }

    /// The mean of a quantity.
    pub const fn mean(quantity: Quantity) -> Self {
        Self::new(quantity, Statistic::Mean)
    }

    /// A percentile of a quantity, in whole percent.
    pub const fn percentile(quantity: Quantity, percent: u32) -> Self {
        Self::new(quantity, Statistic::Percentile(Percentile::whole(percent)))
    }

    /// The figure of these words: a metric and its statistic in either order, separated by spaces,
    /// `_` or `-`, in any case. A metric alone means its mean, or the value of what has no
    /// distribution.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let words = normal(text);
        // Some metrics have a statistic's word in their own name.
        if let Some(quantity) = named(&words) {
            let statistic =
                if quantity.is_distribution() { Statistic::Mean } else { Statistic::Whole };
            return Ok(Self { quantity, statistic });
        }
        let (mut statistics, mut rest) = (Vec::new(), Vec::new());
        for word in words.split(' ') {
            match Statistic::named(word) {
                Some(statistic) => statistics.push(statistic?),
                None => rest.push(word),
            }
        }
        let rest = rest.join(" ");
        let Some(quantity) = named(&rest) else {
            return Err(unknown(if statistics.len() == 1 { &rest } else { text }, &rest));
        };
        match statistics[..] {
            [statistic] if quantity.is_distribution() => Ok(Self { quantity, statistic }),
            [statistic] => Err(Error::NoDistribution { quantity, statistic }),
            _ => Err(Error::TwoStatistics { text: text.trim().to_owned() }),
        }
    }

    /// Its name for programs, with the unit before the statistic: `ttft_ms_p99`.
    pub fn key(self) -> String {
        match self.statistic {
            Statistic::Whole => self.quantity.key().to_owned(),
            statistic => format!("{}_{statistic}", self.quantity.key()),
        }
    }

    /// Its name for people: `p99 TTFT`.
    pub fn label(self) -> String {
        match self.statistic {
            Statistic::Whole => self.quantity.label().to_owned(),
            statistic => format!("{statistic} {}", self.quantity.label()),
        }
    }

    /// The unit of its value.
    pub fn unit(self) -> Unit {
        self.quantity.unit()
    }

    /// Which way is good.
    pub fn better(self) -> Better {
        self.quantity.better()
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label())
    }
}

impl FromStr for Figure {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.key())
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
#[path = "figure_tests.rs"]
mod tests;
