//! Messages on a connection: a length, a mark, the content, and a seal once both sides know each other.
//!
//! Every message has a limit, and none is allocated before its bytes arrive. Nothing that a stranger
//! sends leads to anything but an error.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::secret::{SessionKey, Speaker, TAG_BYTES};

/// Longest message of a member.
pub(crate) const MESSAGE_MAX: usize = 1 << 20;
/// Longest message of somebody who is not known yet.
pub(crate) const STRANGER_MAX: usize = 4 << 10;

/// Length and mark.
const HEAD_BYTES: usize = 5;
const PLAIN: u8 = 0;
const SEALED: u8 = 1;
const SEALED_BYTES: u8 = 2;

#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    #[error("the connection was closed")]
    Closed,
    /// The connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// What was sent cannot be stored on this side.
    #[error("its record cannot be written by shard 0: {0}")]
    Unwritten(io::Error),
    /// A length that no message has.
    #[error("a message of {0} bytes")]
    TooLong(usize),
    /// Not sealed by somebody who knows the secret.
    #[error("a message without a valid seal")]
    Seal,
    /// Content that is no message.
    #[error("an unknown message: {0}")]
    Garbage(String),
}

#[derive(Debug)]
pub(crate) struct MessageWriter<W> {
    out: W,
    seal: Option<(SessionKey, Speaker)>,
    number: u64,
}

impl<W: Write> MessageWriter<W> {
    /// Sends plain messages until [`MessageWriter::seal_by`].
    pub(crate) fn new(out: W) -> Self {
        Self { out, seal: None, number: 0 }
    }

    pub(crate) fn seal_by(&mut self, key: SessionKey, side: Speaker) {
        self.seal = Some((key, side));
    }

    pub(crate) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let content = serde_json::to_vec(message)?;
        let mark = if self.seal.is_some() { SEALED } else { PLAIN };
        self.write(mark, &content)
    }

    pub(crate) fn send_bytes(&mut self, content: &[u8]) -> io::Result<()> {
        self.write(SEALED_BYTES, content)
    }

    /// The whole message in one write: a second one would wait for the acknowledgement of the first.
    fn write(&mut self, mark: u8, content: &[u8]) -> io::Result<()> {
        let length = u32::try_from(content.len()).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(HEAD_BYTES + content.len() + TAG_BYTES);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.push(mark);
        bytes.extend_from_slice(content);
        if let Some((key, side)) = &self.seal {
            let seal = key.seal(*side, self.number, &bytes[HEAD_BYTES - 1..]);
            bytes.extend_from_slice(&seal);
            self.number += 1;
        }
        self.out.write_all(&bytes)
    }
}

/// What was received.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inbound<T> {
    Message(T),
    /// A piece of a file.
    Bytes(Vec<u8>),
}

#[derive(Debug)]
pub(crate) struct MessageReader<R> {
    from: R,
    /// The key, and the side that sends.
    seal: Option<(SessionKey, Speaker)>,
    number: u64,
    longest: usize,
}

impl<R: Read> MessageReader<R> {
    /// Takes plain, short messages until [`MessageReader::expect_seal`].
    pub(crate) fn new(from: R) -> Self {
        Self { from, seal: None, number: 0, longest: STRANGER_MAX }
    }

    pub(crate) fn source(&mut self) -> &mut R {
        &mut self.from
    }

    /// From now on every message must be sealed by `side`.
    pub(crate) fn expect_seal(&mut self, key: SessionKey, side: Speaker) {
        self.seal = Some((key, side));
        self.longest = MESSAGE_MAX;
    }

    /// The next message. A plain one is taken only before seals are expected, except for a refusal of
    /// somebody who does not know the key, which [`MessageReader::receive_reply`] takes.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> Result<Inbound<T>, WireError> {
        let (mark, content) = self.read()?;
        match (mark, &self.seal) {
            (PLAIN, None) | (SEALED, Some(_)) => parse(&content).map(Inbound::Message),
            (SEALED_BYTES, Some(_)) => Ok(Inbound::Bytes(content)),
            _ => Err(WireError::Seal),
        }
    }

    /// The next message, and whether it was sealed.
    pub(crate) fn receive_reply<T: DeserializeOwned>(&mut self) -> Result<(T, bool), WireError> {
        let (mark, content) = self.read()?;
        match mark {
            PLAIN | SEALED => Ok((parse(&content)?, mark == SEALED)),
            _ => Err(WireError::Seal),
        }
    }

    fn read(&mut self) -> Result<(u8, Vec<u8>), WireError> {
        let mut head = [0; HEAD_BYTES];
        self.fill(&mut head)?;
        let [a, b, c, d, mark] = head;
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if length > self.longest {
            return Err(WireError::TooLong(length));
        }
        let mut content = Vec::new();
        let taken = (&mut self.from).take(length as u64).read_to_end(&mut content)?;
        if taken < length {
            return Err(WireError::Closed);
        }
        if mark == PLAIN {
            return Ok((mark, content));
        }
        let mut tag = [0; TAG_BYTES];
        self.fill(&mut tag)?;
        let Some((key, side)) = &self.seal else { return Err(WireError::Seal) };
        let sealed: Vec<u8> = std::iter::once(mark).chain(content.iter().copied()).collect();
        if !key.is_seal(*side, self.number, &sealed, &tag) {
            return Err(WireError::Seal);
        }
        self.number += 1;
        Ok((mark, content))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), WireError> {
        self.from.read_exact(bytes).map_err(|why| match why.kind() {
            io::ErrorKind::UnexpectedEof => WireError::Closed,
            _ => WireError::Io(why),
        })
    }
}

