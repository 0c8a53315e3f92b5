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
    /// Bytes taken from the wire. Zero: the peer has closed its side.
    pub wire_bytes: usize,
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
            return Ok(Arrival { bytes: &buffer.wire[..wire_bytes], wire_bytes, has_more, stamp });
        };
        buffer.plain.clear();
        tls.decrypt(&buffer.wire[..wire_bytes], &mut buffer.plain)?;
        let _is_flushed = tls.flush(&mut self.source)?;
        Ok(Arrival { bytes: &buffer.plain, wire_bytes, has_more, stamp })
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
            let _count = self.session.write_tls(&mut self.outgoing)?;
        }
        let taken = transmit_all(source, &self.outgoing)?;
        drop(self.outgoing.drain(..taken));
        Ok(self.outgoing.is_empty())
    }

    fn decrypt(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        while !wire.is_empty() {
            let _count = self.session.read_tls(&mut wire)?;
            let state = self.session.process_new_packets().map_err(tls_error)?;
            let waiting = state.plaintext_bytes_to_read();
            if waiting > 0 {
                let start = plain.len();
                plain.resize(start + waiting, 0);
                self.session.reader().read_exact(&mut plain[start..])?;
            }
        }
        Ok(())
    }
}
