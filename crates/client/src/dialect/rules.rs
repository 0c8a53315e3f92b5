//! What a protocol declares: how its requests are written, and how its answers are read.

use serde_json::Value;
use tokometer_base::{Backend, Conventions, Prompt, PromptContent};
use tokometer_record::Event;

use crate::Error;
use crate::framing::EventFraming;
use crate::json_body::JsonBody;
use crate::request_head::RequestHead;
use crate::scan::{Fields, Key, Marks, NotJson, Text, scan};
use crate::secret::ApiKey;
use crate::server_message::html_page;
use crate::settings::{Delivery, Settings};
use crate::structured::{Structured, ToolSet};
use crate::tool_calls::ToolCalls;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) write_body: fn(&mut JsonBody<'_>, &BodyContext<'_>) -> Result<(), Error>,
    /// Writes what an answer must be. False where the protocol has no field for it.
    pub(crate) write_constraint: fn(&mut JsonBody<'_>, &BodyContext<'_>, &Structured) -> bool,
    /// Writes the tools that the model may call. False where the protocol has no field for them.
    pub(crate) write_tools: fn(&mut JsonBody<'_>, &ToolSet) -> bool,
    /// Writes headers that its servers ask for beside the usual ones.
    pub(crate) write_head: fn(&mut RequestHead, Option<&ApiKey>),
    pub(crate) framing: EventFraming,
    pub(crate) event: &'static [Key],
    pub(crate) whole: WholeAnswer,
    /// Whether each event names its type, which decides what its keys mean.
    pub(crate) is_typed: bool,
    /// Gives the fields of an event their meaning, from its type, from what came before it and from the events
    /// so far.
    pub(crate) settle: fn(&mut Fields<'_>, &mut StreamState, &[Event]),
    /// Takes what an event, or an answer in one piece, says about tool calls. The text is the event's type.
    pub(crate) take_calls: fn(&mut ToolCalls, &str, &Value),
    pub(crate) counting: Counting,
    pub(crate) end: EndRule,
}

/// What the events of a stream have shown so far.
#[derive(Debug, Default)]
pub(crate) struct StreamState {
    pub(crate) seen: Marks,
    pub(crate) counted: u32,
    /// Length of the longest cumulative text.
    pub(crate) longest: usize,
    /// Number of events before the part of a response whose text is due.
    pub(crate) part_start: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum WholeAnswer {
    /// By the keys of its document.
    Keys(&'static [Key]),
    /// A transcript: by the keys of its document, or as plain text. It may be empty, because silence has no words.
    Transcript(&'static [Key]),
    /// One result per input.
    Results,
    /// One result per document, or fewer where the request limits them.
    Ranking,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// From token ids, or from usage that was requested with every event; otherwise unknown.
    WhenReported,
    /// From the increase of the server's cumulative count, which every event carries.
    RunningCount,
    OnePerEvent,
}

/// What marks the regular end of a response. A stream that stops before it was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndRule {
    /// `[DONE]`, or a finish reason and the end of the body: not every server sends `[DONE]`.
    DoneOrFinish,
    FinalEvent,
    Body,
}

impl Rules {
    /// A stream of events by keys, with one document of the same keys where it is not streamed. A protocol sets
    /// what it does otherwise.
    pub(crate) const fn new(
        write_body: fn(&mut JsonBody<'_>, &BodyContext<'_>) -> Result<(), Error>,
        event: &'static [Key],
    ) -> Self {
        Self {
            write_body,
            write_constraint: |_, _, _| false,
            write_tools: |_, _| false,
            write_head: |_, _| {},
            framing: EventFraming::Sse,
            event,
            whole: WholeAnswer::Keys(event),
            is_typed: false,
            settle: |_, _, _| {},
            take_calls: |_, _, _| {},
            counting: Counting::WhenReported,
            end: EndRule::DoneOrFinish,
        }
    }

    /// Adds the run's constraint and tools to a body, in the words of the backend.
    pub(crate) fn write_structured(
        &self,
        body: &mut JsonBody<'_>,
        context: &BodyContext<'_>,
    ) -> Result<(), Error> {
        let refused = |what| Error::Structured { what, backend: context.backend.name() };
        if let Some(structured) = &context.settings.structured
            && !(self.write_constraint)(body, context, structured)
        {
            return Err(refused(structured.kind()));
        }
        match &context.settings.tools {
            Some(tools) if !(self.write_tools)(body, tools) => Err(refused("tools")),
            _ => Ok(()),
        }
    }

    pub(crate) const fn is_pooled(&self) -> bool {
        matches!(self.whole, WholeAnswer::Results | WholeAnswer::Ranking)
    }

    pub(crate) const fn may_be_empty(&self) -> bool {
        matches!(self.whole, WholeAnswer::Transcript(_))
    }

    /// The fields of an answer in one piece; an error when `data` is not one.
    pub(crate) fn read_whole<'a>(&self, data: &'a [u8]) -> Result<Fields<'a>, NotJson> {
        match self.whole {
            WholeAnswer::Keys(object) => {
                let mut fields = scan(object, data)?;
                // A type is that of an event.
                if !self.is_typed {
                    (self.settle)(&mut fields, &mut StreamState::default(), &[]);
                }
                Ok(fields)
            }
            WholeAnswer::Transcript(object) => scan(object, data).or_else(|NotJson| {
                let text = std::str::from_utf8(data).map_err(|_| NotJson)?;
                if html_page(data).is_some() {
                    return Err(NotJson);
                }
                let text = Some(Text::Owned(text.trim().to_owned()));
                Ok(Fields { text, ..Fields::default() })
            }),
            WholeAnswer::Results | WholeAnswer::Ranking => Ok(Fields::default()),
        }
    }
}

pub(crate) struct BodyContext<'a> {
    pub(crate) backend: &'static Backend,
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

    pub(crate) fn wrong_form(&self, takes: &'static str) -> Error {
        let form = match self.prompt.content {
            PromptContent::Text(_) => "plain text",
            PromptContent::TokenIds(_) => "token ids",
            PromptContent::Messages(_) => "a conversation",
            PromptContent::Inputs(_) => "several texts at once",
            PromptContent::Ranking { .. } => "a query with documents",
            PromptContent::Sound(_) => "an audio clip",
        };
        Error::PromptForm { form, backend: self.backend.name(), takes }
    }
}
