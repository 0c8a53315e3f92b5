//! The life of one request, as it was seen.
//!
//! Times are points on the monotonic clock. The expected order is intended ≤ admitted ≤ first byte
//! sent ≤ events ≤ end. Sends are read from the user's clock and arrivals from the kernel's stamps,
//! so an inversion below [`TOLERATED_INVERSION`] is straightened silently, and a larger one is
//! straightened and counted in [`Timeline::clock_faults`]. Nothing here panics on a bad clock.

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;

use crate::event::{Event, EventKind};
use crate::failure::Outcome;

/// Two clocks may disagree by this much before the record says so.
pub const TOLERATED_INVERSION: Nanos = Nanos::from_micros(100);

/// The part of a run that a request belongs to. Only [`Phase::Measure`] enters the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the measurement, with content of its own.
    Warmup,
    /// The measurement.
    Measure,
    /// A side probe beside the load.
    Probe,
}

impl Phase {
    /// The word used on disk.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Measure => "measure",
            Self::Probe => "probe",
        }
    }

    /// The phase of this name; [`Phase::Measure`] for names of a later version.
    pub fn from_name(name: &str) -> Self {
        [Self::Warmup, Self::Probe]
            .into_iter()
            .find(|phase| phase.name() == name)
            .unwrap_or(Self::Measure)
    }
}

/// Which request of the run this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Index in the plan, from zero; attempts of one request share it.
    pub index: u64,
    /// Part of a distributed run.
    pub shard: u32,
    /// Point of a sweep.
    pub point: u32,
    /// Part of the run.
    pub phase: Phase,
    /// Index into the plan's targets.
    pub target: u16,
    /// Conversation, where the workload has them.
    pub session: Option<u64>,
    /// Turn within the conversation.
    pub turn: u32,
    /// Zero for the first try of a request.
    pub attempt: u32,
    /// Class of the workload, such as a tenant.
    pub class: Option<String>,
    /// Adapter asked for.
    pub lora: Option<String>,
}

impl Identity {
    /// The first attempt of request `index` in a plain run.
    pub fn new(index: u64, phase: Phase) -> Self {
        Self {
            index,
            shard: 0,
            point: 0,
            phase,
            target: 0,
            session: None,
            turn: 0,
            attempt: 0,
            class: None,
            lora: None,
        }
    }
}

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// Prompt length as the workload counted it.
    pub prompt_tokens: Option<u32>,
    /// Answer length asked for.
    pub output_tokens: Option<u32>,
    /// Size of the request body on the wire.
    pub body_bytes: u64,
}

/// The connection that carried the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connection {
    /// Number of the connection within the run.
    pub id: u64,
    /// Requests it had carried before this one. Zero: it was new.
    pub uses_before: u32,
    /// Its age when this request was sent.
    pub age: Option<Nanos>,
    /// How often a kept connection turned out dead and was opened again for this request.
    pub reopened: u32,
    /// Worker thread that owned it.
    pub worker: u16,
}

/// Where the times of events come from.
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
    /// The word used on disk.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::KernelBelowTls => "kernel-below-tls",
            Self::User => "user",
        }
    }

    /// The source of this name; [`StampSource::User`], the weakest claim, for others.
    pub fn from_name(name: &str) -> Self {
        [Self::Kernel, Self::KernelBelowTls]
            .into_iter()
            .find(|source| source.name() == name)
            .unwrap_or(Self::User)
    }
}

/// The points of a request's life that are not events. Absent points did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// When the plan wanted it sent. `None` where the schedule means nothing (infinite rate).
    pub intended: Option<Nanos>,
    /// When the gate let it pass.
    pub admitted: Nanos,
    /// Start of connecting; absent on a reused connection, like the next two.
    pub connect_begin: Option<Nanos>,
    /// TCP connection made.
    pub connect_end: Option<Nanos>,
    /// TLS handshake done.
    pub tls_end: Option<Nanos>,
    /// Just before its first byte went into a kept connection that turned out dead. All later points
    /// are then those of the second sending, on a new connection.
    pub lost_send: Option<Nanos>,
    /// Just before the write of the request's first byte.
    pub first_byte_sent: Option<Nanos>,
    /// After the write of its last byte.
    pub last_byte_sent: Option<Nanos>,
    /// Read that completed the answer's head.
    pub headers: Option<Nanos>,
    /// End of the stream: the last byte of the answer, or the failure.
    pub end: Option<Nanos>,
}

/// Counts as the server told them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u32>,
    /// Tokens of the answer.
    pub completion_tokens: Option<u32>,
    /// Prompt tokens found in the prefix cache.
    pub cached_tokens: Option<u32>,
    /// Answer tokens that were reasoning.
    pub reasoning_tokens: Option<u32>,
}

/// Durations that the server itself reported for this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerTimings {
    /// Waiting before the engine took the request.
    pub queue: Option<Nanos>,
    /// Reading the prompt.
    pub prefill: Option<Nanos>,
    /// Writing the answer.
    pub decode: Option<Nanos>,
}

