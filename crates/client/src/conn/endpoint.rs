//! Where to connect to.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::error::Error;
use crate::tls::{self, Trust};
use crate::url::Url;

/// TLS as the client of one server.
#[derive(Clone)]
pub struct TlsClient {
    /// Roots, versions and verification.
    pub config: Arc<ClientConfig>,
    /// The name that the server's certificate must carry.
    pub name: ServerName<'static>,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A server's address, resolved before the run: no name is looked up while time is measured.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Addresses of one server, in the order to be tried.
    pub addresses: Vec<SocketAddr>,
    /// Encryption; `None` for plain HTTP.
    pub tls: Option<TlsClient>,
}

impl Endpoint {
    /// Looks a server's name up and prepares TLS if its scheme asks for it.
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

    /// A plain HTTP server at one address.
    pub fn plain(address: SocketAddr) -> Self {
        Self { addresses: vec![address], tls: None }
    }
}
