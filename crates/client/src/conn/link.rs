//! A connection as its user sees it: plain bytes both ways, TLS or not.
//!
//! Under TLS a record's bytes become readable when its last byte has come, so they carry the stamp of
//! the read that completed the record. Handshake bytes are carried along by the same calls: a link is
//! ready for requests once [`Link::is_open`].

use std::io::{self, Read as _};

use rustls::ClientConnection;
use tokometer_base::WallNanos;
use tokometer_record::StampSource;

use super::buffer::ReadBuffer;
use super::endpoint::TlsClient;
use super::socket::ByteSource;

/// A byte source with the encryption over it.
#[derive(Debug)]
pub struct Link<S> {
    source: S,
    tls: Option<Box<Tls>>,
}

#[derive(Debug)]
struct Tls {
    session: ClientConnection,
    /// Encrypted bytes that the socket did not take yet.
    outgoing: Vec<u8>,
}

/// How far a write came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Everything was handed to the kernel.
    All,
    /// The first so many bytes were taken; write the others when the socket is writable.
    Part(usize),
}

/// What one read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// Plain bytes. May be empty under TLS, when a record is not complete.
    pub bytes: &'a [u8],
    /// Bytes taken from the wire.
    pub wire_bytes: usize,
    /// Whether the peer has closed its side: nothing comes after these bytes.
    pub is_last: bool,
    /// Whether more may be waiting.
    pub has_more: bool,
    /// The kernel's stamp, where it gave one.
    pub stamp: Option<WallNanos>,
}

/// Most plain bytes handed to TLS at one time: it keeps them encrypted until the socket takes them.
const TLS_PIECE: usize = 64 * 1024;

fn tls_error(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl<S: ByteSource> Link<S> {
    /// A link over `source`, encrypted if asked.
    pub fn new(source: S, tls: Option<&TlsClient>) -> io::Result<Self> {
        let tls = match tls {
            None => None,
            Some(client) => {
                let session = ClientConnection::new(client.config.clone(), client.name.clone())
                    .map_err(tls_error)?;
                Some(Box::new(Tls { session, outgoing: Vec::new() }))
            }
        };
        Ok(Self { source, tls })
    }

    /// The byte source below.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Whether requests can be written: the handshake, if there is one, is over.
    pub fn is_open(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.session.is_handshaking())
    }

    /// What a kernel stamp of this link means.
    pub fn kernel_source(&self) -> StampSource {
        if self.tls.is_some() { StampSource::KernelBelowTls } else { StampSource::Kernel }
    }

    /// Writes plain bytes, as many as are taken now.
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

    /// Sends what the encryption itself has to send: handshake messages, answers to key updates.
    /// True when nothing is left.
    pub fn flush(&mut self) -> io::Result<bool> {
        match &mut self.tls {
            None => Ok(true),
            Some(tls) => tls.flush(&mut self.source),
        }
    }

    /// Reads once.
    pub fn read<'b>(&mut self, buffer: &'b mut ReadBuffer) -> io::Result<Arrival<'b>> {
        let received = self.source.receive(buffer)?;
        let (wire_bytes, has_more, stamp) = (received.bytes, received.is_full, received.stamp);
        let Some(tls) = &mut self.tls else {
            let (bytes, is_last) = (&buffer.wire[..wire_bytes], wire_bytes == 0);
            return Ok(Arrival { bytes, wire_bytes, is_last, has_more, stamp });
        };
        buffer.plain.clear();
        let is_closed = tls.decrypt(&buffer.wire[..wire_bytes], &mut buffer.plain)?;
        let flushed = tls.flush(&mut self.source);
        // What has come is read even where nothing can be sent any more.
        if buffer.plain.is_empty() {
            let _is_flushed = flushed?;
        }
        let is_last = wire_bytes == 0 || is_closed;
        Ok(Arrival { bytes: &buffer.plain, wire_bytes, is_last, has_more, stamp })
    }
}

fn sent(taken: usize, wanted: usize) -> Sent {
    if taken == wanted { Sent::All } else { Sent::Part(taken) }
}

/// Writes until the source takes no more.
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

    /// Adds the plain bytes and says whether the peer has taken its leave. Servers do that before
    /// they close the connection, and some wait for an answer to it: a request would get none.
    fn decrypt(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> io::Result<bool> {
        while !wire.is_empty() {
            // Nothing is taken any more once the peer has taken its leave.
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
    use crate::tls::{Trust, client_config};

    /// A peer in memory that takes at most `room` bytes before it says "later".
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
        TlsClient { config: client_config(&Trust::Anybody).unwrap(), name }
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

    /// The answer and the leave-taking come in one read: the connection must not be used again.
    #[test]
    fn under_tls_the_servers_leave_ends_the_link_before_the_socket_closes() {
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

    /// A prompt of 128k tokens is larger than any socket buffer: nothing is lost or sent twice.
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
}
