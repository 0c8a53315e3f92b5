//! Whole runs predicted and compared: what single inferred steps do not show.
//!
//! In: recorded runs and a profile whose costs came from their steps. Out: the profile with its front end
//! and its prompt costs adjusted so that the same requests under the same load give the printed figures,
//! and the error of a profile on runs that its fit had not seen. Requests that a closed loop sends at one
//! moment reach an engine one after the other, and the first of them is computed alone: no step shows
//! that, every mean does.

use record::Timeline;
use schedule::Arrivals;
use sim::Profile;
use tokometer_base::{Nanos, Seed};
use tokometer_record as record;
use tokometer_schedule as schedule;
use tokometer_sim as sim;

use super::accuracy::main_errors;
use super::descent::{Pull, Rounds, descend};
use super::model::{Candidate, EngineModel, Parameter, cells_of, misses, shows_attention};
use super::row::{Cells, MeasuredRow};
use super::search::best_of;
use super::{Fitted, HeldOut, fitted};
use crate::client::OldClient;
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

/// The number of each run's load, counted from the first: repeats have the same.
pub(super) fn loads(runs: &[&[Timeline]]) -> Vec<usize> {
    let found: Vec<RunLoad> = runs.iter().map(|run| RunLoad::of(run)).collect();
    let mut numbers: Vec<usize> = Vec::new();
    let mut next = 0;
    for (at, load) in found.iter().enumerate() {
        let earlier = found[..at].iter().position(|earlier| earlier.is_same(load));
        numbers.push(earlier.map_or(next, |earlier| numbers[earlier]));
        next += usize::from(earlier.is_none());
    }
    numbers
}

/// What distinguishes a load from others: requests in flight and per second, and the mean lengths.
struct RunLoad([f64; 4]);

/// Ratio below which a figure of two loads is the same.
const SAME_LOAD: f64 = 1.15;

impl RunLoad {
    fn of(run: &[Timeline]) -> Self {
        let requests = sent_requests(run);
        let count = requests.len().max(1) as f64;
        let ends = requests.first().zip(requests.last());
        let span = ends.map_or(0.0, |(first, last)| (last.sent - first.sent).as_secs_f64());
        let sum = |tokens: fn(&Timeline) -> Option<u32>| {
            let tokens = requests.iter().filter_map(|one| tokens(one.timeline)).map(f64::from);
            tokens.sum::<f64>() / count
        };
        let answers = |timeline: &Timeline| timeline.output_tokens().map(|tokens| tokens.0);
        let in_flight = f64::from(peak_in_flight(&requests));
        Self([in_flight, count / span.max(1e-3), sum(Timeline::prompt_tokens), sum(answers)])
    }

    fn is_same(&self, other: &Self) -> bool {
        let near = |(one, other): (&f64, &f64)| one.max(*other) <= SAME_LOAD * one.min(*other);
        self.0.iter().zip(&other.0).all(near)
    }
}

pub(super) fn peak_in_flight(requests: &[SentRequest<'_>]) -> u32 {
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

/// Loss of a number that has moved by its whole range, where many steps determine it.
const HOLD: f64 = 0.05;

/// Costs of decoding are known from many steps and may move little; what a prompt costs and what lies
/// before the engine are known from few, and may move far.
fn adjustables(profile: &Profile, prompts: PromptLengths) -> Vec<Parameter> {
    let cost = &profile.cost;
    // All that lies before the first token of a lone request could be its prompt's cost.
    let before = 2.0 * (profile.front_end.arrival_ms + cost.base_ms) / prompts.mean;
    let around = |value: f64, factor: f64| value / factor..value * factor;
    let base = cost.base_ms.max(0.1);
    let up_from_zero = |value: f64| 0.0..(4.0 * value).max(2.0 * base);
    let mut all = vec![
        Parameter::bounded("front_end.arrival_ms", up_from_zero(profile.front_end.arrival_ms)),
        Parameter::bounded("front_end.serial_ms", 0.0..base),
    ];
    let decoding = [
        Parameter::bounded("cost.base_ms", around(cost.base_ms, 1.25)),
        Parameter::bounded("cost.sequence_ms", around(cost.sequence_ms, 2.0)),
        Parameter::bounded("cost.context_ms", around(cost.context_ms, 2.0)),
    ];
    let known = decoding.into_iter().filter(|one| one.low > 0.0);
    all.extend(known.map(|one| Parameter { hold: HOLD, ..one }));
    let token_ms = cost.prefill.as_ref().map_or(cost.token_ms, |prefill| prefill.token_ms);
    let dearest = (token_ms * 2.5).max(before);
    if let Some(prefill) = &cost.prefill {
        all.push(Parameter::bounded("cost.prefill.base_ms", up_from_zero(prefill.base_ms)));
        all.push(Parameter::bounded("cost.prefill.token_ms", 0.0..dearest));
    } else {
        all.push(Parameter::bounded("cost.token_ms", 0.0..dearest));
        all.push(Parameter::bounded("cost.compute_ms", 0.0..2.0 * dearest));
        all.push(Parameter::bounded("cost.eager_ms", up_from_zero(cost.eager_ms)));
    }
    // Attention grows with the square of a prompt, so it is adjusted only where prompts are of very
    // different lengths; a few long ones are enough. At most twice as much for it as for everything else,
    // in the longest prompt.
    if shows_attention(prompts.shortest, prompts.longest) {
        let pairs = if cost.prefill.is_some() { "cost.prefill.pair_ms" } else { "cost.pair_ms" };
        let pairs = Parameter::bounded(pairs, 0.0..4.0 * dearest / prompts.longest);
        all.push(Parameter { name: ATTENTION, ..pairs });
    }
    all
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

/// A profile adjusted so that it predicts these runs, and what was adjusted in it. Identified is what fits
/// from all starts end within 20 % of each other.
pub(super) fn refine(
    profile: &Profile,
    replays: &[Replay],
    threads: usize,
) -> Option<(Profile, Vec<Fitted>)> {
    let prompts = prompts_of(replays)?;
    let (client, spread) = (OldClient::default(), super::SPREAD);
    let template = Candidate { profile: profile.clone(), client, spread };
    let model = EngineModel { template, parameters: adjustables(profile, prompts) };
    let pulls: Vec<Pull> =
        model.parameters.iter().map(|one| Pull { price: 0.0, hold: one.hold }).collect();
    let ends = in_parallel(&STARTS, threads, |start| {
        descend(&start.point(&model, prompts.mean), ROUNDS, &pulls, |point| {
            let profile = model.candidate(point).profile;
            let mut all = Vec::new();
            for replay in replays {
                all.extend(misses(&replay.predicted(&profile)?, &replay.row.cells));
            }
            Some(all)
        })
    });
    let best = best_of(&ends);
    Some((model.candidate(&best.point).profile, fitted(&model, &ends, best)))
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
    fn point(self, model: &EngineModel, prompt: f64) -> Vec<f64> {
        let profile = &model.template.profile;
        let moved = self.prompted * profile.front_end.arrival_ms;
        let is_hidden = self.prompts == PromptCost::Hidden;
        let added = profile.cost.token_ms + moved / prompt;
        let hidden = added + profile.cost.base_ms / prompt;
        let fraction = |one: &Parameter| {
            let value = one.get(&model.template);
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
        model.parameters.iter().map(fraction).collect()
    }
}
