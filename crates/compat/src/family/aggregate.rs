//! Sums and statistics over requests, by one family's definitions.
//!
//! Only successful requests are part of totals and statistics; the others count as failed. Kept per
//! request: one `ToolRow`. Gaps and chunk times of all requests are pooled in bounded memory.

use tokometer_base::Nanos;
use tokometer_figures::family::{Attainment, Detail, FamilyFigures, ListStats};
use tokometer_figures::goodput::Objectives;
use tokometer_figures::lens::{Details, Frame, Lens};
use tokometer_figures::reported;
use tokometer_figures::rows::Latencies;
use tokometer_figures::sample::Sample;
use tokometer_figures::ticks::Ticks;
use tokometer_figures::{Family, Route};
use tokometer_record::{Outcome, Phase, RunInfo, Timeline};

use super::buckets::{self, RequestSpan};
use super::lens::{REPEATS_MAX, RepeatedGap, ToolView};
use super::probe::ProbeSample;
use super::rust_steady;

const NANOS_PER_MILLI: f64 = 1e6;

/// What stays of one attempt.
#[derive(Debug, Clone)]
pub(super) struct ToolRow {
    pub(super) start: Nanos,
    pub(super) ttft: Nanos,
    pub(super) latency: Nanos,
    /// Time from the intended time to the admission; without an intended time, the admission.
    queue: Nanos,
    pub(super) output_tokens: u32,
    pub(super) input_tokens: u32,
    retokenized: u32,
    flags: u8,
}

/// Flags of a row: success by the tool's rule, an intended time, a retokenized count.
const SUCCESS: u8 = 1;
const INTENDED: u8 = 2;
const RETOKENIZED: u8 = 4;

// A run of a million requests keeps a million of them.
const _: () = assert!(size_of::<ToolRow>() == 48);

impl ToolRow {
    fn of(timeline: &Timeline, seen: &ToolView) -> Self {
        let (intended, admitted) = (timeline.times.intended, timeline.times.admitted);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        Self {
            start: seen.start,
            ttft: seen.ttft,
            latency: seen.latency,
            queue: intended.map_or(admitted, |intended| admitted - intended),
            output_tokens: seen.output_tokens,
            input_tokens: seen.input_tokens,
            retokenized: timeline.retokenized_tokens.unwrap_or(0),
            flags: flag(seen.is_success, SUCCESS)
                | flag(intended.is_some(), INTENDED)
                | flag(timeline.retokenized_tokens.is_some(), RETOKENIZED),
        }
    }

    fn is_success(&self) -> bool {
        self.flags & SUCCESS != 0
    }

    fn retokenized(&self) -> Option<u32> {
        (self.flags & RETOKENIZED != 0).then_some(self.retokenized)
    }

    pub(super) fn end(&self) -> Nanos {
        self.start + self.latency
    }

    /// Time per output token after the first, in nanoseconds; `None` for answers of one token.
    pub(super) fn tpot(&self) -> Option<f64> {
        let later_tokens = self.output_tokens.checked_sub(1).filter(|tokens| *tokens > 0)?;
        Some((self.latency.0 as f64 - self.ttft.0 as f64) / f64::from(later_tokens))
    }

    /// The wait inside the client. At an infinite rate every request is due when the run begins.
    fn queue(&self, begin: Nanos) -> Nanos {
        if self.flags & INTENDED != 0 { self.queue } else { self.queue - begin }
    }

    fn latencies(&self) -> Latencies {
        Latencies {
            ttft_ms: self.ttft.as_millis_f64(),
            tpot_ms: self.tpot().unwrap_or(0.0) / NANOS_PER_MILLI,
            e2el_ms: self.latency.as_millis_f64(),
        }
    }
}

#[derive(Debug, Clone)]
struct DetailRow {
    input_tokens: u32,
    gaps: Vec<f64>,
    text: String,
    error: String,
    cached_tokens: Option<u32>,
}

/// What a list of gaps counts between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum GapUnit {
    /// Between two events.
    #[default]
    Event,
    /// Between two tokens: an event's gap is divided among its tokens.
    Token,
}

impl GapUnit {
    /// SGLang's rule: per token where its own server uses speculative decoding, on one of these two
    /// routes.
    fn of_sglang(info: &RunInfo, accept_length: Option<f64>) -> Self {
        let backend = info.targets.first().map_or("", |target| target.backend.as_str());
        let is_divided = matches!(backend, "sglang-oai" | "sglang-oai-chat")
            && accept_length.is_some_and(|length| length > 0.0);
        if is_divided { Self::Token } else { Self::Event }
    }
}

