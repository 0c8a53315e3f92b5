//! SGLang's native `/generate`.
//!
//! Every event repeats the whole text so far and the cumulative count in
//! `meta_info.completion_tokens`. A server configured to stream increments sends only new text; it is
//! recognised by `output_ids` being fewer than the count. Errors of a streamed request arrive with
//! status 200. Ends with `[DONE]`.

use serde_json::{Map, Value, json};
use tokometer_base::{IgnoreEos, PromptContent};
use tokometer_record::Event;

use super::rules::{BodyContext, Counting, Rules};
use crate::Error;
use crate::dialect::StreamState;
use crate::json_body::{JsonBody, object_of};
use crate::scan::{Field, Fields, Key, Marks, Text, enter, finish, take};
use crate::structured::Structured;

pub(super) static RULES: Rules = Rules {
    // It is written into `sampling_params`.
    write_constraint: |_, _, one| one.of_sglang().is_some(),
    settle,
    counting: Counting::RunningCount,
    ..Rules::new(write_body, EVENT)
};

const EVENT: &[Key] = &[
    take("text", Field::Text),
    take("output_ids", Field::TokenIds),
    enter("meta_info", META),
    take("error", Field::Error),
    take("object", Field::Object),
];

const META: &[Key] = &[
    take("prompt_tokens", Field::PromptTokens),
    take("completion_tokens", Field::CompletionTokens),
    take("cached_tokens", Field::CachedTokens),
    take("reasoning_tokens", Field::ReasoningTokens),
    finish("finish_reason", FINISH),
];

const FINISH: &[Key] = &[take("type", Field::Finish)];

/// Tells all text so far from a piece, by the ids. A server without a tokenizer streams only ids.
fn settle(fields: &mut Fields<'_>, state: &mut StreamState, _: &[Event]) {
    let told = fields.usage.and_then(|usage| usage.completion_tokens);
    let is_piece = fields.token_ids.is_some_and(|ids| told.is_some_and(|told| ids < told));
    match &fields.text {
        Some(text) if !is_piece => {
            fields.marks.set(Marks::CUMULATIVE);
            if text.len() > state.longest {
                state.longest = text.len();
            } else {
                fields.text = Some(Text::Plain(b""));
            }
        }
        None if fields.token_ids > Some(0) && told > Some(state.counted) => {
            fields.marks.set(Marks::ONLY_IDS);
        }
        _ => {}
    }
}

pub(super) fn write_body(body: &mut JsonBody<'_>, context: &BodyContext<'_>) -> Result<(), Error> {
    match &context.prompt.content {
        PromptContent::Text(text) => body.field("text", text),
        PromptContent::TokenIds(ids) => body.field("input_ids", ids),
        _ => return Err(context.wrong_form("plain text or token ids")),
    }
    body.field("sampling_params", sampling_params(context));
    body.field("stream", context.is_streamed());
    if let Some(lora) = context.lora {
        body.field("lora_path", lora);
    }
    if let Some(count) = context.settings.logprobs {
        body.field("return_logprob", true);
        body.field("top_logprobs_num", count);
    }
    Ok(())
}

fn sampling_params(context: &BodyContext<'_>) -> Map<String, Value> {
    let settings = context.settings;
    let mut params = object_of(&settings.sampling);
    params.entry("temperature").or_insert(json!(0.0));
    if let Some(tokens) = context.prompt.output_tokens {
        params.insert("max_new_tokens".to_owned(), json!(tokens));
    }
    let ignores_eos = settings.ignore_eos != IgnoreEos::Off;
    params.insert("ignore_eos".to_owned(), json!(ignores_eos));
    if let Some(field) = settings.structured.as_ref().and_then(Structured::of_sglang) {
        params.insert(field.name.to_owned(), field.value);
    }
    if let Some(seed) = params.remove("seed") {
        params.insert("sampling_seed".to_owned(), seed);
    }
    params
}

#[cfg(test)]
mod tests {
    use tokometer_base::PromptContent;

    use crate::prepare::tests::{body_of, settings, text_prompt};

    #[test]
    fn text_and_ids_go_into_their_own_fields() {
        let mut prompt = text_prompt();
        assert_eq!(
            body_of("sglang", &settings(), &prompt),
            r#"{"text":"Say \"hi\"","sampling_params":{"ignore_eos":false,"max_new_tokens":7,"temperature":0.0},"stream":true}"#
        );
        prompt.content = PromptContent::TokenIds(vec![1, 2]);
        assert!(
            body_of("sglang-native", &settings(), &prompt).starts_with(r#"{"input_ids":[1,2],"#)
        );
    }
}
