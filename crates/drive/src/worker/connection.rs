//! A worker's connections, and the table that holds them.

use tokometer_base::Nanos;
use tokometer_client::Exchange;
use tokometer_client::conn::{Link, Segments, TransportInfo, Wire};

use crate::flight::Flight;
use crate::harvest::{Lane, Pulse};
use crate::platform::Interest;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionStage {
    /// A proxy's tunnel or TLS is being set up.
    Securing,
    /// Open, without a request.
    Idle,
    /// Open, with a request of the first wave that has not begun.
    Armed,
    /// A request is being written.
    Writing,
    /// Waiting for a response, or reading one.
    Reading,
}

/// Times at which the connection was made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnectionSetup {
    pub(crate) begin: Nanos,
    pub(crate) connected: Option<Nanos>,
    pub(crate) secured: Option<Nanos>,
}

/// One connection with the request it carries, if any.
#[derive(Debug)]
pub(crate) struct OpenConnection<W> {
    pub(crate) link: Link<W>,
    pub(crate) key: u64,
    pub(crate) id: u64,
    pub(crate) target: u16,
    /// Index of its address among the target's.
    pub(crate) address: usize,
    pub(crate) stage: ConnectionStage,
    pub(crate) setup: ConnectionSetup,
    /// Requests completed on it.
    pub(crate) uses: u32,
    pub(crate) flight: Option<Box<Flight>>,
    pub(crate) exchange: Exchange,
    pub(crate) segments: Segments,
    pub(crate) pulse: Pulse,
    pub(crate) lane: Lane,
    /// Which of its changes are reported.
    pub(crate) interest: Interest,
    /// Whether the stream was read lazily at some time.
    pub(crate) was_lazy: bool,
    /// Whether it was opened before any request needed it.
    pub(crate) is_preopened: bool,
    /// Time of the server's last activity.
    pub(crate) last_activity: Nanos,
    /// Time of the last content of the present response. `None` before the first.
    pub(crate) last_content: Option<Nanos>,
    /// Time of the end marker of the present response, while its body has not ended.
    pub(crate) end_marker: Option<Nanos>,
    /// Kernel statistics at the end of the previous request.
    pub(crate) account: TransportInfo,
}

impl<W: Wire> OpenConnection<W> {
    /// Prepares for another request.
    pub(crate) fn clear(&mut self) {
        self.exchange.reset();
        self.pulse = Pulse::default();
        self.was_lazy = false;
        self.last_content = None;
        self.end_marker = None;
    }

    /// Whether it was open before its current request: the server may have closed it in the meantime.
    pub(crate) fn was_kept(&self) -> bool {
        self.uses > 0 || self.is_preopened
    }
}

/// Connections by key. A key is never used twice, so a late event of a closed connection finds none.
#[derive(Debug)]
pub(crate) struct Slab<W> {
    slots: Vec<SlabSlot<W>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct SlabSlot<W> {
    generation: u32,
    connection: Option<Box<OpenConnection<W>>>,
}

impl<W> Default for Slab<W> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

fn key(index: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves of a key are cut out of it")]
fn parts(key: u64) -> (u32, u32) {
    (key as u32, (key >> 32) as u32)
}

impl<W> Slab<W> {
    /// A key for a new connection.
    pub(crate) fn reserve(&mut self) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(SlabSlot { generation: 0, connection: None });
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        key(index, self.slots[index as usize].generation)
    }

    fn slot(&mut self, key: u64) -> Option<&mut SlabSlot<W>> {
        let (index, generation) = parts(key);
        self.slots.get_mut(index as usize).filter(|slot| slot.generation == generation)
    }

    /// Removes a connection while it is worked on. Insert it again, or release its key.
    pub(crate) fn take(&mut self, key: u64) -> Option<Box<OpenConnection<W>>> {
        self.slot(key)?.connection.take()
    }

    pub(crate) fn get_mut(&mut self, key: u64) -> Option<&mut OpenConnection<W>> {
        self.slot(key)?.connection.as_deref_mut()
    }

    pub(crate) fn put(&mut self, connection: Box<OpenConnection<W>>) {
        let key = connection.key;
        if let Some(slot) = self.slot(key) {
            slot.connection = Some(connection);
        }
    }

    pub(crate) fn release(&mut self, key: u64) {
        let (index, _generation) = parts(key);
        if let Some(slot) = self.slot(key) {
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(index);
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut OpenConnection<W>> {
        self.slots.iter_mut().filter_map(|slot| slot.connection.as_deref_mut())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OpenConnection<W>> {
        self.slots.iter().filter_map(|slot| slot.connection.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_closed_connections_find_nothing() {
        let mut slab = Slab::<tokometer_client::conn::Socket>::default();
        let (first, second) = (slab.reserve(), slab.reserve());
        assert_ne!(first, second);
        slab.release(first);
        let third = slab.reserve();
        assert_ne!(first, third, "the place is used again, the key is not");
        assert_eq!(parts(first).0, parts(third).0);
        slab.release(first);
        assert_ne!(slab.reserve(), third, "releasing an old key frees nothing");
    }
}