#[derive(Debug, Clone)]
pub(super) struct FamilyCollector {
    family: Family,
    rows: Vec<ToolRow>,
    gaps: Sample,
    token_gaps: Sample,
    chunks: Ticks,
    /// Inputs or documents of successful requests. Only the last attempt of a request can succeed.
    items: Option<u64>,
    /// Seconds of audio of successful requests.
    audio: f64,
    probes: ProbeSample,
    details: Option<Vec<DetailRow>>,
}

impl FamilyCollector {
    /// For a run that began at `origin`. With `details`, values per request are kept.
    pub(super) fn new(family: Family, origin: Nanos, details: Details) -> Self {
        let details = (details == Details::Keep).then(Vec::new);
        Self {
            family,
            rows: Vec::new(),
            gaps: Sample::default(),
            token_gaps: Sample::default(),
            chunks: Ticks::new(origin),
            items: None,
            audio: 0.0,
            probes: ProbeSample::default(),
            details,
        }
    }

    fn pool(&mut self, seen: &ToolView) {
        let mut at = seen.start.0 as f64 + seen.ttft.0 as f64;
        self.chunks.push(seen.start + seen.ttft);
        for gap in &seen.token_gaps {
            self.token_gaps.add(gap.nanos, gap.repeats);
        }
        for gap in &seen.gaps {
            self.gaps.add(gap.nanos, gap.repeats);
            if gap.nanos == 0.0 {
                self.chunks.push_many(whole(at), gap.repeats.min(REPEATS_MAX));
                continue;
            }
            for _ in 0..gap.repeats.min(REPEATS_MAX) {
                at += gap.nanos;
                self.chunks.push(whole(at));
            }
        }
    }
}

impl Lens for FamilyCollector {
    fn push(&mut self, timeline: &Timeline, route: Route) {
        if timeline.identity.phase == Phase::Probe {
            return self.probes.add(timeline, route);
        }
        let seen = super::see(self.family, timeline, route);
        let audio = timeline.requested.audio.filter(|_| seen.is_success);
        self.audio += audio.map_or(0.0, Nanos::as_secs_f64);
        if route == Route::Pooling {
            let items = timeline.requested.items.filter(|_| seen.is_success).unwrap_or(0);
            self.items = Some(self.items.unwrap_or(0) + u64::from(items));
        } else if seen.is_success {
            self.pool(&seen);
        }
        if let Some(details) = &mut self.details {
            details.push(detail(timeline, &seen));
        }
        self.rows.push(ToolRow::of(timeline, &seen));
    }

