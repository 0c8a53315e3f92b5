//! Connection statistics from the kernel (`TCP_INFO`), and socket options that `nix` does not name.

use std::os::fd::AsFd;

use nix::libc;
use nix::sys::socket::{getsockopt, setsockopt};
use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};
use tokometer_base::Nanos;

/// The first part of the kernel's `struct tcp_info`, up to the last field used here. The kernel fills
/// only the bytes that it is given.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[expect(unreachable_pub, reason = "the macro below names it in the public face of a trait")]
pub struct RawInfo {
    state: u8,
    /// Congestion state, retransmits, probes, backoff, options, window scales, flags.
    small: [u8; 7],
    /// Timeouts, segment sizes, losses, times of last activity.
    before_round_trip: [u32; 15],
    round_trip_micros: u32,
    /// Variance, thresholds, windows, segment sizes, reordering, receiver space.
    before_retransmits: [u32; 7],
    retransmits: u32,
    pacing_rates: [u64; 2],
    bytes_acknowledged: u64,
    bytes_received: u64,
    /// Segments out and in, bytes not sent, least round trip.
    before_data_segments: [u32; 4],
    data_segments_in: u32,
    data_segments_out: u32,
}

// The kernel's user-space interface fixes these offsets.
const _: () = assert!(std::mem::offset_of!(RawInfo, round_trip_micros) == 68);
const _: () = assert!(std::mem::offset_of!(RawInfo, retransmits) == 100);
const _: () = assert!(std::mem::offset_of!(RawInfo, bytes_acknowledged) == 120);
const _: () = assert!(std::mem::offset_of!(RawInfo, bytes_received) == 128);
const _: () = assert!(std::mem::offset_of!(RawInfo, data_segments_in) == 152);

/// `TCP_ESTABLISHED`: neither side has closed.
const ESTABLISHED: u8 = 1;

sockopt_impl!(TcpInfo, GetOnly, libc::IPPROTO_TCP, libc::TCP_INFO, RawInfo);
sockopt_impl!(QuickAck, SetOnly, libc::IPPROTO_TCP, libc::TCP_QUICKACK, bool);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransportInfo {
    pub round_trip: Nanos,
    pub retransmits: u32,
    /// Whether either side has closed the connection, or it broke.
    pub is_closed: bool,
    /// Bytes that the peer has acknowledged since the connection was made, its opening counted as one.
    pub bytes_acknowledged: u64,
    /// Bytes received since the connection was made, whether read or not.
    pub bytes_received: u64,
    /// Received segments with data since the connection was made.
    pub data_segments_in: u32,
}

impl TransportInfo {
    /// `None` when the kernel has no statistics for this socket.
    pub(super) fn of(socket: &impl AsFd) -> Option<Self> {
        let raw = getsockopt(socket, TcpInfo).ok()?;
        Some(Self {
            round_trip: Nanos::from_micros(u64::from(raw.round_trip_micros)),
            retransmits: raw.retransmits,
            is_closed: raw.state != ESTABLISHED,
            bytes_acknowledged: raw.bytes_acknowledged,
            bytes_received: raw.bytes_received,
            data_segments_in: raw.data_segments_in,
        })
    }
}

/// Disables delayed acknowledgements: the next one is sent at once.
pub(super) fn quick_ack(socket: &impl AsFd) {
    // A kernel without this option acknowledges later; no result depends on it.
    let _ = setsockopt(socket, QuickAck, &true);
}
