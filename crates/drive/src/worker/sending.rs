//! Sends flights: from the queue to bytes on the wire.

use tokometer_base::{Clock, Nanos};
use tokometer_client::cause;
use tokometer_client::conn::Sent;
use tokometer_record::{FailureKind, Phase};

use super::connection::ConnectionStage;
use super::{KeepOrClose, Worker, WorkerConnection};
use crate::config::Connections;
use crate::flight::{Flight, SendProgress};
use crate::item::Notice;
use crate::platform::{Interest, Platform};

/// How long before their sends connections are opened.
const PREOPEN_LEAD: Nanos = Nanos::from_millis(100);

/// Most events to reserve memory for; longer responses grow the list.
const MOST_EVENTS_AHEAD: u32 = 1_024;

pub(super) fn reserve_events(flight: &mut Flight) {
    let timeline = &mut flight.timeline;
    let asked = timeline.requested.output_tokens.unwrap_or(0).min(MOST_EVENTS_AHEAD);
    timeline.events.reserve(asked as usize + 4);
}

/// What is reported of a request when its sending has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Announcement {
    index: u64,
    attempt: u32,
    turn: u32,
    is_measured: bool,
    at: Nanos,
}

impl Announcement {
    /// `None` for a flight that was reported before.
    pub(super) fn of(flight: &mut Flight, at: Nanos) -> Option<Self> {
        let before = std::mem::replace(&mut flight.progress, SendProgress::Reported);
        if before == SendProgress::Reported {
            return None;
        }
        let identity = &flight.timeline.identity;
        Some(Self {
            index: identity.index,
            attempt: identity.attempt,
            turn: identity.turn,
            is_measured: identity.phase == Phase::Measure,
            at,
        })
    }
}

impl<P: Platform> Worker<P> {
    pub(super) fn line_up(&mut self, flight: Box<Flight>) {
        let due = flight.timeline.times.intended;
        let index = self.paced.partition_point(|earlier| earlier.timeline.times.intended <= due);
        // Connections for the flights behind it are counted again, from the new flight on.
        let provided = self.spares.provided();
        for later in self.paced.range(index.min(provided)..provided) {
            self.spares.release(later.target());
        }
        self.paced.insert(index, flight);
    }

    pub(super) fn next_due(&self) -> Option<Nanos> {
        let paced = self.paced.front().and_then(|flight| flight.timeline.times.intended);
        let deferred = self.deferred.iter().map(|(at, _)| *at).min();
        paced.into_iter().chain(deferred).min()
    }

    pub(super) fn send_due(&mut self) {
        let now = self.reader.now;
        while let Some(flight) = self.paced.pop_front_if(|flight| {
            flight.timeline.times.intended.is_none_or(|intended| intended <= now)
        }) {
            if self.spares.provided() > 0 {
                self.spares.release(flight.target());
            }
            if let Some(flight) = self.shared.admit(flight, now) {
                self.launch(flight);
            }
        }
        while let Some(index) = self.deferred.iter().position(|(at, _)| *at <= now) {
            let (_at, flight) = self.deferred.swap_remove(index);
            if let Some(flight) = self.shared.admit(flight, now) {
                self.launch(flight);
            }
        }
        while let Some(flight) = self.ready.pop_front() {
            self.launch(flight);
        }
        if self.shared.config.connections == Connections::Preopen {
            self.open_ahead();
        }
    }

    fn open_ahead(&mut self) {
        let horizon = self.reader.now + PREOPEN_LEAD;
        while let Some(flight) = self.paced.get(self.spares.provided()) {
            if flight.timeline.times.intended.is_some_and(|intended| intended > horizon) {
                break;
            }
            let target = flight.target();
            if self.spares.provide(target, self.idle[usize::from(target)].len()) {
                self.open_spare(target);
            }
        }
    }

    /// Sends an admitted flight, on a kept connection or a new one.
    pub(super) fn launch(&mut self, mut flight: Box<Flight>) {
        self.reader.now = self.clock.now();
        self.shared.taken(&flight);
        if self.shared.is_stopping() {
            self.dismiss(flight);
            return;
        }
        self.shared.trim(&mut flight);
        let target = usize::from(flight.target());
        if self.shared.config.connections != Connections::PerRequest {
            while let Some(key) = self.idle[target].pop() {
                if let Some(mut connection) = self.connections.take(key) {
                    let disposition = self.send(&mut connection, flight);
                    self.settle(connection, disposition);
                    return;
                }
            }
        }
        self.connect(flight);
    }

    pub(super) fn connect(&mut self, mut flight: Box<Flight>) {
        flight.timeline.times.connect_begin = Some(self.reader.now);
        self.open(flight.target(), Some(flight));
    }

    pub(super) fn open_spare(&mut self, target: u16) {
        self.spares.opening(target);
        self.open(target, None);
    }

    /// A spare connection is open, or could not be opened.
    pub(super) fn spare_is_open(&mut self, target: u16) {
        use std::sync::atomic::Ordering;
        self.spares.settled(target);
        let _ = self
            .shared
            .opening
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
    }

