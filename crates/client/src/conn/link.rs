//! A connection that carries plain bytes in both directions, over TCP or TLS.
//!
//! Under TLS a record's bytes become readable when its last byte has come, so they carry the stamp of
//! the read that completed the record. Handshake bytes are carried along by the same calls, and so is
//! the request for a proxy's tunnel: a link is ready for requests once [`Link::is_open`].

use std::io::{self, Read as _};

use rustls::ClientConnection;
use tokometer_base::WallNanos;
use tokometer_record::StampSource;

use super::endpoint::TlsClient;
use super::socket::{ByteSource, ReadBuffer};
use super::tunnel::{OpeningTunnel, Tunnel};

/// A byte source, with TLS on top where configured.
#[derive(Debug)]
pub struct Link<S> {
    source: S,
    tls: Option<Box<Tls>>,
    /// The tunnel that is being opened below TLS.
    opening: Option<Box<OpeningTunnel>>,
}

#[derive(Debug)]
struct Tls {
    session: ClientConnection,
    /// Encrypted bytes that the socket has not accepted yet.
    outgoing: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// All bytes are with the kernel.
    All,
    /// Number of bytes accepted; write the rest when the socket is writable.
    Part(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRead<'a> {
    /// Decrypted bytes. Empty under TLS while a record is incomplete.
    pub bytes: &'a [u8],
    /// Bytes read from the socket, before decryption.
    pub wire_bytes: usize,
    /// Whether the peer has closed its side: no bytes follow.
    pub is_last: bool,
    pub has_more: bool,
    pub stamp: Option<WallNanos>,
}

/// Limit on the plain bytes encrypted at one time: rustls buffers the encrypted form until the socket
/// accepts it.
const TLS_PIECE: usize = 64 * 1024;

fn tls_error(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl<S: ByteSource> Link<S> {
    /// `tls` is `None` for plain TCP.
    pub fn new(source: S, tls: Option<&TlsClient>) -> io::Result<Self> {
        let tls = match tls {
            None => None,
            Some(client) => {
                let session = ClientConnection::new(client.config.clone(), client.name.clone())
                    .map_err(tls_error)?;
                Some(Box::new(Tls { session, outgoing: Vec::new() }))
            }
        };
        Ok(Self { source, tls, opening: None })
    }

    /// The same link through a proxy's tunnel, which is opened first.
    #[must_use]
    pub fn through(self, tunnel: Option<&Tunnel>) -> Self {
        Self { opening: tunnel.map(|tunnel| Box::new(OpeningTunnel::new(tunnel))), ..self }
    }

    pub fn is_tunnelling(&self) -> bool {
        self.opening.is_some()
    }

    pub fn source(&self) -> &S {
        &self.source
    }

    /// Whether requests can be written: true once the TLS handshake, if any, is complete.
    pub fn is_open(&self) -> bool {
        !self.is_tunnelling() && self.tls.as_ref().is_none_or(|tls| !tls.session.is_handshaking())
    }

    /// Which [`StampSource`] applies to this link's kernel stamps.
    pub fn kernel_source(&self) -> StampSource {
        if self.tls.is_some() { StampSource::KernelBelowTls } else { StampSource::Kernel }
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Sent> {
        let Some(tls) = &mut self.tls else {
            return Ok(sent(transmit_all(&mut self.source, bytes)?, bytes.len()));
        };
        let mut taken = 0;
        while taken < bytes.len() {
            if !tls.flush(&mut self.source)? {
                return Ok(Sent::Part(taken));
            }
            let piece = &bytes[taken..bytes.len().min(taken + TLS_PIECE)];
            taken += io::Write::write(&mut tls.session.writer(), piece)?;
        }
        Ok(if tls.flush(&mut self.source)? { Sent::All } else { Sent::Part(taken) })
    }

    /// Sends what the link itself has to send: the request for a tunnel, handshake messages, answers to
    /// key updates. True when nothing is left.
    pub fn flush(&mut self) -> io::Result<bool> {
        if let Some(opening) = &mut self.opening {
            let taken = transmit_all(&mut self.source, opening.unsent())?;
            opening.sent(taken);
            return Ok(opening.unsent().is_empty());
        }
        match &mut self.tls {
            None => Ok(true),
            Some(tls) => tls.flush(&mut self.source),
        }
    }

    pub fn read<'b>(&mut self, buffer: &'b mut ReadBuffer) -> io::Result<LinkRead<'b>> {
        let received = self.source.receive(buffer)?;
        let (wire_bytes, has_more, stamp) = (received.bytes, received.is_full, received.stamp);
        let mut start = 0;
        if let Some(opening) = &mut self.opening {
            let Some(behind) = opening.read(&buffer.wire[..wire_bytes])? else {
                return Ok(LinkRead { bytes: &[], wire_bytes, is_last: false, has_more, stamp });
            };
            self.opening = None;
            start = wire_bytes - behind;
        }
        let Some(tls) = &mut self.tls else {
            let (bytes, is_last) = (&buffer.wire[start..wire_bytes], wire_bytes == 0);
            return Ok(LinkRead { bytes, wire_bytes, is_last, has_more, stamp });
        };
        buffer.plain.clear();
        let is_closed = tls.decrypt(&buffer.wire[start..wire_bytes], &mut buffer.plain)?;
        let flushed = tls.flush(&mut self.source);
        // Received bytes are returned even when nothing can be sent any more.
        if buffer.plain.is_empty() {
            let _is_flushed = flushed?;
        }
        let is_last = wire_bytes == 0 || is_closed;
        Ok(LinkRead { bytes: &buffer.plain, wire_bytes, is_last, has_more, stamp })
    }
}

fn sent(taken: usize, wanted: usize) -> Sent {
    if taken == wanted { Sent::All } else { Sent::Part(taken) }
}

/// Writes until the source accepts no more. Returns the number of bytes accepted.
fn transmit_all(source: &mut impl ByteSource, bytes: &[u8]) -> io::Result<usize> {
    let mut taken = 0;
    while taken < bytes.len() {
        match source.transmit(&bytes[taken..]) {
            Ok(count) => taken += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}

impl Tls {
    fn flush(&mut self, source: &mut impl ByteSource) -> io::Result<bool> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.outgoing)?;
        }
        let taken = transmit_all(source, &self.outgoing)?;
        drop(self.outgoing.drain(..taken));
        Ok(self.outgoing.is_empty())
    }

