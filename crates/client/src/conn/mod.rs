//! Connections: bytes with the time at which they reached this machine.
//!
//! In: an [`Endpoint`] and bytes to send. Out: bytes as the socket returned them, with one stamp per
//! read, from the kernel where available. Nothing here blocks, parses HTTP or knows requests; the
//! caller polls. [`ByteSource`] separates [`Link`] from the kernel, so that tests need no socket;
//! [`Wire`] adds what a run needs besides bytes.

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
