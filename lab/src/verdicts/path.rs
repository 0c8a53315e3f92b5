//! Where the simulated server runs, and the path to it.
//!
//! A server in a network namespace of its own is another host for the client. It runs with real-time
//! priority on the last core, so that what disturbs the client does not disturb it.

use anyhow::Result;

use crate::process::shell;

/// The path from client to server.
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

/// Name of the namespace and of the interfaces.
pub(super) const NAMESPACE: &str = "tokolab";
pub(super) const SERVER: &str = "10.77.0.2";
pub(super) const TUNNEL_SERVER: &str = "10.78.0.2";

impl Route {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SameHost => "same-host",
            Self::Remote => "remote",
            Self::Relayed => "relayed",
            Self::Tunnel => "tunnel",
        }
    }

    /// The address that the server listens on.
    pub(super) fn host(self) -> &'static str {
        match self {
            Self::SameHost => "127.0.0.1",
            Self::Remote | Self::Relayed => SERVER,
            Self::Tunnel => TUNNEL_SERVER,
        }
    }
}

/// The namespace of the server. It is removed when dropped.
pub(super) struct Namespace;

impl Namespace {
    pub(super) fn new() -> Result<Self> {
        let _ = shell(&format!("ip netns del {NAMESPACE}"));
        shell(&format!("ip netns add {NAMESPACE}"))?;
        let made = Self;
        for line in [
            format!("ip link add toko0 type veth peer name toko1 netns {NAMESPACE}"),
            "ip addr add 10.77.0.1/24 dev toko0".to_owned(),
            "ip link set toko0 up".to_owned(),
            format!("ip -n {NAMESPACE} addr add {SERVER}/24 dev toko1"),
            format!("ip -n {NAMESPACE} link set toko1 up"),
            format!("ip -n {NAMESPACE} link set lo up"),
        ] {
            shell(&line)?;
        }
        Ok(made)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = shell(&format!("ip netns del {NAMESPACE}"));
        let _ = shell("ip link del toko0");
    }
}