    fn finish(mut self: Box<Self>, frame: &Frame<'_>) -> FamilyFigures {
        frame.last.keep_in(&mut self.rows);
        if let Some(details) = &mut self.details {
            frame.last.keep_in(details);
        }
        let done: Vec<&ToolRow> = self.rows.iter().filter(|row| row.is_success()).collect();
        let seconds = frame.duration.as_secs_f64();
        let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let sum = |value: fn(&ToolRow) -> u64| done.iter().map(|row| value(row)).sum::<u64>();
        let (input, output) =
            (sum(|row| u64::from(row.input_tokens)), sum(|row| u64::from(row.output_tokens)));
        let is_good = |row: &&&ToolRow| frame.objectives.are_met_by(row.latencies());
        let good = done.iter().filter(is_good).count() as f64;
        let flights = done.iter().map(|row| RequestSpan { start: row.start, end: row.end() });
        let peaks = buckets::peaks(flights, &self.chunks);
        let mut chunks = 0;
        self.chunks.for_each(|_, count| chunks += count);
        let retokenized: Option<u64> =
            done.iter().map(|row| row.retokenized().map(u64::from)).sum();
        let steady = rust_steady::window(&frame.info.load, &done, &self.chunks, frame.percentiles);
        let stats = |value: &dyn Fn(&ToolRow) -> Option<f64>| -> ListStats {
            let values: Sample = done.iter().filter_map(|row| value(row)).collect();
            values.into_ordered().stats(frame.percentiles, NANOS_PER_MILLI)
        };
        let queue = |row: &ToolRow| row.queue(frame.begin);
        let gaps = match GapUnit::of_sglang(frame.info, frame.accept_length) {
            GapUnit::Token if self.family == Family::Sglang => self.token_gaps,
            GapUnit::Token | GapUnit::Event => self.gaps,
        };
        FamilyFigures {
            completed: done.len() as u64,
            failed: (self.rows.len() - done.len()) as u64,
            duration_s: seconds,
            total_input: input,
            total_output: output,
            input_sequences: self.items,
            rtfx: per_second(self.audio),
            retokenized: retokenized.filter(|_| !done.is_empty()),
            request_throughput: per_second(done.len() as f64),
            goodput: (!frame.objectives.is_empty()).then(|| per_second(good)),
            output_throughput: per_second(output as f64),
            input_throughput: per_second(input as f64),
            total_throughput: per_second((input + output) as f64),
            chunks,
            peak_output_throughput: peaks.chunks as f64,
            peak_concurrent_requests: peaks.requests,
            concurrency: per_second(sum(|row| row.latency.0) as f64 / 1e9),
            attainment: attainment(&done, self.rows.len(), frame.objectives),
            ttft: stats(&|row| Some(row.ttft.0 as f64)),
            tpot: stats(&ToolRow::tpot),
            e2el: stats(&|row| Some(row.latency.0 as f64)),
            client_queue: stats(&|row| Some(queue(row).0 as f64)),
            e2el_with_queue: stats(&|row| Some((queue(row) + row.latency).0 as f64)),
            itl: gaps.into_ordered().stats(frame.percentiles, NANOS_PER_MILLI),
            probe: self.probes.figures(),
            steady,
            detail: self.details.map(|details| detail_arrays(&self.rows, details, frame.begin)),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time on the monotonic clock, whole again after its division"
)]
fn whole(at: f64) -> Nanos {
    Nanos(at.round() as u64)
}

/// The share of all requests, failed ones included, that met each objective.
fn attainment(done: &[&ToolRow], all: usize, objectives: Objectives) -> Option<Attainment> {
    if objectives.is_empty() || all == 0 {
        return None;
    }
    let share = |limits: Objectives| {
        let is_met = |row: &&&ToolRow| limits.are_met_by(row.latencies());
        done.iter().filter(is_met).count() as f64 / all as f64
    };
    let Objectives { ttft_ms, tpot_ms, e2el_ms } = objectives;
    let none = Objectives::default();
    Some(Attainment {
        objectives,
        all: share(objectives),
        ttft: ttft_ms.map(|_| share(Objectives { ttft_ms, ..none })),
        tpot: tpot_ms.map(|_| share(Objectives { tpot_ms, ..none })),
        e2el: e2el_ms.map(|_| share(Objectives { e2el_ms, ..none })),
    })
}

fn detail(timeline: &Timeline, seen: &ToolView) -> DetailRow {
    let error = match &timeline.outcome {
        _ if seen.is_success => String::new(),
        Outcome::Failed(failure) => failure.message.clone(),
        Outcome::Success => "no valid chunk was received".to_owned(),
        Outcome::Cancelled => "cancelled by the client".to_owned(),
        Outcome::Abandoned => "abandoned by the client".to_owned(),
    };
    let repeated = |gap: &RepeatedGap| {
        let repeats = gap.repeats.min(REPEATS_MAX);
        std::iter::repeat_n(gap.nanos / 1e9, usize::try_from(repeats).unwrap_or(0))
    };
    DetailRow {
        input_tokens: seen.listed_input_tokens,
        gaps: seen.gaps.iter().flat_map(repeated).collect(),
        text: timeline.text.clone().filter(|_| seen.is_success).unwrap_or_default(),
        error,
        cached_tokens: reported::cached_tokens(timeline),
    }
}

/// Arrays in the order of the plan.
fn detail_arrays(rows: &[ToolRow], details: Vec<DetailRow>, begin: Nanos) -> Detail {
    let mut arrays = Detail::default();
    for (row, detail) in rows.iter().zip(details) {
        let if_done = |value: f64| if row.is_success() { value } else { 0.0 };
        arrays.input_lens.push(u64::from(detail.input_tokens));
        arrays.output_lens.push(if row.is_success() { u64::from(row.output_tokens) } else { 0 });
        arrays.ttfts.push(row.ttft.as_secs_f64());
        arrays.itls.push(detail.gaps);
        arrays.start_times.push(row.start.as_secs_f64());
        arrays.latencies.push(if_done(row.latency.as_secs_f64()));
        arrays.queue_times.push(row.queue(begin).as_secs_f64());
        arrays.generated_texts.push(detail.text);
        arrays.errors.push(detail.error);
        arrays.cached_tokens.push(detail.cached_tokens);
    }
    arrays
}
