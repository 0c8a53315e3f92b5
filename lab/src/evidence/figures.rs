//! The figures that are compared, read from the summary of a run or of a prediction.

use anyhow::{Context, Result};
use serde_json::Value;
use tokometer_figures::{Figure, Quantity, Statistic};

/// What is compared.
pub(super) const COMPARED: [Figure; 8] = [
    Figure::whole(Quantity::Output),
    Figure::mean(Quantity::Ttft),
    Figure::percentile(Quantity::Ttft, 50),
    Figure::percentile(Quantity::Ttft, 99),
    Figure::mean(Quantity::Tpot),
    Figure::percentile(Quantity::Tpot, 99),
    Figure::percentile(Quantity::Itl, 50),
    Figure::percentile(Quantity::Itl, 99),
];

/// The name of a figure in tables.
pub(super) fn name(figure: Figure) -> String {
    match figure.quantity {
        Quantity::Output => "output tok/s".to_owned(),
        _ => figure.metric_first(),
    }
}

fn place(figure: Figure) -> usize {
    COMPARED.iter().position(|one| *one == figure).expect("only compared figures are asked for")
}

/// The figures of one run, or the mean of several.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figures {
    /// In the order of [`COMPARED`].
    values: [f64; COMPARED.len()],
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
        let mut values = [0.0; COMPARED.len()];
        for (place, figure) in values.iter_mut().zip(COMPARED) {
            *place = number(&value(family, figure), &name(figure))?;
        }
        let requests_per_s = number(&family["request_throughput"], "the request throughput")?;
        let shared_reads = page["summary"]["figures"]["shared_read_share"].as_f64().unwrap_or(0.0);
        Ok(Self { values, requests_per_s, shared_reads })
    }

    /// One of them.
    pub(super) fn get(&self, figure: Figure) -> f64 {
        self.values[place(figure)]
    }

    /// The same with another throughput of tokens.
    pub(super) fn with_throughput(mut self, tokens_per_s: f64) -> Self {
        self.values[place(Figure::whole(Quantity::Output))] = tokens_per_s;
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

/// A figure as the classic block has it; null where it is not there.
fn value(family: &Value, figure: Figure) -> Value {
    let Some(section) = figure.quantity.section() else {
        return family["output_throughput"].clone();
    };
    let section = &family[section];
    match figure.statistic {
        Statistic::MEDIAN => section["median"].clone(),
        Statistic::Percentile(percentile) => {
            let is_it = |pair: &&Value| pair[0].as_f64() == Some(percentile.percent());
            let pairs = section["percentiles"].as_array();
            pairs
                .and_then(|pairs| pairs.iter().find(is_it))
                .map_or(Value::Null, |pair| pair[1].clone())
        }
        statistic => section[statistic.to_string()].clone(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// Figures that are all one number.
    pub(in crate::evidence) fn level(value: f64) -> Figures {
        Figures { values: [value; COMPARED.len()], requests_per_s: value / 10.0, shared_reads: 0.0 }
    }

    #[test]
    fn figures_are_those_of_the_classic_block() {
        let part = |mean: f64| json!({ "mean": mean, "median": mean + 1.0, "percentiles": [[50.0, 0.0], [99.0, mean + 2.0]] });
        let mut page = json!({ "summary": { "families": { "vllm": {
            "output_throughput": 500.0, "request_throughput": 5.0,
            "ttft": part(10.0), "tpot": part(20.0), "itl": part(30.0),
        } } } });
        let found = Figures::read(&page).unwrap();
        let values = COMPARED.map(|figure| format!("{:.0}", found.get(figure)));
        assert_eq!(values.join(" "), "500 10 11 12 20 22 31 32");
        page["summary"]["families"]["vllm"]["itl"]["percentiles"] = json!([]);
        let why = Figures::read(&page).unwrap_err().to_string();
        assert_eq!(why, "the summary does not tell ITL p99");
    }

    #[test]
    fn the_middle_of_two_is_that_of_their_logarithms() {
        let middle = level(10.0).towards(&level(1_000.0), 0.5);
        assert!((middle.get(Figure::percentile(Quantity::Ttft, 99)) - 100.0).abs() < 1e-9);
        assert!((middle.requests_per_s - 10.0).abs() < 1e-9);
        assert!(
            (level(0.0).towards(&level(4.0), 0.25).get(Figure::percentile(Quantity::Itl, 50))
                - 1.0)
                .abs()
                < 1e-12
        );
        assert_eq!(Figures::mean(&[level(1.0), level(3.0)]), Some(level(2.0)));
        assert_eq!(Figures::mean(&[]), None);
    }
}
