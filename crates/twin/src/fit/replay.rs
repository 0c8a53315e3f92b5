//! Whole runs predicted and compared: what single inferred steps do not show.
//!
//! In: recorded runs and a profile whose costs came from their steps. Out: the profile with its front end
//! and its prompt costs adjusted so that the same requests under the same load give the printed figures,
//! and the error of a profile on runs that its fit had not seen. Requests that a closed loop sends at one
//! moment reach an engine one after the other, and the first of them is computed alone: no step shows
//! that, every mean does.

use std::ops::Range;

use record::Timeline;
use schedule::Arrivals;
use sim::Profile;
use tokometer_base::{Nanos, Seed};
use tokometer_record as record;
use tokometer_schedule as schedule;
use tokometer_sim as sim;

use super::accuracy::main_errors;
use super::descent::{Best, Pull, Rounds, descend};
use super::model::{cells_of, misses, shows_attention, value_at};
use super::row::{Cells, MeasuredRow};
use super::{HeldOut, IDENTIFIED_RATIO};
use crate::figures::PredictedFigures;
use crate::parallel::in_parallel;
use crate::predict::{PredictOptions, predict};
use crate::workload::{Ask, RequestLoad};

/// A recorded run as a workload, with what was measured.
pub(super) struct Replay {
    workload: RequestLoad,
    row: MeasuredRow,
}

/// Fewest requests of a run that is replayed.
const REQUESTS_MIN: usize = 4;

impl Replay {
    /// `None` where too little is known of the requests.
    pub(super) fn new(run: &[Timeline]) -> Option<Self> {
        let requests = sent_requests(run);
        let origin = requests.first()?.sent;
        let is_timed = requests.iter().all(|one| one.timeline.times.intended.is_some());
        let mut asks = Vec::with_capacity(requests.len());
        for SentRequest { sent, timeline, .. } in &requests {
            let output_tokens = timeline.output_tokens()?.0.max(1);
            let mut ask = Ask::new(timeline.prompt_tokens()?, output_tokens);
            let due = timeline.times.intended.unwrap_or(*sent).max(origin);
            ask.due = is_timed.then_some(due - origin);
            asks.push(ask);
        }
        let peak = peak_in_flight(&requests);
        let cells = cells_of(&figures(&requests)?);
        let row = MeasuredRow { requests: asks.len() as u64, cells, ..MeasuredRow::default() };
        let is_capped = !is_timed && (peak as usize) < asks.len();
        let mut workload = RequestLoad::burst(asks);
        if is_timed {
            workload = workload.arriving(Arrivals::Traced);
        }
        if is_capped {
            workload = workload.capped(peak);
        }
        (requests.len() >= REQUESTS_MIN).then_some(Self { workload, row })
    }

    fn predicted(&self, profile: &Profile) -> Option<Cells> {
        let found = predict(profile, &self.workload, Seed(0), PredictOptions::default());
        found.ok().map(|prediction| cells_of(&prediction.figures))
    }
}

/// A request that was sent and has ended.
pub(super) struct SentRequest<'a> {
    pub(super) sent: Nanos,
    pub(super) end: Nanos,
    pub(super) timeline: &'a Timeline,
}

/// The requests of a run that were sent and have ended, in the order of their sends.
pub(super) fn sent_requests(run: &[Timeline]) -> Vec<SentRequest<'_>> {
    let times = |timeline: &Timeline| timeline.times.first_byte_sent.zip(timeline.times.end);
    let mut requests: Vec<SentRequest<'_>> = run
        .iter()
        .filter_map(|timeline| {
            times(timeline).map(|(sent, end)| SentRequest { sent, end, timeline })
        })
        .collect();
    requests.sort_by_key(|request| request.sent);
    requests
}

