//! One row of a measured table: what was asked and what was printed.

use serde::{Deserialize, Serialize};
use tokometer_figures::figure::{Figure, Quantity, Statistic};

/// The figures that a fit uses, in the order of the printed block.
pub const FIGURES: [Figure; 10] = [
    Figure::whole(Quantity::Output),
    Figure::mean(Quantity::Ttft),
    Figure::percentile(Quantity::Ttft, 50),
    Figure::percentile(Quantity::Ttft, 99),
    Figure::mean(Quantity::Tpot),
    Figure::percentile(Quantity::Tpot, 50),
    Figure::percentile(Quantity::Tpot, 99),
    Figure::mean(Quantity::Itl),
    Figure::percentile(Quantity::Itl, 50),
    Figure::percentile(Quantity::Itl, 99),
];

/// Whether the goal of 10 % is set for a figure. The others are promised less.
pub fn is_main(figure: Figure) -> bool {
    weight(figure) >= 1.0
}

/// How much an error of a figure counts in a fit.
pub(crate) fn weight(figure: Figure) -> f64 {
    match (figure.quantity, figure.statistic) {
        (Quantity::Tpot, Statistic::P99) | (Quantity::Itl, Statistic::MEDIAN) => 0.6,
        (Quantity::Itl, Statistic::P99) => 0.25,
        _ => 1.0,
    }
}

/// A value per figure of [`FIGURES`]: milliseconds, or tokens per second. `None` where it was not
/// printed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Cells([Option<f64>; FIGURES.len()]);

impl Cells {
    /// The value of a figure; `None` for one that no fit uses.
    pub fn get(&self, figure: Figure) -> Option<f64> {
        FIGURES.iter().position(|one| *one == figure).and_then(|at| self.0[at])
    }

    /// Sets the value of a figure that a fit uses.
    pub fn set(&mut self, figure: Figure, value: Option<f64>) {
        let at = FIGURES.iter().position(|one| *one == figure);
        self.0[at.expect("the figure is one that a fit uses")] = value;
    }
}

/// One row of a measured table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MeasuredRow {
    pub label: String,
    pub requests: u64,
    /// Prompt tokens of all of them.
    pub input_tokens: u64,
    /// Answer tokens of all of them.
    pub output_tokens: u64,
    pub duration_s: f64,
    /// The longest answer that was allowed, where it is known.
    pub output_limit: Option<u32>,
    /// Requests per second, where they did not come at once.
    pub request_rate: Option<f64>,
    /// Most requests in flight, where there was a limit.
    pub max_concurrency: Option<u32>,
    pub cells: Cells,
}

impl MeasuredRow {
    /// Mean prompt length, rounded up to whole tokens.
    pub(crate) fn prompt_tokens(&self) -> u32 {
        let tokens = self.input_tokens.div_ceil(self.requests.max(1));
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// Whether all its requests came at once, without a limit.
    pub(crate) fn is_burst(&self) -> bool {
        self.request_rate.is_none() && self.max_concurrency.is_none()
    }

    /// Most requests that were in flight; `None` where they came at a rate, without a limit.
    pub(crate) fn most_in_flight(&self) -> Option<u32> {
        let requests = u32::try_from(self.requests).unwrap_or(u32::MAX);
        let burst = self.request_rate.is_none().then_some(requests);
        self.max_concurrency.map(|cap| cap.min(requests)).or(burst)
    }

    /// Mean answer length, rounded up to whole tokens.
    pub(crate) fn answer_tokens(&self) -> u32 {
        let tokens = self.output_tokens.div_ceil(self.requests.max(1));
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// The name of a row of so many requests: `8 x 1024`, with the tokens of a prompt last.
    pub fn label_of(requests: u64, input_tokens: u64) -> String {
        format!("{requests} x {}", input_tokens / requests.max(1))
    }

    pub fn mean_prompt(&self) -> f64 {
        self.input_tokens as f64 / self.requests.max(1) as f64
    }

    /// Whether another row asked for prompts of the same length under the same load.
    pub(crate) fn is_same_sweep(&self, other: &Self) -> bool {
        let ratio = self.mean_prompt() / other.mean_prompt();
        (0.95..1.05).contains(&ratio)
            && self.request_rate == other.request_rate
            && self.max_concurrency == other.max_concurrency
    }

    /// Whether another row repeats this one.
    pub(crate) fn is_same_load(&self, other: &Self) -> bool {
        self.requests == other.requests
            && self.is_same_sweep(other)
            && self.answer_tokens() == other.answer_tokens()
    }
}
