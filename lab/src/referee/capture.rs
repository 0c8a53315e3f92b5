//! Reads a packet capture and puts the server's byte streams together again.
//!
//! In: a classic pcap file with nanosecond stamps, as tcpdump writes it. Out: per connection the bytes
//! that the server sent, with the stamp of the packet that brought each. Shares no code with the
//! client on purpose: it is the second opinion.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

/// One direction of one TCP connection: client port, and bytes with their arrival.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    pub(crate) bytes: Vec<u8>,
    /// (end offset in `bytes`, wall-clock nanoseconds) of each packet that brought new bytes.
    pub(crate) arrivals: Vec<(usize, u64)>,
    next_sequence: Option<u32>,
    early: BTreeMap<u32, (Vec<u8>, u64)>,
}

impl Flow {
    /// When the byte at `offset` arrived.
    pub(crate) fn arrival_of(&self, offset: usize) -> Option<u64> {
        let at = self.arrivals.partition_point(|(end, _)| *end <= offset);
        self.arrivals.get(at).map(|(_, stamp)| *stamp)
    }

    fn accept(&mut self, sequence: u32, payload: &[u8], stamp: u64) {
        let expected = *self.next_sequence.get_or_insert(sequence);
        let behind = expected.wrapping_sub(sequence) as usize;
        if behind > 0 && behind < (1 << 31) {
            // A retransmission: only what is new in it counts.
            if behind < payload.len() {
                self.append(&payload[behind..], stamp);
            }
        } else if behind == 0 {
            self.append(payload, stamp);
        } else {
            self.early.insert(sequence, (payload.to_vec(), stamp));
            return;
        }
        while let Some(next) = self.next_sequence
            && let Some((payload, early_stamp)) = self.early.remove(&next)
        {
            // The byte could not be read before the hole was filled.
            self.append(&payload, early_stamp.max(stamp));
        }
    }

    fn append(&mut self, payload: &[u8], stamp: u64) {
        self.bytes.extend_from_slice(payload);
        self.arrivals.push((self.bytes.len(), stamp));
        let length = u32::try_from(payload.len()).unwrap_or(0);
        self.next_sequence = self.next_sequence.map(|next| next.wrapping_add(length));
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u16_be(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

const NANOSECOND_MAGIC: u32 = 0xa1b2_3c4d;
const ETHERNET_BYTES: usize = 14;

/// All flows from `server_port`, by the client's port.
pub(crate) fn read(file: &[u8], server_port: u16) -> Result<BTreeMap<u16, Flow>> {
    if u32_at(file, 0) != Some(NANOSECOND_MAGIC) {
        bail!("the capture is not a little-endian pcap file with nanoseconds");
    }
    let mut flows = BTreeMap::new();
    let mut at = 24;
    while at + 16 <= file.len() {
        let field = |index: usize| u32_at(file, at + 4 * index).context("a cut packet header");
        let stamp = u64::from(field(0)?) * 1_000_000_000 + u64::from(field(1)?);
        let length = field(2)? as usize;
        at += 16;
        let Some(packet) = file.get(at..at + length) else { break };
        at += length;
        packet_into(packet, stamp, server_port, &mut flows);
    }
    Ok(flows)
}

/// Adds one Ethernet frame to its flow; `None` when it is not data from the server.
fn packet_into(
    packet: &[u8],
    stamp: u64,
    server_port: u16,
    flows: &mut BTreeMap<u16, Flow>,
) -> Option<()> {
    let ip = packet.get(ETHERNET_BYTES..)?;
    let is_tcp_over_ipv4 = u16_be(packet, 12)? == 0x0800 && *ip.get(9)? == 6;
    if !is_tcp_over_ipv4 {
        return None;
    }
    let header = usize::from(ip.first()? & 0x0f) * 4;
    let total = usize::from(u16_be(ip, 2)?);
    let tcp = ip.get(header..total)?;
    let (source, destination) = (u16_be(tcp, 0)?, u16_be(tcp, 2)?);
    let payload = tcp.get(usize::from(tcp.get(12)? >> 4) * 4..)?;
    if source != server_port || payload.is_empty() {
        return None;
    }
    let sequence = u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?);
    flows.entry(destination).or_default().accept(sequence, payload, stamp);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_out_of_order_and_sent_twice_give_the_bytes_once() {
        let mut flow = Flow::default();
        flow.accept(100, b"ab", 1);
        flow.accept(104, b"ef", 2);
        flow.accept(102, b"cd", 3);
        flow.accept(102, b"cdef", 4);
        flow.accept(106, b"g", 5);
        assert_eq!(flow.bytes, b"abcdefg");
        assert_eq!(flow.arrival_of(1), Some(1));
        assert_eq!(flow.arrival_of(4), Some(3), "readable only once the hole was filled");
        assert_eq!(flow.arrival_of(6), Some(5));
        assert_eq!(flow.arrival_of(7), None);
    }
}
