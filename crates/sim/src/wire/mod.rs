//! Reads requests and writes answers: one file per protocol that the server imitates.
//!
//! In: a whole HTTP request. Out: a reply at once, or an [`EngineRequest`] for the engine with the [`AnswerWriter`] that
//! will speak its tokens. Scripts write events into a [`Sheet`] and know neither sockets nor clocks;
//! the sequence and the keys of their events are those of the captured streams in the fixtures.
//! Nothing here is shared with the client.

mod ask;
mod complaint;
mod constraint;
mod form;
mod llamacpp;
mod messages;
mod metrics;
mod mii;
mod openai;
mod pooling;
mod responses;
mod route;
mod sglang;
mod sheet;
mod tgi;
mod tokens;
mod transcription;
mod transformers;
mod triton;
mod vllm;

pub(crate) use ask::{
    AnswerDelivery, AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, LengthBounds, PieceKind,
    Reason, ReportedUsage,
};
pub(crate) use complaint::Complaint;
pub(crate) use metrics::Snapshot;
pub(crate) use route::{ControlRequest, Desk, Reply, Response, refuse, route};
pub(crate) use sheet::{EventEnd, Hex, Joint, Sheet};
