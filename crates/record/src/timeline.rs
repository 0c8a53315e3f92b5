//! Times, events and counts of one attempt.
//!
//! Times are points on the monotonic clock. The expected order is intended ≤ admitted ≤ first byte
//! sent ≤ events ≤ end. Sends use the user's clock and arrivals the kernel's stamps. So an inversion
//! below [`TOLERATED_INVERSION`] is corrected silently; a larger one is corrected and counted in
//! [`Timeline::clock_faults`]. Nothing here panics on a bad clock.

use serde::{Deserialize, Serialize};
use tokometer_base::{Nanos, Script};

use crate::event::{Event, EventKind};
use crate::failure::Outcome;

/// Largest inversion between the two clocks that is corrected without being counted.
pub const TOLERATED_INVERSION: Nanos = Nanos::from_micros(100);

/// The part of a run that a request belongs to. Only [`Phase::Measure`] is part of the figures.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the measurement, with prompts of its own.
    Warmup,
    /// All figures come from this phase.
    #[default]
    Measure,
    /// Side requests during the load.
    Probe,
    /// Prompts with known answers during the load.
    Canary,
}

impl Phase {
    /// The name on disk.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Measure => "measure",
            Self::Probe => "probe",
            Self::Canary => "canary",
        }
    }

    /// [`Phase::Measure`] for names of a later version.
    pub fn from_name(name: &str) -> Self {
        [Self::Warmup, Self::Probe, Self::Canary]
            .into_iter()
            .find(|phase| phase.name() == name)
            .unwrap_or(Self::Measure)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttemptId {
    /// Index in the plan, from zero. Attempts of one request share it.
    pub index: u64,
    pub shard: u32,
    pub point: u32,
    /// Set by the workload, not by the time of sending.
    pub phase: Phase,
    /// Index in the plan's targets.
    pub target: u16,
    /// Conversation; `None` for a single request.
    pub session: Option<u64>,
    /// Turn within the conversation, from zero.
    pub turn: u32,
    /// Turns that were planned for the conversation. `None` for a single request, and in older records.
    pub turns: Option<u32>,
    /// The turns that had to end before. `None` for a single request, and in older records, where each
    /// turn waited for the one before it.
    pub parents: Option<Vec<u32>>,
    /// The sub-agent whose turn it is; `None` for the conversation's own.
    pub agent: Option<String>,
    /// Zero for the first attempt.
    pub attempt: u32,
    /// Class of the workload, such as a tenant.
    pub class: Option<String>,
    /// LoRA adapter; `None` for the base model.
    pub lora: Option<String>,
}

impl AttemptId {
    /// The first attempt of request `index`, without conversation, class or adapter.
    pub fn new(index: u64, phase: Phase) -> Self {
        Self { index, phase, ..Self::default() }
    }
}

/// Lengths that the request was made with, and what identifies its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestedLengths {
    /// Prompt tokens as the workload counted them. `None` without a tokenizer.
    pub prompt_tokens: Option<u32>,
    /// Requested output tokens. `None` leaves the length to the server.
    pub output_tokens: Option<u32>,
    /// Size of the request body on the wire.
    pub body_bytes: u64,
    /// Inputs or documents in the request, each of which gets a result. `None` for requests that
    /// generate text.
    pub items: Option<u32>,
    /// How long the audio of the request plays. `None` for a request without one, or of unknown
    /// length.
    pub audio: Option<Nanos>,
    /// Equal for equal prompts, in any run. `None` where answers are sampled: only greedy answers are
    /// compared.
    pub prompt_hash: Option<u64>,
    /// The script of the prompt's text. `None` for a short or mixed text, and for other prompts.
    pub prompt_script: Option<Script>,
    /// How long its session took when it was recorded. `None` where that is unknown.
    pub session_recorded: Option<Nanos>,
    /// Prompt tokens in whole blocks that earlier prompts and answers of the run began with: the hits of
    /// an unlimited prefix cache. `None` where they are unknown.
    pub possible_cached_tokens: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connection {
    /// Unique within the run.
    pub id: u64,
    /// Requests completed on it before. Zero for a new connection.
    pub uses_before: u32,
    /// Its age when this request was sent. `None` when it was opened for this request.
    pub age: Option<Nanos>,
    /// How often the server had closed a kept connection and a new one was opened for this request.
    pub reopened: u32,
    /// Worker thread that owned it.
    pub worker: u16,
    /// The address it went to, as an index into [`TargetInfo::addresses`](crate::TargetInfo). `None` when no
    /// connection was made, and in records of older versions.
    pub address: Option<u16>,
}

/// The clock behind the times of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StampSource {
    /// The kernel stamped the segment.
    Kernel,
    /// The kernel stamped the segment that completed the TLS record.
    KernelBelowTls,
    /// The user's clock right after the read returned.
    #[default]
    User,
}

