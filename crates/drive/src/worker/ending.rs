//! How flights end, and which flight takes their slot.

use std::io;

use tokometer_base::{Clock, Nanos};
use tokometer_client::cause;
use tokometer_client::conn::Wire;
use tokometer_record::{Failure, FailureKind, Outcome, Phase, TcpStats};

use super::connection::{Accounts, ConnectionStage, OpenConnection};
use super::reader::ReadEnd;
use super::{KeepOrClose, Worker, WorkerConnection};
use crate::config::Connections;
use crate::flight::{Flight, SendProgress};
use crate::item::Notice;
use crate::platform::Platform;
use crate::reads::Lane;

impl<P: Platform> Worker<P> {
    /// The response is complete: the next flight in the queue is sent before anything else. `offered`
    /// says whether the server keeps the connection open.
    pub(super) fn complete(
        &mut self,
        connection: &mut WorkerConnection<P>,
        offered: KeepOrClose,
    ) -> KeepOrClose {
        let Some(mut flight) = connection.flight.take() else { return KeepOrClose::Close };
        // The rest of a request whose response came early would be taken for the next one.
        let offered =
            if connection.stage == ConnectionStage::Writing { KeepOrClose::Close } else { offered };
        connection.uses += 1;
        self.account.compressed += u64::from(connection.exchange.is_compressed());
        if flight.timeline.is_success() {
            self.shared.target_responded(connection.target);
        }
        flight.timeline.times.end.get_or_insert(connection.last_activity);
        flight.retry_after = connection.exchange.retry_after(self.clock.wall());
        note_network(connection, &mut flight);
        let target = usize::from(connection.target);
        let is_ended = connection.account.is_closed;
        self.closing[target] |= is_ended && offered == KeepOrClose::Keep && connection.uses == 1;
        let is_last = is_ended
            || self.closing[target]
            || self.shared.config.connections == Connections::PerRequest;
        let when_idle = if is_last { KeepOrClose::Close } else { offered };
        let is_kept = when_idle == KeepOrClose::Keep;
        let flight = match self.send_without_refused(connection, flight, when_idle) {
            Ok(disposition) => return disposition,
            Err(flight) => flight,
        };
        let next = self.successor(&flight);
        let disposition = match next {
            Some(next) if is_kept && next.target() == connection.target => {
                self.shift(connection, Lane::Eager);
                self.relay(connection, next)
            }
            next => {
                self.ready.extend(next);
                if is_kept {
                    self.rest(connection);
                }
                when_idle
            }
        };
        self.record(flight);
        disposition
    }

    /// Sends a refused request again without the field that the client added, or with the field's
    /// other name, if the field was the reason. The refused try does not count as an attempt.
    fn send_without_refused(
        &mut self,
        connection: &mut WorkerConnection<P>,
        mut flight: Box<Flight>,
        when_idle: KeepOrClose,
    ) -> Result<KeepOrClose, Box<Flight>> {
        let Some(field) = flight.refused_field() else { return Err(flight) };
        if !flight.omit(field) {
            return Err(flight);
        }
        self.shared.drop_field(flight.target(), field);
        flight.start_over();
        if when_idle == KeepOrClose::Keep {
            return Ok(self.send(connection, flight));
        }
        self.connect(flight);
        Ok(KeepOrClose::Close)
    }

    pub(super) fn rest(&mut self, connection: &mut WorkerConnection<P>) {
        self.shift(connection, Lane::Eager);
        connection.stage = ConnectionStage::Idle;
        self.idle[usize::from(connection.target)].push(connection.key);
    }

    /// Sends the next flight on the connection that has just become free.
    fn relay(
        &mut self,
        connection: &mut WorkerConnection<P>,
        mut next: Box<Flight>,
    ) -> KeepOrClose {
        if self.shared.is_stopping() {
            self.shared.taken(&next);
            self.dismiss(next);
            self.rest(connection);
            return KeepOrClose::Keep;
        }
        self.shared.taken(&next);
        self.shared.trim(&mut next);
        self.send(connection, next)
    }

    /// Gives the flight's slot in the gate to the next one. A retry of the flight takes a slot of its
    /// own when it is due.
    pub(super) fn successor(&mut self, flight: &Flight) -> Option<Box<Flight>> {
        let mut next = self.shared.release(self.reader.now)?;
        let times = &flight.timeline.times;
        next.slot_freed = times.freed.or(times.end);
        Some(next)
    }

    /// When the flight is retried. `None` when it is not, or when the run ends before.
    fn next_try(&self, flight: &Flight) -> Option<Nanos> {
        let at = self.reader.now + flight.retry_wait(self.shared.config.retry_max_wait);
        let will_retry = flight.wants_retry() && !self.shared.is_stopping();
        Some(at).filter(|at| will_retry && self.shared.gate.is_open_at(*at))
    }

    /// Fails a flight that has no connection any more.
    pub(super) fn fail(&mut self, mut flight: Box<Flight>, kind: FailureKind, why: &str) {
        let now = self.clock.now();
        self.reader.now = now;
        let status = flight.timeline.status;
        let message = why.to_owned();
        flight.timeline.outcome = Outcome::Failed(Failure { kind, status, message });
        flight.timeline.times.end = Some(now);
        let next = self.successor(&flight);
        self.ready.extend(next);
        self.record(flight);
    }

