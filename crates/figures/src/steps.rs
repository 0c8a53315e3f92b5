//! Infers engine steps from streams: the tokens of one step reach all streams together.
//!
//! In: timelines, one by one. Out: one [`SeenStep`] per group of events that one step delivered, and
//! figures over them ([`Steps`]). A step serves a stream once: a pause or a stream that gets a further
//! token begins the next one. A record whose events shared reads is refused,
//! because its times are those of reads, not of engine steps. So is one whose streams do not move
//! together, because something between engine and client smooths them, or because several engines
//! respond. For long runs evenly spaced stretches are kept, so that memory is bounded.

mod joined;
mod stretches;

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;
use tokometer_record::{EventKind, Phase, RunInfo, Timeline};

use self::stretches::{Stretches, Token, stretch};
use crate::statistics::percentile;

/// Largest share of content events that may share a read with the previous event. Beyond it the gaps
/// between events are not the server's: their percentiles are withheld, and no step is inferred.
pub const SHARED_READS_MAX: f64 = 0.05;

pub const STEPS_MIN: usize = 30;

/// Least mean share of the active streams that a step must reach. An engine reaches nearly all of
/// them; two engines behind one address, or streams smoothed one by one, at most half.
pub const TOGETHER_MIN: f64 = 0.6;

/// Largest share of steps that may begin without a pause. Beyond it tokens arrive evenly: nothing shows
/// where a step begins.
pub const UNPAUSED_MAX: f64 = 0.6;

/// vLLM hands out the results of a step in parts of this many streams, with a pause between them. A few of
/// them may have no text to send.
const PART: RangeInclusive<u32> = 116..=128;

/// A step this many times as long as the median decode-only step delayed the streams.
const STALL_FACTOR: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeenStep {
    pub at: Nanos,
    /// Time since the previous step; zero where that is unknown.
    pub span: Nanos,
    /// Streams that got a further token.
    pub decodes: u32,
    /// Sum of their context lengths.
    pub context: u64,
    /// Streams that got their first token.
    pub firsts: u32,
    /// Prompt tokens of those streams.
    pub prefill_tokens: u64,
    /// Requests sent before the step began and still without a token after it: a part of their prompt
    /// may have been computed in it.
    pub pending: u32,
}

impl SeenStep {
    pub fn is_decode_only(&self) -> bool {
        self.firsts == 0 && self.pending == 0 && self.decodes > 0
    }

    /// Whether its duration is the engine's: without active streams the engine may have been idle.
    fn is_timed(&self) -> bool {
        self.decodes > 0 && self.span > Nanos::ZERO
    }

    pub fn batch(&self) -> u32 {
        self.decodes + self.firsts
    }
}

#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum StepsRefusal {
    #[error(
        "{:.0} % of the events arrived in the same read as the previous event, so their times are not the engine's",
        *shared as f64 / (*events).max(1) as f64 * 100.0
    )]
    SharedReads { shared: usize, events: usize },
    #[error("only {steps} groups of tokens were found, at least {least} are needed")]
    TooFewSteps { steps: usize, least: usize },
    #[error("{}", clock_words(*error, *width))]
    Clocks {
        /// No two times of different shards are further from the truth; `None` where that is unknown.
        error: Option<Nanos>,
        /// Tokens of one step are this close.
        width: Nanos,
    },
    #[error(
        "a group of tokens reached only {:.0} % of the active streams, so a proxy smooths the tokens or several engines serve them",
        share * 100.0
    )]
    Apart {
        /// Mean share of the active streams that a group reached.
        share: f64,
    },
    #[error(
        "{:.0} % of the groups of tokens follow the one before without a pause, so a proxy smooths the tokens or several engines serve them",
        share * 100.0
    )]
    Unpaused { share: f64 },
}

fn clock_words(error: Option<Nanos>, width: Nanos) -> String {
    let exact = error.map_or("an unknown error".to_owned(), |error| format!("±{error}"));
    format!(
        "the times of different shards agree within {exact}, and tokens of one step within {width}"
    )
}

/// One stream: when it was sent, its first and last token, and how many tokens the server states.
#[derive(Debug, Clone, Copy)]
struct StreamSpan {
    sent: Option<Nanos>,
    first: Nanos,
    last: Nanos,
    tokens: Option<u32>,
}

