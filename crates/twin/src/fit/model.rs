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
use sim::cost::PrefillCost;
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

/// Share of a range at its ends that counts as the end.
const BOUND: f64 = 0.02;

/// An engine under trial, with what belongs to the table and not to the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Spread of answer lengths, relative to their mean.
    pub spread: f64,
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
    /// Lowest and highest value tried.
    pub low: f64,
    pub high: f64,
    /// How hard it is held where the search begins.
    pub(super) hold: f64,
    pub(super) target: Target,
}

/// What a parameter sets.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Number(fn(&mut Candidate) -> &mut f64),
    /// A whole number of the scheduler, which changes what happens in jumps. It is searched between whole
    /// numbers too, and rounded when used.
    Limit(fn(&mut Policy, u32)),
}

const fn number(
    name: &'static str,
    low: f64,
    high: f64,
    of: fn(&mut Candidate) -> &mut f64,
) -> Parameter {
    Parameter { name, low, high, hold: 0.0, target: Target::Number(of) }
}

impl Parameter {
    /// The parameter of this name with other bounds.
    pub(super) fn bounded(name: &str, bounds: Range<f64>) -> Self {
        let mut known = COMMON.iter().chain(&CHUNKED).chain(&PREFILL);
        let known = known.find(|one| one.name == name).expect("a parameter of the tables");
        Self { low: bounds.start, high: bounds.end, ..*known }
    }

    pub(super) fn is_limit(&self) -> bool {
        matches!(self.target, Target::Limit(_))
    }

    /// Its value in a candidate; none for a limit, which is not a number of the candidate's.
    pub(super) fn get(&self, candidate: &Candidate) -> f64 {
        match self.target {
            Target::Number(of) => *of(&mut candidate.clone()),
            Target::Limit(_) => f64::NAN,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "ranges of limits are positive and far below 32 bits"
    )]
    fn set(&self, candidate: &mut Candidate, value: f64) {
        match self.target {
            Target::Number(of) => *of(candidate) = value,
            Target::Limit(set) => {
                set(&mut candidate.profile.scheduler.policy, libm::round(value) as u32);
            }
        }
    }

    /// Whether a search ended where the range does, so that nothing but the range stopped it.
    pub(super) fn is_at_bound(fraction: f64) -> bool {
        !(BOUND..=1.0 - BOUND).contains(&fraction)
    }

    /// The value at a fraction of its range. A range is divided by ratios; one that begins at zero, for
    /// terms that an engine may not have, by the fourth power of the fraction.
    pub fn value(&self, fraction: f64) -> f64 {
        if self.low > 0.0 {
            self.low * libm::pow(self.high / self.low, fraction)
        } else {
            self.high * fraction * fraction * fraction * fraction
        }
    }

    /// The fraction of the range at which a value lies, a little away from the ends so that it can move
    /// both ways.
    pub(super) fn fraction(&self, value: f64) -> f64 {
        let fraction = if self.low > 0.0 {
            libm::log(value / self.low) / libm::log(self.high / self.low)
        } else {
            libm::sqrt(libm::sqrt(value / self.high))
        };
        fraction.clamp(BOUND, 1.0 - BOUND)
    }
}

/// Upper end of what may delay a request or a step once, in milliseconds: one for all of them, so that a
/// millisecond costs the same wherever it is put.
const DELAY_MAX: f64 = 400.0;

const ANSWER_SPREAD: &str = "spread of answer lengths";

const COMMON: [Parameter; 8] = [
    number("cost.base_ms", 2.0, 500.0, |c| &mut c.profile.cost.base_ms),
    number("cost.token_ms", 0.0, 5.0, |c| &mut c.profile.cost.token_ms),
    number("cost.cliff_ms", 0.0, 800.0, |c| &mut c.profile.cost.cliff_ms),
    number("cost.cliff_tokens", 16.0, 512.0, |c| &mut c.profile.cost.cliff_tokens),
    number("cost.jitter", 0.003, 0.3, |c| &mut c.profile.cost.jitter),
    number("front_end.arrival_ms", 0.0, DELAY_MAX, |c| &mut c.profile.front_end.arrival_ms),
    number("front_end.serial_ms", 0.0, 0.5, |c| &mut c.profile.front_end.serial_ms),
    number(ANSWER_SPREAD, 0.05, 0.8, |c| &mut c.spread),
];

