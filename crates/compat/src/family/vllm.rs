//! vLLM's Python client (`vllm bench serve`).
//!
//! Every event with a choice is a token, including an empty one and chat's role event. A response
//! ends with its last such event. (Before 0.30 a chat response ended with its usage event.) On the
//! Responses API only pieces of text and reasoning are tokens; an answer of a tool call alone has failed.

use tokometer_base::Nanos;
use tokometer_figures::Route;
use tokometer_record::{EventKind, Timeline};

use super::lens::{self, ToolView};

/// The times of a request, which both clients of vLLM define in the same way.
pub(super) fn times(timeline: &Timeline, route: Route) -> ToolView {
    let start = lens::start(timeline);
    let is_counted = match route {
        Route::Responses => is_text,
        _ => EventKind::has_choice,
    };
    let (ttft, gaps) = lens::first_and_gaps(timeline, start, is_counted);
    let last = lens::last(timeline, is_counted);
    let latency = last.map_or(Nanos::ZERO, |event| event.at - start);
    let is_success = lens::ended_regularly(timeline) && last.is_some();
    ToolView { start, ttft, gaps, latency, is_success, ..ToolView::default() }
}

fn is_text(kind: EventKind) -> bool {
    matches!(kind, EventKind::Text | EventKind::Reasoning)
}

pub(super) fn see(timeline: &Timeline, route: Route) -> ToolView {
    let input_tokens = lens::reported_prompt(timeline);
    ToolView {
        output_tokens: output_tokens(timeline),
        input_tokens,
        listed_input_tokens: input_tokens,
        ..times(timeline, route)
    }
}

/// vLLM tokenizes the text unless usage comes in an event without a choice. Texts of responses with usage are
/// counted only where a result file needs them, so the server's count, which the tokenizer approximates, is used
/// in every run: the block must not depend on which files are saved.
fn output_tokens(timeline: &Timeline) -> u32 {
    let has_choice = timeline.events.iter().any(|event| event.kind.has_choice());
    lens::usage_tokens(timeline).or(timeline.retokenized_tokens).unwrap_or(u32::from(has_choice))
}