/// Collects the timelines of a run. Failed requests are left out, although they used the engine too,
/// so a run with many of them shows less.
#[derive(Debug, Clone, Default)]
pub struct StepCollector {
    tokens: Stretches,
    /// Streams of which a part lies in a kept stretch.
    streams: Vec<StreamSpan>,
    shared: usize,
    events: usize,
    clocks: Clocks,
}

#[derive(Debug, Clone, Copy, Default)]
enum Clocks {
    /// One clock has all of them.
    #[default]
    One,
    /// Each shard has its own, whose offset is known within this; `None` where it is not.
    PerShard(Option<Nanos>),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Seen {
    pub steps: Vec<SeenStep>,
    /// Mean share of the active streams that a step reached; `None` where there was never more than
    /// one.
    pub together: Option<f64>,
    /// Share of the steps that follow the one before without a pause.
    pub unpaused: f64,
    /// Further steps, whose tokens came in the events of a later one.
    pub joined: u64,
}

fn is_token(kind: EventKind) -> bool {
    kind.is_content() || kind == EventKind::Empty
}

impl StreamSpan {
    fn stretches(&self) -> RangeInclusive<u64> {
        let begin = self.sent.unwrap_or(self.first).min(self.first);
        stretch(begin)..=stretch(self.first.max(self.last))
    }
}

impl StepCollector {
    /// For a run whose times may be those of several machines.
    pub fn of(info: &RunInfo) -> Self {
        let clocks = info.merged().map_or(Clocks::One, |run| Clocks::PerShard(run.clock_bound()));
        Self { clocks, ..Self::default() }
    }

    /// Keeps every token, however many there are.
    pub fn unbounded() -> Self {
        Self { tokens: Stretches::of_at_most(usize::MAX), ..Self::default() }
    }

    /// Adds a request of the measured phase; others are skipped.
    pub fn push(&mut self, timeline: &Timeline) {
        if timeline.is_success() && timeline.identity.phase == Phase::Measure {
            self.add(timeline);
        }
    }

    /// Adds a successful request of any phase.
    pub fn add(&mut self, timeline: &Timeline) {
        let prompt = timeline.prompt_tokens().unwrap_or(0);
        let mut before: Option<(Nanos, u32)> = None;
        let mut first = None;
        let events = timeline.events.iter().filter(|event| is_token(event.kind));
        for (number, event) in (0_u32..).zip(events) {
            self.events += 1;
            self.shared += usize::from(before.is_some_and(|(_, read)| read == event.read));
            let gap = before
                .map_or(0, |(at, _)| u32::try_from((event.at - at).0.max(1)).unwrap_or(u32::MAX));
            before = Some((event.at, event.read));
            first.get_or_insert(event.at);
            let context = prompt.saturating_add(number);
            self.tokens.add(Token { at: event.at, gap, context });
        }
        if let (Some(first), Some((last, _))) = (first, before) {
            let tokens = timeline.usage.and_then(|usage| usage.completion_tokens);
            let stream = StreamSpan { sent: timeline.times.first_byte_sent, first, last, tokens };
            if self.tokens.keeps_one_of(stream.stretches()) {
                self.streams.push(stream);
            }
        }
        if self.tokens.is_full() {
            self.tokens.thin();
            // A stream between two kept stretches is active in no step, and pending in none.
            let tokens = &self.tokens;
            self.streams.retain(|stream| tokens.keeps_one_of(stream.stretches()));
        }
    }