fn peak_in_flight(requests: &[SentRequest<'_>]) -> u32 {
    // Ends before sends of the same moment: the slot was free.
    let mut changes: Vec<(Nanos, i32)> =
        requests.iter().flat_map(|one| [(one.sent, 1), (one.end, -1)]).collect();
    changes.sort_unstable();
    let (mut open, mut peak) = (0_i32, 0_i32);
    for (_, change) in changes {
        open += change;
        peak = peak.max(open);
    }
    u32::try_from(peak).unwrap_or(1).max(1)
}

/// The figures of a measured run, by the definitions of the predicted ones.
fn figures(requests: &[SentRequest<'_>]) -> Option<PredictedFigures> {
    let mut figures = PredictedFigures::default();
    let mut end = Nanos::ZERO;
    for SentRequest { sent, timeline, .. } in requests {
        let (first, last) = (timeline.first_content()?.at, timeline.last_content()?.at);
        let tokens = timeline.output_tokens()?.0;
        figures.completed += 1;
        figures.output_tokens += u64::from(tokens);
        figures.ttft.push((first - *sent).0, 1);
        figures.e2el.push((last - *sent).0, 1);
        if tokens > 1 {
            figures.tpot.push((last - first).0 / u64::from(tokens - 1), 1);
        }
        let content = timeline.events.iter().filter(|event| event.kind.is_content());
        let times: Vec<Nanos> = content.map(|event| event.at).collect();
        for pair in times.windows(2) {
            figures.itl.push((pair[1] - pair[0]).0, 1);
        }
        end = end.max(last);
    }
    for samples in [&mut figures.ttft, &mut figures.tpot, &mut figures.itl, &mut figures.e2el] {
        samples.sort();
    }
    figures.duration_s = (end - requests.first()?.sent).as_secs_f64();
    Some(figures)
}

/// A parameter that whole runs adjust, with its bounds.
struct Adjustable {
    name: &'static str,
    low: f64,
    high: f64,
    get: fn(&Profile) -> f64,
    set: fn(&mut Profile, f64),
    /// How hard it is held where the steps put it.
    hold: f64,
}

/// Loss of a number that has moved by its whole range, where many steps determine it.
const HOLD: f64 = 0.05;

impl Adjustable {
    fn value(&self, fraction: f64) -> f64 {
        value_at(self.low..self.high, fraction)
    }

    /// The fraction of the range at which a value lies, a little away from the ends so that it can move both ways.
    fn fraction(&self, value: f64) -> f64 {
        let fraction = if self.low > 0.0 {
            libm::log(value / self.low) / libm::log(self.high / self.low)
        } else {
            libm::sqrt(libm::sqrt(value / self.high))
        };
        fraction.clamp(0.02, 0.98)
    }
}

macro_rules! adjustable {
    ($name:literal, $($field:ident).+, $bounds:expr) => {{
        let bounds: Range<f64> = $bounds;
        Adjustable {
            name: $name,
            low: bounds.start,
            high: bounds.end,
            get: |p| p.$($field).+,
            set: |p, value| p.$($field).+ = value,
            hold: 0.0,
        }
    }};
}

/// Costs of decoding are known from many steps and may move little; what a prompt costs and what lies
/// before the engine are known from few, and may move far.
fn adjustables(profile: &Profile, prompts: PromptLengths) -> Vec<Adjustable> {
    let cost = &profile.cost;
    let prompt = prompts.mean;
    // All that lies before the first token of a lone request could be its prompt's cost.
    let before = 2.0 * (profile.front_end.arrival_ms + cost.base_ms) / prompt;
    let around = |value: f64, factor: f64| value / factor..value * factor;
    let base = cost.base_ms.max(0.1);
    let up_from_zero = |value: f64| 0.0..(4.0 * value).max(2.0 * base);
    let arrival = up_from_zero(profile.front_end.arrival_ms);
    let mut all = vec![
        adjustable!("front_end.arrival_ms", front_end.arrival_ms, arrival),
        adjustable!("front_end.serial_ms", front_end.serial_ms, 0.0..base),
    ];
    let decoding = [
        adjustable!("cost.base_ms", cost.base_ms, around(cost.base_ms, 1.25)),
        adjustable!("cost.sequence_ms", cost.sequence_ms, around(cost.sequence_ms, 2.0)),
        adjustable!("cost.context_ms", cost.context_ms, around(cost.context_ms, 2.0)),
    ];
    let known = decoding.into_iter().filter(|one| one.low > 0.0);
    all.extend(known.map(|one| Adjustable { hold: HOLD, ..one }));
    if let Some(prefill) = &cost.prefill {
        all.push(Adjustable {
            name: "cost.prefill.base_ms",
            hold: 0.0,
            low: 0.0,
            high: up_from_zero(prefill.base_ms).end,
            get: |p| p.cost.prefill.as_ref().map_or(0.0, |prefill| prefill.base_ms),
            set: |p, value| {
                if let Some(prefill) = &mut p.cost.prefill {
                    prefill.base_ms = value;
                }
            },
        });
        all.push(Adjustable {
            name: "cost.prefill.token_ms",
            hold: 0.0,
            low: 0.0,
            high: (prefill.token_ms * 2.5).max(before),
            get: |p| p.cost.prefill.as_ref().map_or(0.0, |prefill| prefill.token_ms),
            set: |p, value| {
                if let Some(prefill) = &mut p.cost.prefill {
                    prefill.token_ms = value;
                }
            },
        });
    } else {
        let dearest = (cost.token_ms * 2.5).max(before);
        all.push(adjustable!("cost.token_ms", cost.token_ms, 0.0..dearest));
        all.push(adjustable!("cost.compute_ms", cost.compute_ms, 0.0..2.0 * dearest));
        all.push(adjustable!("cost.eager_ms", cost.eager_ms, up_from_zero(cost.eager_ms)));
    }
    if shows_attention(prompts.shortest, prompts.longest) {
        all.push(attention(cost, before, prompts.longest));
    }
    all
}

/// What attention between the tokens of a prompt costs. It grows with the square of a prompt, so it is
/// adjusted only where prompts are of very different lengths; a few long ones are enough.
fn attention(cost: &sim::cost::Cost, before: f64, longest: f64) -> Adjustable {
    let token_ms = cost.prefill.as_ref().map_or(cost.token_ms, |prefill| prefill.token_ms);
    Adjustable {
        name: ATTENTION,
        hold: 0.0,
        low: 0.0,
        // At most twice as much for attention as for everything else, in the longest prompt.
        high: 4.0 * (token_ms * 2.5).max(before) / longest,
        get: |p| p.cost.prefill.as_ref().map_or(p.cost.pair_ms, |prefill| prefill.pair_ms),
        set: |p, value| match &mut p.cost.prefill {
            Some(prefill) => prefill.pair_ms = value,
            None => p.cost.pair_ms = value,
        },
    }
}

const ATTENTION: &str = "attention, per pair of prompt tokens";

/// Where the search for it begins: at zero the range has no slope.
const ATTENTION_FRACTION: f64 = 0.5;

/// The lengths of the prompts of some runs.
#[derive(Debug, Clone, Copy)]
struct PromptLengths {
    mean: f64,
    shortest: f64,
    longest: f64,
}

/// What whole runs say.
pub(super) struct Refined {
    pub(super) profile: Profile,
    /// What was adjusted. Identified where fits from all starts end within 20 % of each other.
    pub(super) adjusted: Vec<DerivedConstant>,
}

/// A constant without a standard error of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct DerivedConstant {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) is_identified: bool,
}

/// Where a search begins.
#[derive(Debug, Clone, Copy)]
struct Start {
    /// Fraction of the range of the front end's serial work.
    serial: f64,
    /// Share of the front end's delay that is taken for the cost of prompts instead: steps with prompts are
    /// few, and where they do not show what a prompt costs, all of it looks like a delay.
    prompted: f64,
    prompts: PromptCost,
}

/// What the tokens of prompts add to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PromptCost {
    /// Their cost is added to the time of reading the weights.
    Added,
    /// Arithmetic hides behind reading the weights until it takes longer.
    Hidden,
}

