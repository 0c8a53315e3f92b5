//! Another host on this machine: a network namespace for the server, joined by a pair of interfaces.

use anyhow::Result;

use crate::process::shell;

pub(crate) const NAMESPACE: &str = "tokolab";
/// The interface of this side.
pub(crate) const INTERFACE: &str = "toko0";
pub(crate) const SERVER: &str = "10.77.0.2";

/// The namespace of the server. It is removed when dropped.
pub(crate) struct Namespace;

impl Namespace {
    pub(crate) fn new() -> Result<Self> {
        let _ = shell(&format!("ip netns del {NAMESPACE}"));
        shell(&format!("ip netns add {NAMESPACE}"))?;
        let made = Self;
        for line in [
            format!("ip link add {INTERFACE} type veth peer name toko1 netns {NAMESPACE}"),
            format!("ip addr add 10.77.0.1/24 dev {INTERFACE}"),
            format!("ip link set {INTERFACE} up"),
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
        let _ = shell(&format!("ip link del {INTERFACE}"));
    }
}
