//! Bytes between the links and the server, and when they arrive.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use tokometer_base::Nanos;
use tokometer_client::conn::{Peer, Stamps, TransportInfo};

use super::server::{Act, Greeting, Server};
use crate::Interrupt;
use crate::platform::Ready;
use crate::reads::Lane;

/// An event in the future.
#[derive(Debug)]
enum NetworkEvent {
    Connected(usize),
    Refused(usize),
    /// A segment reaches the client.
    Arrives(usize, Vec<u8>),
    /// The server's end of the connection reaches the client.
    Ends(usize, End),
    /// Bytes of the client reach the server.
    Heard(usize, Vec<u8>),
    /// The server's acknowledgement of so many bytes reaches the client.
    Acknowledged(usize, u64),
    /// The server reads from the client's send buffer.
    Drains(usize),
    /// The server closes the connection if it has carried no further request by then.
    ClosesIdle {
        wire: usize,
        requests: u32,
    },
    Interrupts(Arc<Interrupt>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Closed,
    Reset,
    /// Reading panics.
    Panic,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about both ends")]
struct WireState {
    links: usize,
    key: u64,
    lane: Lane,
    stamps: Stamps,
    connected: Option<bool>,
    latency: Nanos,
    /// Segments that have arrived and were not read.
    inbound: VecDeque<(Nanos, Vec<u8>)>,
    end: Option<End>,
    is_reset_told: bool,
    account: TransportInfo,
    /// Size of the send buffer, and how many bytes are freed at a time.
    room: usize,
    pace: Option<(usize, Nanos)>,
    is_full: bool,
    /// Whether a report is waiting to be read.
    is_reported: bool,
    is_closed: bool,
    /// The received part of an incomplete request.
    request: Vec<u8>,
    requests: u32,
    has_server_closed: bool,
    /// Nothing from the server arrives before this: a connection keeps the order.
    last_arrival: Nanos,
}

#[derive(Debug, Default)]
struct LinksState {
    is_rung: bool,
    armed: Option<Nanos>,
    /// Wires with something to report, in the order of the events.
    eager: VecDeque<usize>,
    lazy: VecDeque<usize>,
}

#[derive(Debug)]
pub(super) struct Network {
    server: Server,
    agenda: BTreeMap<(Nanos, u64), NetworkEvent>,
    entries: u64,
    wires: Vec<WireState>,
    links: Vec<LinksState>,
}

impl Network {
    pub(super) fn new(mut server: Server) -> Self {
        let interrupts = server.take_interrupts();
        let mut network = Self {
            server,
            agenda: BTreeMap::new(),
            entries: 0,
            wires: Vec::new(),
            links: Vec::new(),
        };
        for (at, interrupt) in interrupts {
            network.plan(at, NetworkEvent::Interrupts(interrupt));
        }
        network
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    fn plan(&mut self, at: Nanos, event: NetworkEvent) {
        self.entries += 1;
        let before = self.agenda.insert((at, self.entries), event);
        assert!(before.is_none());
    }

    pub(super) fn next_moment(&self) -> Option<Nanos> {
        self.agenda.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn add_links(&mut self) -> usize {
        self.links.push(LinksState::default());
        self.links.len() - 1
    }

    pub(super) fn ring(&mut self, links: usize) {
        self.links[links].is_rung = true;
    }

    pub(super) fn arm(&mut self, links: usize, at: Nanos) {
        self.links[links].armed = Some(at);
    }

    pub(super) fn armed(&self, links: usize) -> Option<Nanos> {
        self.links[links].armed
    }

    pub(super) fn has_news(&self, links: usize, now: Nanos) -> bool {
        let links = &self.links[links];
        links.is_rung || !links.eager.is_empty() || links.armed.is_some_and(|at| at <= now)
    }

    /// Reports of the eager lane.
    pub(super) fn news(&mut self, links: usize, now: Nanos, most: usize) -> Vec<Ready> {
        let mut found = Vec::new();
        let state = &mut self.links[links];
        if std::mem::take(&mut state.is_rung) {
            found.push(Ready::Woken);
        }
        if state.armed.take_if(|at| *at <= now).is_some() {
            found.push(Ready::Timer);
        }
        let count = state.eager.len().min(most - found.len());
        let wires: Vec<usize> = state.eager.drain(..count).collect();
        found.extend(wires.into_iter().filter_map(|wire| self.report(wire)));
        found
    }

    /// Reports of the lazy lane.
    pub(super) fn lazy_news(&mut self, links: usize, most: usize) -> Vec<Ready> {
        let lane = &mut self.links[links].lazy;
        let count = lane.len().min(most);
        let wires: Vec<usize> = lane.drain(..count).collect();
        wires.into_iter().filter_map(|wire| self.report(wire)).collect()
    }

    fn report(&mut self, wire: usize) -> Option<Ready> {
        let wire = &mut self.wires[wire];
        if wire.is_closed || !std::mem::take(&mut wire.is_reported) {
            return None;
        }
        Some(Ready::Link {
            key: wire.key,
            is_readable: !wire.inbound.is_empty() || wire.end.is_some(),
            is_ending: wire.end.is_some() || wire.connected == Some(false),
        })
    }

    /// Records a change for the client.
    fn changed(&mut self, number: usize) {
        let wire = &mut self.wires[number];
        if wire.is_closed || std::mem::replace(&mut wire.is_reported, true) {
            return;
        }
        let links = &mut self.links[wire.links];
        match wire.lane {
            Lane::Eager => links.eager.push_back(number),
            Lane::Lazy => links.lazy.push_back(number),
        }
    }

    pub(super) fn shift(&mut self, number: usize, to: Lane) {
        let wire = &mut self.wires[number];
        let links = &mut self.links[wire.links];
        links.eager.retain(|waiting| *waiting != number);
        links.lazy.retain(|waiting| *waiting != number);
        wire.lane = to;
        wire.is_reported = false;
        // A socket added to a poller is writable, and is reported for that.
        self.changed(number);
    }

    pub(super) fn connect(
        &mut self,
        links: usize,
        (to, key): (&Peer, u64),
        stamps: Stamps,
        now: Nanos,
    ) -> usize {
        let number = self.wires.len();
        let Greeting { is_accepted, latency, send_buffer } = self.server.greet(to);
        self.wires.push(WireState {
            links,
            key,
            lane: Lane::Eager,
            stamps,
            connected: None,
            latency,
            inbound: VecDeque::new(),
            end: None,
            is_reset_told: false,
            account: TransportInfo { round_trip: latency + latency, ..TransportInfo::default() },
            room: send_buffer.map_or(usize::MAX, |(bytes, _)| bytes),
            pace: send_buffer,
            is_full: false,
            is_reported: false,
            is_closed: false,
            request: Vec::new(),
            requests: 0,
            has_server_closed: false,
            last_arrival: now,
        });
        let at = now + latency + latency;
        match is_accepted {
            Some(true) => self.plan(at, NetworkEvent::Connected(number)),
            Some(false) => self.plan(at, NetworkEvent::Refused(number)),
            None => {}
        }
        number
    }

    pub(super) fn connected(&self, number: usize) -> io::Result<()> {
        match self.wires[number].connected {
            Some(true) => Ok(()),
            Some(false) => Err(io::ErrorKind::ConnectionRefused.into()),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    pub(super) fn info(&self, number: usize) -> TransportInfo {
        let wire = &self.wires[number];
        let end = u64::from(wire.end == Some(End::Closed));
        TransportInfo {
            is_closed: wire.end.is_some(),
            bytes_received: wire.account.bytes_received + end,
            ..wire.account
        }
    }

    pub(super) fn close(&mut self, number: usize) {
        let wire = &mut self.wires[number];
        wire.is_closed = true;
        wire.inbound.clear();
        let links = &mut self.links[wire.links];
        links.eager.retain(|waiting| *waiting != number);
        links.lazy.retain(|waiting| *waiting != number);
    }

    /// Reads everything that has arrived, with the time of its last segment.
    pub(super) fn receive(
        &mut self,
        number: usize,
        buffer: &mut [u8],
    ) -> io::Result<(usize, bool, Option<Nanos>)> {
        let wire = &mut self.wires[number];
        let (mut filled, mut stamp) = (0, None);
        while let Some((at, mut bytes)) = wire.inbound.pop_front() {
            let taken = bytes.len().min(buffer.len() - filled);
            buffer[filled..filled + taken].copy_from_slice(&bytes[..taken]);
            filled += taken;
            stamp = Some(at);
            if taken < bytes.len() {
                drop(bytes.drain(..taken));
                wire.inbound.push_front((at, bytes));
                break;
            }
        }
        if filled > 0 {
            let stamp = stamp.filter(|_| wire.stamps == Stamps::Kernel);
            return Ok((filled, filled == buffer.len(), stamp));
        }
        match wire.end {
            None => Err(io::ErrorKind::WouldBlock.into()),
            Some(End::Reset) if !std::mem::replace(&mut wire.is_reset_told, true) => {
                Err(io::ErrorKind::ConnectionReset.into())
            }
            Some(End::Closed | End::Reset) => Ok((0, false, None)),
            Some(End::Panic) => Err(io::Error::other(super::server::PANIC)),
        }
    }

    pub(super) fn transmit(
        &mut self,
        number: usize,
        bytes: &[u8],
        now: Nanos,
    ) -> io::Result<usize> {
        let wire = &mut self.wires[number];
        if wire.end == Some(End::Reset) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if wire.room == 0 {
            wire.is_full = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = bytes.len().min(wire.room);
        if let Some((_bytes, pause)) = wire.pace {
            wire.room -= taken;
            let at = now + pause;
            let latency = wire.latency;
            self.plan(at, NetworkEvent::Drains(number));
            self.plan(at + latency, NetworkEvent::Heard(number, bytes[..taken].to_vec()));
        } else {
            let at = now + wire.latency;
            self.plan(at, NetworkEvent::Heard(number, bytes[..taken].to_vec()));
        }
        Ok(taken)
    }

    /// Executes all events that are due by `now`.
    pub(super) fn settle(&mut self, now: Nanos) {
        while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, _), event) = entry.remove_entry();
            self.happen(at, event);
        }
    }

    fn happen(&mut self, at: Nanos, event: NetworkEvent) {
        match event {
            NetworkEvent::Connected(number) => {
                self.wires[number].connected = Some(true);
                self.changed(number);
            }
            NetworkEvent::Refused(number) => {
                self.wires[number].connected = Some(false);
                self.changed(number);
            }
            NetworkEvent::Arrives(number, bytes) => {
                let wire = &mut self.wires[number];
                if wire.end.is_none() && !wire.is_closed {
                    wire.account.bytes_received += bytes.len() as u64;
                    wire.account.data_segments_in += 1;
                    wire.inbound.push_back((at, bytes));
                    self.changed(number);
                }
            }
            NetworkEvent::Ends(number, end) => {
                let wire = &mut self.wires[number];
                // A reset after a regular end is reported; anything else after an end is not.
                if wire.end.is_none() || end == End::Reset {
                    wire.end = Some(end);
                    self.changed(number);
                }
            }
            NetworkEvent::Heard(number, bytes) => self.on_heard(number, bytes, at),
            NetworkEvent::Acknowledged(number, count) => {
                self.wires[number].account.bytes_acknowledged += count;
            }
            NetworkEvent::Drains(number) => {
                let wire = &mut self.wires[number];
                wire.room = wire.pace.map_or(usize::MAX, |(bytes, _)| bytes);
                if std::mem::take(&mut wire.is_full) {
                    self.changed(number);
                }
            }
            NetworkEvent::ClosesIdle { wire: number, requests } => {
                let wire = &mut self.wires[number];
                let is_idle = wire.requests == requests && wire.request.is_empty();
                if is_idle && !wire.has_server_closed && !wire.is_closed {
                    self.server_ends(number, at, End::Closed);
                }
            }
            NetworkEvent::Interrupts(interrupt) => interrupt.raise(),
        }
    }

    fn server_ends(&mut self, number: usize, at: Nanos, end: End) {
        let wire = &mut self.wires[number];
        wire.has_server_closed = true;
        let arrival = (at + wire.latency).max(wire.last_arrival);
        wire.last_arrival = arrival;
        self.plan(arrival, NetworkEvent::Ends(number, end));
    }

    fn on_heard(&mut self, number: usize, bytes: Vec<u8>, at: Nanos) {
        let wire = &mut self.wires[number];
        if wire.is_closed {
            return;
        }
        // Bytes for a connection that the server has closed are answered with a reset.
        if wire.has_server_closed {
            return self.server_ends(number, at, End::Reset);
        }
        let acknowledgement = NetworkEvent::Acknowledged(number, bytes.len() as u64);
        wire.request.extend(bytes);
        let arrival = at + wire.latency;
        self.plan(arrival, acknowledgement);
        let wire = &mut self.wires[number];
        let Some(body) = super::server::take_request(&mut wire.request) else { return };
        wire.requests += 1;
        let (requests, latency) = (wire.requests, wire.latency);
        let floor = wire.last_arrival;
        let acts = self.server.answer(&body, at, |delay| (at + delay + latency).max(floor));
        for (delay, act) in acts {
            let arrival = (at + delay + latency).max(floor);
            match act {
                Act::Segment(bytes) => {
                    self.wires[number].last_arrival = arrival;
                    self.plan(arrival, NetworkEvent::Arrives(number, bytes));
                }
                Act::End(end) => self.server_ends(number, at + delay, end),
                Act::CloseWhenIdle => {
                    self.plan(at + delay, NetworkEvent::ClosesIdle { wire: number, requests });
                }
            }
        }
    }
}
