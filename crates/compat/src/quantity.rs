//! What a report can say: fields, metrics with their statistics, and values.

use std::collections::BTreeMap;

use tokometer_figures::figure::{self, Figure, Statistic};

pub use tokometer_figures::figure::Percentile;

/// A labelled quantity that stands alone in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    Backend,
    /// Rate asked for, as SGLang prints it: `inf`, `20.0`, `trace`.
    TrafficRate,
    /// Most requests in flight, where a limit was set.
    MaxConcurrency,
    /// Requests answered to their end.
    Successful,
    Failed,
    /// Finite rate asked for, requests per second.
    RateConfigured,
    /// Length of the measurement in seconds.
    Duration,
    /// Prompt tokens of all successful requests.
    InputTokens,
    InputTextTokens,
    InputVisionTokens,
    /// Answer tokens of all successful requests.
    OutputTokens,
    /// Answer tokens counted again from the text.
    RetokenizedTokens,
    RequestThroughput,
    /// Inputs per second of a pooling run.
    InputSequenceThroughput,
    /// Requests per second that met every objective.
    Goodput,
    /// The objectives, as SGLang prints them: `ttft:150 tpot:22`.
    GoodputLimits,
    /// Share of all requests that met every objective, percent.
    Attainment,
    /// Share that met the objective of TTFT, percent.
    TtftAttainment,
    /// Share that met the objective of TPOT, percent.
    TpotAttainment,
    /// Share that met the objective of E2EL, percent.
    E2elAttainment,
    InputThroughput,
    OutputThroughput,
    /// Most answer tokens (in the other tools: events) within one second.
    PeakOutputThroughput,
    /// Most requests seen in one second.
    PeakConcurrency,
    /// Seconds of audio per second.
    Rtfx,
    TotalThroughput,
    Concurrency,
    /// Tokens per step of a speculating server.
    AcceptLength,
    ProbesCompleted,
    ProbesFailed,
    /// Median latency of the probes, ms.
    ProbeMedian,
    /// P99 latency of the probes, ms.
    ProbeP99,
    /// Longest latency of the probes, ms.
    ProbeMax,
    /// Tokens per second that a diffusion model committed.
    DiffusionThroughput,
    DiffusionStepsPerCanvas,
    /// Tokens committed per denoising step.
    DiffusionPerStep,
    DiffusionTokens,
    DiffusionSteps,
    DiffusionPositions,
    /// Accepted share of draft tokens, percent.
    SpecAcceptanceRate,
    /// Tokens per draft, the bonus token included.
    SpecAcceptanceLength,
    SpecDrafts,
    SpecDraftTokens,
    SpecAcceptedTokens,
    /// Prompt tokens that the cache report covers.
    CachePromptTokens,
    /// Of these, found in a cache.
    CachedTokens,
    CachedDevice,
    CachedHost,
    /// Share of prompt tokens found in a cache, percent.
    CacheHitRate,
    /// Share found in device memory, percent.
    CacheHitDevice,
    /// Share found in host memory, percent.
    CacheHitHost,
    /// In-flight count above which a run counts as steady.
    SteadyThreshold,
    /// Begin, end and length of the steady window.
    SteadyWindow,
    /// Exact peak of requests in flight.
    SteadyPeakConcurrency,
    /// Requests begun in the window, of all.
    SteadyStarted,
    SteadyCompleted,
    SteadyRequestThroughput,
    SteadyOutputThroughput,
    SteadyInputThroughput,
    SteadyTotalThroughput,
}

/// A quantity with a distribution, all in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    Ttft,
    Tpot,
    /// Time between two events of a stream.
    Itl,
    E2el,
    /// Waiting inside the client before the send.
    ClientQueue,
    /// Time to the last token from the intended send.
    QueuedE2el,
    SteadyTtft,
    SteadyTpot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stat {
    Mean,
    Median,
    /// Population standard deviation. In result files, never printed.
    Std,
    Max,
    /// Value below which this share lies.
    Percentile(Percentile),
}

impl Stat {
    /// P99, the one every layout has.
    pub const P99: Self = Self::Percentile(Percentile::whole(99));

    /// The word of a printed label: `Mean`, `P99.9`.
    pub fn label(self) -> String {
        match self {
            Self::Mean => "Mean".to_owned(),
            Self::Median => "Median".to_owned(),
            Self::Std => "Std".to_owned(),
            Self::Max => "Max".to_owned(),
            Self::Percentile(percentile) => format!("P{percentile}"),
        }
    }

    /// The statistic of a label's or a key's word: `Mean`, `p99`.
    pub fn from_label(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "mean" => Some(Self::Mean),
            "median" => Some(Self::Median),
            "std" => Some(Self::Std),
            "max" => Some(Self::Max),
            word => word.strip_prefix('p').and_then(Percentile::parse).map(Self::Percentile),
        }
    }
}

/// What a value of a report is the value of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    Field(Field),
    Latency(Metric, Stat),
    /// Acceptance at a position of the draft, percent.
    Position(u32),
}

