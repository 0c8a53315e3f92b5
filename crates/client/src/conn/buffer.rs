//! The memory that reads go through: one per worker, whatever the number of connections.

use nix::sys::socket::Timestamps;

/// Large enough that a read seldom fills it, small enough to stay in the second-level cache.
const READ_BYTES: usize = 128 * 1024;

/// Where bytes land. Reused from read to read.
#[derive(Debug)]
pub struct ReadBuffer {
    pub(super) wire: Vec<u8>,
    pub(super) control: Vec<u8>,
    pub(super) plain: Vec<u8>,
}

impl ReadBuffer {
    /// Where a byte source that is no socket puts what it received.
    pub fn wire_mut(&mut self) -> &mut [u8] {
        &mut self.wire
    }
}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self { wire: vec![0; READ_BYTES], control: nix::cmsg_space!(Timestamps), plain: Vec::new() }
    }
}
