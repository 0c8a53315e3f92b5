//! The kernel's account of a TCP connection (`TCP_INFO`), and the options that `nix` has no name for.

use std::os::fd::AsFd;

use nix::libc;
use nix::sys::socket::{getsockopt, setsockopt};
use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};
use tokometer_base::Nanos;

/// The head of the kernel's `struct tcp_info`, up to the last field used here. The kernel fills as
/// much as it is given room for.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[expect(unreachable_pub, reason = "the macro below names it in the public face of a trait")]
pub struct RawInfo {
    /// State, congestion state, retransmits, probes, backoff, options, window scales, flags.
    small: [u8; 8],
    /// Timeouts, segment sizes, losses, times of last activity.
    before_round_trip: [u32; 15],
    round_trip_micros: u32,
    /// Variance, thresholds, windows, segment sizes, reordering, receiver space.
    before_retransmits: [u32; 7],
    retransmits: u32,
    /// Pacing rates and bytes acknowledged.
    before_bytes_received: [u64; 3],
    bytes_received: u64,
    /// Segments out and in, bytes not sent, least round trip.
    before_data_segments: [u32; 4],
    data_segments_in: u32,
    data_segments_out: u32,
}

// Offsets as in the kernel's user-space interface, which never changes them.
const _: () = assert!(std::mem::offset_of!(RawInfo, round_trip_micros) == 68);
const _: () = assert!(std::mem::offset_of!(RawInfo, retransmits) == 100);
const _: () = assert!(std::mem::offset_of!(RawInfo, bytes_received) == 128);
const _: () = assert!(std::mem::offset_of!(RawInfo, data_segments_in) == 152);

sockopt_impl!(TcpInfo, GetOnly, libc::IPPROTO_TCP, libc::TCP_INFO, RawInfo);
sockopt_impl!(QuickAck, SetOnly, libc::IPPROTO_TCP, libc::TCP_QUICKACK, bool);

/// What the kernel knows of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransportInfo {
    /// Smoothed round trip time.
    pub round_trip: Nanos,
    /// Segments sent again since the connection was made.
    pub retransmits: u32,
    /// Bytes received since then, read or not.
    pub bytes_received: u64,
    /// Segments with data received since then.
    pub data_segments_in: u32,
}

impl TransportInfo {
    /// The account of this socket. `None` when the kernel gives none.
    pub(super) fn of(socket: &impl AsFd) -> Option<Self> {
        let raw = getsockopt(socket, TcpInfo).ok()?;
        Some(Self {
            round_trip: Nanos::from_micros(u64::from(raw.round_trip_micros)),
            retransmits: raw.retransmits,
            bytes_received: raw.bytes_received,
            data_segments_in: raw.data_segments_in,
        })
    }
}

/// Asks the kernel to acknowledge at once, not with the next request.
pub(super) fn quick_ack(socket: &impl AsFd) {
    // A kernel that refuses only acknowledges later: nothing depends on the answer.
    let _ = setsockopt(socket, QuickAck, &true);
}
