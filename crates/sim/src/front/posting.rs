//! From events to writes: chunks, parcels, and the faults that change where they begin and end.

use std::io::Write as _;

use base::Nanos;
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use tokometer_base as base;

use super::connection::ClientConnection;
use super::reactor::Reactor;
use super::timers::Alarm;
use crate::faults::{Faults, PacketFault};
use crate::http::{BodyFraming, head};
use crate::truth::{SentKind, StreamEnd};
use crate::wire::{EventBuffer, EventEnd, Hex, Joint};

impl Reactor<'_> {
    /// Sends the events of a buffer, each in a write of its own unless a fault says otherwise.
    pub(super) fn post(&mut self, key: u64, stream: Option<u64>, buffer: &EventBuffer, hex: Hex) {
        let logged = stream.filter(|_| self.truth.is_some());
        let Some(connection) = self.connections.get_mut(key) else { return };
        let faults = &self.config.faults;
        let per_write = faults.events_per_write.unwrap_or(1);
        for chunk in chunks(buffer) {
            let parts = parts_of(faults);
            connection.queue_chunk(chunk.bytes, hex, parts);
            connection.note_all(logged, chunk.marks);
            connection.waiting_events += 1;
            if connection.waiting_events >= per_write {
                connection.waiting_events = 0;
                connection.seal();
            }
        }
        self.flush(key);
    }

    pub(super) fn post_together(&mut self, key: u64, number: u64, buffer: &EventBuffer, hex: Hex) {
        let logged = Some(number).filter(|_| self.truth.is_some());
        let Some(connection) = self.connections.get_mut(key) else { return };
        for chunk in chunks(buffer) {
            connection.queue_chunk(chunk.bytes, hex, WriteParts::One);
            connection.note_all(logged, chunk.marks);
        }
        connection.seal();
        self.flush(key);
    }

    pub(super) fn send_head(&mut self, key: u64) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.has_head = true;
        let (connection_key, number) = (stream.opening.connection, stream.opening.number);
        let text =
            head(200, &stream.writer.headers(), BodyFraming::Chunked, stream.opening.persistence);
        let Some(connection) = self.connections.get_mut(connection_key) else { return };
        connection.queue(text.as_bytes());
        if self.truth.is_some() {
            connection.note(number, SentKind::Head, 0);
        }
        connection.seal();
        let mut buffer = EventBuffer::default();
        stream.writer.open(&mut buffer);
        let hex = stream.writer.hex();
        self.flush(connection_key);
        if !buffer.marks.is_empty() {
            self.post(connection_key, Some(number), &buffer, hex);
        }
    }

    /// Sends nothing on a connection before `until`.
    pub(super) fn hold(&mut self, key: u64, until: Nanos) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.held_until = Some(until);
            self.timers.set(until, Alarm::Release(key));
        }
    }

    /// Holds a stream back that has come to the token after which it stalls.
    pub(super) fn stall(&mut self, key: u64, number: u64, sent_tokens: u32) {
        let faults = &self.config.faults;
        let stall = faults.stall.filter(|stall| stall.after_tokens == sent_tokens);
        if let Some(stall) = stall
            && faults.breaks(base::Seed(self.config.seed), number)
        {
            self.hold(key, self.clock.now() + stall.span);
        }
    }

    pub(super) fn break_off(&mut self, key: u64) {
        let is_reset = self.config.faults.reset_after_tokens.is_some();
        if let Some(connection) = self.connections.get_mut(key).filter(|_| is_reset) {
            // Closing with a linger time of zero sends a reset instead of an orderly end.
            let linger = libc::linger { l_onoff: 1, l_linger: 0 };
            let _ = setsockopt(&connection.socket, sockopt::Linger, &linger);
        }
        self.close(key, StreamEnd::Broken);
    }

    pub(super) fn comment(&mut self, key: u64, now: Nanos) {
        let Some(interval) = self.config.faults.comment_interval else { return };
        let Some(stream) = self.streams.get_mut(key) else { return };
        let (connection, number, hex) =
            (stream.opening.connection, stream.opening.number, stream.writer.hex());
        if stream.has_head {
            let mut buffer = EventBuffer::default();
            buffer.put(": ping").close(SentKind::Comment);
            self.post(connection, Some(number), &buffer, hex);
        }
        self.timers.set(now + interval, Alarm::Comment(key));
    }
}

struct Chunk<'a> {
    bytes: &'a [u8],
    marks: &'a [EventEnd],
}

/// The chunks of a buffer: one per event, except that some events share theirs with the next.
fn chunks(buffer: &EventBuffer) -> impl Iterator<Item = Chunk<'_>> {
    let mut start = 0;
    buffer.marks.split_inclusive(|mark| mark.joint == Joint::Apart).map(move |marks| {
        let end = marks.last().map_or(start, |mark| mark.end);
        let bytes = &buffer.bytes[start..end];
        start = end;
        Chunk { bytes, marks }
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteParts {
    One,
    /// The chunk's size in a write of its own.
    SizeApart,
    Even(u32),
}

fn parts_of(faults: &Faults) -> WriteParts {
    match (faults.packets, faults.writes_per_event) {
        (PacketFault::Nagle, _) => WriteParts::SizeApart,
        (_, Some(count)) if count > 1 => WriteParts::Even(count),
        _ => WriteParts::One,
    }
}

impl ClientConnection {
    /// Notes the ends of events, if they are to be logged as some stream's.
    fn note_all(&mut self, stream: Option<u64>, marks: &[EventEnd]) {
        let Some(stream) = stream else { return };
        for mark in marks {
            self.note(stream, mark.kind, mark.tokens);
        }
    }

    fn queue_chunk(&mut self, bytes: &[u8], hex: Hex, parts: WriteParts) {
        let mut size = [0_u8; 18];
        let mut rest = &mut size[..];
        let _ = match hex {
            Hex::Lower => write!(rest, "{:x}\r\n", bytes.len()),
            Hex::Upper => write!(rest, "{:X}\r\n", bytes.len()),
        };
        let unused = rest.len();
        let size = &size[..size.len() - unused];
        match parts {
            WriteParts::One => {
                self.queue(size);
                self.queue(bytes);
            }
            WriteParts::SizeApart => {
                self.queue(size);
                self.seal();
                self.queue(bytes);
            }
            WriteParts::Even(count) => {
                self.queue(size);
                let length = bytes.len().div_ceil(count as usize).max(1);
                for (index, part) in bytes.chunks(length).enumerate() {
                    if index > 0 {
                        self.seal();
                    }
                    self.queue(part);
                }
            }
        }
        self.queue(b"\r\n");
    }
}
