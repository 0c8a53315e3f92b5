//! The figures that are compared, and the words people use for them.

use serde::{Serialize, Serializer};

use super::difference::Better;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Requests per second.
    Requests,
    /// Answer tokens per second.
    Output,
    /// Prompt and answer tokens per second.
    Total,
    /// Time to the first token.
    Ttft,
    /// Time per output token after the first.
    Tpot,
    /// Time between two events of a stream, which other tools call ITL.
    Gap,
    /// Time to the last token.
    E2e,
}

impl Quantity {
    /// Latencies, which have statistics.
    pub const LATENCIES: [Self; 4] = [Self::Ttft, Self::Tpot, Self::Gap, Self::E2e];

    /// Its key among the metrics' definitions.
    pub fn key(self) -> &'static str {
        match self {
            Self::Requests => "requests_per_s",
            Self::Output => "output_tokens_per_s",
            Self::Total => "total_tokens_per_s",
            Self::Ttft => "ttft_ms",
            Self::Tpot => "tpot_ms",
            Self::Gap => "gap_ms",
            Self::E2e => "e2e_ms",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Requests => "Request throughput",
            Self::Output => "Output throughput",
            Self::Total => "Total throughput",
            Self::Ttft => "TTFT",
            Self::Tpot => "TPOT",
            Self::Gap => "ITL",
            Self::E2e => "E2E",
        }
    }

    fn named(word: &str) -> Option<Self> {
        match word {
            "requests" | "request-throughput" => Some(Self::Requests),
            "throughput" | "output" | "output-throughput" => Some(Self::Output),
            "total" | "total-throughput" => Some(Self::Total),
            "ttft" => Some(Self::Ttft),
            "tpot" => Some(Self::Tpot),
            "itl" | "gap" => Some(Self::Gap),
            "e2e" | "e2el" | "latency" => Some(Self::E2e),
            _ => None,
        }
    }
}

/// What is taken of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statistic {
    /// The figure itself: a throughput has no distribution.
    Whole,
    /// Arithmetic mean.
    Mean,
    /// A percentile, in whole percent.
    Percentile(u32),
}

impl Statistic {
    /// The part of a sample beyond the statistic, on its thinner side. A mean needs no tail.
    pub fn tail(self) -> Option<f64> {
        match self {
            Self::Whole | Self::Mean => None,
            Self::Percentile(percent) => {
                let share = f64::from(percent) / 100.0;
                Some(share.min(1.0 - share))
            }
        }
    }

    fn named(word: &str) -> Option<Self> {
        match word {
            "mean" => Some(Self::Mean),
            "median" => Some(Self::Percentile(50)),
            _ => {
                let percent = word.strip_prefix('p')?.parse().ok()?;
                PERCENTILES.contains(&percent).then_some(Self::Percentile(percent))
            }
        }
    }
}

/// Percentiles that are compared.
pub const PERCENTILES: [u32; 3] = [50, 90, 99];

/// One compared figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Figure {
    /// What is measured.
    pub quantity: Quantity,
    /// What is taken of it.
    pub statistic: Statistic,
}

impl Figure {
    /// All of them, in the order of a report.
    pub fn all() -> impl Iterator<Item = Self> {
        let throughputs = [Quantity::Requests, Quantity::Output, Quantity::Total];
        let whole = |quantity| Self { quantity, statistic: Statistic::Whole };
        let statistics = || {
            let percentiles = PERCENTILES.into_iter().map(Statistic::Percentile);
            std::iter::once(Statistic::Mean).chain(percentiles)
        };
        let latencies = Quantity::LATENCIES.into_iter().flat_map(move |quantity| {
            statistics().map(move |statistic| Self { quantity, statistic })
        });
        throughputs.into_iter().map(whole).chain(latencies)
    }

    /// The figure that people call so, in words such as `ttft p99`, `p99 ttft` or `throughput`.
    pub fn named(words: &[&str]) -> Option<Self> {
        let figure = |quantity: Quantity, statistic: Option<Statistic>| {
            let is_latency = Quantity::LATENCIES.contains(&quantity);
            match (is_latency, statistic) {
                (false, None) => Some(Self { quantity, statistic: Statistic::Whole }),
                (false, Some(_)) => None,
                (true, None) => Some(Self { quantity, statistic: Statistic::Mean }),
                (true, Some(statistic)) => Some(Self { quantity, statistic }),
            }
        };
        match words {
            [name] => figure(Quantity::named(name)?, None),
            [one, other] => match Quantity::named(one) {
                Some(quantity) => figure(quantity, Some(Statistic::named(other)?)),
                None => figure(Quantity::named(other)?, Some(Statistic::named(one)?)),
            },
            _ => None,
        }
    }

    /// Its name in JSON, with the unit before the statistic: `ttft_ms_p99`.
    pub fn key(self) -> String {
        let key = self.quantity.key();
        match self.statistic {
            Statistic::Whole => key.to_owned(),
            Statistic::Mean => format!("{key}_mean"),
            Statistic::Percentile(percent) => format!("{key}_p{percent}"),
        }
    }

    /// Its name for people: `TTFT p99`.
    pub fn label(self) -> String {
        let label = self.quantity.label();
        match self.statistic {
            Statistic::Whole => label.to_owned(),
            Statistic::Mean => format!("{label} mean"),
            Statistic::Percentile(percent) => format!("{label} p{percent}"),
        }
    }

    /// The unit beside its value.
    pub fn unit(self) -> &'static str {
        match self.quantity {
            Quantity::Requests => "req/s",
            Quantity::Output | Quantity::Total => "tok/s",
            _ => "ms",
        }
    }

    /// Whether both are of one quantity; throughputs count as one, because they move together.
    pub fn is_of_kind(self, other: Self) -> bool {
        self.quantity == other.quantity
            || (self.statistic == Statistic::Whole && other.statistic == Statistic::Whole)
    }

    /// Which way is good.
    pub fn better(self) -> Better {
        if self.statistic == Statistic::Whole { Better::Higher } else { Better::Lower }
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_the_words_people_use() {
        let check = |text: &str, expected: Option<&str>| {
            let words: Vec<&str> = text.split_whitespace().collect();
            assert_eq!(Figure::named(&words).map(Figure::key).as_deref(), expected, "{text}");
        };
        check("ttft p99", Some("ttft_ms_p99"));
        check("p99 ttft", Some("ttft_ms_p99"));
        check("median itl", Some("gap_ms_p50"));
        check("e2el", Some("e2e_ms_mean"));
        check("throughput", Some("output_tokens_per_s"));
        check("throughput p99", None);
        check("ttft p98", None);
        check("ttft tpot", None);
        check("", None);
    }

    #[test]
    fn every_figure_is_defined_among_the_metrics() {
        for figure in Figure::all() {
            let key = figure.quantity.key();
            let metric = tokometer_metrics::define::metric(key).unwrap();
            assert_eq!(metric.unit.name(), figure.unit(), "{key}");
            assert_eq!(Better::of(metric.unit), figure.better(), "{key}");
        }
    }
}