impl StampSource {
    /// The name on disk.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::KernelBelowTls => "kernel-below-tls",
            Self::User => "user",
        }
    }

    /// [`StampSource::User`], the weakest claim, for unknown names.
    pub fn from_name(name: &str) -> Self {
        [Self::Kernel, Self::KernelBelowTls]
            .into_iter()
            .find(|source| source.name() == name)
            .unwrap_or(Self::User)
    }
}

/// Times of an attempt that are not events. `None` did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// When the plan wanted it sent. `None` without a schedule (infinite rate).
    pub intended: Option<Nanos>,
    /// When a replayed trace has it, on this run's clock. Later than `intended` where the server is
    /// faster than the recorded one. `None` without a recorded time.
    pub recorded: Option<Nanos>,
    /// When the gate admitted it.
    pub admitted: Nanos,
    /// Start of connecting. `None` on a reused connection, like the next two.
    pub connect_begin: Option<Nanos>,
    pub connect_end: Option<Nanos>,
    pub tls_end: Option<Nanos>,
    /// Just before its first byte was written to a kept connection that the server had closed. All
    /// later times are then those of the second send, on a new connection.
    pub lost_send: Option<Nanos>,
    /// Just before the first byte was written.
    pub first_byte_sent: Option<Nanos>,
    /// After the last byte was written.
    pub last_byte_sent: Option<Nanos>,
    /// The read that completed the response's header.
    pub headers: Option<Nanos>,
    /// The last byte of the response, or the failure.
    pub end: Option<Nanos>,
    /// When the client gave up a connection whose server left the body open behind the response. Until then the
    /// request held its slot. `None` where the body ended, and in older records.
    pub freed: Option<Nanos>,
}

/// Token counts as the server reported them. `None` where it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Of the prompt, special tokens included.
    pub prompt_tokens: Option<u32>,
    /// Of the response, reasoning included.
    pub completion_tokens: Option<u32>,
    pub cached_tokens: Option<u32>,
    pub reasoning_tokens: Option<u32>,
}

/// Durations that the server reported for this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerTimings {
    /// Waiting before the engine scheduled the request.
    pub queue: Option<Nanos>,
    pub prefill: Option<Nanos>,
    pub decode: Option<Nanos>,
}

/// TCP statistics at the end of the request, from `TCP_INFO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpStats {
    pub round_trip: Nanos,
    /// Segments retransmitted by the client during this request.
    pub retransmits: u32,
    /// Data segments received during this request.
    pub segments_in: u32,
}

/// By how much content may have arrived before its stamp, because its read merged segments: the time since
/// the client last found the socket empty. `None` where the stamp is exact, and in older records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MergeWaits {
    pub first: Option<Nanos>,
    pub last: Option<Nanos>,
}

/// Bytes of the content as it came: where events report no tokens, they show how much of it came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContentBytes {
    /// In the first content event.
    pub first: u64,
    /// In all content events of the first choice.
    pub all: u64,
    /// Of reasoning among them. `None` in older records.
    pub reasoning: Option<u64>,
}

