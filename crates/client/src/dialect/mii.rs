//! DeepSpeed-MII: one JSON object with the text in `text[0]`, or in `choices[0].text` in newer
//! versions.

use tokometer_base::PromptContent;

use super::completions::{CHOICE, USAGE};
use super::rules::{BodyContext, EndRule, Rules};
use crate::Error;
use crate::framing::EventFraming;
use crate::json_body::JsonBody;
use crate::scan::{Field, Key, choices, take, usage};

pub(super) static RULES: Rules = Rules {
    framing: EventFraming::WholeJson,
    end: EndRule::Body,
    ..Rules::new(write_body, ANSWER)
};

const ANSWER: &[Key] = &[
    take("text", Field::Text),
    choices("choices", CHOICE),
    usage("usage", USAGE),
    take("error", Field::Error),
    take("object", Field::Object),
];

pub(super) fn write_body(body: &mut JsonBody<'_>, context: &BodyContext<'_>) -> Result<(), Error> {
    let PromptContent::Text(text) = &context.prompt.content else {
        return Err(context.wrong_form("plain text"));
    };
    body.field("model", context.model());
    body.field("prompt", text);
    if let Some(tokens) = context.prompt.output_tokens {
        body.field("max_tokens", tokens);
    }
    let sampling = &context.settings.sampling;
    if sampling.temperature.is_none() {
        // This server refuses zero; its own client sends 0.01.
        body.field("temperature", 0.01);
    }
    if sampling.top_p.is_none() {
        body.field("top_p", 1.0);
    }
    body.members(sampling);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::prepare::tests::{body_of, settings, text_prompt};

    #[test]
    fn its_body_asks_for_no_stream() {
        assert_eq!(
            body_of("deepspeed-mii", &settings(), &text_prompt()),
            r#"{"model":"tiny","prompt":"Say \"hi\"","max_tokens":7,"temperature":0.01,"top_p":1.0}"#
        );
    }
}
