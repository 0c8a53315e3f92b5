//! What each protocol declares about its responses, and which function writes its bodies.

use tokometer_base::backend::Protocol;
use tokometer_base::{Conventions, Prompt, PromptContent};

use super::{
    chat, completions, llamacpp, messages, mii, pooling, responses, sglang, tensorrt, tgi,
    transcription,
};
use crate::Error;
use crate::framing::EventFraming;
use crate::json_body::JsonBody;
use crate::scan::EventSchema;
use crate::settings::{Delivery, Settings};

/// Where the number of tokens in one event comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// From token ids, or from usage where every event carries it; otherwise unknown.
    WhenReported,
    /// From the increase of the server's cumulative count, which every event carries.
    RunningCount,
    /// One event is one token.
    OnePerEvent,
}

/// How an event's text relates to the text so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    /// Only the new text.
    Piece,
    /// The whole text so far.
    Cumulative,
}

/// What marks the regular end of a response. A stream that stops before it was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndRule {
    /// `[DONE]`, or a finish reason and the end of the body: not every server sends `[DONE]`.
    DoneOrFinish,
    /// An event marked as the last one: a non-null `generated_text`, `stop: true`, or its type.
    FinalEvent,
    /// The end of the body.
    Body,
}

/// A protocol's declaration about its responses.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// What the keys of an event mean.
    pub schema: EventSchema,
    /// How a streamed body is split into events.
    pub framing: EventFraming,
    /// Where token counts of single events come from.
    pub counting: Counting,
    /// Whether events carry new text or all text.
    pub text: TextForm,
    /// What marks the regular end.
    pub end: EndRule,
}

/// The input of a request body.
pub(crate) struct BodyContext<'a> {
    pub(crate) backend: &'static str,
    /// The tool whose client's extra fields are added. `None` adds none.
    pub(crate) conventions: Option<Conventions>,
    pub(crate) settings: &'a Settings,
    pub(crate) prompt: &'a Prompt,
    pub(crate) lora: Option<&'a str>,
}

impl BodyContext<'_> {
    /// The model's name, or the adapter's name for a request with an adapter.
    pub(crate) fn model(&self) -> &str {
        self.lora.unwrap_or(&self.settings.model)
    }

    pub(crate) fn is_streamed(&self) -> bool {
        self.settings.delivery == Delivery::Streamed
    }

    /// The error for a prompt form that this protocol has no field for.
    pub(crate) fn wrong_form(&self, takes: &'static str) -> Error {
        let form = match self.prompt.content {
            PromptContent::Text(_) => "plain text",
            PromptContent::TokenIds(_) => "token ids",
            PromptContent::Messages(_) => "a conversation",
            PromptContent::Inputs(_) => "several texts at once",
            PromptContent::Ranking { .. } => "a query with documents",
            PromptContent::Sound(_) => "an audio clip",
        };
        Error::PromptForm { form, backend: self.backend, takes }
    }
}

pub(crate) fn rules_of(protocol: Protocol) -> &'static Rules {
    match protocol {
        Protocol::Completions => &completions::RULES,
        Protocol::Chat => &chat::RULES,
        Protocol::Responses => &responses::RULES,
        Protocol::Messages => &messages::RULES,
        Protocol::SglangGenerate => &sglang::RULES,
        Protocol::TgiGenerate => &tgi::RULES,
        Protocol::TensorRtLlm => &tensorrt::RULES,
        Protocol::DeepspeedMii => &mii::RULES,
        Protocol::LlamaCpp => &llamacpp::RULES,
        Protocol::Transcription => &transcription::RULES,
        Protocol::Pooling(route) => pooling::rules_of(route),
    }
}

pub(crate) fn write_body(
    protocol: Protocol,
    body: &mut JsonBody<'_>,
    context: &BodyContext<'_>,
) -> Result<(), Error> {
    match protocol {
        Protocol::Completions => completions::write_body(body, context),
        Protocol::Chat => chat::write_body(body, context),
        Protocol::Responses => responses::write_body(body, context),
        Protocol::Messages => messages::write_body(body, context),
        Protocol::SglangGenerate => sglang::write_body(body, context),
        Protocol::TgiGenerate => tgi::write_body(body, context),
        Protocol::TensorRtLlm => tensorrt::write_body(body, context),
        Protocol::DeepspeedMii => mii::write_body(body, context),
        Protocol::LlamaCpp => llamacpp::write_body(body, context),
        Protocol::Transcription => transcription::write_body(body, context),
        Protocol::Pooling(route) => pooling::write_body(route, body, context),
    }
}
