//! One row of a measured table: what was asked and what was printed.

use serde::{Deserialize, Serialize};

/// A printed figure that a fit can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Output tokens per second.
    OutputThroughput,
    /// Mean time to first token.
    TtftMean,
    /// Median time to first token.
    TtftMedian,
    /// 99th percentile of the time to first token.
    TtftP99,
    /// Mean time per output token.
    TpotMean,
    /// Median time per output token.
    TpotMedian,
    /// 99th percentile of the time per output token.
    TpotP99,
    /// Mean gap between events.
    ItlMean,
    /// Median gap between events.
    ItlMedian,
    /// 99th percentile of the gaps.
    ItlP99,
}

impl Metric {
    /// All of them, in the order of the printed block.
    pub const ALL: [Self; 10] = [
        Self::OutputThroughput,
        Self::TtftMean,
        Self::TtftMedian,
        Self::TtftP99,
        Self::TpotMean,
        Self::TpotMedian,
        Self::TpotP99,
        Self::ItlMean,
        Self::ItlMedian,
        Self::ItlP99,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::OutputThroughput => "output tok/s",
            Self::TtftMean => "TTFT mean",
            Self::TtftMedian => "TTFT median",
            Self::TtftP99 => "TTFT P99",
            Self::TpotMean => "TPOT mean",
            Self::TpotMedian => "TPOT median",
            Self::TpotP99 => "TPOT P99",
            Self::ItlMean => "ITL mean",
            Self::ItlMedian => "ITL median",
            Self::ItlP99 => "ITL P99",
        }
    }

    /// Whether the goal of 10 % is set for it. The others are promised less.
    pub fn is_main(self) -> bool {
        !matches!(self, Self::TpotP99 | Self::ItlMedian | Self::ItlP99)
    }

    /// How much an error of this metric counts in a fit.
    pub(crate) fn weight(self) -> f64 {
        match self {
            Self::TpotP99 | Self::ItlMedian => 0.6,
            Self::ItlP99 => 0.25,
            _ => 1.0,
        }
    }
}

/// A figure per metric: milliseconds, or tokens per second. `None` where it was not printed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Cells([Option<f64>; 10]);

impl Cells {
    /// The figure of one metric.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        self.0[metric as usize]
    }

    /// Sets the figure of one metric.
    pub fn set(&mut self, metric: Metric, value: Option<f64>) {
        self.0[metric as usize] = value;
    }
}

/// One row of a measured table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Row {
    /// What it is called in tables.
    pub label: String,
    /// Requests.
    pub requests: u64,
    /// Prompt tokens of all of them.
    pub input_tokens: u64,
    /// Answer tokens of all of them.
    pub output_tokens: u64,
    /// Length of the run in seconds.
    pub duration_s: f64,
    /// The longest answer that was allowed, where it is known.
    pub output_limit: Option<u32>,
    /// Requests per second, where they did not come at once.
    pub request_rate: Option<f64>,
    /// Most requests in flight, where there was a limit.
    pub max_concurrency: Option<u32>,
    /// What was printed.
    pub cells: Cells,
}

impl Row {
    /// Mean prompt length.
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
}