impl Stat {
    /// The statistic of a figure; `None` where no report has it.
    fn of(statistic: Statistic) -> Option<Self> {
        match statistic {
            Statistic::Whole | Statistic::Min => None,
            Statistic::Mean => Some(Self::Mean),
            Statistic::Std => Some(Self::Std),
            Statistic::Max => Some(Self::Max),
            Statistic::MEDIAN => Some(Self::Median),
            Statistic::Percentile(percentile) => Some(Self::Percentile(percentile)),
        }
    }
}

impl Metric {
    const WHOLE_RUN: [Self; 6] =
        [Self::Ttft, Self::Tpot, Self::Itl, Self::E2el, Self::ClientQueue, Self::QueuedE2el];

    /// The section that shows a quantity; `None` where no report has one.
    pub fn of(quantity: figure::Quantity) -> Option<Self> {
        Self::WHOLE_RUN.into_iter().find(|metric| metric.quantity() == Some(quantity))
    }

    /// The quantity that a section shows; `None` for a part of the run.
    pub fn quantity(self) -> Option<figure::Quantity> {
        match self {
            Self::Ttft => Some(figure::Quantity::Ttft),
            Self::Tpot => Some(figure::Quantity::Tpot),
            Self::Itl => Some(figure::Quantity::Itl),
            Self::E2el => Some(figure::Quantity::E2e),
            Self::ClientQueue => Some(figure::Quantity::ClientQueue),
            Self::QueuedE2el => Some(figure::Quantity::E2eFromIntended),
            Self::SteadyTtft | Self::SteadyTpot => None,
        }
    }
}

impl Key {
    /// Where a report holds a figure; `None` where no report has it.
    pub fn of(figure: Figure) -> Option<Self> {
        let field = match figure.quantity {
            figure::Quantity::Requests => Some(Field::RequestThroughput),
            figure::Quantity::Output => Some(Field::OutputThroughput),
            figure::Quantity::Prompt => Some(Field::InputThroughput),
            figure::Quantity::Total => Some(Field::TotalThroughput),
            figure::Quantity::PeakOutput => Some(Field::PeakOutputThroughput),
            figure::Quantity::GoodputRate => Some(Field::Goodput),
            figure::Quantity::Items => Some(Field::InputSequenceThroughput),
            _ => None,
        };
        match field {
            Some(field) => Some(Self::Field(field)),
            None => Some(Self::Latency(Metric::of(figure.quantity)?, Stat::of(figure.statistic)?)),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    Count(u64),
    Number(f64),
    Words(String),
}

/// A value and, when it was read from text, that text.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    pub scalar: Scalar,
    pub text: Option<String>,
    /// Half a unit of the last digit it was written with: what rounding may have changed it by.
    /// Zero for a count, and for a number with all its digits.
    pub half_unit: f64,
}

impl Value {
    pub fn printed(scalar: Scalar, text: &str) -> Self {
        let half_unit = match scalar {
            Scalar::Number(_) => half_unit(text),
            Scalar::Count(_) | Scalar::Words(_) => 0.0,
        };
        Self { scalar, text: Some(text.to_owned()), half_unit }
    }
}

/// Half a unit of the last digit of a plain number. Zero for what is not a number.
pub(crate) fn half_unit(text: &str) -> f64 {
    let text = text.trim();
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let decimals = mantissa.split_once('.').map_or("", |(_, digits)| digits);
    let decimals = decimals.bytes().take_while(u8::is_ascii_digit).count();
    let exponent = exponent.parse::<i32>().unwrap_or(0).clamp(-300, 300);
    0.5 * 10_f64.powi(exponent - i32::try_from(decimals).unwrap_or(300).min(300))
}

/// Values in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Values {
    list: Vec<(Key, Value)>,
    /// Index of each in the list: a report may have any number of percentiles.
    index: BTreeMap<Key, usize>,
}

impl Values {
    pub fn get(&self, key: Key) -> Option<&Value> {
        self.index.get(&key).map(|at| &self.list[*at].1)
    }

    /// Sets the value of `key`; an earlier one is replaced where it is.
    pub fn set(&mut self, key: Key, value: Value) {
        if let Some(at) = self.index.get(&key) {
            self.list[*at].1 = value;
        } else {
            let _new = self.index.insert(key, self.list.len());
            self.list.push((key, value));
        }
    }

    pub fn remove(&mut self, key: Key) {
        self.list.retain(|(known, _)| *known != key);
        self.index = self.list.iter().enumerate().map(|(at, (key, _))| (*key, at)).collect();
    }

    pub fn iter(&self) -> impl Iterator<Item = (Key, &Value)> {
        self.list.iter().map(|(key, value)| (*key, value))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut Value)> {
        self.list.iter_mut().map(|(key, value)| (*key, value))
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl Scalar {
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Number(number) => Some(*number),
            Self::Words(_) => None,
        }
    }
}
