//! SGLang's `bench_serving`.
//!
//! An event counts only with text in it (reasoning is text), and the latency runs to the last line
//! of any kind, the end mark included. Completions report the length that was asked for, because
//! usage is looked for only beside text; chat and the native route report the server's count. The
//! native route divides a gap among the tokens that came with it.

use tokometer_base::Nanos;
use tokometer_record::{EventKind, Timeline};

use super::Route;
use super::lens::{self, Gap, Seen};

fn has_text(kind: EventKind) -> bool {
    matches!(kind, EventKind::Text | EventKind::Reasoning)
}

pub(super) fn see(timeline: &Timeline, route: Route) -> Seen {
    let start = lens::start(timeline);
    let (ttft, gaps) = match route {
        Route::Native => native_gaps(timeline, start),
        Route::Completions | Route::Chat => lens::first_and_gaps(timeline, start, has_text),
    };
    let latency = timeline.events.last().map_or(Nanos::ZERO, |event| event.at - start);
    let told = timeline.usage.and_then(|usage| usage.completion_tokens);
    let asked = timeline.asked.output_tokens;
    let output_tokens = match route {
        Route::Completions => asked.or(told),
        Route::Chat => told.or(asked),
        Route::Native => told.or_else(|| timeline.event_tokens()).or(asked),
    };
    Seen {
        start,
        ttft,
        gaps,
        latency,
        output_tokens: output_tokens.unwrap_or(0),
        input_tokens: lens::asked_prompt(timeline),
        is_success: lens::ended_regularly(timeline),
    }
}

/// One entry per token: an event's gap divided by the tokens it added. An event that added none is
/// passed over, and its time goes to the next.
fn native_gaps(timeline: &Timeline, start: Nanos) -> (Nanos, Vec<Gap>) {
    let mut events = timeline.events.iter().filter(|event| event.kind.has_choice());
    let Some(first) = events.find(|event| has_text(event.kind)) else {
        return (Nanos::ZERO, Vec::new());
    };
    let mut previous = first.at;
    let mut gaps = Vec::new();
    for event in events {
        let tokens = event.tokens().unwrap_or(1);
        if tokens > 0 {
            let nanos = (event.at - previous).0 as f64 / f64::from(tokens);
            gaps.push(Gap { nanos, repeats: tokens });
            previous = event.at;
        }
    }
    (first.at - start, gaps)
}