const STARTS: [Start; 6] = [
    Start { serial: 0.15, prompted: 0.0, prompts: PromptCost::Added },
    Start { serial: 0.35, prompted: 0.0, prompts: PromptCost::Added },
    Start { serial: 0.55, prompted: 0.0, prompts: PromptCost::Added },
    Start { serial: 0.35, prompted: 0.9, prompts: PromptCost::Added },
    Start { serial: 0.35, prompted: 0.0, prompts: PromptCost::Hidden },
    Start { serial: 0.35, prompted: 0.9, prompts: PromptCost::Hidden },
];
const ROUNDS: Rounds = Rounds { most: 15, step: 0.04 };

/// Adjusts a profile so that it predicts these runs.
pub(super) fn refine(profile: &Profile, replays: &[Replay], threads: usize) -> Option<Refined> {
    let prompts = prompts_of(replays)?;
    let varied = adjustables(profile, prompts);
    let model = ReplayModel { profile, varied: &varied, replays };
    let ends = in_parallel(&STARTS, threads, |start| {
        model.search(&start.point(profile, &varied, prompts.mean))
    });
    let best = best_of(&ends)?;
    let refined = model.profile_at(&best.point);
    let adjusted = varied.iter().enumerate().map(|(at, one)| {
        let values: Vec<f64> = ends.iter().map(|end| one.value(end.point[at])).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        DerivedConstant {
            name: one.name,
            value: (one.get)(&refined),
            is_identified: high <= low * IDENTIFIED_RATIO,
        }
    });
    let adjusted = adjusted.collect();
    Some(Refined { profile: refined, adjusted })
}

