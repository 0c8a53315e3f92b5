//! One client's connection: bytes in, bytes out, and which event's last byte has left.
//!
//! Output is queued as *parcels*: bytes that should leave in one write, with the events that end in
//! them. A parcel leaves at once if nothing is queued before it and the connection is not held back.
//! Under TLS a parcel is one record (or more), and an event has left when its record has.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use base::{Clock, Nanos};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use tokometer_base as base;

use crate::http::{Persistence, RequestReader};
use crate::truth::{Fact, Log, SentKind, StreamEnd, TrueEvent};

/// Output that a client does not read is kept up to here; then the connection is closed.
const BACKLOG_BYTES_MAX: usize = 256 * 1024 * 1024;

/// An event whose last byte is in the queue.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    /// Bytes queued since the connection began, this event's last one included.
    end: u64,
    stream: u64,
    kind: SentKind,
    tokens: u32,
    /// How the answer has ended once this has left; `None` for any event but its last.
    outcome: Option<StreamEnd>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct LastEvent {
    pub(super) stream: u64,
    /// How the answer has ended once the event has left.
    pub(super) outcome: StreamEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flushed {
    All,
    Blocked,
    Gone,
}

pub(super) struct ClientConnection {
    pub(super) socket: TcpStream,
    tls: Option<Box<rustls::ServerConnection>>,
    pub(super) number: u64,
    pub(super) peer_port: u16,
    pub(super) reader: RequestReader,
    /// When the first byte of the request being read came.
    pub(super) first_byte: Option<Nanos>,
    pub(super) stream: Option<u64>,
    pub(super) served: u32,
    /// When it last finished something.
    pub(super) idle_since: Nanos,
    /// Whether further requests may follow the answer.
    pub(super) persistence: Persistence,
    is_ended: bool,
    /// Events queued since the last write.
    pub(super) waiting_events: u32,
    /// Whether the poller was asked to report when there is room.
    pub(super) waits_for_room: bool,
    /// Nothing leaves before this.
    pub(super) held_until: Option<Nanos>,
    out: Vec<u8>,
    out_start: usize,
    /// Where each parcel ends, counted like `Leaving::end`.
    parcels: VecDeque<u64>,
    leaving: VecDeque<Leaving>,
    queued: u64,
    left: u64,
}

impl ClientConnection {
    pub(super) fn new(
        socket: TcpStream,
        tls: Option<Box<rustls::ServerConnection>>,
        number: u64,
        now: Nanos,
    ) -> Self {
        let peer_port = socket.peer_addr().map_or(0, |address| address.port());
        Self {
            socket,
            tls,
            number,
            peer_port,
            reader: RequestReader::default(),
            first_byte: None,
            stream: None,
            served: 0,
            idle_since: now,
            persistence: Persistence::KeepAlive,
            is_ended: false,
            waiting_events: 0,
            waits_for_room: false,
            held_until: None,
            out: Vec::new(),
            out_start: 0,
            parcels: VecDeque::new(),
            leaving: VecDeque::new(),
            queued: 0,
            left: 0,
        }
    }

    /// Reads what there is into the reader. `false` when the client is gone.
    pub(super) fn read(&mut self, scratch: &mut [u8]) -> bool {
        loop {
            match (&self.socket).read(scratch) {
                Ok(0) => return false,
                Ok(count) => {
                    if !self.take_in(&scratch[..count]) {
                        return false;
                    }
                    if count < scratch.len() {
                        return true;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    fn take_in(&mut self, mut bytes: &[u8]) -> bool {
        let Some(tls) = &mut self.tls else {
            self.reader.push(bytes);
            return true;
        };
        let mut plain = Vec::new();
        while !bytes.is_empty() {
            let is_sound = tls.read_tls(&mut bytes).is_ok() && tls.process_new_packets().is_ok();
            if !is_sound {
                return false;
            }
            match tls.reader().read_to_end(&mut plain) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
        self.reader.push(&plain);
        self.queue_records();
        true
    }

    fn queue_records(&mut self) {
        let Some(tls) = &mut self.tls else { return };
        let before = self.out.len();
        while tls.wants_write() {
            // Writing into memory cannot fail.
            let _count = tls.write_tls(&mut self.out).unwrap_or(0);
        }
        self.queued += (self.out.len() - before) as u64;
        if self.out.len() > before {
            self.parcels.push_back(self.queued);
        }
    }

    pub(super) fn end_answer(&mut self, now: Nanos) {
        self.served += 1;
        self.idle_since = now;
        self.first_byte = if self.reader.is_empty() { None } else { Some(now) };
        self.waiting_events = 0;
        self.is_ended = true;
    }

    /// Whether the last answer has left and no further one may follow.
    pub(super) fn is_done(&self) -> bool {
        let is_last = self.persistence == Persistence::Close && self.is_ended;
        is_last && self.stream.is_none() && !self.has_output()
    }

    pub(super) fn has_output(&self) -> bool {
        self.out_start < self.out.len()
    }

    /// Queues bytes that belong into one parcel. [`ClientConnection::seal`] ends it.
    pub(super) fn queue(&mut self, bytes: &[u8]) {
        match &mut self.tls {
            None => {
                self.out.extend_from_slice(bytes);
                self.queued += bytes.len() as u64;
            }
            Some(tls) => {
                let _ = tls.writer().write_all(bytes);
            }
        }
    }

    /// Notes, for the truth log, that an event ends with the bytes queued so far.
    pub(super) fn note(&mut self, stream: u64, kind: SentKind, tokens: u32) {
        self.note_leaving(Leaving { end: 0, stream, kind, tokens, outcome: None });
    }

    /// Notes, for the truth log, that an answer ends with the bytes queued so far.
    pub(super) fn note_last(&mut self, last: LastEvent, kind: SentKind) {
        let LastEvent { stream, outcome } = last;
        let outcome = Some(outcome);
        self.note_leaving(Leaving { end: 0, stream, kind, tokens: 0, outcome });
    }

    fn note_leaving(&mut self, leaving: Leaving) {
        // Under TLS the event's offset in the output is known when its record is made.
        let end = if self.tls.is_some() { u64::MAX } else { self.queued };
        self.leaving.push_back(Leaving { end, ..leaving });
    }

    /// Streams whose last event was queued and has not left.
    pub(super) fn unsent_ends(&self) -> impl Iterator<Item = u64> {
        self.leaving.iter().filter(|one| one.outcome.is_some()).map(|one| one.stream)
    }

    /// Ends a parcel: what was queued since the last one leaves in a write of its own.
    pub(super) fn seal(&mut self) {
        if self.tls.is_some() {
            self.queue_records();
            let queued = self.queued;
            for leaving in self.leaving.iter_mut().rev().take_while(|one| one.end == u64::MAX) {
                leaving.end = queued;
            }
        } else if self.parcels.back() != Some(&self.queued) {
            self.parcels.push_back(self.queued);
        }
    }

    /// Sends parcels until all have left or the socket is full.
    pub(super) fn flush(&mut self, clock: &dyn Clock, mut truth: Option<&mut Log>) -> Flushed {
        if self.held_until.is_some() {
            return Flushed::All;
        }
        while let Some(end) = self.parcels.front().copied() {
            let size = usize::try_from(end - self.left).unwrap_or(0);
            let bytes = &self.out[self.out_start..self.out_start + size];
            let before = if truth.is_some() { clock.now() } else { Nanos::ZERO };
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            let sent = match send(self.socket.as_raw_fd(), bytes, flags) {
                Ok(sent) => sent,
                Err(Errno::EAGAIN) if self.out.len() - self.out_start < BACKLOG_BYTES_MAX => {
                    self.forget_sent();
                    return Flushed::Blocked;
                }
                Err(Errno::EINTR) => continue,
                Err(_) => return Flushed::Gone,
            };
            self.out_start += sent;
            self.left += sent as u64;
            if let Some(log) = truth.as_deref_mut() {
                self.log_departures(log, before, clock.now());
            }
            if self.left == end {
                self.parcels.pop_front();
            }
        }
        self.forget_sent();
        Flushed::All
    }

    /// Drops the bytes that have left; an unfinished parcel stays.
    fn forget_sent(&mut self) {
        if self.out_start == self.out.len() {
            self.out.clear();
        } else {
            self.out.drain(..self.out_start);
        }
        self.out_start = 0;
    }

    fn log_departures(&mut self, log: &mut Log, before: Nanos, after: Nanos) {
        while let Some(one) = self.leaving.front().filter(|one| one.end <= self.left) {
            let event = TrueEvent { kind: one.kind, tokens: one.tokens, before, after };
            log.push(Fact::Event { stream: one.stream, event });
            if let Some(outcome) = one.outcome {
                log.push(Fact::End { stream: one.stream, at: after, outcome });
            }
            self.leaving.pop_front();
        }
    }
}
