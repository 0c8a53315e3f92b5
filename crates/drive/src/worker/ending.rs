//! How flights end, and who takes their place.

use std::io;

use tokometer_base::{Clock, Nanos};
use tokometer_client::conn::Wire;
use tokometer_record::{Failure, FailureKind, Network, Outcome, Phase};

use super::connection::{Connection, Stage};
use super::reader::ReadEnd;
use super::{Fate, Worker, WorkerConnection};
use crate::config::Connections;
use crate::flight::Flight;
use crate::harvest::Lane;
use crate::item::Notice;
use crate::platform::Platform;

impl<P: Platform> Worker<P> {
    /// The answer is complete: the next in line goes out before anything else is done.
    /// `offered` is what the server is ready to do with the connection.
    pub(super) fn complete(&mut self, connection: &mut WorkerConnection<P>, offered: Fate) -> Fate {
        let Some(mut flight) = connection.flight.take() else { return Fate::Close };
        // The rest of a request that was answered early would be taken for the next one.
        let offered = if connection.stage == Stage::Writing { Fate::Close } else { offered };
        connection.uses += 1;
        if flight.timeline.is_success() {
            self.shared.heard_of(connection.target);
        }
        flight.timeline.times.end.get_or_insert(connection.last_heard);
        flight.retry_after = connection.exchange.retry_after();
        note_network(connection, &mut flight);
        let idle_fate = match self.shared.config.connections {
            Connections::PerRequest => Fate::Close,
            Connections::Preopen | Connections::OnDemand => offered,
        };
        let is_kept = idle_fate == Fate::Keep;
        let flight = match self.send_without_refused(connection, flight, idle_fate) {
            Ok(fate) => return fate,
            Err(flight) => flight,
        };
        let next = self.successor(&flight);
        let fate = match next {
            Some(next) if is_kept && next.target() == connection.target => {
                self.shift(connection, Lane::Eager);
                self.relay(connection, next)
            }
            next => {
                self.ready.extend(next);
                if is_kept {
                    self.rest(connection);
                }
                idle_fate
            }
        };
        self.record(flight);
        fate
    }

    /// Sends a refused request once more without the field that we added by ourselves, or with the
    /// field's other name, if that is what it was refused for. The refused try was our doing and is no attempt of its own.
    fn send_without_refused(
        &mut self,
        connection: &mut WorkerConnection<P>,
        mut flight: Box<Flight>,
        idle_fate: Fate,
    ) -> Result<Fate, Box<Flight>> {
        let Some(field) = flight.refused_field() else { return Err(flight) };
        if !flight.omit(field) {
            return Err(flight);
        }
        self.shared.drop_field(flight.target(), field);
        flight.start_over();
        if idle_fate == Fate::Keep {
            return Ok(self.send(connection, flight));
        }
        self.connect(flight);
        Ok(Fate::Close)
    }

    fn rest(&mut self, connection: &mut WorkerConnection<P>) {
        self.shift(connection, Lane::Eager);
        connection.stage = Stage::Idle;
        self.idle[usize::from(connection.target)].push(connection.key);
    }

    /// Sends the next in line on the connection that has just become free.
    fn relay(&mut self, connection: &mut WorkerConnection<P>, mut next: Box<Flight>) -> Fate {
        if self.shared.is_stopping() {
            self.shared.taken(&next);
            self.dismiss(next);
            self.rest(connection);
            return Fate::Keep;
        }
        self.shared.taken(&next);
        self.shared.trim(&mut next);
        self.send(connection, next)
    }

    /// Gives the flight's place at the gate to the next in line, unless another attempt keeps it.
    fn successor(&mut self, flight: &Flight) -> Option<Box<Flight>> {
        if self.will_retry(flight) {
            return None;
        }
        let mut next = self.shared.gate.release(self.reader.now)?;
        next.place_freed = flight.timeline.times.end;
        Some(next)
    }

    fn will_retry(&self, flight: &Flight) -> bool {
        flight.wants_retry() && !self.shared.is_stopping()
    }

    /// Ends a flight that has no connection any more.
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

    /// Hands an ended attempt over, and lines up the next one if there is to be one.
    fn record(&mut self, mut flight: Box<Flight>) {
        let is_measured = flight.timeline.identity.phase == Phase::Measure;
        if is_measured {
            let end = flight.timeline.times.end.unwrap_or(self.reader.now);
            self.account.last_end = self.account.last_end.max(end);
        }
        let live = self.shared.live.slot(self.id);
        // What never got as far as being sent was not counted as sent either.
        if !flight.is_announced {
            live.sent();
            let is_first = flight.timeline.identity.attempt == 0;
            self.account.started += u64::from(is_measured && is_first);
        }
        if self.will_retry(&flight) {
            live.retried();
            let at = self.reader.now + flight.retry_wait();
            let next = flight.next_attempt();
            self.deferred.push((at, next));
        } else {
            live.ended(&flight.timeline.outcome);
            if flight.timeline.identity.phase == Phase::Warmup {
                self.shared.warmed_up(&flight.timeline.outcome);
            }
            self.shared.turns.post(&flight.timeline, self.reader.now);
            self.shared.ended(1);
        }
        self.notify(Notice::Ended(Box::new(flight.timeline)));
    }

