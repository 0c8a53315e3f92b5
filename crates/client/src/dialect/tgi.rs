//! Text Generation Inference's `/generate_stream`, and `/generate` without streaming.
//!
//! One event per token, `data:` without a space in some versions, no `[DONE]`: the last token's event
//! carries a non-null `generated_text` and the exact count in `details.generated_tokens`. Errors of a
//! stream arrive with status 200.

use serde_json::{Map, Value, json};
use tokometer_base::{Conventions, IgnoreEos, PromptContent};

use super::rules::{BodyContext, Counting, EndRule, Rules};
use crate::Error;
use crate::json_body::{JsonBody, object_of};
use crate::scan::{Field, Key, enter, take};
use crate::structured::Structured;

pub(super) static RULES: Rules = Rules {
    // It is written into `parameters`.
    write_constraint: |_, _, one| matches!(one, Structured::Json(_) | Structured::Regex(_)),
    counting: Counting::OnePerEvent,
    end: EndRule::FinalEvent,
    ..Rules::new(write_body, EVENT)
};

const EVENT: &[Key] = &[
    enter("token", TOKEN),
    take("generated_text", Field::WholeText),
    enter("details", DETAILS),
    take("error", Field::Error),
];

const TOKEN: &[Key] = &[take("text", Field::Text), take("special", Field::Special)];

const DETAILS: &[Key] = &[
    take("finish_reason", Field::Finish),
    take("generated_tokens", Field::CompletionTokens),
    take("input_length", Field::PromptTokens),
];

pub(super) fn write_body(body: &mut JsonBody<'_>, context: &BodyContext<'_>) -> Result<(), Error> {
    let PromptContent::Text(text) = &context.prompt.content else {
        return Err(context.wrong_form("plain text"));
    };
    body.field("inputs", text);
    body.field("parameters", parameters(context));
    Ok(())
}

fn parameters(context: &BodyContext<'_>) -> Map<String, Value> {
    let mut params = object_of(&context.settings.sampling);
    let mut set = |name: &str, value: Value| {
        params.insert(name.to_owned(), value);
    };
    if let Some(tokens) = context.prompt.output_tokens {
        set("max_new_tokens", json!(tokens));
    }
    let is_vllm = context.conventions == Some(Conventions::Vllm);
    if let Some(tokens) = context.prompt.prompt_tokens.filter(|_| is_vllm) {
        set("truncate", json!(tokens));
    }
    if context.settings.ignore_eos != IgnoreEos::Off {
        set("ignore_eos_token", json!(true));
    }
    let constraint = match &context.settings.structured {
        Some(Structured::Json(schema)) => {
            let schema: Value = serde_json::from_str(schema).unwrap_or_default();
            Some(json!({ "type": "json", "value": schema }))
        }
        Some(Structured::Regex(regex)) => Some(json!({ "type": "regex", "value": regex })),
        _ => None,
    };
    if let Some(constraint) = constraint {
        set("grammar", constraint);
    }
    // Without `details`, a non-streamed response has no token count.
    set("details", json!(true));
    if is_vllm {
        set("do_sample", json!(true));
        // This server refuses zero; its own client sends 0.01.
        params.entry("temperature").or_insert(json!(0.01));
        params.entry("top_p").or_insert(json!(0.99));
    }
    params
}

#[cfg(test)]
mod tests {
    use tokometer_base::PromptContent;

    use crate::prepare::tests::{body_of, refused, settings, text_prompt};
    use tokometer_base::IgnoreEos;

    #[test]
    fn parameters_follow_its_known_client() {
        let mut settings = settings();
        settings.ignore_eos = IgnoreEos::Asked;
        let mut prompt = text_prompt();
        assert_eq!(
            body_of("tgi", &settings, &prompt),
            r#"{"inputs":"Say \"hi\"","parameters":{"details":true,"do_sample":true,"ignore_eos_token":true,"max_new_tokens":7,"temperature":0.01,"top_p":0.99,"truncate":3}}"#
        );
        prompt.content = PromptContent::TokenIds(vec![1]);
        assert_eq!(
            refused("tgi", &settings, &prompt),
            "cannot send token ids with the backend `tgi`\n  it accepts plain text"
        );
    }
}
