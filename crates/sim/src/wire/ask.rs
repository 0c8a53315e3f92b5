//! A request to the engine, and what writes its answer, whatever the protocol.

use base::Nanos;
use serde_json::{Value, json};
use tokometer_base as base;

use super::event_buffer::{EventBuffer, Hex};
use super::route::Response;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct EngineRequest {
    /// One hash per token of the prompt, template included.
    pub(crate) prompt: Vec<u64>,
    pub(crate) length: LengthBounds,
    pub(crate) delivery: AnswerDelivery,
    pub(crate) priority: i32,
    pub(crate) lora: Option<u32>,
    /// The answer's tokens, where the request constrains them.
    pub(crate) constrained: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LengthBounds {
    pub(crate) limit: u32,
    pub(crate) least: u32,
    /// The answer goes on to its limit.
    pub(crate) ignores_eos: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RequestedLength {
    /// `None` leaves it to the model's context.
    pub(crate) limit: Option<u32>,
    pub(crate) least: u32,
    pub(crate) ignores_eos: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum AnswerDelivery {
    Streamed,
    #[default]
    Whole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Stop,
    Length,
}

impl Reason {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }
}

/// The figures that a server gives about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReportedUsage {
    pub(crate) prompt_tokens: u32,
    pub(crate) completion_tokens: u32,
    /// Of the prompt; `None` where the server does not report them.
    pub(crate) cached_tokens: Option<u32>,
}

impl ReportedUsage {
    pub(crate) fn total(self) -> u32 {
        self.prompt_tokens + self.completion_tokens
    }

    /// In OpenAI's words.
    pub(super) fn json(self) -> Value {
        let mut usage = json!({
            "prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens,
            "total_tokens": self.total(),
        });
        // vLLM leaves a zero out.
        if let Some(cached_tokens @ 1..) = self.cached_tokens {
            usage["prompt_tokens_details"] = json!({ "cached_tokens": cached_tokens });
        }
        usage
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceKind {
    Reasoning,
    Answer,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerPiece<'a> {
    /// What the tokens belong to; a whole answer is one piece of this kind.
    pub(crate) kind: PieceKind,
    /// The reasoning ahead of a whole answer.
    pub(crate) reasoning: &'a str,
    pub(crate) text: &'a str,
    /// Token ids, if the writer wants them.
    pub(crate) ids: &'a [u32],
    pub(crate) tokens: u32,
    /// Figures with these tokens included.
    pub(crate) usage: ReportedUsage,
    /// Why the answer ends, if these are its last tokens.
    pub(crate) last: Option<Reason>,
}

impl AnswerPiece<'_> {
    pub(crate) fn finish_reason(&self) -> Option<&'static str> {
        self.last.map(Reason::name)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerEnd {
    pub(crate) reason: Reason,
    /// `None` when figures are held back on purpose.
    pub(crate) usage: Option<ReportedUsage>,
    /// From the request's arrival to its first token.
    pub(crate) first_token: Nanos,
    /// From the first token to the last.
    pub(crate) decoding: Nanos,
    /// Tokens of reasoning among those of the answer.
    pub(crate) reasoning_tokens: u32,
    /// Tokens without text that ended the answer: one, where the engine took a step for it.
    pub(crate) end_tokens: u32,
}

/// Headers of a stream from uvicorn, which vLLM and SGLang run on.
pub(super) fn uvicorn_headers() -> Vec<(&'static str, String)> {
    vec![
        ("server", "uvicorn".to_owned()),
        ("content-type", "text/event-stream; charset=utf-8".to_owned()),
        ("vary", "Origin".to_owned()),
    ]
}

pub(crate) trait AnswerWriter {
    /// Headers of a streamed answer, framing left out.
    fn headers(&self) -> Vec<(&'static str, String)> {
        uvicorn_headers()
    }

    /// Events that leave together with the headers.
    fn open(&mut self, _buffer: &mut EventBuffer) {}

    /// Events for some tokens, with what must precede the first.
    fn write_piece(&mut self, _piece: &AnswerPiece<'_>, _buffer: &mut EventBuffer) {}

    fn end(&mut self, _ending: &AnswerEnd, _buffer: &mut EventBuffer) {}

    /// The answer as a whole; `piece` holds all of it.
    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response;

    /// Whether its route has a field for reasoning. Otherwise all tokens are the answer's.
    fn can_reason(&self) -> bool {
        false
    }

    fn wants_ids(&self) -> bool {
        false
    }

    fn hex(&self) -> Hex {
        Hex::Lower
    }
}
