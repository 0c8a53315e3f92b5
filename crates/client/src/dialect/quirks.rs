//! What single servers do differently from the dialect that they speak: a row each, with what shows it.
//!
//! The shared reader knows no server. A row says who differs, in what, and which capture (`fixtures/captures`) or
//! test (`exchange/tests`) proves it; a test checks that the proof exists.

use serde_json::Value;
use tokometer_record::Event;

use super::completions::USAGE;
use super::llamacpp::TIMINGS;
use crate::reading::StreamState;
use crate::scan::{Field, Fields, Key, enter, take, usage};
use crate::server_message::{says_error, words_of};

#[derive(Debug)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the first three fields are for people, and for the test below")
)]
pub(crate) struct Quirk<T> {
    pub(crate) server: &'static str,
    pub(crate) does: &'static str,
    pub(crate) proof: &'static str,
    pub(crate) rule: T,
}

type FindError = fn(&Value) -> Option<&Value>;

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

pub(crate) const GOES_ON: &[Quirk<&str>] = &[
    Quirk {
        server: "TGI",
        does: "leaves the finish reason empty in every event except the last",
        proof: "tgi-completions",
        rule: "",
    },
    Quirk {
        server: "gateways in JavaScript",
        does: "write their null as a text",
        proof: "a_finish_reason_of_null_in_the_form_of_a_text_ends_nothing",
        rule: "null",
    },
    Quirk {
        server: "gateways in Python",
        does: "write their null as a text",
        proof: "a_finish_reason_of_null_in_the_form_of_a_text_ends_nothing",
        rule: "None",
    },
];

/// Documents that are an error and have no `error`: the object with the message, or `None` where the document is
/// no such error.
pub(crate) const ERROR_FORMS: &[Quirk<FindError>] = &[
    Quirk {
        server: "FastAPI",
        does: "has only `detail`",
        proof: "an_error_without_its_key_fails_the_answer_that_it_interrupts",
        rule: |document| says_error(document.get("detail")?).then_some(document),
    },
    Quirk {
        server: "Cloudflare",
        does: "has a list `errors`",
        proof: "errors_in_the_forms_of_gateways_fail_the_answer_that_they_interrupt",
        rule: |document| {
            let errors = document.get("errors").filter(|errors| says_error(errors))?;
            Some(errors.get(0).unwrap_or(errors))
        },
    },
    Quirk {
        server: "AWS",
        does: "has an object under the name of its exception",
        proof: "errors_in_the_forms_of_gateways_fail_the_answer_that_they_interrupt",
        rule: |document| {
            let mut fields = document.as_object()?.iter();
            let named =
                fields.find(|(name, value)| name.ends_with("Exception") && value.is_object());
            named.map(|(_, value)| value)
        },
    },
    Quirk {
        server: "gateways",
        does: "have a message with a status of failure",
        proof: "an_error_without_its_key_fails_the_answer_that_it_interrupts",
        rule: |document| {
            let _message = words_of(document)?;
            let keys = ["code", "status", "status_code", "statusCode"];
            let mut statuses = keys.iter().filter_map(|key| document.get(key)?.as_u64());
            statuses.any(|status| (400..600).contains(&status)).then_some(document)
        },
    },
    Quirk {
        server: "gateways",
        does: "have `success: false`",
        proof: "an_error_code_fails_the_answer_in_the_servers_words",
        rule: |document| (document.get("success") == Some(&Value::Bool(false))).then_some(document),
    },
    Quirk {
        server: "FastChat, Baidu",
        does: "have an `error_code`, which is 0 in answers of success",
        proof: "an_error_code_fails_the_answer_in_the_servers_words",
        rule: |document| is_failure_code(document.get("error_code")?).then_some(document),
    },
    Quirk {
        server: "MiniMax",
        does: "has `base_resp` in every answer, with a code of 0 in those of success",
        proof: "an_error_code_fails_the_answer_in_the_servers_words",
        rule: |document| {
            let status = document.get("base_resp")?;
            is_failure_code(status.get("status_code")?).then_some(status)
        },
    },
];

/// Whether a code is another than that of success. What it means differs between servers.
fn is_failure_code(code: &Value) -> bool {
    match code {
        Value::Number(code) => {
            code.as_f64().is_none_or(|code| code != 0.0 && !(200.0..300.0).contains(&code))
        }
        Value::String(code) => {
            let success = ["", "0", "200", "ok", "success"];
            !success.iter().any(|word| code.eq_ignore_ascii_case(word))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

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
