//! The names of quantities, and how names are found in typed text.

use serde::{Deserialize, Serialize};

use super::Error;
use crate::define::{Definition, Formula, METRICS, Names, Unit};
pub use crate::quantity::Quantity;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    Lower,
    Higher,
}

/// The rows that figures can name, in the order of the list.
pub(super) fn named_rows() -> impl Iterator<Item = (&'static Definition, Names)> {
    METRICS.iter().filter_map(|metric| Some((metric, metric.names?)))
}

impl AsRef<str> for Quantity {
    fn as_ref(&self) -> &str {
        self.key()
    }
}

impl Quantity {
    /// The latencies of a generated answer, in the order of a report.
    pub const LATENCIES: [Self; 4] = [Self::Ttft, Self::Tpot, Self::Itl, Self::E2e];

    /// In the order of the enum.
    pub fn all() -> impl Iterator<Item = Self> {
        let mut all: Vec<Self> = named_rows().map(|(_, names)| names.quantity).collect();
        all.sort_unstable();
        all.into_iter()
    }

    const fn row(self) -> (&'static Definition, Names) {
        let mut rows = METRICS;
        while let [metric, rest @ ..] = rows {
            if let Some(names) = metric.names
                && names.quantity as u8 == self as u8
            {
                return (metric, names);
            }
            rows = rest;
        }
        panic!("a test finds a row for each")
    }

    /// Its key among the metrics' definitions, with the unit last.
    pub const fn key(self) -> &'static str {
        self.row().0.key
    }

    /// Its name for people: `TTFT`, `Output throughput`.
    pub fn label(self) -> &'static str {
        self.row().1.label
    }

    pub fn metric(self) -> &'static Definition {
        self.row().0
    }

    pub fn unit(self) -> Unit {
        self.metric().unit
    }

    pub fn is_distribution(self) -> bool {
        self.metric().is_distribution()
    }

    pub fn is_per_request(self) -> bool {
        matches!(self.metric().formula, Formula::Latency(_) | Formula::Value(_))
    }

    pub fn better(self) -> Better {
        let is_lower = self.unit() == Unit::Millis || self == Self::SessionStretch;
        if is_lower { Better::Lower } else { Better::Higher }
    }

    /// The name in vLLM's flags and result files, such as `e2el`. `None` for a quantity without a
    /// section in its report.
    pub fn section(self) -> Option<&'static str> {
        self.row().0.section
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

pub(super) fn named(words: &str) -> Option<Quantity> {
    let without_unit =
        |words: &str| words.split(' ').filter(|word| *word != "ms").collect::<Vec<_>>().join(" ");
    let is_named = |(metric, names): &(&Definition, Names)| {
        let key = normal(metric.key);
        let is_ms = metric.key.ends_with("_ms");
        let typed = if is_ms { without_unit(words) } else { words.to_owned() };
        normal(names.label) == typed
            || names.words.contains(&typed.as_str())
            || (if is_ms { without_unit(&key) } else { key }) == typed
    };
    named_rows().find(is_named).map(|(_, names)| names.quantity)
}

const NEAR: f64 = 0.75;

pub(super) fn unknown(text: &str, words: &str) -> Error {
    let spellings = named_rows().flat_map(|(metric, names)| {
        let own = [names.label.to_lowercase(), normal(metric.key)];
        own.into_iter()
            .chain(names.words.iter().map(|word| (*word).to_owned()))
            .map(move |spelling| (strsim::jaro_winkler(words, &spelling), names.label))
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
        let known: Vec<&str> = Quantity::all().map(Quantity::label).collect();
        format!("the metrics are {}", known.join(", "))
    } else {
        format!("similar: {}", labels.join(" or "))
    };
    Error::Unknown { text: text.trim().to_owned(), hint }
}
