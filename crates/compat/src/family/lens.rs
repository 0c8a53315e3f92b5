//! One request by another tool's definitions, and the functions that all of them share.

use tokometer_base::Nanos;
use tokometer_record::{Event, EventKind, FailureKind, Outcome, Timeline};

/// Entries of a gap that are counted and listed one by one. No server sends as many tokens in one event:
/// more of them are damage, and sixteen bytes of a record must not become a list of 65,534 entries.
pub(super) const REPEATS_MAX: u32 = 8_192;

/// A gap that occurs `repeats` times in the tool's list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RepeatedGap {
    pub(super) nanos: f64,
    pub(super) repeats: u32,
}

/// One request by a tool's definitions.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ToolView {
    /// When the tool starts its timer.
    pub(super) start: Nanos,
    /// Zero when no token arrived.
    pub(super) ttft: Nanos,
    /// Entries of the list of inter-token latencies.
    pub(super) gaps: Vec<RepeatedGap>,
    /// The same divided among the tokens of each event, where the tool has such a list too.
    pub(super) token_gaps: Vec<RepeatedGap>,
    pub(super) latency: Nanos,
    /// By the tool's rule.
    pub(super) output_tokens: u32,
    /// By the tool's rule for totals.
    pub(super) input_tokens: u32,
    /// By the tool's rule for detailed result files.
    pub(super) listed_input_tokens: u32,
    /// By the tool's rule.
    pub(super) is_success: bool,
}

/// Just before the request is issued: making a connection is part of the latency.
pub(super) fn start(timeline: &Timeline) -> Nanos {
    let times = &timeline.times;
    let on_demand = times.connect_begin.filter(|begin| *begin >= times.admitted);
    on_demand.or(times.first_byte_sent).unwrap_or(times.admitted)
}

/// The first counted event and one gap for each later one.
pub(super) fn first_and_gaps(
    timeline: &Timeline,
    start: Nanos,
    is_counted: impl Fn(EventKind) -> bool,
) -> (Nanos, Vec<RepeatedGap>) {
    let mut counted = timeline.events.iter().filter(|event| is_counted(event.kind));
    let Some(first) = counted.next() else { return (Nanos::ZERO, Vec::new()) };
    let mut previous = first.at;
    let mut gaps: Vec<RepeatedGap> = Vec::new();
    for event in counted {
        let nanos = (event.at - previous).0 as f64;
        previous = event.at;
        match gaps.last_mut() {
            // Events of one read.
            Some(last) if nanos == 0.0 && last.nanos == 0.0 && last.repeats < REPEATS_MAX => {
                last.repeats += 1;
            }
            _ => gaps.push(RepeatedGap { nanos, repeats: 1 }),
        }
    }
    (first.at - start, gaps)
}

pub(super) fn last(timeline: &Timeline, is_counted: impl Fn(EventKind) -> bool) -> Option<&Event> {
    timeline.events.iter().rev().find(|event| is_counted(event.kind))
}

/// Success, or a response whose only fault is missing content, which some tools accept.
pub(super) fn ended_regularly(timeline: &Timeline) -> bool {
    match &timeline.outcome {
        Outcome::Success => true,
        Outcome::Failed(failure) => failure.kind == FailureKind::NoContent,
        Outcome::Cancelled | Outcome::Abandoned => false,
    }
}

/// Output tokens in the server's usage, unless that is absent or zero.
pub(super) fn usage_tokens(timeline: &Timeline) -> Option<u32> {
    timeline.usage.and_then(|usage| usage.completion_tokens).filter(|tokens| *tokens > 0)
}

/// Whether usage came in an event without a choice.
pub(super) fn has_usage_event(timeline: &Timeline) -> bool {
    timeline.events.iter().any(|event| event.kind == EventKind::Usage)
}

/// Prompt tokens as the client counted them; zero where it could not.
pub(super) fn requested_prompt(timeline: &Timeline) -> u32 {
    timeline.requested.prompt_tokens.unwrap_or(0)
}

/// Prompt tokens from the server, otherwise the client's count.
pub(super) fn reported_prompt(timeline: &Timeline) -> u32 {
    timeline.prompt_tokens().unwrap_or(0)
}
