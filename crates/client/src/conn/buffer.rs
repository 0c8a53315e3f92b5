//! The buffer that all reads of a worker share, however many connections it has.

use nix::sys::socket::Timestamps;

/// Large enough that a read seldom fills it, small enough to stay in the second-level cache.
const READ_BYTES: usize = 128 * 1024;

/// Receives the bytes of one read. The next read overwrites them.
#[derive(Debug)]
pub struct ReadBuffer {
    pub(super) wire: Vec<u8>,
    pub(super) control: Vec<u8>,
    pub(super) plain: Vec<u8>,
}

impl ReadBuffer {
    /// For byte sources that are not sockets: the part of the buffer that they fill.
    pub fn wire_mut(&mut self) -> &mut [u8] {
        &mut self.wire
    }
}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self { wire: vec![0; READ_BYTES], control: nix::cmsg_space!(Timestamps), plain: Vec::new() }
    }
}
