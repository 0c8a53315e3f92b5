//! The parameters that a fit may vary, their ranges and starting points, and what a candidate predicts.
//!
//! Ranges are wide and the same for every table; the three starting points lie at fixed fractions of
//! them. Nothing here was read from a table that is fitted. What is set and not fitted (the token
//! budget of a chunked scheduler, its graph limit, its number of sequences) are the defaults of the
//! engine in question and stand in the template.

use std::ops::Range;

use base::Seed;
use schedule::Arrivals;
use serde::{Deserialize, Serialize};
use sim::Profile;
use sim::profile::Policy;
use tokometer_base as base;
use tokometer_figures::figure::{Figure, Quantity};
use tokometer_schedule as schedule;
use tokometer_sim as sim;

use super::descent::{Miss, Pull};
use super::lengths::{self, LengthBlock};
use super::row::{Cells, FIGURES, MeasuredRow, weight};
use crate::Error;
use crate::client::OldClient;
use crate::figures::PredictedFigures;
use crate::predict::{PredictOptions, predict};
use crate::workload::RequestLoad;

/// The three declared starting points, as fractions of every parameter's range.
pub const STARTS: [f64; 3] = [0.35, 0.5, 0.65];

/// Loss of a term at the upper end of its range, in proportion below it: what it must at least save. Dear
/// enough that halves of a table agree on which terms there are, cheap enough that those which the whole
/// table shows stay.
const PRICE: f64 = 1.5e-3;

/// An engine under trial, with what belongs to the table and not to the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Spread of answer lengths, relative to their mean.
    pub spread: f64,
    /// The client that printed the table.
    pub client: OldClient,
    pub profile: Profile,
}

impl Candidate {
    /// The same as the engine of a table of reports: answers that end by themselves cost one more
    /// step, and memory never runs out, because rows of a table do not show it.
    #[must_use]
    pub fn for_tables(mut self) -> Self {
        self.profile.front_end.eos_step = true;
        self.profile.kv = None;
        self
    }
}

/// A parameter that a fit varies.
#[derive(Clone, Copy)]
pub struct Parameter {
    /// Its name in a profile.
    pub name: &'static str,
    /// Lowest value tried.
    pub low: f64,
    /// Highest value tried.
    pub high: f64,
    /// Whether it is a limit of the scheduler, which changes what happens in jumps.
    pub is_limit: bool,
    set: fn(&mut Candidate, f64),
}

impl Parameter {
    /// The value at a fraction of its range.
    pub fn value(&self, fraction: f64) -> f64 {
        value_at(self.low..self.high, fraction)
    }
}

/// The value at a fraction of a range. A range is divided by ratios; one that begins at zero,
/// for terms that an engine may not have, by the fourth power of the fraction.
pub(super) fn value_at(range: Range<f64>, fraction: f64) -> f64 {
    let Range { start: low, end: high } = range;
    if low > 0.0 {
        low * libm::pow(high / low, fraction)
    } else {
        high * fraction * fraction * fraction * fraction
    }
}

macro_rules! parameter {
    ($name:literal, $low:expr, $high:expr, $($field:ident).+) => {
        Parameter {
            name: $name,
            low: $low,
            high: $high,
            is_limit: false,
            set: |c, value| c.$($field).+ = value,
        }
    };
}

/// Upper end of what may delay a request or a step once, in milliseconds: one for all of them, so that a
/// millisecond costs the same wherever it is put.
const DELAY_MAX: f64 = 400.0;

const COMMON: [Parameter; 8] = [
    parameter!("cost.base_ms", 2.0, 500.0, profile.cost.base_ms),
    parameter!("cost.token_ms", 0.0, 5.0, profile.cost.token_ms),
    parameter!("cost.cliff_ms", 0.0, 800.0, profile.cost.cliff_ms),
    parameter!("cost.cliff_tokens", 16.0, 512.0, profile.cost.cliff_tokens),
    parameter!("cost.jitter", 0.003, 0.3, profile.cost.jitter),
    parameter!("front_end.arrival_ms", 0.0, DELAY_MAX, profile.front_end.arrival_ms),
    parameter!("front_end.serial_ms", 0.0, 0.5, profile.front_end.serial_ms),
    parameter!("spread of answer lengths", 0.05, 0.8, spread),
];

const CHUNKED: [Parameter; 10] = [
    parameter!("cost.cliff_steepness", 0.7, 8.0, profile.cost.cliff_steepness),
    parameter!("cost.admission_ms", 0.0, 100.0, profile.cost.admission_ms),
    parameter!("front_end.gather_ms", 0.0, DELAY_MAX, profile.front_end.gather_ms),
    parameter!("cost.compute_ms", 0.0, 5.0, profile.cost.compute_ms),
    parameter!("cost.sequence_ms", 0.0, 3.0, profile.cost.sequence_ms),
    parameter!("cost.context_ms", 0.0, 2e-3, profile.cost.context_ms),
    parameter!("cost.pair_ms", 0.0, 1e-3, profile.cost.pair_ms),
    parameter!("cost.eager_ms", 0.0, DELAY_MAX, profile.cost.eager_ms),
    parameter!("cost.waiting_ms", 0.0, 0.5, profile.cost.waiting_ms),
    parameter!("front_end.coalesce", 0.0, 0.3, profile.front_end.coalesce),
];

