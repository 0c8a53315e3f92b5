//! vLLM's `benchmark_serving.py` of 2024, and its fork for TGI.
//!
//! An event counts only with text, the timer stops at the end mark, and output tokens are always
//! counted by tokenizing the text. In chat a gap begins at the previous event, with or without text,
//! and a response without text is a success.

use tokometer_base::Nanos;
use tokometer_figures::Route;
use tokometer_record::{EventKind, Timeline};

use super::lens::{self, RepeatedGap, ToolView};

/// That tool reads `choices[0]` of every event, whichever choice it is.
fn is_text(kind: EventKind) -> bool {
    matches!(kind, EventKind::Text | EventKind::FurtherChoice)
}

pub(super) fn see(timeline: &Timeline, route: Route) -> ToolView {
    let start = lens::start(timeline);
    let (ttft, gaps) = match route {
        Route::Chat | Route::Responses => chat_gaps(timeline, start),
        Route::Completions | Route::Native | Route::Pooling => {
            lens::first_and_gaps(timeline, start, is_text)
        }
    };
    let has_text = timeline.events.iter().any(|event| is_text(event.kind));
    let latency = timeline.events.last().map_or(Nanos::ZERO, |event| event.at - start);
    // A record without a retokenized count still has the count that this approximated.
    let output_tokens = timeline
        .retokenized_tokens
        .or_else(|| timeline.output_tokens().map(|(tokens, _)| tokens))
        .unwrap_or(0);
    let input_tokens = lens::requested_prompt(timeline);
    ToolView {
        start,
        ttft,
        gaps,
        latency,
        output_tokens,
        input_tokens,
        listed_input_tokens: input_tokens,
        is_success: lens::ended_regularly(timeline)
            && (has_text || matches!(route, Route::Chat | Route::Responses)),
        ..ToolView::default()
    }
}

/// The first event with text, and for each later one the time since the previous event.
fn chat_gaps(timeline: &Timeline, start: Nanos) -> (Nanos, Vec<RepeatedGap>) {
    let (mut first, mut previous, mut gaps) = (None, start, Vec::new());
    for event in timeline.events.iter().filter(|event| event.kind.has_choice()) {
        if is_text(event.kind) && first.is_some() {
            gaps.push(RepeatedGap { nanos: (event.at - previous).0 as f64, repeats: 1 });
        } else if is_text(event.kind) {
            first = Some(event.at - start);
        }
        previous = event.at;
    }
    (first.unwrap_or(Nanos::ZERO), gaps)
}
