//! SGLang's `bench_serving`.
//!
//! An event counts only with text (reasoning is text), and the latency ends with the last line of any
//! kind, the end mark included. SGLang does not request a usage event, so a record with one has what
//! SGLang would not have seen: it reports the requested length. Usage that a server sends anyway
//! counts, in completions only beside text. The native route reports the server's count and divides a
//! gap among the tokens that came with it; the other two divide where the server uses speculative
//! decoding.

use tokometer_base::Nanos;
use tokometer_figures::Route;
use tokometer_record::{EventKind, Timeline};

use super::lens::{self, RepeatedGap, ToolView};

fn has_text(kind: EventKind) -> bool {
    matches!(kind, EventKind::Text | EventKind::Reasoning | EventKind::FurtherChoice)
}

pub(super) fn see(timeline: &Timeline, route: Route) -> ToolView {
    let start = lens::start(timeline);
    let (ttft, gaps) = match route {
        Route::Native => native_gaps(timeline, start),
        Route::Completions | Route::Chat | Route::Responses | Route::Pooling => {
            lens::first_and_gaps(timeline, start, has_text)
        }
    };
    let latency = timeline.events.last().map_or(Nanos::ZERO, |event| event.at - start);
    let reported = timeline.usage.and_then(|usage| usage.completion_tokens);
    let asked = timeline.requested.output_tokens;
    let output_tokens = match route {
        Route::Completions | Route::Chat | Route::Responses if lens::has_usage_event(timeline) => {
            asked.or(reported)
        }
        Route::Completions if !ends_with_text(timeline) => asked.or(reported),
        Route::Completions | Route::Chat | Route::Responses => reported.or(asked),
        Route::Native | Route::Pooling => reported.or_else(|| timeline.event_tokens()).or(asked),
    };
    // Totals use the client's counts; the list of a detailed file uses the server's where it has
    // them.
    let input_tokens = lens::requested_prompt(timeline);
    let listed_input_tokens = match route {
        Route::Completions | Route::Chat | Route::Responses if lens::has_usage_event(timeline) => {
            input_tokens
        }
        _ => lens::reported_prompt(timeline),
    };
    let token_gaps = match route {
        Route::Native | Route::Pooling => Vec::new(),
        Route::Completions | Route::Chat | Route::Responses => divided(timeline, &gaps),
    };
    ToolView {
        start,
        ttft,
        gaps,
        token_gaps,
        latency,
        output_tokens: output_tokens.unwrap_or(0),
        input_tokens,
        listed_input_tokens,
        is_success: lens::ended_regularly(timeline),
    }
}

/// Whether the last choice has text. Usage without its own event came with that choice.
fn ends_with_text(timeline: &Timeline) -> bool {
    lens::last(timeline, EventKind::has_choice).is_some_and(|event| has_text(event.kind))
}

/// Each gap divided among the tokens of the event that ends it. SGLang tokenizes the event's text; a
/// record has the server's count, otherwise the response's tokens are spread over its events.
fn divided(timeline: &Timeline, gaps: &[RepeatedGap]) -> Vec<RepeatedGap> {
    let texts = || timeline.events.iter().filter(|event| has_text(event.kind));
    let known = timeline.output_tokens().map(|(tokens, _)| tokens);
    let tokens = f64::from(timeline.retokenized_tokens.or(known).unwrap_or(0));
    let per_event = tokens / texts().count().max(1) as f64;
    let spread =
        |nth: u32| (f64::from(nth + 1) * per_event).round() - (f64::from(nth) * per_event).round();
    let later = texts().zip(0_u32..).skip(1).zip(gaps);
    later
        .map(|((event, nth), gap)| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let repeats = event.tokens().unwrap_or(spread(nth) as u32).max(1);
            RepeatedGap { nanos: gap.nanos / f64::from(repeats), repeats }
        })
        .collect()
}

/// One entry per token: an event's gap divided by the tokens it added. An event that added none is
/// skipped, and its time goes to the next.
fn native_gaps(timeline: &Timeline, start: Nanos) -> (Nanos, Vec<RepeatedGap>) {
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
            gaps.push(RepeatedGap { nanos, repeats: tokens });
            previous = event.at;
        }
    }
    (first.at - start, gaps)
}
