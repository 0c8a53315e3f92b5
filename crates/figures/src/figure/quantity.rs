//! The quantities of figures, their names, and how names are found in typed text.

use serde::{Deserialize, Serialize};

use super::Error;
use crate::define::{self, Formula, Unit};

/// Which values are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// As for latencies.
    Lower,
    /// As for throughputs.
    Higher,
}

/// A measured quantity. [`define`] has the definitions.
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
    /// TTFT from the intended send time.
    TtftFromIntended,
    /// E2E from the intended send time.
    E2eFromIntended,
    /// Output tokens per second of one request.
    UserSpeed,
    /// Inputs or documents per second, where nothing is generated.
    Items,
    /// E2E divided by the inputs or documents of the request.
    E2ePerItem,
}

/// The names of a quantity.
pub(super) struct Names {
    pub(super) quantity: Quantity,
    /// Key of [`define::METRICS`].
    key: &'static str,
    pub(super) label: &'static str,
    /// Other spellings, in lower case with single spaces, without a unit `ms`.
    pub(super) words: &'static [&'static str],
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
pub(super) static NAMES: [Names; 17] = [
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
    names(
        Quantity::Items,
        "items_per_s",
        "Item throughput",
        &["items s", "inputs s", "input sequence throughput"],
    ),
    names(Quantity::E2ePerItem, "e2e_per_item_ms", "E2E per item", &["latency per item"]),
];

impl Quantity {
    /// In the order of the enum.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|names| names.quantity)
    }

    pub(super) const fn names(self) -> &'static Names {
        &NAMES[self as usize]
    }

    /// Its key among the metrics' definitions, with the unit last.
    pub const fn key(self) -> &'static str {
        self.names().key
    }

    /// Its name for people: `TTFT`, `Output throughput`.
    pub const fn label(self) -> &'static str {
        self.names().label
    }

    /// Its row in [`define::METRICS`].
    pub fn metric(self) -> &'static define::Definition {
        define::metric(self.key()).expect("a test finds every quantity among the definitions")
    }

    /// Of its values.
    pub fn unit(self) -> Unit {
        self.metric().unit
    }

    /// Whether a statistic can be taken of it.
    pub fn is_distribution(self) -> bool {
        !matches!(self.metric().formula, Formula::Run(_))
    }

    /// Whether it has one value per request.
    pub fn is_per_request(self) -> bool {
        matches!(self.metric().formula, Formula::Latency(_) | Formula::Value(_))
    }

    /// Whether lower or higher values are better.
    pub fn better(self) -> Better {
        if self.unit() == Unit::Millis { Better::Lower } else { Better::Higher }
    }

    /// The name in vLLM's flags and result files, such as `e2el`. `None` for a quantity without a
    /// section in its report.
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

    /// Parses a name without a statistic.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let words = normal(text);
        named(&words).ok_or_else(|| unknown(text, &words))
    }
}

/// Lower case, single spaces between words.
pub(super) fn normal(text: &str) -> String {
    let is_separator = |one: char| one.is_whitespace() || matches!(one, '_' | '-' | '/');
    let lower = text.to_lowercase();
    lower.split(is_separator).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The quantity with this normalised name.
pub(super) fn named(words: &str) -> Option<Quantity> {
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

/// Least similarity of a suggested spelling.
const NEAR: f64 = 0.75;

pub(super) fn unknown(text: &str, words: &str) -> Error {
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
        format!("similar: {}", labels.join(" or "))
    };
    Error::Unknown { text: text.trim().to_owned(), hint }
}
