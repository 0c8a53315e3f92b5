//! Server protocols: one file each.
//!
//! A protocol declares its [`Rules`] (framing, counting, end) and writes the JSON body of a request.
//! It sees no clock and no socket. Reading is the same code for all, steered by the rules, so that
//! no protocol is timed differently from another. A new protocol is one file, one arm in
//! [`Protocol`], one row in the table of backend names, and the fields it adds to [`crate::scan`].

mod backend;
mod chat;
mod completions;
mod llamacpp;
mod mii;
mod protocol;
mod sglang;
mod tensorrt;
mod tgi;

pub use backend::{Dialect, Family};
pub(crate) use protocol::Context;
pub use protocol::{Counting, EndRule, Protocol, Rules, TextForm};
