//! vLLM's Rust client: the Python client's times with other counts.
//!
//! Usage is read wherever it stands; without it every chunk is a token. Prompt lengths are always
//! the client's own.

use tokometer_record::Timeline;

use super::lens::{self, Seen};
use super::{Route, vllm};

pub(super) fn see(timeline: &Timeline, route: Route) -> Seen {
    let seen = vllm::times(timeline, route);
    let chunks = seen.gaps.len() + usize::from(timeline.events.iter().any(|e| e.kind.has_choice()));
    let chunks = u32::try_from(chunks).unwrap_or(u32::MAX);
    Seen {
        output_tokens: lens::usage_tokens(timeline).unwrap_or(chunks),
        input_tokens: lens::asked_prompt(timeline),
        ..seen
    }
}