fn set_prefill(candidate: &mut Candidate, change: impl Fn(&mut sim::cost::PrefillCost)) {
    if let Some(prefill) = &mut candidate.profile.cost.prefill {
        change(prefill);
    }
}

const PREFILL: [Parameter; 2] = [
    Parameter {
        name: "cost.prefill.base_ms",
        low: 0.0,
        high: 1_000.0,
        is_limit: false,
        set: |c, value| set_prefill(c, |prefill| prefill.base_ms = value),
    },
    Parameter {
        name: "cost.prefill.token_ms",
        low: 0.0,
        high: 5.0,
        is_limit: false,
        set: |c, value| set_prefill(c, |prefill| prefill.token_ms = value),
    },
];

const CONTEXT: Parameter = parameter!("cost.context_ms", 0.0, 2e-3, profile.cost.context_ms);

/// How much longer the longest prompts must be than the shortest ones for attention to show.
const ATTENTION_SPAN: f64 = 4.0;

/// And how many tokens they must have: below, everything else about a prompt costs far more.
const ATTENTION_TOKENS: f64 = 2_048.0;

/// Whether prompts of these lengths show what attention costs.
pub(super) fn shows_attention(shortest: f64, longest: f64) -> bool {
    longest >= ATTENTION_TOKENS && longest >= ATTENTION_SPAN * shortest.max(1.0)
}

/// What attention between the tokens of a prompt costs, where prompts have no term of their own.
const PAIRS: Parameter = parameter!("cost.pair_ms", 0.0, 1e-3, profile.cost.pair_ms);

const PREFILL_PAIRS: Parameter = Parameter {
    name: "cost.prefill.pair_ms",
    low: 0.0,
    high: 1e-3,
    is_limit: false,
    set: |c, value| set_prefill(c, |prefill| prefill.pair_ms = value),
};

const QUANTUM: Parameter =
    parameter!("cost.quantum_tail_ms", 0.0, 200.0, profile.cost.quantum_tail_ms);

/// Where the one formula holds for steps that only prefill too: what a decoding sequence and what a step
/// with prompts cost beyond their tokens.
const UNITED: [Parameter; 2] = [
    parameter!("cost.sequence_ms", 0.0, 3.0, profile.cost.sequence_ms),
    parameter!("cost.eager_ms", 0.0, DELAY_MAX, profile.cost.eager_ms),
];

/// Whole numbers of a router are searched between whole numbers too, and rounded when used.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranges of parameters are positive and far below 32 bits"
)]
fn count(value: f64) -> u32 {
    libm::round(value) as u32
}

/// The served ratio and the waiting limit of a router are left at its defaults: tables of bursts do not
/// determine them.
const ROUTER: [Parameter; 2] = [
    Parameter {
        name: "scheduler.policy.max_batch_prefill_tokens",
        low: 2_048.0,
        high: 524_288.0,
        is_limit: true,
        set: |c, value| {
            if let Policy::Tgi { max_batch_prefill_tokens, .. } = &mut c.profile.scheduler.policy {
                *max_batch_prefill_tokens = count(value);
            }
        },
    },
    Parameter {
        name: "scheduler.policy.max_batch_total_tokens",
        low: 16_384.0,
        high: 4_194_304.0,
        is_limit: true,
        set: |c, value| {
            if let Policy::Tgi { max_batch_total_tokens, .. } = &mut c.profile.scheduler.policy {
                *max_batch_total_tokens = u64::from(count(value));
            }
        },
    },
];

/// What is fitted: a template and the numbers that may change in it.
#[derive(Clone)]
pub struct EngineModel {
    pub template: Candidate,
    pub parameters: Vec<Parameter>,
}

impl EngineModel {
    /// The parameters that make sense for a template's policy. Where prompts have steps of their own, the
    /// jump of the other steps is a plain saturation: decodes alone do not determine its steepness.
    pub fn new(mut template: Candidate) -> Self {
        let mut parameters = COMMON.to_vec();
        let policy = &template.profile.scheduler.policy;
        let is_chunked = matches!(policy, Policy::Chunked { .. });
        if is_chunked {
            parameters.extend(CHUNKED);
        } else {
            template.profile.cost.cliff_steepness = 1.0;
        }
        match policy {
            Policy::Chunked { .. } => {}
            Policy::Blocking { .. } => parameters.push(CONTEXT),
            Policy::Tgi { .. } => parameters.extend(ROUTER),
        }
        if template.profile.cost.prefill.is_some() {
            parameters.extend(PREFILL);
            let is_blocking = matches!(policy, Policy::Blocking { .. });
            parameters.extend(is_blocking.then_some(UNITED[0]));
        } else if !is_chunked {
            parameters.extend(UNITED);
        }
        if template.profile.cost.quantum_ms > 0.0 {
            parameters.push(QUANTUM);
        }
        Self { template, parameters }
    }

