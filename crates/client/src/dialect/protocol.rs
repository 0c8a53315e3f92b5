//! What each protocol declares about its answers, and who writes its bodies.

use tokometer_base::backend::Protocol;
use tokometer_base::{Conventions, Prompt, PromptContent};

use super::{chat, completions, llamacpp, mii, sglang, tensorrt, tgi};
use crate::Error;
use crate::framing::Framing;
use crate::prepare::Body;
use crate::settings::{Delivery, Settings};

/// How the number of tokens inside one event is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// From token ids, or from usage where every event was asked to carry it; else unknown.
    WhenTold,
    /// From the rise of the server's running count, which every event carries.
    RunningCount,
    /// One event is one token.
    OnePerEvent,
}

/// What the text of an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    /// What is new.
    Piece,
    /// The whole answer so far.
    Cumulative,
}

/// What ends an answer regularly. A stream that stops before it was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndRule {
    /// `[DONE]`, or a finish reason and the end of the body: not every server sends the mark.
    DoneOrFinish,
    /// An event that says it is the last: a non-null `generated_text`, or `stop: true`.
    FinalEvent,
    /// The end of the body.
    Body,
}

/// What a protocol declares about its answers.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// How a streamed body splits into events.
    pub framing: Framing,
    /// How tokens are counted.
    pub counting: Counting,
    /// What an event's text is.
    pub text: TextForm,
    /// What ends it.
    pub end: EndRule,
}

/// Everything a body is made of.
pub(crate) struct Context<'a> {
    pub(crate) backend: &'static str,
    /// Whose client's fields are added. `None`: only what the request needs.
    pub(crate) conventions: Option<Conventions>,
    pub(crate) settings: &'a Settings,
    pub(crate) prompt: &'a Prompt,
    pub(crate) lora: Option<&'a str>,
}

impl Context<'_> {
    /// The model's name; an adapter is asked for by its name instead.
    pub(crate) fn model(&self) -> &str {
        self.lora.unwrap_or(&self.settings.model)
    }

    pub(crate) fn is_streamed(&self) -> bool {
        self.settings.delivery == Delivery::Streamed
    }

    /// The refusal of a prompt in a form that this protocol has no field for.
    pub(crate) fn wrong_form(&self, takes: &'static str) -> Error {
        let form = match self.prompt.content {
            PromptContent::Text(_) => "plain text",
            PromptContent::TokenIds(_) => "token ids",
            PromptContent::Messages(_) => "a conversation",
        };
        Error::PromptForm { form, backend: self.backend, takes }
    }
}

/// What a protocol declares about its answers.
pub(crate) fn rules_of(protocol: Protocol) -> &'static Rules {
    match protocol {
        Protocol::Completions => &completions::RULES,
        Protocol::Chat => &chat::RULES,
        Protocol::SglangGenerate => &sglang::RULES,
        Protocol::TgiGenerate => &tgi::RULES,
        Protocol::TensorRtLlm => &tensorrt::RULES,
        Protocol::DeepspeedMii => &mii::RULES,
        Protocol::LlamaCpp => &llamacpp::RULES,
    }
}

pub(crate) fn write_body(
    protocol: Protocol,
    body: &mut Body<'_>,
    context: &Context<'_>,
) -> Result<(), Error> {
    match protocol {
        Protocol::Completions => completions::write_body(body, context),
        Protocol::Chat => chat::write_body(body, context),
        Protocol::SglangGenerate => sglang::write_body(body, context),
        Protocol::TgiGenerate => tgi::write_body(body, context),
        Protocol::TensorRtLlm => tensorrt::write_body(body, context),
        Protocol::DeepspeedMii => mii::write_body(body, context),
        Protocol::LlamaCpp => llamacpp::write_body(body, context),
    }
}