const CHUNKED: [Parameter; 10] = [
    number("cost.cliff_steepness", 0.7, 8.0, |c| &mut c.profile.cost.cliff_steepness),
    number("cost.admission_ms", 0.0, 100.0, |c| &mut c.profile.cost.admission_ms),
    number("front_end.gather_ms", 0.0, DELAY_MAX, |c| &mut c.profile.front_end.gather_ms),
    number("cost.compute_ms", 0.0, 5.0, |c| &mut c.profile.cost.compute_ms),
    number("cost.sequence_ms", 0.0, 3.0, |c| &mut c.profile.cost.sequence_ms),
    number("cost.context_ms", 0.0, 2e-3, |c| &mut c.profile.cost.context_ms),
    number("cost.pair_ms", 0.0, 1e-3, |c| &mut c.profile.cost.pair_ms),
    number("cost.eager_ms", 0.0, DELAY_MAX, |c| &mut c.profile.cost.eager_ms),
    number("cost.waiting_ms", 0.0, 0.5, |c| &mut c.profile.cost.waiting_ms),
    number("front_end.coalesce", 0.0, 0.3, |c| &mut c.profile.front_end.coalesce),
];

/// The costs of steps that only prefill, in a candidate whose engine has such.
fn prefill(candidate: &mut Candidate) -> &mut PrefillCost {
    let none = PrefillCost { base_ms: 0.0, token_ms: 0.0, pair_ms: 0.0 };
    candidate.profile.cost.prefill.get_or_insert(none)
}

const PREFILL: [Parameter; 3] = [
    number("cost.prefill.base_ms", 0.0, 1_000.0, |c| &mut prefill(c).base_ms),
    number("cost.prefill.token_ms", 0.0, 5.0, |c| &mut prefill(c).token_ms),
    number("cost.prefill.pair_ms", 0.0, 1e-3, |c| &mut prefill(c).pair_ms),
];

/// Where the one formula holds for steps that only prefill too: what a decoding sequence and what a step
/// with prompts cost beyond their tokens.
const UNITED: [Parameter; 2] = [CHUNKED[4], CHUNKED[7]];
const CONTEXT: Parameter = CHUNKED[5];
const PAIRS: Parameter = CHUNKED[6];

/// How much longer the longest prompts must be than the shortest ones for attention to show.
const ATTENTION_SPAN: f64 = 4.0;

/// And how many tokens they must have: below, everything else about a prompt costs far more.
const ATTENTION_TOKENS: f64 = 2_048.0;

/// Whether prompts of these lengths show what attention costs.
pub(super) fn shows_attention(shortest: f64, longest: f64) -> bool {
    longest >= ATTENTION_TOKENS && longest >= ATTENTION_SPAN * shortest.max(1.0)
}

const QUANTUM: Parameter =
    number("cost.quantum_tail_ms", 0.0, 200.0, |c| &mut c.profile.cost.quantum_tail_ms);

/// The served ratio and the waiting limit of a router are left at its defaults: tables of bursts do not
/// determine them.
const ROUTER: [Parameter; 2] = [
    Parameter {
        name: "scheduler.policy.max_batch_prefill_tokens",
        low: 2_048.0,
        high: 524_288.0,
        hold: 0.0,
        target: Target::Limit(|policy, value| {
            if let Policy::Tgi { max_batch_prefill_tokens, .. } = policy {
                *max_batch_prefill_tokens = value;
            }
        }),
    },
    Parameter {
        name: "scheduler.policy.max_batch_total_tokens",
        low: 16_384.0,
        high: 4_194_304.0,
        hold: 0.0,
        target: Target::Limit(|policy, value| {
            if let Policy::Tgi { max_batch_total_tokens, .. } = policy {
                *max_batch_total_tokens = u64::from(value);
            }
        }),
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
            parameters.extend([PREFILL[0], PREFILL[1]]);
            let is_blocking = matches!(policy, Policy::Blocking { .. });
            parameters.extend(is_blocking.then_some(UNITED[0]));
        } else if !is_chunked {
            parameters.extend(UNITED);
        }
        if template.profile.cost.quantum_ms > 0.0 {
            parameters.push(QUANTUM);
        }
        // Where the rows say that all answers are equally long, there is nothing to find.
        parameters.retain(|one| one.name != ANSWER_SPREAD || template.spread > 0.0);
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
        let term = if has_prefill { PREFILL[2] } else { PAIRS };
        if is_wide && self.parameters.iter().all(|known| known.name != term.name) {
            self.parameters.push(term);
        }
        self
    }

    /// Terms that an engine may not have cost something: each must pay for itself, so that rows which say
    /// nothing about a term leave it out.
    pub(super) fn pulls(&self) -> Vec<Pull> {
        let price = |parameter: &Parameter| if parameter.low > 0.0 { 0.0 } else { PRICE };
        self.parameters.iter().map(|one| Pull { price: price(one), hold: one.hold }).collect()
    }

    /// The candidate at a point of the unit cube.
    pub fn candidate(&self, point: &[f64]) -> Candidate {
        let mut candidate = self.template.clone();
        for (parameter, fraction) in self.parameters.iter().zip(point) {
            parameter.set(&mut candidate, parameter.value(*fraction));
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
    seeds: impl Iterator<Item = Seed>,
) -> Result<Cells, Error> {
    let mut runs = Vec::new();
    for seed in seeds {
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