    /// With a term for attention where prompts of these lengths show it: it grows with the square of a
    /// prompt, so a few long ones among short ones determine it.
    #[must_use]
    pub fn with_prompts(mut self, prompts: &[u32]) -> Self {
        let (short, long) = (prompts.iter().min(), prompts.iter().max());
        let is_wide = short
            .zip(long)
            .is_some_and(|(short, long)| shows_attention(f64::from(*short), f64::from(*long)));
        let has_prefill = self.template.profile.cost.prefill.is_some();
        let term = if has_prefill { PREFILL_PAIRS } else { PAIRS };
        if is_wide && self.parameters.iter().all(|known| known.name != term.name) {
            self.parameters.push(term);
        }
        self
    }

    /// Terms that an engine may not have cost something: each must pay for itself, so that rows which say
    /// nothing about a term leave it out.
    pub(super) fn pulls(&self) -> Vec<Pull> {
        let price = |parameter: &Parameter| if parameter.low > 0.0 { 0.0 } else { PRICE };
        self.parameters.iter().map(|one| Pull { price: price(one), hold: 0.0 }).collect()
    }

    /// The candidate at a point of the unit cube.
    pub fn candidate(&self, point: &[f64]) -> Candidate {
        let mut candidate = self.template.clone();
        for (parameter, fraction) in self.parameters.iter().zip(point) {
            (parameter.set)(&mut candidate, parameter.value(*fraction));
        }
        candidate
    }
}

/// How many seeds a row is averaged over: more for small rows, where a single length decides, and
/// never so many that a row of long prompts costs more than the rest of the table.
pub(crate) fn seeds(row: &MeasuredRow, most: u64) -> u64 {
    if row.requests == 1 {
        return 1;
    }
    let by_length = 80_000 / (row.input_tokens + row.output_tokens).max(1);
    (128 / row.requests).min(by_length).clamp(1, most)
}

/// What a candidate predicts for a row: the mean of each figure over the seeds that have it.
pub(crate) fn predict_row(
    candidate: &Candidate,
    row: &MeasuredRow,
    blocks: &[LengthBlock],
    seeds: u64,
) -> Result<Cells, Error> {
    let mut runs = Vec::new();
    for seed in (0..seeds).map(Seed) {
        let asks = lengths::asks(row, blocks, candidate.spread, seed);
        let mut workload = RequestLoad::burst(asks);
        if let Some(rate) = row.request_rate {
            workload = workload.arriving(Arrivals::poisson(rate));
        }
        workload.max_concurrency = row.max_concurrency;
        let options = PredictOptions { client: candidate.client, ..PredictOptions::default() };
        runs.push(cells_of(&predict(&candidate.profile, &workload, seed, options)?.figures));
    }
    let mut cells = Cells::default();
    for figure in FIGURES {
        let values: Vec<f64> = runs.iter().filter_map(|run| run.get(figure)).collect();
        let count = values.len() as f64;
        let mean = || values.iter().map(|value| value / count).sum();
        cells.set(figure, (!values.is_empty()).then(mean));
    }
    Ok(cells)
}

/// The figures of a predicted run, by name. One that it does not have is `None`.
pub fn cells_of(run: &PredictedFigures) -> Cells {
    let mut cells = Cells::default();
    cells.set(Figure::whole(Quantity::Output), run.output_throughput());
    let latencies =
        [(Quantity::Ttft, &run.ttft), (Quantity::Tpot, &run.tpot), (Quantity::Itl, &run.itl)];
    for (quantity, samples) in latencies {
        cells.set(Figure::mean(quantity), samples.mean_ms());
        let percentiles = [50, 99].map(|percent| Figure::percentile(quantity, percent));
        for (figure, value) in percentiles.into_iter().zip(samples.percentiles_ms(&[50.0, 99.0])) {
            cells.set(figure, Some(value));
        }
    }
    cells
}

/// By how much predicted cells miss the printed ones. A figure that was printed and not predicted is
/// missed by far, so that every candidate has the same figures.
pub(crate) fn misses(predicted: &Cells, measured: &Cells) -> Vec<Miss> {
    let miss = |figure| {
        let measured = measured.get(figure).filter(|value| *value > 0.0)?;
        let error = libm::log(predicted.get(figure).unwrap_or(0.0).max(1e-9) / measured);
        Some(Miss { weight: weight(figure), error })
    };
    FIGURES.into_iter().filter_map(miss).collect()
}
