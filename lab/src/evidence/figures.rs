//! The figures that are compared, read from the summary of a run or of a prediction.

use anyhow::{Context, Result};
use serde_json::Value;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Metric {
    OutputThroughput,
    TtftMean,
    TtftP50,
    TtftP99,
    TpotMean,
    TpotP99,
    ItlP50,
    ItlP99,
}

impl Metric {
    pub(super) const ALL: [Self; 8] = [
        Self::OutputThroughput,
        Self::TtftMean,
        Self::TtftP50,
        Self::TtftP99,
        Self::TpotMean,
        Self::TpotP99,
        Self::ItlP50,
        Self::ItlP99,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OutputThroughput => "output tok/s",
            Self::TtftMean => "TTFT mean",
            Self::TtftP50 => "TTFT p50",
            Self::TtftP99 => "TTFT p99",
            Self::TpotMean => "TPOT mean",
            Self::TpotP99 => "TPOT p99",
            Self::ItlP50 => "ITL p50",
            Self::ItlP99 => "ITL p99",
        }
    }
}

/// The figures of one run, or the mean of several.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figures {
    /// In the order of [`Metric::ALL`].
    values: [f64; Metric::ALL.len()],
    pub(super) requests_per_s: f64,
    /// Share of the events that came in one read with the event before, whose times are not the server's.
    pub(super) shared_reads: f64,
}

impl Figures {
    /// From the summary that `bench --json`, `predict --json` and a run's folder hold.
    pub(super) fn read(page: &Value) -> Result<Self> {
        let family = &page["summary"]["families"]["vllm"];
        let number = |value: &Value, what: &str| {
            value.as_f64().with_context(|| format!("the summary does not tell {what}"))
        };
        let p99 = |name: &str| {
            let pairs = family[name]["percentiles"].as_array();
            let is_p99 = |pair: &&Value| pair[0].as_f64() == Some(99.0);
            pairs
                .and_then(|pairs| pairs.iter().find(is_p99))
                .map_or(Value::Null, |pair| pair[1].clone())
        };
        let mut values = [0.0; Metric::ALL.len()];
        for (place, metric) in values.iter_mut().zip(Metric::ALL) {
            let value = match metric {
                Metric::OutputThroughput => family["output_throughput"].clone(),
                Metric::TtftMean => family["ttft"]["mean"].clone(),
                Metric::TtftP50 => family["ttft"]["median"].clone(),
                Metric::TtftP99 => p99("ttft"),
                Metric::TpotMean => family["tpot"]["mean"].clone(),
                Metric::TpotP99 => p99("tpot"),
                Metric::ItlP50 => family["itl"]["median"].clone(),
                Metric::ItlP99 => p99("itl"),
            };
            *place = number(&value, metric.name())?;
        }
        let requests_per_s = number(&family["request_throughput"], "the request throughput")?;
        let shared_reads = page["summary"]["figures"]["shared_read_share"].as_f64().unwrap_or(0.0);
        Ok(Self { values, requests_per_s, shared_reads })
    }

    /// One of them.
    pub(super) fn get(&self, metric: Metric) -> f64 {
        self.values[metric as usize]
    }

    /// The same with another throughput of tokens.
    pub(super) fn with_throughput(mut self, tokens_per_s: f64) -> Self {
        self.values[Metric::OutputThroughput as usize] = tokens_per_s;
        self
    }

    /// The mean of several. `None` of none.
    pub(super) fn mean(all: &[Self]) -> Option<Self> {
        let (first, count) = (all.first()?, all.len() as f64);
        let sum = |of: &dyn Fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / count;
        let mut mean = first.clone();
        mean.requests_per_s = sum(&|one| one.requests_per_s);
        for (at, place) in mean.values.iter_mut().enumerate() {
            *place = sum(&|one| one.values[at]);
        }
        Some(mean)
    }

    /// Between two, linear in logarithms: 0 is this one, 1 the other.
    pub(super) fn towards(&self, other: &Self, weight: f64) -> Self {
        let between = |from: f64, to: f64| {
            if from > 0.0 && to > 0.0 {
                (from.ln() * (1.0 - weight) + to.ln() * weight).exp()
            } else {
                from * (1.0 - weight) + to * weight
            }
        };
        let mut found = self.clone();
        found.requests_per_s = between(self.requests_per_s, other.requests_per_s);
        for (place, to) in found.values.iter_mut().zip(other.values) {
            *place = between(*place, to);
        }
        found
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// Figures that are all one number.
    pub(in crate::evidence) fn level(value: f64) -> Figures {
        Figures {
            values: [value; Metric::ALL.len()],
            requests_per_s: value / 10.0,
            shared_reads: 0.0,
        }
    }

    #[test]
    fn figures_are_those_of_the_classic_block() {
        let part = |mean: f64| json!({ "mean": mean, "median": mean + 1.0, "percentiles": [[50.0, 0.0], [99.0, mean + 2.0]] });
        let mut page = json!({ "summary": { "families": { "vllm": {
            "output_throughput": 500.0, "request_throughput": 5.0,
            "ttft": part(10.0), "tpot": part(20.0), "itl": part(30.0),
        } } } });
        let found = Figures::read(&page).unwrap();
        let values = Metric::ALL.map(|metric| format!("{:.0}", found.get(metric)));
        assert_eq!(values.join(" "), "500 10 11 12 20 22 31 32");
        page["summary"]["families"]["vllm"]["itl"]["percentiles"] = json!([]);
        let why = Figures::read(&page).unwrap_err().to_string();
        assert_eq!(why, "the summary does not tell ITL p99");
    }

    #[test]
    fn the_middle_of_two_is_that_of_their_logarithms() {
        let middle = level(10.0).towards(&level(1_000.0), 0.5);
        assert!((middle.get(Metric::TtftP99) - 100.0).abs() < 1e-9);
        assert!((middle.requests_per_s - 10.0).abs() < 1e-9);
        assert!((level(0.0).towards(&level(4.0), 0.25).get(Metric::ItlP50) - 1.0).abs() < 1e-12);
        assert_eq!(Figures::mean(&[level(1.0), level(3.0)]), Some(level(2.0)));
        assert_eq!(Figures::mean(&[]), None);
    }
}