fn parse<T: DeserializeOwned>(content: &[u8]) -> Result<T, WireError> {
    serde_json::from_slice(content).map_err(|why| WireError::Garbage(why.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{ToFollower, ToLeader};
    use crate::secret::SharedSecret;

    fn key() -> SessionKey {
        SharedSecret::new("0123456789abcdef").unwrap().session(&[1; 16], &[2; 16])
    }

    fn sealed(messages: &[ToFollower]) -> Vec<u8> {
        let mut sender = MessageWriter::new(Vec::new());
        sender.seal_by(key(), Speaker::Leader);
        for message in messages {
            sender.send(message).unwrap();
        }
        sender.send_bytes(b"piece").unwrap();
        sender.out
    }

    fn receiver(bytes: &[u8]) -> MessageReader<&[u8]> {
        let mut receiver = MessageReader::new(bytes);
        receiver.expect_seal(key(), Speaker::Leader);
        receiver
    }

    fn stop(point: u32) -> ToFollower {
        ToFollower::Stop { point, cause: crate::StopCause::Rule }
    }

    #[test]
    fn messages_return_in_their_order() {
        let bytes = sealed(&[stop(1), stop(2)]);
        let mut receiver = receiver(&bytes);
        assert_eq!(receiver.receive().unwrap(), Inbound::Message(stop(1)));
        assert_eq!(receiver.receive().unwrap(), Inbound::Message(stop(2)));
        let piece: Inbound<ToFollower> = receiver.receive().unwrap();
        assert_eq!(piece, Inbound::Bytes(b"piece".to_vec()));
        assert!(matches!(receiver.receive::<ToFollower>(), Err(WireError::Closed)));
    }

    #[test]
    fn a_message_that_was_repeated_dropped_or_changed_is_refused() {
        let one = sealed(&[stop(1)]);
        let both = sealed(&[stop(1), stop(2)]);
        let length = one.len() - sealed(&[]).len();
        let bytes = [&one[..length], &one[..length]].concat();
        let mut twice = receiver(&bytes);
        assert!(twice.receive::<ToFollower>().is_ok());
        assert!(matches!(twice.receive::<ToFollower>(), Err(WireError::Seal)));
        let dropped = receiver(&both[length..]).receive::<ToFollower>();
        assert!(matches!(dropped, Err(WireError::Seal)));
        let mut plain = MessageWriter::new(Vec::new());
        plain.send(&stop(1)).unwrap();
        let unsealed = receiver(&plain.out).receive::<ToFollower>();
        assert!(matches!(unsealed, Err(WireError::Seal)));
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_it_is_allocated() {
        let mut bytes = u32::MAX.to_be_bytes().to_vec();
        bytes.push(PLAIN);
        let read = MessageReader::new(&bytes[..]).receive::<ToLeader>();
        assert!(matches!(read, Err(WireError::TooLong(_))));
    }

    proptest! {
        /// A port that is open to a network gets anything.
        #[test]
        fn garbage_is_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(MessageReader::new(&bytes[..]).receive::<ToLeader>().is_err());
            prop_assert!(receiver(&bytes).receive::<ToFollower>().is_err());
        }

        #[test]
        fn no_changed_byte_passes(at in any::<prop::sample::Index>(), by in 1_u8..) {
            let mut bytes = sealed(&[stop(7)]);
            let length = bytes.len() - sealed(&[]).len();
            let at = at.index(length);
            bytes[at] ^= by;
            let read = receiver(&bytes).receive::<ToFollower>();
            prop_assert!(read.is_err(), "{at}: {read:?}");
        }
    }
}
