//! vLLM's Rust client: the Python client's times with other counts.
//!
//! Usage is read wherever it occurs; without it every chunk is a token. Prompt lengths are always the
//! client's own.

use tokometer_figures::Route;
use tokometer_record::Timeline;

use super::lens::{self, ToolView};
use super::vllm;

pub(super) fn see(timeline: &Timeline, route: Route) -> ToolView {
    let seen = vllm::times(timeline, route);
    let later = seen.gaps.iter().fold(0, |sum: u32, gap| sum.saturating_add(gap.repeats));
    let chunks = later + u32::from(timeline.events.iter().any(|e| e.kind.has_choice()));
    // A chat response without any token is a success here, and a failure in the Python client.
    let is_success = seen.is_success
        || (matches!(route, Route::Chat | Route::Responses) && lens::ended_regularly(timeline));
    let input_tokens = lens::requested_prompt(timeline);
    ToolView {
        output_tokens: lens::usage_tokens(timeline).unwrap_or(chunks),
        input_tokens,
        listed_input_tokens: input_tokens,
        is_success,
        ..seen
    }
}
