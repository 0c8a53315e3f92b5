//! The tunnel that a proxy opens to a server when asked with `CONNECT`.
//!
//! It is asked for before TLS begins. What follows the proxy's answer belongs to the server.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::proxy::Proxy;
use crate::url::Url;

/// The longest head of an answer that is read.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// What is sent to a proxy for a tunnel to one server.
#[derive(Clone)]
pub struct Tunnel {
    /// May hold a password.
    request: Arc<[u8]>,
    proxy: Arc<str>,
    server: Arc<str>,
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tunnel({} to {})", self.proxy, self.server)
    }
}

impl Tunnel {
    pub(crate) fn new(proxy: &Proxy, url: &Url) -> Self {
        let server = url.host_and_port();
        let key = proxy.authorization();
        let key = key.map(|key| format!("Proxy-Authorization: {key}\r\n")).unwrap_or_default();
        let request = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n{key}\r\n");
        let request = request.into_bytes().into();
        Self { request, proxy: proxy.to_string().into(), server: server.into() }
    }

    /// The proxy's address, without its password.
    pub fn proxy(&self) -> &str {
        &self.proxy
    }
}

#[derive(Debug)]
pub(super) struct OpeningTunnel {
    tunnel: Tunnel,
    sent: usize,
    answer: Vec<u8>,
}

impl OpeningTunnel {
    pub(super) fn new(tunnel: &Tunnel) -> Self {
        Self { tunnel: tunnel.clone(), sent: 0, answer: Vec::new() }
    }

    pub(super) fn unsent(&self) -> &[u8] {
        &self.tunnel.request[self.sent..]
    }

    pub(super) fn sent(&mut self, count: usize) {
        self.sent += count;
    }

    /// Reads bytes of the proxy's answer, none at its end. Returns how many of them are behind the
    /// answer's head once the tunnel is open.
    pub(super) fn read(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let Tunnel { proxy, server, .. } = &self.tunnel;
        let failed = |why: String| io::Error::other(format!("the proxy {proxy} {why}"));
        if bytes.is_empty() {
            return Err(failed(format!("closed the connection instead of connecting to {server}")));
        }
        self.answer.extend_from_slice(bytes);
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Response::new(&mut fields);
        let length = match head.parse(&self.answer) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if self.answer.len() <= MAX_HEAD_BYTES => {
                return Ok(None);
            }
            _ => return Err(failed("did not respond with HTTP".to_owned())),
        };
        let status = head.code.unwrap_or(0);
        if (200..300).contains(&status) {
            return Ok(Some(self.answer.len() - length));
        }
        let reason = head.reason.unwrap_or_default();
        let reason: String = reason.chars().filter(|c| !c.is_control()).take(80).collect();
        let advice = match status {
            407 => "; write user and password into the proxy's URL",
            _ => "",
        };
        let why = format!("refused to connect to {server}: status {status} {reason}");
        Err(failed(format!("{}{advice}", why.trim_end())))
    }
}
