//! From time to tokens: steps of the engine, schedules of single streams, floods.

use base::Nanos;
use tokometer_base as base;

use super::connection::LastEvent;
use super::reactor::Reactor;
use super::stream::SendContext;
use super::timers::Alarm;
use crate::config::TokenTiming;
use crate::truth::{SentKind, StreamEnd};
use crate::wire::{AnswerDelivery, ApiError, EventBuffer};

/// A step that ends later than this is not made up for: the next one begins when it was noticed.
const LATENESS_MAX: Nanos = Nanos::from_millis(20);

/// Writes that one flooding stream may do before the others get their turn.
const FLOOD_WRITES_MAX: u32 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Apart,
    Together,
}

impl Reactor<'_> {
    pub(super) fn arrive(&mut self, key: u64, at: Nanos) {
        let (Some(stream), Some(engine)) = (self.streams.get_mut(key), &mut self.engine) else {
            return;
        };
        let Some(job) = stream.job.take() else { return };
        if let Err(refusal) = engine.submit(at, *job) {
            self.fail(key, &ApiError::new(400, refusal.to_string()));
            return;
        }
        if !self.is_stepping {
            self.begin_step(at);
        }
    }

    fn begin_step(&mut self, at: Nanos) {
        let Some(engine) = &mut self.engine else { return };
        let step = engine.step(at);
        for admission in engine.admitted().iter().filter(|_| self.config.reports_cached_tokens) {
            if let Some(stream) = self.streams.get_mut(admission.id) {
                // Once more admitted after a preemption, it finds its own blocks.
                stream.cached_tokens = stream.cached_tokens.or(admission.cached_tokens);
            }
        }
        self.is_stepping = step.until != Nanos::MAX;
        if self.is_stepping {
            self.timers.set(step.until, Alarm::Step);
        }
    }

    /// Delivers the tokens of the step that ended at `at`, and begins the next.
    pub(super) fn end_step(&mut self, at: Nanos, now: Nanos) {
        let lateness = now - at;
        self.snapshot.lateness.add(lateness);
        let Some(engine) = &self.engine else { return };
        let produced = engine.produced().to_vec();
        for one in produced {
            self.deliver(one.id, one.tokens);
        }
        self.begin_step(if lateness > LATENESS_MAX { now } else { at });
    }

    /// The next token of a stream with a schedule of its own.
    pub(super) fn pace(&mut self, key: u64, at: Nanos, now: Nanos) {
        let TokenTiming::Fixed { itl, .. } = self.config.pace else { return };
        self.snapshot.lateness.add(now - at);
        self.deliver(key, 1);
        if self.streams.get_mut(key).is_some() {
            self.timers.set(at + itl, Alarm::Token(key));
        }
    }

    /// Lets flooding streams send until their sockets are full.
    pub(super) fn pump_ready(&mut self) {
        let TokenTiming::Flood { events_per_write } = self.config.pace else { return };
        for key in std::mem::take(&mut self.ready) {
            for _ in 0..FLOOD_WRITES_MAX {
                self.flood(key, events_per_write);
                let Some(stream) = self.streams.get_mut(key) else { break };
                let connection = stream.opening.connection;
                let is_open = self.connections.get_mut(connection).map(|one| one.waits_for_room);
                if is_open != Some(false) {
                    break;
                }
            }
            let connection = self.streams.get_mut(key).map(|stream| stream.opening.connection);
            let connection = connection.and_then(|key| self.connections.get_mut(key));
            if connection.is_some_and(|connection| !connection.waits_for_room) {
                self.ready.push(key);
            }
        }
    }

    fn flood(&mut self, key: u64, events: u32) {
        let now = self.clock.now();
        let Some(stream) = self.streams.get_mut(key) else { return };
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let context =
            SendContext { now, faults: &self.config.faults, vocabulary: &self.vocabulary };
        for _ in 0..events.max(1) {
            if !stream.is_complete() {
                stream.write_tokens(1, &context, &mut buffer);
            }
        }
        self.pass_on(key, &buffer, Packing::Together);
        self.buffer = buffer;
    }

    /// Gives tokens to a stream and sends their events.
    fn deliver(&mut self, key: u64, tokens: u32) {
        let now = self.clock.now();
        let coalesce = match &self.config.pace {
            TokenTiming::Engine(profile) => profile.front_end.coalesce,
            TokenTiming::Fixed { .. } | TokenTiming::Flood { .. } => 0.0,
        };
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.holds_back(tokens, coalesce) {
            return;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let is_first = stream.ttft().is_none();
        let context =
            SendContext { now, faults: &self.config.faults, vocabulary: &self.vocabulary };
        stream.write_tokens(tokens, &context, &mut buffer);
        if let (true, Some(ttft)) = (is_first, stream.ttft()) {
            self.snapshot.ttft.add(ttft);
        }
        self.pass_on(key, &buffer, Packing::Apart);
        self.buffer = buffer;
    }

    /// Sends a stream's events, breaks it where a fault says so, and ends it after the last token.
    fn pass_on(&mut self, key: u64, buffer: &EventBuffer, packing: Packing) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let (connection, number, hex) =
            (stream.opening.connection, stream.opening.number, stream.writer.hex());
        let (sent_tokens, is_complete) = (stream.sent_tokens, stream.is_complete());
        let is_broken_off = stream.is_broken_off();
        if stream.delivery == AnswerDelivery::Streamed {
            if !stream.has_head {
                self.send_head(key);
            }
            match packing {
                Packing::Apart => self.post(connection, Some(number), buffer, hex),
                Packing::Together => self.post_together(connection, number, buffer, hex),
            }
        }
        self.stall(connection, number, sent_tokens);
        if is_broken_off {
            self.break_off(connection);
        } else if is_complete {
            self.complete(key);
        }
    }

    fn complete(&mut self, key: u64) {
        let now = self.clock.now();
        let Some(mut stream) = self.streams.remove(key) else { return };
        self.snapshot.succeed(stream.reason(), now - stream.opening.arrived);
        if self.engine.is_none() {
            self.snapshot.counters.prompt_tokens += u64::from(stream.prompt_tokens);
            self.snapshot.counters.generation_tokens += u64::from(stream.answer_tokens);
        }
        let connection_key = stream.opening.connection;
        let last = LastEvent { stream: stream.opening.number, outcome: StreamEnd::Complete };
        let Some(connection) = self.connections.get_mut(connection_key) else { return };
        connection.stream = None;
        match stream.delivery {
            AnswerDelivery::Streamed => {
                connection.persistence = stream.opening.persistence;
                self.finish_answer(connection_key, Some(last));
            }
            AnswerDelivery::Whole => {
                let context =
                    SendContext { now, faults: &self.config.faults, vocabulary: &self.vocabulary };
                let response = stream.whole(&context);
                self.respond(connection_key, Some(last), &response, stream.opening.persistence);
            }
        }
        self.read_requests(connection_key);
    }

    pub(super) fn finish_answer(&mut self, key: u64, last: Option<LastEvent>) {
        let now = self.clock.now();
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.queue(b"0\r\n\r\n");
        if let Some(last) = last.filter(|_| self.truth.is_some()) {
            connection.note_last(last, SentKind::End);
        }
        connection.seal();
        connection.end_answer(now);
        self.flush(key);
    }

    fn fail(&mut self, key: u64, api_error: &ApiError) {
        let Some(stream) = self.streams.remove(key) else { return };
        let last = LastEvent { stream: stream.opening.number, outcome: StreamEnd::Broken };
        let Some(connection) = self.connections.get_mut(stream.opening.connection) else { return };
        connection.stream = None;
        connection.persistence = stream.opening.persistence;
        let response = api_error.response(self.config.flavour);
        if stream.has_head {
            let mut buffer = EventBuffer::default();
            let text = String::from_utf8_lossy(&response.body);
            buffer.put("data: ").put(&text).close(SentKind::Error);
            self.post(
                stream.opening.connection,
                Some(stream.opening.number),
                &buffer,
                stream.writer.hex(),
            );
            self.finish_answer(stream.opening.connection, Some(last));
        } else {
            self.respond(
                stream.opening.connection,
                Some(last),
                &response,
                stream.opening.persistence,
            );
        }
    }
}
