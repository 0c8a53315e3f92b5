//! Reads requests and writes answers: one file per protocol that the server imitates.
//!
//! In: a whole HTTP request. Out: a reply at once, or an [`EngineRequest`] for the engine with the
//! [`AnswerWriter`] that will write its tokens. Writers put events into an [`EventBuffer`] and know neither
//! sockets nor clocks; the sequence and the keys of their events are those of the captured streams in the
//! fixtures. Nothing here is shared with the client.

mod api_error;
mod ask;
mod constraint;
mod event_buffer;
mod form;
mod llamacpp;
mod messages;
mod metrics;
mod openai;
mod plain;
mod pooling;
mod responses;
mod route;
mod sglang;
mod tgi;
mod tokens;
mod transcription;
mod transformers;
mod vllm;

pub(crate) use api_error::ApiError;
pub(crate) use ask::{
    AnswerDelivery, AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, LengthBounds, PieceKind,
    Reason, ReportedUsage,
};
pub(crate) use event_buffer::{EventBuffer, EventEnd, Hex, Joint};
pub(crate) use metrics::Snapshot;
pub(crate) use route::{Reply, RequestContext, Response, refuse, route};
