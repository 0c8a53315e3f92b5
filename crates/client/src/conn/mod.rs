//! Connections: bytes with the time at which they reached this machine.
//!
//! In: an [`Endpoint`] and bytes to send. Out: bytes as the socket gave them, each read with one
//! stamp, from the kernel where it gives one. Nothing here blocks, parses HTTP or knows a request;
//! who polls, and when, is the caller's business. [`ByteSource`] stands between [`Link`] and the
//! kernel, so that a link can be tested without a socket; [`Wire`] adds what a run needs besides bytes.

mod buffer;
mod endpoint;
mod info;
mod link;
mod segments;
mod socket;
mod stamp;

pub use buffer::ReadBuffer;
pub use endpoint::{Endpoint, TlsClient};
pub use info::TransportInfo;
pub use link::{Arrival, Link, Sent};
pub use segments::Segments;
pub use socket::{ByteSource, Received, Socket, StampKeeper, Stamps, Wire};
pub use stamp::{StampClock, StepWatch};