/// The network's own view, from `TCP_INFO` at the end of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Network {
    /// Smoothed round trip time.
    pub round_trip: Nanos,
    /// Segments that we sent again during this request.
    pub retransmits: u32,
    /// Data segments received during this request.
    pub segments_in: u32,
}

/// Where a count of output tokens comes from, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountSource {
    /// The server's usage.
    Usage,
    /// Token counts of the events themselves: token ids, continuous usage, one event per token.
    Events,
    /// The answer's text, tokenized again after the run.
    Retokenized,
}

/// One attempt of one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// Which request.
    pub identity: Identity,
    /// What was asked.
    pub asked: Asked,
    /// What carried it.
    pub connection: Connection,
    /// Its points in time.
    pub times: Times,
    /// Where the times of its events come from.
    pub stamp_source: StampSource,
    /// Its events, in order of arrival.
    pub events: Vec<Event>,
    /// Reads that returned bytes of the answer.
    pub reads: u32,
    /// Of these, reads that merged segments, whose stamp is an upper bound.
    pub merged_reads: u32,
    /// The server's counts.
    pub usage: Option<Usage>,
    /// Tokens of the text, counted again after the run.
    pub retokenized_tokens: Option<u32>,
    /// The server's own durations.
    pub server_timings: Option<ServerTimings>,
    /// The network's view.
    pub network: Option<Network>,
    /// HTTP status of the answer.
    pub status: Option<u16>,
    /// How it ended.
    pub outcome: Outcome,
    /// Inversions above the tolerated size that were straightened.
    pub clock_faults: u32,
    /// The answer's text, where the plan keeps it.
    pub text: Option<String>,
}

impl Timeline {
    /// A request that the gate has just let pass.
    pub fn new(identity: Identity, asked: Asked, admitted: Nanos) -> Self {
        Self {
            identity,
            asked,
            connection: Connection::default(),
            times: Times { admitted, ..Times::default() },
            stamp_source: StampSource::default(),
            events: Vec::new(),
            reads: 0,
            merged_reads: 0,
            usage: None,
            retokenized_tokens: None,
            server_timings: None,
            network: None,
            status: None,
            outcome: Outcome::Abandoned,
            clock_faults: 0,
            text: None,
        }
    }

    /// Adds an event. Its time never lies before the one before it, nor before the send.
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

    /// Whether the request was answered to its end.
    pub fn is_success(&self) -> bool {
        self.outcome == Outcome::Success
    }

    fn first(&self, wanted: impl Fn(EventKind) -> bool) -> Option<&Event> {
        self.events.iter().find(|event| wanted(event.kind))
    }

    /// The first event of any kind but the end mark.
    pub fn first_event(&self) -> Option<&Event> {
        self.first(|kind| kind != EventKind::End)
    }

    /// The first event with text, reasoning or a tool call.
    pub fn first_content(&self) -> Option<&Event> {
        self.first(EventKind::is_content)
    }

    /// Whether the answer has several choices, whose events are interleaved.
    pub fn has_further_choices(&self) -> bool {
        self.events.iter().any(|event| event.kind == EventKind::FurtherChoice)
    }

    /// The first content that is not reasoning.
    pub fn first_answer(&self) -> Option<&Event> {
        self.first(EventKind::is_answer)
    }

    /// The last event with content.
    pub fn last_content(&self) -> Option<&Event> {
        self.events.iter().rev().find(|event| event.kind.is_content())
    }

    /// Tokens told by the events themselves; `None` unless every content event told its count.
    pub fn event_tokens(&self) -> Option<u32> {
        let mut content = self.events.iter().filter(|event| event.kind.has_choice()).peekable();
        content.peek()?;
        let told = content.try_fold(0_u32, |sum, event| match event.tokens() {
            Some(tokens) => Some(sum.saturating_add(tokens)),
            None if event.kind.is_generated() => None,
            None => Some(sum),
        })?;
        (told > 0).then_some(told)
    }

    /// Tokens of the text, unless it is only that of the first of several choices.
    fn retokenized(&self) -> Option<u32> {
        self.retokenized_tokens.filter(|_| !self.has_further_choices())
    }

    /// Tokens of the answer, from the best source there is.
    pub fn output_tokens(&self) -> Option<(u32, CountSource)> {
        let from_usage = self.usage.and_then(|usage| usage.completion_tokens);
        // Zero beside content is a server that does not count.
        let from_usage = from_usage.filter(|told| *told > 0 || self.first_content().is_none());
        from_usage
            .map(|tokens| (tokens, CountSource::Usage))
            .or_else(|| self.event_tokens().map(|tokens| (tokens, CountSource::Events)))
            .or_else(|| self.retokenized().map(|tokens| (tokens, CountSource::Retokenized)))
    }

    /// Tokens of the prompt: the server's count, otherwise the workload's.
    pub fn prompt_tokens(&self) -> Option<u32> {
        self.usage.and_then(|usage| usage.prompt_tokens).or(self.asked.prompt_tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline() -> Timeline {
        let mut timeline =
            Timeline::new(Identity::new(0, Phase::Measure), Asked::default(), Nanos(1_000));
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