    /// Reports an ended attempt, and schedules the retry if there is one.
    pub(super) fn record(&mut self, mut flight: Box<Flight>) {
        let is_measured = flight.timeline.identity.phase == Phase::Measure;
        if is_measured {
            let end = flight.timeline.times.end.unwrap_or(self.reader.now);
            self.account.last_end = self.account.last_end.max(end);
        }
        let live = self.shared.live.slot(self.id);
        // A request that was never sent was not counted as sent either.
        if flight.progress != SendProgress::Reported {
            live.sent();
            let is_first = flight.timeline.identity.attempt == 0;
            self.account.started += u64::from(is_measured && is_first);
            let is_later = flight.timeline.identity.turn > 0;
            self.account.started_turns += u64::from(is_measured && is_first && is_later);
        }
        if let Some(at) = self.next_try(&flight) {
            live.retried();
            if flight.retry_after.is_some() {
                self.shared.live.note_wait(at);
            }
            let next = flight.next_attempt();
            self.deferred.push((at, next));
        } else {
            live.ended(&flight.timeline.outcome);
            if flight.timeline.identity.phase == Phase::Warmup {
                self.shared.warmed_up(&flight.timeline.outcome);
            }
            self.shared.request_ended(&flight.timeline, self.reader.now);
            self.shared.turns.post(&flight.timeline, self.reader.now);
            self.shared.ended(1);
        }
        if let Some(transcript) = flight.transcript.take() {
            self.notify(Notice::Exchanged(*transcript));
        }
        self.notify(Notice::Ended(Box::new(flight.timeline)));
    }

    /// Drops a flight that was fed and never sent.
    pub(super) fn dismiss(&mut self, flight: Box<Flight>) {
        self.shared.note_unsent(&flight);
        self.shared.turns.post(&flight.timeline, self.reader.now);
        drop(flight);
        let next = self.shared.release(self.reader.now);
        self.ready.extend(next);
        self.shared.ended(1);
    }

    pub(super) fn abandon(&mut self, mut flight: Box<Flight>) {
        flight.timeline.outcome = Outcome::Abandoned;
        flight.timeline.times.end = Some(self.reader.now);
        flight.tries_left = 0;
        self.account.abandoned += u64::from(flight.timeline.identity.phase == Phase::Measure);
        self.record(flight);
    }

    pub(super) fn notify(&mut self, notice: Notice) {
        if self.notices.send(notice).is_err() {
            self.shared.notices_closed();
        }
    }

    pub(super) fn on_closed(&mut self, connection: &mut WorkerConnection<P>) -> KeepOrClose {
        let Some(flight) = connection.flight.as_deref_mut() else { return KeepOrClose::Close };
        if !flight.has_response {
            let gone = io::Error::from(io::ErrorKind::UnexpectedEof);
            return self.on_broken(connection, &gone);
        }
        let at = self.reader.now;
        let _progress = connection.exchange.on_eof(at, &mut flight.timeline);
        let _kept = self.complete(connection, KeepOrClose::Close);
        KeepOrClose::Close
    }

    /// The request could not be written completely. A server may respond and close without reading
    /// all of it (401, 413, 429), so its response is read first.
    pub(super) fn on_write_failed(
        &mut self,
        connection: &mut WorkerConnection<P>,
        error: &io::Error,
    ) -> KeepOrClose {
        loop {
            let reads = |connection: &WorkerConnection<P>| {
                connection.flight.as_ref().map_or(0, |flight| flight.timeline.reads)
            };
            let before = reads(connection);
            match self.reader.read(connection, self.shared.live.slot(self.id)) {
                ReadEnd::Done { .. } => return self.complete(connection, KeepOrClose::Close),
                ReadEnd::GivenUp => return self.cancel(connection),
                ReadEnd::More => {}
                ReadEnd::Drained if reads(connection) > before => {}
                ReadEnd::Drained | ReadEnd::Unexpected | ReadEnd::Closed | ReadEnd::Broken(_) => {
                    return self.on_broken(connection, error);
                }
            }
        }
    }

    /// The connection broke. A request of which the server has acknowledged nothing, on a connection that
    /// was open before, is sent once more on a new one: the server had closed it before.
    pub(super) fn on_broken(
        &mut self,
        connection: &mut WorkerConnection<P>,
        error: &io::Error,
    ) -> KeepOrClose {
        let has_response = connection.flight.as_ref().is_some_and(|flight| flight.has_response);
        // What the server said of a failure is worth more than how the connection ended.
        let is_complete = connection.end_marker.is_some() || connection.exchange.has_failed();
        if is_complete || (has_response && connection.stage == ConnectionStage::Writing) {
            // The clock was read last when bytes came; the slot is free only now.
            self.reader.now = self.clock.now();
            return self.on_closed(connection);
        }
        let Some(mut flight) = connection.flight.take() else { return KeepOrClose::Close };
        self.reader.now = self.clock.now();
        // Only once: a new connection that dies is a failure.
        let is_first = flight.timeline.connection.reopened == 0 && connection.was_kept();
        if is_first && !flight.has_response && connection.is_unheard(&flight) {
            self.account.reopened += 1;
            flight.rewind();
            self.connect(flight);
            return KeepOrClose::Close;
        }
        let kind = match connection.stage {
            ConnectionStage::Writing => FailureKind::Send,
            _ => FailureKind::Cut,
        };
        note_network(connection, &mut flight);
        self.fail(flight, kind, &cause::describe(error));
        KeepOrClose::Close
    }
}

/// Adds the kernel's statistics of the connection during this request.
pub(super) fn note_network(connection: &mut OpenConnection<impl Wire>, flight: &mut Flight) {
    let Some(Accounts { before, now: info }) = connection.update_account() else { return };
    flight.timeline.network = Some(TcpStats {
        round_trip: info.round_trip,
        retransmits: info.retransmits.wrapping_sub(before.retransmits),
        segments_in: info.data_segments_in.wrapping_sub(before.data_segments_in),
    });
}
