//! Where the simulated server runs, and the path to it.
//!
//! A server in a network namespace of its own is another host for the client. It runs with real-time
//! priority on the last core, so that what disturbs the client does not disturb it.

use crate::namespace::SERVER;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// On loopback, without real-time priority.
    SameHost,
    /// In a namespace, over a pair of virtual interfaces.
    Remote,
    /// The same, through a TCP relay of the study.
    Relayed,
    /// In a namespace, over two TUN devices and a relay of packets in user space.
    Tunnel,
}

const TUNNEL_SERVER: &str = "10.78.0.2";

impl Route {
    pub(super) fn host(self) -> &'static str {
        match self {
            Self::SameHost => "127.0.0.1",
            Self::Remote | Self::Relayed => SERVER,
            Self::Tunnel => TUNNEL_SERVER,
        }
    }
}
