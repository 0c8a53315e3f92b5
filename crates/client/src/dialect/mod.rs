//! Server protocols: one file each.
//!
//! A protocol declares its [`Rules`] (framing, counting, end) and writes the JSON body of a request.
//! It sees no clock and no socket. All protocols share one reader, which follows the rules, so that
//! none is timed differently from another. A new backend is one row in [`tokometer_base::backend`]; a
//! new protocol is also one file here, its arms in `protocol.rs`, and its fields in [`crate::scan`].

mod backend;
mod chat;
mod completions;
mod content;
mod llamacpp;
mod messages;
mod mii;
mod pooling;
mod probe;
mod protocol;
mod responses;
mod sglang;
mod tensorrt;
mod tgi;
mod transcription;

pub use backend::Dialect;
pub(crate) use messages::VERSION as MESSAGES_VERSION;
pub(crate) use pooling::smallest as smallest_pooling_prompt;
pub use probe::Probe;
pub(crate) use protocol::{BodyContext, rules_of, write_body};
pub use protocol::{Counting, EndRule, Rules, TextForm};
pub(crate) use transcription::file as sound_file;
