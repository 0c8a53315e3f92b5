//! Where to connect to, and what to do before the first request.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::peer::Peer;
use super::tunnel::Tunnel;
use crate::proxy::Proxy;

#[derive(Clone)]
pub struct TlsClient {
    /// Trusted roots, TLS versions and the verifier.
    pub config: Arc<ClientConfig>,
    /// The host name that is checked against the server's certificate.
    pub name: ServerName<'static>,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A server's addresses, resolved before the run: no name is looked up while time is measured.
#[derive(Debug, Clone, Default)]
pub struct Endpoint {
    /// Addresses of one server, or of the proxy in front of it.
    pub addresses: Vec<Peer>,
    pub tls: Option<TlsClient>,
    /// The proxy's tunnel to the server, set up before TLS.
    pub tunnel: Option<Tunnel>,
    /// The proxy that plain requests are sent to, with the whole URL in their first line.
    pub forward: Option<Proxy>,
}

impl Endpoint {
    pub fn plain(address: SocketAddr) -> Self {
        Self { addresses: vec![Peer::Tcp(address)], ..Self::default() }
    }

    /// The proxy that every request passes, without its password.
    pub fn proxy(&self) -> Option<String> {
        let tunnel = self.tunnel.as_ref().map(|tunnel| tunnel.proxy().to_owned());
        tunnel.or(self.forward.as_ref().map(Proxy::to_string))
    }
}
