//! The protocols and what each declares about its answers.

use tokometer_base::{Prompt, PromptContent};

use super::{Family, chat, completions, llamacpp, mii, sglang, tensorrt, tgi};
use crate::Error;
use crate::framing::Framing;
use crate::prepare::Body;
use crate::settings::{Delivery, Settings};

/// A wire protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// OpenAI's `/v1/completions`.
    Completions,
    /// OpenAI's `/v1/chat/completions`.
    Chat,
    /// SGLang's `/generate`.
    SglangGenerate,
    /// Text Generation Inference's `/generate_stream`.
    TgiGenerate,
    /// Triton's `generate_stream` in front of TensorRT-LLM.
    TensorRtLlm,
    /// DeepSpeed-MII's unstreamed route.
    DeepspeedMii,
    /// llama.cpp's `/completion`.
    LlamaCpp,
}

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
    pub(crate) family: Family,
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

impl Protocol {
    /// What it declares about its answers.
    pub fn rules(self) -> &'static Rules {
        match self {
            Self::Completions => &completions::RULES,
            Self::Chat => &chat::RULES,
            Self::SglangGenerate => &sglang::RULES,
            Self::TgiGenerate => &tgi::RULES,
            Self::TensorRtLlm => &tensorrt::RULES,
            Self::DeepspeedMii => &mii::RULES,
            Self::LlamaCpp => &llamacpp::RULES,
        }
    }

    pub(crate) fn write_body(
        self,
        body: &mut Body<'_>,
        context: &Context<'_>,
    ) -> Result<(), Error> {
        match self {
            Self::Completions => completions::write_body(body, context),
            Self::Chat => chat::write_body(body, context),
            Self::SglangGenerate => sglang::write_body(body, context),
            Self::TgiGenerate => tgi::write_body(body, context),
            Self::TensorRtLlm => tensorrt::write_body(body, context),
            Self::DeepspeedMii => mii::write_body(body, context),
            Self::LlamaCpp => llamacpp::write_body(body, context),
        }
    }
}