/// Where a count of output tokens comes from, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountSource {
    Usage,
    /// Counts of single events: token ids, continuous usage, or one event per token.
    Events,
    /// The response's text, tokenized after the run.
    Retokenized,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// Unique within the run.
    pub identity: AttemptId,
    pub requested: RequestedLengths,
    pub connection: Connection,
    pub times: Times,
    pub stamp_source: StampSource,
    /// In the order of arrival.
    pub events: Vec<Event>,
    /// Reads that returned bytes of the response.
    pub reads: u32,
    /// Reads among them that merged segments, so that their stamp is an upper bound.
    pub merged_reads: u32,
    /// How late the reads of the first and the last content were at most.
    pub merge_waits: MergeWaits,
    pub usage: Option<Usage>,
    /// Size of the content. `None` where an event had content other than text, and in older records.
    pub content_bytes: Option<ContentBytes>,
    /// Tokens of the text, counted after the run.
    pub retokenized_tokens: Option<u32>,
    pub server_timings: Option<ServerTimings>,
    pub network: Option<TcpStats>,
    /// HTTP status. `None` when no header arrived.
    pub status: Option<u16>,
    /// [`Outcome::Abandoned`] until the attempt ends.
    pub outcome: Outcome,
    /// Inversions above the tolerated size that were corrected.
    pub clock_faults: u32,
    /// The response's text, where the plan keeps it.
    pub text: Option<String>,
    /// The text without its reasoning, where it has both: what a conversation goes on with. Not stored.
    pub answer: Option<String>,
    /// The tool calls of the response as JSON text, where the plan or the request offers tools: a list of
    /// objects with `name` and `arguments`, the pieces of a stream joined.
    pub tool_calls: Option<String>,
    /// Tools that this request alone offers, as JSON text: an object with `tools` and `tool_choice` as they
    /// were sent. `None` where all requests offer the plan's, or none.
    pub own_tools: Option<String>,
    /// Equal for equal text, reasoning and tool calls. `None` where answers are sampled or have no text.
    pub answer_hash: Option<u64>,
}

impl Timeline {
    /// A request that the gate has just admitted.
    pub fn new(identity: AttemptId, requested: RequestedLengths, admitted: Nanos) -> Self {
        let times = Times { admitted, ..Times::default() };
        Self { identity, requested, times, ..Self::default() }
    }

    /// Adds an event. Its time is corrected if it lies before the previous one or before the send.
    pub fn push(&mut self, mut event: Event) {
        let floor = match self.events.last() {
            Some(last) => last.at,
            None => self.times.first_byte_sent.unwrap_or(Nanos::ZERO),
        };
        if event.at < floor {
            self.clock_faults += u32::from(floor - event.at > TOLERATED_INVERSION);
            event.at = floor;
        }
        self.events.push(event);
    }

    /// Moves all its times by `offset` nanoseconds, to another clock. Every latency stays as it is.
    pub fn shift(&mut self, offset: i64) {
        let moved = |at: Nanos| Nanos(at.0.saturating_add_signed(offset));
        let times = &mut self.times;
        times.admitted = moved(times.admitted);
        let others = [
            &mut times.intended,
            &mut times.recorded,
            &mut times.connect_begin,
            &mut times.connect_end,
            &mut times.tls_end,
            &mut times.lost_send,
            &mut times.first_byte_sent,
            &mut times.last_byte_sent,
            &mut times.headers,
            &mut times.end,
            &mut times.freed,
        ];
        for at in others {
            *at = at.map(moved);
        }
        for event in &mut self.events {
            event.at = moved(event.at);
        }
    }

    pub fn is_success(&self) -> bool {
        self.outcome == Outcome::Success
    }

    fn first(&self, wanted: impl Fn(EventKind) -> bool) -> Option<&Event> {
        self.events.iter().find(|event| wanted(event.kind))
    }

    /// The first event of a stream, of any kind except the end mark.
    pub fn first_event(&self) -> Option<&Event> {
        self.first(|kind| !matches!(kind, EventKind::End | EventKind::Result))
    }

    /// The first event with text, reasoning or a tool call.
    pub fn first_content(&self) -> Option<&Event> {
        self.first(EventKind::is_content)
    }

    /// Whether the response has several choices, whose events are interleaved.
    pub fn has_further_choices(&self) -> bool {
        self.events.iter().any(|event| event.kind == EventKind::FurtherChoice)
    }

    pub fn first_answer(&self) -> Option<&Event> {
        self.first(EventKind::is_answer)
    }

    pub fn last_content(&self) -> Option<&Event> {
        self.events.iter().rev().find(|event| event.kind.is_content())
    }

    /// Tokens reported by the events; `None` unless every content event has a count.
    pub fn event_tokens(&self) -> Option<u32> {
        let mut content = self.events.iter().filter(|event| event.kind.has_choice()).peekable();
        content.peek()?;
        let sum = content.try_fold(0_u32, |sum, event| match event.tokens() {
            Some(tokens) => Some(sum.saturating_add(tokens)),
            None if event.kind.is_generated() => None,
            None => Some(sum),
        })?;
        (sum > 0).then_some(sum)
    }

    /// Tokens of the text, unless it belongs to only one of several choices.
    fn retokenized(&self) -> Option<u32> {
        self.retokenized_tokens.filter(|_| !self.has_further_choices())
    }

