//! The secret that the processes of a run share, and what it proves.
//!
//! Nobody joins without it. It never travels: both sides prove that they know it by a keyed hash over
//! random numbers of both. Every later message carries such a hash too, so that nobody can change or
//! insert one. Messages are not encrypted; they hold counters and the record.

use std::fmt;

use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

/// Shortest secret that is accepted.
pub(crate) const LEAST_BYTES: usize = 16;

/// Length of a proof and of a message's seal.
pub(crate) const TAG_BYTES: usize = 32;

/// A random number that is used once.
pub(crate) type Nonce = [u8; 16];

/// What all processes of a run know and nobody else.
#[derive(Clone)]
pub struct SharedSecret(hmac::Key);

/// Why a text cannot be the secret of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot use a shared secret of {0} bytes: at least {LEAST_BYTES} are needed")]
pub struct ShortSecret(usize);

impl SharedSecret {
    /// Takes a text without the white space around it.
    pub fn new(text: &str) -> Result<Self, ShortSecret> {
        let bytes = text.trim().as_bytes();
        if bytes.len() < LEAST_BYTES {
            return Err(ShortSecret(bytes.len()));
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// What a follower sends to be let in.
    pub(crate) fn proof(
        &self,
        leader: &Nonce,
        follower: &Nonce,
        identity: &str,
    ) -> [u8; TAG_BYTES] {
        tag_of(&self.0, &[b"join", leader, follower, identity.as_bytes()])
    }

    /// Whether somebody who knows the secret made this proof.
    pub(crate) fn is_proof(
        &self,
        leader: &Nonce,
        follower: &Nonce,
        identity: &str,
        proof: &[u8],
    ) -> bool {
        let text = joined(&[b"join", leader, follower, identity.as_bytes()]);
        hmac::verify(&self.0, &text, proof).is_ok()
    }

    /// The key of one connection.
    pub(crate) fn session(&self, leader: &Nonce, follower: &Nonce) -> SessionKey {
        let key = tag_of(&self.0, &[b"session", leader, follower]);
        SessionKey(hmac::Key::new(hmac::HMAC_SHA256, &key))
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret")
    }
}

/// Seals the messages of one connection.
#[derive(Clone)]
pub(crate) struct SessionKey(hmac::Key);

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

/// Who sends a message: a message that is sent back must not be taken for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    Leader,
    Follower,
}

impl Speaker {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Leader => b"leader",
            Self::Follower => b"follower",
        }
    }
}

impl SessionKey {
    pub(crate) fn seal(&self, from: Speaker, number: u64, payload: &[u8]) -> [u8; TAG_BYTES] {
        tag_of(&self.0, &[from.label(), &number.to_be_bytes(), payload])
    }

    pub(crate) fn is_seal(&self, from: Speaker, number: u64, payload: &[u8], seal: &[u8]) -> bool {
        let text = joined(&[from.label(), &number.to_be_bytes(), payload]);
        hmac::verify(&self.0, &text, seal).is_ok()
    }
}

/// Parts with their lengths, so that no two lists of parts give one text.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let mut text = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        text.extend_from_slice(&(part.len() as u64).to_be_bytes());
        text.extend_from_slice(part);
    }
    text
}

fn tag_of(key: &hmac::Key, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
    let tag = hmac::sign(key, &joined(parts));
    let mut bytes = [0; TAG_BYTES];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

/// A new random number. `None` where the system gives none, and nothing can be proved.
pub(crate) fn nonce() -> Option<Nonce> {
    let mut nonce = Nonce::default();
    SystemRandom::new().fill(&mut nonce).ok()?;
    Some(nonce)
}

/// A new name for a run, different from all others.
pub fn run_id() -> String {
    nonce().map_or_else(|| "run".to_owned(), |nonce| hex(&nonce[..8]))
}

/// The first half of a text's SHA-256, in hexadecimal digits.
pub fn fingerprint(text: &str) -> String {
    hex(&digest(&SHA256, text.as_bytes()).as_ref()[..16])
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    digits.chunks_exact(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_numbers_and_its_secret_alone() {
        let secret = SharedSecret::new("  0123456789abcdef\n").unwrap();
        let other = SharedSecret::new("0123456789abcdeX").unwrap();
        let (a, b): (Nonce, Nonce) = ([1; 16], [2; 16]);
        let proof = secret.proof(&a, &b, "1/4");
        assert!(secret.is_proof(&a, &b, "1/4", &proof));
        assert!(!secret.is_proof(&a, &b, "2/4", &proof));
        assert!(!secret.is_proof(&b, &a, "1/4", &proof));
        assert!(!other.is_proof(&a, &b, "1/4", &proof));
        assert!(!secret.is_proof(&a, &b, "1/4", &proof[..31]));
        assert!(SharedSecret::new("short").is_err());
    }

    #[test]
    fn a_seal_holds_for_its_message_its_number_and_its_sender() {
        let secret = SharedSecret::new("0123456789abcdef").unwrap();
        let key = secret.session(&[1; 16], &[2; 16]);
        let seal = key.seal(Speaker::Leader, 3, b"start");
        assert!(key.is_seal(Speaker::Leader, 3, b"start", &seal));
        assert!(!key.is_seal(Speaker::Follower, 3, b"start", &seal), "not sent back");
        assert!(!key.is_seal(Speaker::Leader, 4, b"start", &seal), "not sent twice");
        assert!(!key.is_seal(Speaker::Leader, 3, b"stop!", &seal));
        assert!(!secret.session(&[2; 16], &[1; 16]).is_seal(Speaker::Leader, 3, b"start", &seal));
    }

    #[test]
    fn digits_return_their_bytes_and_garbage_returns_none() {
        assert_eq!(unhex(&hex(&[0, 255, 16])), Some(vec![0, 255, 16]));
        for garbage in ["a", "zz", "ä!", "1g"] {
            assert_eq!(unhex(garbage), None, "{garbage}");
        }
        assert_ne!(run_id(), run_id());
        assert_eq!(fingerprint("a").len(), 32);
    }
}
