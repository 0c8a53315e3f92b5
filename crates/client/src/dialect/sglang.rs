//! SGLang's native `/generate`.
//!
//! Every event repeats the whole text so far and the cumulative count in
//! `meta_info.completion_tokens`. A server configured to stream increments sends only new text; it is
//! recognised by `output_ids` being fewer than the count. Errors of a streamed request arrive with
//! status 200. Ends with `[DONE]`.

use serde_json::{Map, Value, json};
use tokometer_base::PromptContent;

use super::protocol::{BodyContext, Counting, EndRule, Rules, TextForm};
use crate::Error;
use crate::framing::EventFraming;
use crate::json_body::{JsonBody, object_of};
use crate::scan::EventSchema;
use crate::structured::Structured;
use tokometer_base::IgnoreEos;

pub(super) const RULES: Rules = Rules {
    schema: EventSchema::Shared,
    framing: EventFraming::Sse,
    counting: Counting::RunningCount,
    text: TextForm::Cumulative,
    end: EndRule::DoneOrFinish,
};

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
    if let Some((name, value)) = settings.structured.as_ref().and_then(Structured::of_sglang) {
        params.insert(name.to_owned(), value);
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