    /// Carries a proxy's tunnel and the TLS handshake on.
    pub(super) fn secure(&mut self, connection: &mut WorkerConnection<P>) -> KeepOrClose {
        use super::reader::ReadEnd;
        let sent = connection.link.flush();
        if let Err(error) = sent {
            return self.never_opened(connection, &cause::describe(&error));
        }
        while !connection.link.is_open() {
            match self.reader.read(connection, self.shared.live.slot(self.id)) {
                ReadEnd::More => {}
                ReadEnd::Drained if connection.link.is_open() => break,
                ReadEnd::Drained => return KeepOrClose::Keep,
                ReadEnd::Broken(error) => {
                    return self.never_opened(connection, &cause::describe(&error));
                }
                ReadEnd::Done { .. } | ReadEnd::GivenUp | ReadEnd::Unexpected | ReadEnd::Closed => {
                    let message = "the server closed the connection during the TLS handshake";
                    return self.never_opened(connection, message);
                }
            }
        }
        connection.setup.secured = Some(self.clock.now());
        self.on_open(connection)
    }

    pub(super) fn on_open(&mut self, connection: &mut WorkerConnection<P>) -> KeepOrClose {
        match connection.flight.take() {
            Some(flight) if flight.is_held() => self.arm(connection, flight),
            Some(flight) => return self.send(connection, flight),
            None => {
                self.spare_is_open(connection.target);
                connection.stage = ConnectionStage::Idle;
                self.idle[usize::from(connection.target)].push(connection.key);
            }
        }
        KeepOrClose::Keep
    }

    fn never_opened(&mut self, connection: &mut WorkerConnection<P>, why: &str) -> KeepOrClose {
        let is_proxy_s = connection.link.is_tunnelling();
        let kind = if is_proxy_s { FailureKind::Connect } else { FailureKind::Tls };
        // The next connections try the target's other addresses first.
        let rotation = &self.shared.rotations[usize::from(connection.target)];
        rotation.failed(connection.address, self.reader.now);
        let flight = connection.flight.take();
        self.give_up(connection.target, flight, kind, why);
        KeepOrClose::Close
    }

    pub(super) fn send(
        &mut self,
        connection: &mut WorkerConnection<P>,
        mut flight: Box<Flight>,
    ) -> KeepOrClose {
        if connection.has_ended() {
            self.connect(flight);
            return KeepOrClose::Close;
        }
        connection.clear();
        reserve_events(&mut flight);
        self.describe(connection, &mut flight, self.reader.now);
        let timeline = &mut flight.timeline;
        let now = self.clock.now();
        self.reader.now = now;
        timeline.times.first_byte_sent = Some(now);
        connection.last_activity = now;
        connection.stage = ConnectionStage::Writing;
        let announcement = Announcement::of(&mut flight, now);
        let freed = flight.slot_freed.take();
        connection.flight = Some(flight);
        let disposition = self.write_on(connection);
        if let Some(freed) = freed {
            self.account.refill_delay.add(now - freed);
        }
        self.announce(announcement);
        disposition
    }

    /// Counts and reports a request whose sending has begun. `None` for one that was reported before.
    pub(super) fn announce(&mut self, announcement: Option<Announcement>) {
        let Some(Announcement { index, attempt, turn, is_measured, at }) = announcement else {
            return;
        };
        self.shared.live.slot(self.id).sent();
        if is_measured {
            self.account.started += u64::from(attempt == 0);
            self.account.started_turns += u64::from(attempt == 0 && turn > 0);
            self.notify(Notice::Started { index, attempt, at });
        }
    }

    pub(super) fn describe(
        &mut self,
        connection: &WorkerConnection<P>,
        flight: &mut Flight,
        sent: Nanos,
    ) {
        self.shared.transcribe(flight);
        let timeline = &mut flight.timeline;
        if timeline.times.connect_begin.is_some() {
            timeline.times.connect_end = connection.setup.connected;
            timeline.times.tls_end = connection.setup.secured;
        } else {
            self.account.reused += u64::from(connection.uses > 0);
        }
        let carrier = &mut timeline.connection;
        carrier.id = connection.id;
        carrier.uses_before = connection.uses;
        carrier.age = connection.setup.connected.map(|connected| sent - connected);
        carrier.worker = self.id;
        carrier.address = u16::try_from(connection.address).ok();
    }

    pub(super) fn write_on(&mut self, connection: &mut WorkerConnection<P>) -> KeepOrClose {
        let Some(flight) = connection.flight.as_deref_mut() else { return KeepOrClose::Close };
        match connection.link.write(&flight.request.bytes[flight.written..]) {
            Ok(Sent::All) => {
                flight.timeline.times.last_byte_sent = Some(self.clock.now());
                connection.stage = ConnectionStage::Reading;
                self.await_cancel(connection);
                KeepOrClose::Keep
            }
            Ok(Sent::Part(count)) => {
                flight.written += count;
                self.watch(connection, Interest::ReadsAndWrites);
                KeepOrClose::Keep
            }
            Err(error) => self.on_write_failed(connection, &error),
        }
    }
}
