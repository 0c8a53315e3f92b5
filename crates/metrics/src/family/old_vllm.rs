//! vLLM's `benchmark_serving.py` of 2024, and the fork of it that measured TGI.
//!
//! An event counts only with text in it, the stopwatch stops at the end mark, and output tokens are
//! always counted by tokenizing the text again.

use tokometer_base::Nanos;
use tokometer_record::{EventKind, Timeline};

use super::lens::{self, Seen};

pub(super) fn see(timeline: &Timeline) -> Seen {
    let start = lens::start(timeline);
    let (ttft, gaps) = lens::first_and_gaps(timeline, start, |kind| kind == EventKind::Text);
    let latency = timeline.events.last().map_or(Nanos::ZERO, |event| event.at - start);
    // A record whose text was not tokenized again still has the count that this approximated.
    let output_tokens = timeline
        .retokenized_tokens
        .or_else(|| timeline.output_tokens().map(|(tokens, _)| tokens))
        .unwrap_or(0);
    Seen {
        start,
        ttft,
        gaps,
        latency,
        output_tokens,
        input_tokens: lens::asked_prompt(timeline),
        is_success: lens::ended_regularly(timeline),
    }
}