    /// The steps, or why there are none. Does not check yet whether streams move together.
    pub fn seen(mut self) -> Result<Seen, StepsRefusal> {
        if self.shared as f64 > SHARED_READS_MAX * self.events as f64 {
            return Err(StepsRefusal::SharedReads { shared: self.shared, events: self.events });
        }
        let width = group_width(self.tokens.gaps());
        if let Clocks::PerShard(bound) = self.clocks {
            // Two shards may be off in opposite directions.
            let error = bound.map(|bound| bound + bound);
            if error.is_none_or(|error| error > width) {
                return Err(StepsRefusal::Clocks { error, width });
            }
        }
        let mut steps: Vec<SeenStep> = Vec::new();
        let (mut reached, mut under_way, mut unpaused) = (0_u64, 0_u64, 0_u64);
        self.streams.sort_unstable_by_key(|stream| stream.first);
        let mut lasts: Vec<Nanos> = self.streams.iter().map(|stream| stream.last).collect();
        lasts.sort_unstable();
        let stride = self.tokens.stride();
        // The missing stretch between two of them is longer than a step can be.
        for tokens in self.tokens.into_groups() {
            for Group { tokens: group, is_paused } in groups(&tokens, width, &self.streams) {
                unpaused += u64::from(!is_paused);
                let begin = group.first().map_or(Nanos::ZERO, |token| token.at);
                let step = step_of(group, begin, steps.last());
                let started = self.streams.partition_point(|stream| stream.first <= step.at);
                let over = lasts.partition_point(|last| *last < begin);
                let streams = started.saturating_sub(over) as u64;
                if streams > 1 {
                    reached += u64::from(step.batch());
                    under_way += streams;
                }
                steps.push(step);
            }
        }
        if steps.len() < STEPS_MIN {
            return Err(StepsRefusal::TooFewSteps { steps: steps.len(), least: STEPS_MIN });
        }
        if stride > 1 {
            forget_spans_across(&mut steps);
        }
        count_pending(&self.streams, &mut steps);
        let together = (under_way > 0).then(|| reached as f64 / under_way as f64);
        let unpaused = unpaused as f64 / steps.len() as f64;
        // Between kept stretches the streams had tokens too.
        let joined = if stride == 1 { joined::joined(&self.streams, &steps) } else { 0 };
        Ok(Seen { steps, together, unpaused, joined })
    }

    /// Figures over the steps; `None` where nothing was streamed.
    pub fn finish(self) -> Option<Steps> {
        if self.events == 0 {
            return None;
        }
        let kept = 1.0 / self.tokens.stride() as f64;
        let checked = self.seen().and_then(Seen::checked);
        Some(match checked {
            Ok(seen) => figures(&seen, kept),
            Err(why) => Steps::Refused { why: why.to_string() },
        })
    }
}

impl Seen {
    pub fn checked(self) -> Result<Self, StepsRefusal> {
        match self.together {
            Some(share) if share < TOGETHER_MIN => Err(StepsRefusal::Apart { share }),
            _ if self.unpaused > UNPAUSED_MAX => {
                Err(StepsRefusal::Unpaused { share: self.unpaused })
            }
            _ => Ok(self),
        }
    }
}

/// Events closer than this belong to one step: a fifth of the shorter gaps within streams.
fn group_width(gaps: impl Iterator<Item = u32>) -> Nanos {
    let mut gaps: Vec<u32> = gaps.filter(|gap| *gap > 1).collect();
    let tenth = gaps.len() / 10;
    let gap = (!gaps.is_empty()).then(|| *gaps.select_nth_unstable(tenth).1);
    Nanos(u64::from(gap.unwrap_or(0)) / 5)
}

struct Group<'t> {
    tokens: &'t [Token],
    /// Whether there was a pause before it.
    is_paused: bool,
}

/// Groups of tokens, one per step. A pause begins a group, unless a part of the step was complete and a
/// stream follows that the step has not served yet. So do a stream that the group has served already, and one
/// that was sent after its first token. `streams` are in the order of their first tokens.
fn groups<'t>(tokens: &'t [Token], width: Nanos, streams: &[StreamSpan]) -> Vec<Group<'t>> {
    let is_sent_after = |token: &Token, begin: Nanos| {
        if token.gap > 0 {
            return false;
        }
        let from = streams.partition_point(|stream| stream.first < token.at);
        let at_once = streams[from..].iter().take_while(|stream| stream.first == token.at);
        at_once.filter_map(|stream| stream.sent).any(|sent| sent > begin)
    };
    let mut found = Vec::new();
    // Streams that the step has served since its last pause.
    let (mut from, mut served, mut is_paused) = (0, 0, true);
    for (at, token) in tokens.iter().enumerate() {
        let begin = tokens[from].at;
        let is_new = token.is_new_since(begin);
        let pause = at > from && token.at - tokens[at - 1].at > width;
        let is_next_part = pause && PART.contains(&served) && is_new;
        let is_again = !is_new && u64::from(token.gap) > width.0;
        if pause && !is_next_part || is_again || is_sent_after(token, begin) {
            found.push(Group { tokens: &tokens[from..at], is_paused });
            (from, served, is_paused) = (at, 0, pause);
        } else if is_next_part {
            served = 0;
        }
        served += u32::from(token.is_new_since(tokens[from].at));
    }
    if !tokens.is_empty() {
        found.push(Group { tokens: &tokens[from..], is_paused });
    }
    found
}

