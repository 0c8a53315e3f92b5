//! How servers are reached: names, proxies and TLS.

use std::io;
use std::net::ToSocketAddrs;
use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::endpoint::{Endpoint, TlsClient};
use super::peer::{NamedAddresses, Peer};
use super::tunnel::Tunnel;
use crate::error::Error;
use crate::proxy::Proxies;
use crate::tls::{self, ClientCertificate, Trust};
use crate::url::Url;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessOptions {
    /// Names whose addresses the user gave.
    pub names: Vec<NamedAddresses>,
    pub trust: Trust,
    pub identity: Option<ClientCertificate>,
    pub proxies: Proxies,
}

#[derive(Debug, Clone, Default)]
pub struct Access {
    options: AccessOptions,
    /// Made once: reading the system's certificates takes time.
    tls: OnceLock<Arc<ClientConfig>>,
}

impl Access {
    pub fn new(options: AccessOptions) -> Self {
        Self { options, tls: OnceLock::new() }
    }

    /// Looks up the addresses of a server, or of its proxy, and prepares TLS if its scheme needs it.
    pub fn endpoint(&self, url: &Url) -> Result<Endpoint, Error> {
        if !url.is_encrypted() {
            tls::check_files(&self.options.trust, self.options.identity.as_ref())?;
        }
        if let Some(path) = &url.socket {
            let addresses = vec![Peer::Unix(path.as_path().into())];
            return Ok(Endpoint { addresses, ..Endpoint::default() });
        }
        let tls = if url.is_encrypted() { Some(self.tls_client(url)?) } else { None };
        let Some(proxy) = self.options.proxies.for_url(url)? else {
            let addresses = self.look_up(&url.host, url.port, &url.authority())?;
            return Ok(Endpoint { addresses, tls, ..Endpoint::default() });
        };
        let via = format!("the proxy {proxy}");
        let addresses = self.look_up(&proxy.host, proxy.port, &via)?;
        let tunnel = tls.is_some().then(|| Tunnel::new(&proxy, url));
        let forward = tls.is_none().then_some(proxy);
        Ok(Endpoint { addresses, tls, tunnel, forward })
    }

    fn tls_client(&self, url: &Url) -> Result<TlsClient, Error> {
        let name = ServerName::try_from(url.host.clone())
            .map_err(|_| Error::Tls(format!("`{}` is not a valid server name", url.host)))?;
        let config = if let Some(config) = self.tls.get() {
            Arc::clone(config)
        } else {
            let made = tls::client_config(&self.options.trust, self.options.identity.as_ref())?;
            Arc::clone(self.tls.get_or_init(|| made))
        };
        Ok(TlsClient { config, name })
    }

    fn look_up(&self, host: &str, port: u16, shown: &str) -> Result<Vec<Peer>, Error> {
        if let Some(given) = self.options.names.iter().find_map(|names| names.of(host, port)) {
            return Ok(given.into_iter().map(Peer::Tcp).collect());
        }
        let unreachable = |source| Error::Reach { address: shown.to_owned(), source };
        let found =
            (host, port).to_socket_addrs().map_err(|why| unreachable(unresolved(host, &why)))?;
        let mut peers: Vec<Peer> = Vec::new();
        for peer in found.map(Peer::Tcp) {
            // A hosts file may list one address twice.
            if !peers.contains(&peer) {
                peers.push(peer);
            }
        }
        if peers.is_empty() {
            let nothing = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
            return Err(unreachable(nothing));
        }
        Ok(peers)
    }
}

/// The system's words for a name that has no address have no name in them.
fn unresolved(host: &str, why: &io::Error) -> io::Error {
    let why = why.to_string();
    let why = why.rsplit_once("information: ").map_or(why.as_str(), |(_, why)| why);
    let message = format!("the host name `{host}` cannot be resolved ({why})");
    io::Error::new(io::ErrorKind::NotFound, message)
}
