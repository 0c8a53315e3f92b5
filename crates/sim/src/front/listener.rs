//! The server as others see it: bound to an address, then run until stopped.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket,
    sockopt,
};

use tokometer_base::Clock;

use super::incoming::Incoming;
use super::reactor::Reactor;
use crate::config::{SimConfig, TokenTiming, Transport};
use crate::vocabulary::warm_up;
use crate::{profile, truth};

/// Connections that may wait to be accepted: a burst of thousands must not be refused.
const BACKLOG_MAX: i32 = 16_384;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: {why}\n  use `--port 0` for a free port")]
    Listen { address: String, why: String },
    #[error("cannot listen on unix:{}: {why}", path.display())]
    ListenUnix { path: PathBuf, why: io::Error },
    #[error(transparent)]
    Profile(#[from] profile::ProfileError),
    #[error(transparent)]
    Truth(#[from] truth::TruthError),
    #[error("cannot create a TLS certificate: {0}")]
    Certificate(String),
    #[error("the server's poller failed: {0}")]
    Poll(#[from] nix::Error),
}

/// A simulated server that is bound to an address but does not answer yet.
pub struct SimServer {
    config: SimConfig,
    listener: Incoming,
    local_addr: Option<SocketAddr>,
    tls: Option<Tls>,
}

struct Tls {
    config: Arc<rustls::ServerConfig>,
    certificate_pem: String,
}

impl SimServer {
    /// Checks the configuration and starts to listen. Clients may connect from now on; they are
    /// answered once [`SimServer::run`] is called.
    pub fn bind(config: SimConfig) -> Result<Self, Error> {
        if let TokenTiming::Engine(profile) = &config.pace {
            profile.check()?;
        }
        // Before anybody can connect: a request would wait for it, and the log would not show it.
        warm_up();
        raise_descriptor_limit();
        let listener = match &config.unix {
            Some(path) => {
                Incoming::unix(path).map_err(|why| Error::ListenUnix { path: path.clone(), why })?
            }
            None => Incoming::Tcp(open_listener(&config.host, config.port)?),
        };
        let local_addr = listener.local_addr().map_err(|error| Error::Listen {
            address: config.host.clone(),
            why: error.to_string(),
        })?;
        let tls = match config.transport {
            Transport::Plain => None,
            Transport::Tls => Some(make_certificate(&config.host)?),
        };
        Ok(Self { config, listener, local_addr, tls })
    }

    /// The address that clients connect to; `None` for a Unix-domain socket.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local_addr
    }

    /// The certificate that clients must trust, when the port uses TLS.
    pub fn certificate_pem(&self) -> Option<&str> {
        self.tls.as_ref().map(|tls| tls.certificate_pem.as_str())
    }

    /// Answers until `stop` is set (noticed within a twentieth of a second) or a fault ends it.
    /// `clock` must run with the kernel's monotonic clock, by which its timer wakes the server.
    pub fn run(self, stop: &Arc<AtomicBool>, clock: &dyn Clock) -> Result<(), Error> {
        let tls = self.tls.map(|tls| tls.config);
        Reactor::new(self.config, self.listener, tls, clock)?.run(stop)
    }
}

fn open_listener(host: &str, port: u16) -> Result<TcpListener, Error> {
    let fault = |why: String| Error::Listen { address: format!("{host}:{port}"), why };
    let host = if host == "localhost" { "127.0.0.1" } else { host };
    let ip: IpAddr = host.parse().map_err(|_| fault("not an IP address".to_owned()))?;
    let family = if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let open = || -> nix::Result<OwnedFd> {
        let socket = socket(family, SockType::Stream, flags, None)?;
        setsockopt(&socket, sockopt::ReuseAddr, &true)?;
        bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(ip, port)))?;
        listen(&socket, Backlog::new(BACKLOG_MAX).unwrap_or(Backlog::MAXCONN))?;
        Ok(socket)
    };
    open().map(TcpListener::from).map_err(|errno| fault(errno.desc().to_owned()))
}

/// Takes as many descriptors as the system allows, and makes the table that large at once: growing
/// it later, beside other threads, stops every open for milliseconds.
fn raise_descriptor_limit() {
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    let highest = i32::try_from(hard.min(65_536)).unwrap_or(1_024) - 1;
    let Ok(file) = std::fs::File::open("/dev/null") else { return };
    if let Ok(copy) = fcntl(&file, FcntlArg::F_DUPFD_CLOEXEC(highest)) {
        let _ = nix::unistd::close(copy);
    }
}

fn make_certificate(host: &str) -> Result<Tls, Error> {
    let fault = |error: &dyn std::fmt::Display| Error::Certificate(error.to_string());
    let names = vec!["localhost".to_owned(), host.to_owned()];
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| fault(&error))?;
    let certificate_pem = made.cert.pem();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| fault(&error))?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .map_err(|error| fault(&error))?;
    Ok(Tls { config: Arc::new(config), certificate_pem })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::is_warm;

    /// The first answers waited for the vocabulary: 51 to 81 ms where 30 were set.
    #[test]
    fn a_server_that_can_be_reached_has_loaded_what_its_answers_need() {
        let bound = SimServer::bind(SimConfig::default()).unwrap();
        assert!(bound.local_addr().is_some() && is_warm());
    }
}