fn step_of(group: &[Token], begin: Nanos, before: Option<&SeenStep>) -> SeenStep {
    let at = group.last().map_or(Nanos::ZERO, |token| token.at);
    let mut step = SeenStep {
        at,
        span: before.map_or(Nanos::ZERO, |before| at - before.at),
        decodes: 0,
        context: 0,
        firsts: 0,
        prefill_tokens: 0,
        pending: 0,
    };
    // What a stream got besides, such as a finish reason, is not a token.
    for token in group.iter().filter(|token| token.is_new_since(begin)) {
        if token.gap == 0 {
            step.firsts += 1;
            step.prefill_tokens += u64::from(token.context);
        } else {
            step.decodes += 1;
            step.context += u64::from(token.context);
        }
    }
    step
}

/// The first step of a stretch follows one that was dropped.
fn forget_spans_across(steps: &mut [SeenStep]) {
    for at in (1..steps.len()).rev() {
        if stretch(steps[at - 1].at) != stretch(steps[at].at) {
            steps[at].span = Nanos::ZERO;
        }
    }
}

fn count_pending(streams: &[StreamSpan], steps: &mut [SeenStep]) {
    let mut changes = vec![0_i64; steps.len() + 1];
    for stream in streams {
        let Some(sent) = stream.sent else { continue };
        let from = steps.partition_point(|step| step.at <= sent);
        let until = steps.partition_point(|step| step.at < stream.first).max(from);
        changes[from] += 1;
        changes[until] -= 1;
    }
    let mut pending = 0;
    for (step, change) in steps.iter_mut().zip(changes) {
        pending += change;
        step.pending = u32::try_from(pending).unwrap_or(0);
    }
}

/// Figures over the engine's steps, or why there are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Steps {
    Seen(StepFigures),
    Refused { why: String },
}

/// Durations are those of steps with an active stream.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StepFigures {
    pub steps: u64,
    /// Those among them whose tokens came in the events of a later step; they are in no other figure.
    #[serde(default)]
    pub joined: u64,
    /// Share of the run's time that was analysed.
    pub kept_share: f64,
    pub span_ms_p50: Option<f64>,
    pub span_ms_p99: Option<f64>,
    pub batch_p50: Option<f64>,
    pub batch_max: u32,
    /// Mean share of the active streams that a step reached; `None` with one stream at a time.
    pub together: Option<f64>,
    /// Steps that delayed streams while a prompt was computed; `None` without a decode-only step to
    /// compare with.
    pub stalls: Option<Stalls>,
}

/// Steps at least twice as long as the median decode-only step, while a prompt was pending.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Stalls {
    pub count: u64,
    pub longest_ms: f64,
    /// Their time beyond the median decode-only step, as a share of all steps' time.
    pub time_share: f64,
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    tokometer_base::sort_numbers(&mut values);
    values
}

fn figures(seen: &Seen, kept_share: f64) -> Steps {
    let timed = || seen.steps.iter().filter(|step| step.is_timed());
    let spans = sorted(timed().map(|step| step.span.as_millis_f64()));
    let batches = sorted(timed().map(|step| f64::from(step.batch())));
    let quiet =
        sorted(timed().filter(|step| step.is_decode_only()).map(|step| step.span.as_millis_f64()));
    let stalls = percentile(&quiet, 50.0).map(|usual| {
        let is_stall = |step: &&SeenStep| {
            !step.is_decode_only() && step.span.as_millis_f64() > STALL_FACTOR * usual
        };
        let long: Vec<f64> =
            timed().filter(is_stall).map(|step| step.span.as_millis_f64()).collect();
        let beyond: f64 = long.iter().map(|span| span - usual).sum();
        Stalls {
            count: long.len() as u64,
            longest_ms: long.iter().copied().fold(0.0, f64::max),
            time_share: beyond / spans.iter().sum::<f64>(),
        }
    });
    Steps::Seen(StepFigures {
        steps: seen.steps.len() as u64 + seen.joined,
        joined: seen.joined,
        kept_share,
        span_ms_p50: percentile(&spans, 50.0),
        span_ms_p99: percentile(&spans, 99.0),
        batch_p50: percentile(&batches, 50.0),
        batch_max: seen.steps.iter().map(SeenStep::batch).max().unwrap_or(0),
        together: seen.together,
        stalls,
    })
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
