//! The bytes of one exchange, kept where a user asked for them.

/// Bytes in one direction, as the socket got or gave them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Sent(Vec<u8>),
    Received(Vec<u8>),
}

/// What was sent and received for one request, in order. A request that is sent again without a field that
/// the server refused has both exchanges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transcript(pub Vec<Piece>);

impl Transcript {
    pub(crate) fn sent(&mut self, bytes: &[u8]) {
        self.0.push(Piece::Sent(bytes.to_vec()));
    }

    pub(crate) fn received(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            Some(Piece::Received(before)) => before.extend_from_slice(bytes),
            _ => self.0.push(Piece::Received(bytes.to_vec())),
        }
    }
}