    /// Appends the decrypted bytes. Returns true after the peer's `close_notify`: servers send it
    /// before they close the connection, and some wait for the client's own, so a further request
    /// would get no response.
    fn decrypt(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> io::Result<bool> {
        while !wire.is_empty() {
            // After `close_notify` rustls accepts no further bytes.
            if self.session.read_tls(&mut wire)? == 0 {
                return Ok(true);
            }
            let state = self.session.process_new_packets().map_err(tls_error)?;
            let waiting = state.plaintext_bytes_to_read();
            if waiting > 0 {
                let start = plain.len();
                plain.resize(start + waiting, 0);
                self.session.reader().read_exact(&mut plain[start..])?;
            }
            if state.peer_has_closed() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;

    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ServerConfig, ServerConnection};

    use super::*;
    use crate::conn::socket::Received;
    use crate::proxy::Proxy;
    use crate::tls::{Trust, client_config};
    use crate::url::Url;

    /// A peer in memory that accepts at most `room` bytes before it returns `WouldBlock`.
    struct Peer {
        session: Option<ServerConnection>,
        inbox: Vec<u8>,
        outbox: Vec<u8>,
        room: usize,
    }

    fn later<T>() -> io::Result<T> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    impl ByteSource for Peer {
        fn receive(&mut self, buffer: &mut ReadBuffer) -> io::Result<Received> {
            if let Some(session) = &mut self.session {
                while session.wants_write() {
                    session.write_tls(&mut self.outbox)?;
                }
            }
            if self.outbox.is_empty() {
                return later();
            }
            let bytes = self.outbox.len().min(buffer.wire.len());
            buffer.wire[..bytes].copy_from_slice(&self.outbox[..bytes]);
            drop(self.outbox.drain(..bytes));
            Ok(Received { bytes, is_full: false, stamp: Some(WallNanos(7)) })
        }

        fn transmit(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return later();
            }
            let taken = bytes.len().min(self.room);
            self.room -= taken;
            let Some(session) = &mut self.session else {
                self.inbox.extend_from_slice(&bytes[..taken]);
                return Ok(taken);
            };
            let mut wire = &bytes[..taken];
            while !wire.is_empty() {
                session.read_tls(&mut wire)?;
                let state = session.process_new_packets().map_err(tls_error)?;
                let start = self.inbox.len();
                self.inbox.resize(start + state.plaintext_bytes_to_read(), 0);
                session.reader().read_exact(&mut self.inbox[start..])?;
            }
            Ok(taken)
        }
    }

    fn plain_peer(room: usize) -> Peer {
        Peer { session: None, inbox: Vec::new(), outbox: Vec::new(), room }
    }

    fn tls_peer(room: usize) -> Peer {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let session = ServerConnection::new(Arc::new(config)).unwrap();
        Peer { session: Some(session), ..plain_peer(room) }
    }

    fn tls_client() -> TlsClient {
        let name = ServerName::try_from("localhost").unwrap();
        TlsClient { config: client_config(&Trust::Anybody, None).unwrap(), name }
    }

    fn open(peer: Peer) -> Link<Peer> {
        let mut link = Link::new(peer, Some(&tls_client())).unwrap();
        let mut buffer = ReadBuffer::default();
        assert!(!link.is_open());
        while !link.is_open() {
            link.flush().unwrap();
            let arrival = link.read(&mut buffer).unwrap();
            assert!(arrival.bytes.is_empty() && arrival.wire_bytes > 0, "only a handshake");
        }
        link.flush().unwrap();
        link
    }

    #[test]
    fn plain_bytes_pass_unchanged_and_a_full_socket_takes_a_part() {
        let mut link = Link::new(plain_peer(4), None).unwrap();
        assert!(link.is_open());
        assert_eq!(link.write(b"request").unwrap(), Sent::Part(4));
        link.source.room = 10;
        assert_eq!(link.write(b"est").unwrap(), Sent::All);
        assert_eq!(link.source.inbox, b"request");
        link.source.outbox = b"answer".to_vec();
        let mut buffer = ReadBuffer::default();
        let arrival = link.read(&mut buffer).unwrap();
        assert_eq!((arrival.bytes, arrival.stamp), (&b"answer"[..], Some(WallNanos(7))));
        assert_eq!(link.kernel_source(), StampSource::Kernel);
    }

    #[test]
    fn under_tls_the_same_bytes_come_out_with_the_stamp_of_their_record() {
        let mut link = open(tls_peer(usize::MAX));
        assert_eq!(link.write(b"request").unwrap(), Sent::All);
        assert_eq!(link.source.inbox, b"request");
        let session = link.source.session.as_mut().unwrap();
        session.writer().write_all(b"answer").unwrap();
        let mut buffer = ReadBuffer::default();
        let arrival = link.read(&mut buffer).unwrap();
        assert_eq!((arrival.bytes, arrival.stamp), (&b"answer"[..], Some(WallNanos(7))));
        assert_eq!(link.kernel_source(), StampSource::KernelBelowTls);
    }

    /// The response and `close_notify` arrive in one read: the connection must not be used again.
    #[test]
    fn close_notify_ends_the_link_before_the_socket_closes() {
        let mut link = open(tls_peer(usize::MAX));
        let session = link.source.session.as_mut().unwrap();
        session.writer().write_all(b"answer").unwrap();
        let mut buffer = ReadBuffer::default();
        assert!(!link.read(&mut buffer).unwrap().is_last);
        let session = link.source.session.as_mut().unwrap();
        session.writer().write_all(b"answer").unwrap();
        session.send_close_notify();
        let arrival = link.read(&mut buffer).unwrap();
        assert_eq!((arrival.bytes, arrival.is_last), (&b"answer"[..], true));
        link.source.outbox = vec![0; 10_000];
        assert!(link.read(&mut buffer).unwrap().is_last, "what comes after it is not read");
    }

    /// A prompt of 128k tokens exceeds every socket buffer: no byte may be lost or sent twice.
    #[test]
    fn a_large_request_survives_a_socket_that_takes_little_at_a_time() {
        let mut link = open(tls_peer(usize::MAX));
        let request: Vec<u8> = (0..600_000_u32).map(|i| i.to_le_bytes()[0]).collect();
        let mut written = 0;
        link.source.room = 0;
        loop {
            match link.write(&request[written..]).unwrap() {
                Sent::All => break,
                Sent::Part(taken) => written += taken,
            }
            link.source.room = 10_000;
        }
        assert!(link.source.inbox == request, "{} bytes came", link.source.inbox.len());
    }

    fn tunnel() -> Tunnel {
        let proxy = Proxy::parse("http://me:secret@proxy:3128").unwrap();
        Tunnel::new(&proxy, &Url::parse("https://server.test").unwrap())
    }

    #[test]
    fn a_tunnel_is_asked_for_before_tls_and_the_servers_first_bytes_are_not_lost() {
        let mut link = Link::new(plain_peer(usize::MAX), Some(&tls_client())).unwrap();
        link = link.through(Some(&tunnel()));
        assert!(link.flush().unwrap() && !link.is_open());
        let asked = String::from_utf8(std::mem::take(&mut link.source.inbox)).unwrap();
        assert_eq!(
            asked,
            "CONNECT server.test:443 HTTP/1.1\r\nHost: server.test:443\r\n\
             Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n"
        );
        let mut buffer = ReadBuffer::default();
        link.source.outbox = b"HTTP/1.1 200 Connection est".to_vec();
        assert!(!link.read(&mut buffer).unwrap().is_last);
        assert!(link.is_tunnelling() && link.source.inbox.is_empty());
        link.source.outbox = b"ablished\r\n\r\n".to_vec();
        assert!(link.read(&mut buffer).unwrap().bytes.is_empty());
        assert!(!link.is_tunnelling());
        assert_eq!(link.source.inbox[0], 22, "a TLS handshake follows");
    }

    #[test]
    fn a_proxy_that_refuses_is_named_without_its_password() {
        let refusal = |answer: &[u8]| {
            let link = Link::new(plain_peer(usize::MAX), Some(&tls_client())).unwrap();
            let mut link = link.through(Some(&tunnel()));
            link.flush().unwrap();
            link.source.outbox = answer.to_vec();
            let mut buffer = ReadBuffer::default();
            let text = link.read(&mut buffer).unwrap_err().to_string();
            assert!(link.is_tunnelling() && !text.contains("secret"), "{text}");
            text
        };
        assert_eq!(
            refusal(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"),
            "the proxy http://proxy:3128 refused to connect to server.test:443: \
             status 407 Proxy Authentication Required; write user and password into the proxy's URL"
        );
        assert!(refusal(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").ends_with("status 502 Bad Gateway"));
        assert!(refusal(b"SSH-2.0 hello\r\n").ends_with("did not respond with HTTP"));
    }
}
