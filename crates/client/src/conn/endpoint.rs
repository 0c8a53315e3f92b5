//! A server's addresses and TLS settings, resolved before the run.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::error::Error;
use crate::tls::{self, Trust};
use crate::url::Url;

/// TLS settings for connections to one server.
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

/// A server's addresses, resolved before the run: no DNS lookup happens while time is measured.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// All addresses of the host, in the order in which they are tried.
    pub addresses: Vec<SocketAddr>,
    /// `None` for plain HTTP.
    pub tls: Option<TlsClient>,
}

impl Endpoint {
    /// Resolves the host name, and prepares TLS for `https`.
    pub fn resolve(url: &Url, trust: &Trust) -> Result<Self, Error> {
        let unreachable = |source| Error::Reach { address: url.authority(), source };
        let addresses = url.resolve().map_err(unreachable)?;
        if !url.is_encrypted() {
            return Ok(Self { addresses, tls: None });
        }
        let name = ServerName::try_from(url.host.clone())
            .map_err(|_| Error::Tls(format!("`{}` is not a valid server name", url.host)))?;
        Ok(Self { addresses, tls: Some(TlsClient { config: tls::client_config(trust)?, name }) })
    }

    /// Plain HTTP to one known address.
    pub fn plain(address: SocketAddr) -> Self {
        Self { addresses: vec![address], tls: None }
    }
}