/// Errors of a profile on runs that its fit has not seen.
pub(super) fn errors_of(replays: &[Replay], profile: &Profile) -> Vec<f64> {
    let rows: Vec<MeasuredRow> = replays.iter().map(|replay| replay.row.clone()).collect();
    let held = replays
        .iter()
        .enumerate()
        .filter_map(|(row, replay)| Some(HeldOut { row, predicted: replay.predicted(profile)? }));
    main_errors(&rows, &held.collect::<Vec<_>>())
}

fn best_of(ends: &[Best]) -> Option<&Best> {
    ends.iter().min_by(|one, other| one.value.total_cmp(&other.value))
}

fn prompts_of(replays: &[Replay]) -> Option<PromptLengths> {
    let asks = replays.iter().flat_map(|replay| {
        let asks = &replay.workload.asks;
        (0..asks.count()).map(move |at| f64::from(asks.ask(at).prompt_tokens.max(1)))
    });
    let lengths: Vec<f64> = asks.collect();
    Some(PromptLengths {
        mean: lengths.iter().sum::<f64>() / lengths.len() as f64,
        shortest: lengths.iter().copied().reduce(f64::min)?,
        longest: lengths.iter().copied().reduce(f64::max)?,
    })
}

impl Start {
    /// The fraction of the range of each varied parameter where this search begins.
    fn point(self, profile: &Profile, varied: &[Adjustable], prompt: f64) -> Vec<f64> {
        let moved = self.prompted * profile.front_end.arrival_ms;
        let is_hidden = self.prompts == PromptCost::Hidden;
        let added = profile.cost.token_ms + moved / prompt;
        let hidden = added + profile.cost.base_ms / prompt;
        let fraction = |one: &Adjustable| {
            let value = (one.get)(profile);
            match one.name {
                "front_end.serial_ms" => self.serial,
                "front_end.arrival_ms" => one.fraction(value - moved),
                "cost.token_ms" => one.fraction(if is_hidden { 0.0 } else { added }),
                "cost.compute_ms" => one.fraction(if is_hidden { hidden } else { 0.0 }),
                "cost.prefill.token_ms" => one.fraction(value + moved / prompt),
                ATTENTION => ATTENTION_FRACTION,
                _ => one.fraction(value),
            }
        };
        varied.iter().map(fraction).collect()
    }
}

/// A profile whose parameters are varied until it predicts recorded runs.
struct ReplayModel<'a> {
    profile: &'a Profile,
    varied: &'a [Adjustable],
    replays: &'a [Replay],
}

impl ReplayModel<'_> {
    fn profile_at(&self, point: &[f64]) -> Profile {
        let mut profile = self.profile.clone();
        for (one, fraction) in self.varied.iter().zip(point) {
            (one.set)(&mut profile, one.value(*fraction));
        }
        profile
    }

    fn search(&self, start: &[f64]) -> Best {
        let pull = |one: &Adjustable| Pull { price: 0.0, hold: one.hold };
        let pulls: Vec<Pull> = self.varied.iter().map(pull).collect();
        descend(start, ROUNDS, &pulls, |point| {
            let profile = self.profile_at(point);
            let mut all = Vec::new();
            for replay in self.replays {
                all.extend(misses(&replay.predicted(&profile)?, &replay.row.cells));
            }
            Some(all)
        })
    }
}
