//! vLLM's Python client (`vllm bench serve`).
//!
//! Every event with a choice is a token, an empty one and chat's role event included. A completion
//! ends with its last such event; a chat answer with its last event of any kind but the end mark.

use tokometer_base::Nanos;
use tokometer_record::{EventKind, Timeline};

use super::Route;
use super::lens::{self, Seen};

/// The times of a request, which vLLM's two clients read alike.
pub(super) fn times(timeline: &Timeline, route: Route) -> Seen {
    let start = lens::start(timeline);
    let (ttft, gaps) = lens::first_and_gaps(timeline, start, EventKind::has_choice);
    let ends_latency = |kind: EventKind| match route {
        Route::Chat => kind != EventKind::End,
        Route::Completions | Route::Native => kind.has_choice(),
    };
    let latency = lens::last(timeline, ends_latency).map_or(Nanos::ZERO, |event| event.at - start);
    let has_token = timeline.events.iter().any(|event| event.kind.has_choice());
    let is_success = lens::ended_regularly(timeline) && (has_token || route == Route::Chat);
    Seen { start, ttft, gaps, latency, is_success, ..Seen::default() }
}

pub(super) fn see(timeline: &Timeline, route: Route) -> Seen {
    Seen {
        output_tokens: output_tokens(timeline),
        input_tokens: lens::told_prompt(timeline),
        ..times(timeline, route)
    }
}

/// Usage counts only in an event without a choice; otherwise the text is tokenized. Where the record
/// has no second count the server's is used, which is what the tokenizer would have approximated.
fn output_tokens(timeline: &Timeline) -> u32 {
    let usage = lens::usage_tokens(timeline);
    let has_choice = timeline.events.iter().any(|event| event.kind.has_choice());
    usage
        .filter(|_| lens::has_usage_event(timeline))
        .or(timeline.retokenized_tokens)
        .or(usage)
        .unwrap_or(u32::from(has_choice))
}
