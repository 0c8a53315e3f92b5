//! What single servers do differently from the dialect that they speak: a row each, with what shows it.
//!
//! The shared reader knows no server. A row says who differs, in what, and which capture (`fixtures/captures`) or
//! test (`exchange/tests`) proves it; a test checks that the proof exists. What holds for every dialect is in
//! `crate::quirk`.

use tokometer_record::Event;

use super::completions::USAGE;
use super::llamacpp::TIMINGS;
use super::rules::StreamState;
use crate::quirk::Quirk;
use crate::scan::{Field, Fields, Key, enter, take, usage};

pub(super) const OPENAI_EVENT: &[Quirk<Key>] = &[
    Quirk {
        server: "Groq",
        does: "has the counts of a stream in an object of its own",
        proof: "counts_are_read_in_every_provider_s_form",
        rule: enter("x_groq", GROQ),
    },
    Quirk {
        server: "llama.cpp",
        does: "adds the durations of its native route",
        proof: "llamacpp-chat",
        rule: enter("timings", TIMINGS),
    },
];

const GROQ: &[Key] = &[usage("usage", USAGE)];

pub(super) const OPENAI_CHOICE: &[Quirk<Key>] = &[
    Quirk {
        server: "Moonshot",
        does: "has the counts in the choice that ends",
        proof: "counts_are_read_in_every_provider_s_form",
        rule: usage("usage", USAGE),
    },
    Quirk {
        server: "OpenRouter",
        does: "has the error of a choice inside of it",
        proof: "an_error_inside_a_further_choice_fails_the_request",
        rule: take("error", Field::Error),
    },
];

pub(super) const OPENAI_USAGE: &[Quirk<Key>] = &[
    Quirk {
        server: "DeepSeek",
        does: "has its own name for cached tokens",
        proof: "counts_are_read_in_every_provider_s_form",
        rule: take("prompt_cache_hit_tokens", Field::CachedTokens),
    },
    Quirk {
        server: "SGLang",
        does: "has the reasoning beside the counts, not in their details",
        proof: "sglang-chat",
        rule: take("reasoning_tokens", Field::ReasoningTokens),
    },
];

/// In the message of a chat, or a piece of it.
pub(super) const CHAT_MESSAGE: &[Quirk<Key>] = &[Quirk {
    server: "OpenRouter, MiniMax",
    does: "have the reasoning in a list of parts",
    proof: "reasoning_in_a_list_of_details_is_reasoning",
    rule: take("reasoning_details", Field::Reasoning),
}];

const OPENAI_COUNTS: &[Quirk<fn(&mut Fields<'_>)>] = &[Quirk {
    server: "xAI",
    does: "counts reasoning beside the output tokens; its sum of all three shows it",
    proof: "reasoning_that_the_sum_shows_beside_the_output_is_part_of_the_output",
    rule: include_reasoning,
}];

pub(super) fn settle(fields: &mut Fields<'_>, _: &mut StreamState, _: &[Event]) {
    if fields.usage.is_some() {
        for quirk in OPENAI_COUNTS {
            (quirk.rule)(fields);
        }
    }
}

fn include_reasoning(fields: &mut Fields<'_>) {
    let (Some(total), Some(usage)) = (fields.total_tokens, &mut fields.usage) else { return };
    let counts = (usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens);
    let (Some(prompt), Some(output), Some(reasoning @ 1..)) = counts else { return };
    if u64::from(total) == u64::from(prompt) + u64::from(output) + u64::from(reasoning) {
        usage.completion_tokens = Some(output + reasoning);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::quirk::{ERROR_FORMS, GOES_ON};

    fn proofs<T>(rows: &[Quirk<T>]) -> Vec<[&'static str; 3]> {
        rows.iter().map(|row| [row.server, row.does, row.proof]).collect()
    }

    #[test]
    fn every_quirk_is_proved_by_a_capture_or_a_test() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let files = std::fs::read_dir(root.join("src/exchange/tests")).unwrap();
        let tests: String =
            files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
        let keys = [OPENAI_EVENT, OPENAI_CHOICE, OPENAI_USAGE, CHAT_MESSAGE];
        let others = [proofs(OPENAI_COUNTS), proofs(GOES_ON), proofs(ERROR_FORMS)].concat();
        for [server, does, proof] in keys.into_iter().flat_map(proofs).chain(others) {
            let capture = root.join("../../fixtures/captures").join(proof).with_extension("raw");
            let is_proved = capture.exists() || tests.contains(&format!("fn {proof}()"));
            assert!(is_proved, "{server} {does}: no capture or test `{proof}`");
        }
    }
}
