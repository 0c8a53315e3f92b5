//! The columns of counts: what was asked for, and what the server reported.

use arrow_array::RecordBatch;
use tokometer_base::{Nanos, Script};

use super::read::{TextColumn, U32s, U64s};
use crate::timeline::{ContentBytes, RequestedLengths, ServerTimings, Usage};

pub(super) struct CountColumns {
    asked_prompt: U32s,
    asked_output: U32s,
    body_bytes: U64s,
    items: U32s,
    audio: U64s,
    prompt_hash: U64s,
    prompt_script: TextColumn,
    prompt: U32s,
    completion: U32s,
    cached: U32s,
    reasoning: U32s,
    first_bytes: U64s,
    all_bytes: U64s,
    reasoning_bytes: U64s,
    pub(super) retokenized: U32s,
    queue: U64s,
    prefill: U64s,
    decode: U64s,
}

impl CountColumns {
    pub(super) fn of(batch: &RecordBatch) -> Self {
        Self {
            asked_prompt: U32s::of(batch, "asked_prompt_tokens"),
            asked_output: U32s::of(batch, "asked_output_tokens"),
            body_bytes: U64s::of(batch, "body_bytes"),
            items: U32s::of(batch, "items"),
            audio: U64s::of(batch, "audio_ns"),
            prompt_hash: U64s::of(batch, "prompt_hash"),
            prompt_script: TextColumn::of(batch, "prompt_script"),
            prompt: U32s::of(batch, "usage_prompt_tokens"),
            completion: U32s::of(batch, "usage_completion_tokens"),
            cached: U32s::of(batch, "usage_cached_tokens"),
            reasoning: U32s::of(batch, "usage_reasoning_tokens"),
            first_bytes: U64s::of(batch, "first_content_bytes"),
            all_bytes: U64s::of(batch, "content_bytes"),
            reasoning_bytes: U64s::of(batch, "reasoning_bytes"),
            retokenized: U32s::of(batch, "retokenized_tokens"),
            queue: U64s::of(batch, "server_queue_ns"),
            prefill: U64s::of(batch, "server_prefill_ns"),
            decode: U64s::of(batch, "server_decode_ns"),
        }
    }

    pub(super) fn requested(&self, row: usize) -> RequestedLengths {
        RequestedLengths {
            prompt_tokens: self.asked_prompt.at(row),
            output_tokens: self.asked_output.at(row),
            body_bytes: self.body_bytes.at(row).unwrap_or(0),
            items: self.items.at(row),
            audio: self.audio.at(row).map(Nanos),
            prompt_hash: self.prompt_hash.at(row),
            prompt_script: self.prompt_script.at(row).and_then(Script::named),
        }
    }

    pub(super) fn usage(&self, row: usize) -> Option<Usage> {
        let usage = Usage {
            prompt_tokens: self.prompt.at(row),
            completion_tokens: self.completion.at(row),
            cached_tokens: self.cached.at(row),
            reasoning_tokens: self.reasoning.at(row),
        };
        (usage != Usage::default()).then_some(usage)
    }

    pub(super) fn content_bytes(&self, row: usize) -> Option<ContentBytes> {
        Some(ContentBytes {
            first: self.first_bytes.at(row)?,
            all: self.all_bytes.at(row)?,
            reasoning: self.reasoning_bytes.at(row),
        })
    }

    pub(super) fn timings(&self, row: usize) -> Option<ServerTimings> {
        let timings = ServerTimings {
            queue: self.queue.span(row),
            prefill: self.prefill.span(row),
            decode: self.decode.span(row),
        };
        (timings != ServerTimings::default()).then_some(timings)
    }
}
