//! Connections: bytes with the time at which they reached this machine.
//!
//! In: an [`Endpoint`] and bytes to send. Out: bytes as the socket returned them, with one stamp per
//! read, from the kernel where available. Nothing here blocks, parses HTTP or knows requests; the
//! caller polls. [`ByteSource`] separates [`Link`] from the kernel, so that tests need no socket;
//! [`Wire`] adds what a run needs besides bytes.

mod access;
mod channel;
mod endpoint;
mod info;
mod limit;
mod link;
mod peer;
mod race;
mod segments;
mod socket;
mod stamp;
#[cfg(test)]
pub(crate) mod testing;
mod tunnel;

pub use access::{Access, AccessOptions};
pub(crate) use channel::Channel;
pub use endpoint::{Endpoint, TlsClient};
pub use info::TransportInfo;
pub(crate) use limit::TimeLimit;
pub use link::{Link, LinkRead, Sent};
pub use peer::{NamedAddresses, Peer};
pub use race::{HEAD_START, Race, RaceStep};
pub use segments::Segments;
pub use socket::{ByteSource, ReadBuffer, Received, Socket, StampKeeper, Stamps, Wire};
pub use stamp::{StampClock, StepWatch};
pub use tunnel::Tunnel;