    /// Drops a flight that was fed and never sent.
    pub(super) fn dismiss(&mut self, flight: Box<Flight>) {
        self.shared.turns.post(&flight.timeline, self.reader.now);
        drop(flight);
        let next = self.shared.gate.release(self.reader.now);
        self.ready.extend(next);
        self.shared.ended(1);
    }

    /// Gives a flight up at our own wish.
    pub(super) fn abandon(&mut self, mut flight: Box<Flight>) {
        flight.timeline.outcome = Outcome::Abandoned;
        flight.timeline.times.end = Some(self.reader.now);
        flight.tries_left = 0;
        self.account.abandoned += u64::from(flight.timeline.identity.phase == Phase::Measure);
        self.record(flight);
    }

    pub(super) fn notify(&mut self, notice: Notice) {
        if self.notices.send(notice).is_err() {
            self.shared.nobody_listens();
        }
    }

    /// The server closed the connection.
    pub(super) fn on_closed(&mut self, connection: &mut WorkerConnection<P>) -> Fate {
        let Some(flight) = connection.flight.as_deref_mut() else { return Fate::Close };
        if !flight.has_heard {
            let gone = io::Error::from(io::ErrorKind::UnexpectedEof);
            return self.on_broken(connection, &gone);
        }
        let at = self.reader.now;
        let _progress = connection.exchange.on_eof(at, &mut flight.timeline);
        let _kept = self.complete(connection, Fate::Close);
        Fate::Close
    }

    /// The request could not be written to its end. A server may answer and close without reading it
    /// all (401, 413, 429), so what it has sent is read first.
    pub(super) fn on_write_failed(
        &mut self,
        connection: &mut WorkerConnection<P>,
        error: &io::Error,
    ) -> Fate {
        loop {
            let reads = |connection: &WorkerConnection<P>| {
                connection.flight.as_ref().map_or(0, |flight| flight.timeline.reads)
            };
            let before = reads(connection);
            match self.reader.read(connection, self.shared.live.slot(self.id)) {
                ReadEnd::Done { .. } => return self.complete(connection, Fate::Close),
                ReadEnd::More => {}
                ReadEnd::Drained if reads(connection) > before => {}
                ReadEnd::Drained | ReadEnd::Unasked | ReadEnd::Closed | ReadEnd::Broken(_) => {
                    return self.on_broken(connection, error);
                }
            }
        }
    }

    /// The connection broke. A kept one that dies right behind the request and before the first byte
    /// of an answer was given up before the request came: the request goes out once more, on a new
    /// connection.
    pub(super) fn on_broken(
        &mut self,
        connection: &mut WorkerConnection<P>,
        error: &io::Error,
    ) -> Fate {
        let has_heard = connection.flight.as_ref().is_some_and(|flight| flight.has_heard);
        if has_heard && connection.stage == Stage::Writing {
            return self.on_closed(connection);
        }
        let Some(mut flight) = connection.flight.take() else { return Fate::Close };
        self.reader.now = self.clock.now();
        if connection.was_kept() && self.is_lost(&flight) {
            self.account.reopened += 1;
            flight.rewind();
            self.connect(flight);
            return Fate::Close;
        }
        let kind = match connection.stage {
            Stage::Writing => FailureKind::Send,
            _ => FailureKind::Cut,
        };
        let why = match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                "the server closed the connection without a response".to_owned()
            }
            _ => error.to_string(),
        };
        note_network(connection, &mut flight);
        self.fail(flight, kind, &why);
        Fate::Close
    }

    /// Whether a request whose kept connection died can not have reached anybody. Once only: a new
    /// connection that dies is the server's answer.
    fn is_lost(&self, flight: &Flight) -> bool {
        let sent = flight.timeline.times.last_byte_sent;
        let waited = sent.map_or(Nanos::ZERO, |sent| self.reader.now - sent);
        let is_first = flight.timeline.connection.reopened == 0;
        is_first && !flight.has_heard && waited <= self.shared.config.timeouts.stale
    }
}

/// Adds the kernel's account of the connection during this request.
fn note_network(connection: &mut Connection<impl Wire>, flight: &mut Flight) {
    let Some(info) = connection.link.source().info() else { return };
    let before = std::mem::replace(&mut connection.account, info);
    flight.timeline.network = Some(Network {
        round_trip: info.round_trip,
        retransmits: info.retransmits.wrapping_sub(before.retransmits),
        segments_in: info.data_segments_in.wrapping_sub(before.data_segments_in),
    });
}