    /// Output tokens, from the best available source.
    pub fn output_tokens(&self) -> Option<(u32, CountSource)> {
        let from_usage = self.usage.and_then(|usage| usage.completion_tokens);
        // Zero with content means that the server does not count.
        let from_usage = from_usage.filter(|told| *told > 0 || self.first_content().is_none());
        from_usage
            .map(|tokens| (tokens, CountSource::Usage))
            .or_else(|| self.event_tokens().map(|tokens| (tokens, CountSource::Events)))
            .or_else(|| self.retokenized().map(|tokens| (tokens, CountSource::Retokenized)))
    }

    /// Prompt tokens: the server's count, otherwise the workload's.
    pub fn prompt_tokens(&self) -> Option<u32> {
        self.usage.and_then(|usage| usage.prompt_tokens).or(self.requested.prompt_tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline() -> Timeline {
        let mut timeline = Timeline::new(
            AttemptId::new(0, Phase::Measure),
            RequestedLengths::default(),
            Nanos(1_000),
        );
        timeline.times.first_byte_sent = Some(Nanos::from_millis(1));
        timeline
    }

    #[test]
    fn events_never_run_backwards_and_large_inversions_are_counted() {
        let mut timeline = timeline();
        timeline.push(Event::new(Nanos(950_000), 0, EventKind::Role));
        timeline.push(Event::new(Nanos::from_millis(9), 1, EventKind::Text));
        timeline.push(Event::new(Nanos::from_millis(8), 2, EventKind::Text));
        let times: Vec<_> = timeline.events.iter().map(|event| event.at).collect();
        assert_eq!(times, [Nanos::from_millis(1), Nanos::from_millis(9), Nanos::from_millis(9)]);
        assert_eq!(timeline.clock_faults, 1, "50 µs are tolerated, 1 ms is not");
    }

    #[test]
    fn another_clock_moves_every_time_and_no_latency() {
        let mut moved = timeline();
        moved.times.intended = Some(Nanos(900));
        moved.times.end = Some(Nanos::from_millis(20));
        moved.push(Event::new(Nanos::from_millis(9), 0, EventKind::Text));
        let before = moved.clone();
        moved.shift(1_500);
        assert_eq!(moved.times.admitted, Nanos(2_500));
        assert_eq!(moved.times.intended, Some(Nanos(2_400)));
        assert_eq!((moved.times.connect_begin, moved.events[0].at), (None, Nanos(9_001_500)));
        moved.shift(-1_500);
        assert_eq!(moved, before);
    }

    #[test]
    fn the_first_event_content_and_answer_are_three_things() {
        let mut timeline = timeline();
        let kinds = [EventKind::Role, EventKind::Reasoning, EventKind::Text, EventKind::Usage];
        for (read, kind) in (0..).zip(kinds) {
            timeline.push(Event::new(Nanos::from_millis(10 + u64::from(read)), read, kind));
        }
        let at = |event: Option<&Event>| event.map(|event| event.at.0 / 1_000_000);
        assert_eq!(at(timeline.first_event()), Some(10));
        assert_eq!(at(timeline.first_content()), Some(11));
        assert_eq!(at(timeline.first_answer()), Some(12));
        assert_eq!(at(timeline.last_content()), Some(12));
    }

    #[test]
    fn usage_beats_events_and_events_beat_the_text() {
        let mut timeline = timeline();
        assert_eq!(timeline.output_tokens(), None);
        timeline.retokenized_tokens = Some(9);
        assert_eq!(timeline.output_tokens(), Some((9, CountSource::Retokenized)));
        timeline.push(Event::new(Nanos(1), 0, EventKind::Text).with_tokens(Some(4)));
        assert_eq!(timeline.output_tokens(), Some((4, CountSource::Events)));
        timeline.push(Event::new(Nanos(1), 0, EventKind::Text));
        assert_eq!(timeline.output_tokens(), Some((9, CountSource::Retokenized)));
        timeline.usage = Some(Usage { completion_tokens: Some(7), ..Usage::default() });
        assert_eq!(timeline.output_tokens(), Some((7, CountSource::Usage)));
        timeline.usage = Some(Usage { completion_tokens: Some(0), ..Usage::default() });
        assert_eq!(timeline.output_tokens(), Some((9, CountSource::Retokenized)), "of content");
    }
}
