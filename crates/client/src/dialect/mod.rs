//! Server protocols: one file each.
//!
//! A protocol declares its `Rules`: how a request is written, which keys of an answer mean what, what ends an
//! answer. It sees no clock and no socket. All protocols share one reader, which follows the rules, so that none
//! is timed differently from another. What single servers do differently is a row in `quirks.rs`. A new backend
//! is one row in [`tokometer_base::backend`]; a new protocol is also one file here and its line in `rules_of`.

mod backend;
mod chat;
mod completions;
mod content;
mod llamacpp;
mod messages;
mod mii;
mod pooling;
mod quirks;
mod responses;
mod rules;
mod sglang;
mod tensorrt;
mod tgi;
mod transcription;

pub use backend::Dialect;
pub(crate) use pooling::smallest as smallest_pooling_prompt;
pub(crate) use rules::{BodyContext, Counting, EndRule, Rules, StreamState, WholeAnswer};
use tokometer_base::backend::Protocol;
pub(crate) use transcription::file as sound_file;

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
