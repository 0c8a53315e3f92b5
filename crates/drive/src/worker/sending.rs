//! Sends flights: from the queue to bytes on the wire.

use std::io;

use tokometer_base::{Clock, Nanos};
use tokometer_client::Exchange;
use tokometer_client::conn::{Link, Segments, Sent, TransportInfo, Wire};
use tokometer_record::{FailureKind, Phase};

use super::connection::{Connection, Setup, Stage};
use super::{KeepOrClose, Worker, WorkerConnection};
use crate::config::Connections;
use crate::flight::Flight;
use crate::harvest::{Lane, Pulse};
use crate::item::Notice;
use crate::platform::{Links, Platform};

/// How long before their sends connections are opened.
const PREOPEN_LEAD: Nanos = Nanos::from_millis(100);

/// Most events to reserve memory for; longer responses grow the list.
const MOST_EVENTS_AHEAD: u32 = 1_024;

impl<P: Platform> Worker<P> {
    /// Inserts a flight in the order of intended times.
    pub(super) fn line_up(&mut self, flight: Box<Flight>) {
        let due = flight.timeline.times.intended;
        let place = self.paced.partition_point(|earlier| earlier.timeline.times.intended <= due);
        // Connections for the flights behind it are counted again, from the new flight on.
        let provided = self.spares.provided();
        for later in self.paced.range(place.min(provided)..provided) {
            self.spares.release(later.target());
        }
        self.paced.insert(place, flight);
    }

    pub(super) fn next_due(&self) -> Option<Nanos> {
        let paced = self.paced.front().and_then(|flight| flight.timeline.times.intended);
        let deferred = self.deferred.iter().map(|(at, _)| *at).min();
        match (paced, deferred) {
            (Some(paced), Some(deferred)) => Some(paced.min(deferred)),
            (paced, deferred) => paced.or(deferred),
        }
    }

    /// Sends what is due, as far as the gate admits it.
    pub(super) fn send_due(&mut self) {
        let now = self.reader.now;
        while let Some(flight) = self.paced.pop_front_if(|flight| {
            flight.timeline.times.intended.is_none_or(|intended| intended <= now)
        }) {
            if self.spares.provided() > 0 {
                self.spares.release(flight.target());
            }
            if let Some(flight) = self.shared.gate.admit(flight, now) {
                self.launch(flight);
            }
        }
        while let Some(place) = self.deferred.iter().position(|(at, _)| *at <= now) {
            let (_at, flight) = self.deferred.swap_remove(place);
            if let Some(flight) = self.shared.gate.admit(flight, now) {
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

    /// Opens connections for the flights that are due soon.
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

    fn open(&mut self, target: u16, flight: Option<Box<Flight>>) -> Result<(), OpenError> {
        let begin = self.reader.now;
        let stamps = self.shared.config.stamps;
        let config = &self.shared.config.targets[usize::from(target)];
        let addresses = &config.endpoint.addresses;
        let address = addresses.get(self.address[usize::from(target)] % addresses.len().max(1));
        let key = self.connections.reserve();
        let made = address.ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable));
        let made = made.and_then(|address| self.links.connect(*address, stamps, key));
        let made = made.and_then(|wire| Link::new(wire, config.endpoint.tls.as_ref()));
        let link = match made {
            Ok(link) => link,
            Err(error) => {
                self.connections.release(key);
                return Err(OpenError { error, flight });
            }
        };
        let exchange = Exchange::new(&config.dialect, &config.settings, config.keep_text);
        self.account.opened += 1;
        self.connections.put(Box::new(Connection {
            link,
            key,
            id: self.shared.next_connection_id(),
            target,
            stage: Stage::Connecting,
            setup: Setup { begin, ..Setup::default() },
            uses: 0,
            is_preopened: flight.is_none(),
            flight,
            exchange,
            segments: Segments::default(),
            pulse: Pulse::default(),
            lane: Lane::Eager,
            was_lazy: false,
            last_activity: begin,
            last_content: None,
            end_marker: None,
            account: TransportInfo::default(),
        }));
        Ok(())
    }

    pub(super) fn connect(&mut self, mut flight: Box<Flight>) {
        flight.timeline.times.connect_begin = Some(self.reader.now);
        let target = flight.target();
        if let Err(OpenError { error, flight: Some(flight) }) = self.open(target, Some(flight)) {
            self.shared.connection_failed(target, self.reader.now);
            self.fail(flight, FailureKind::Connect, &error.to_string());
        }
    }

    /// Opens a connection that is not assigned to a flight.
    pub(super) fn open_spare(&mut self, target: u16) {
        self.spares.opening(target);
        if self.open(target, None).is_err() {
            self.spare_is_open(target);
        }
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

    /// TCP connecting has succeeded or failed.
    pub(super) fn on_connected(&mut self, connection: &mut WorkerConnection<P>) -> KeepOrClose {
        let now = self.clock.now();
        self.reader.now = now;
        if let Err(error) = connection.link.source().connected() {
            return self.never_opened(connection, FailureKind::Connect, &error.to_string());
        }
        self.shared.target_responded(connection.target);
        connection.setup.connected = Some(now);
        connection.last_activity = now;
        if connection.link.is_open() {
            return self.on_open(connection);
        }
        connection.stage = Stage::Securing;
        self.secure(connection)
    }

    /// Continues the TLS handshake.
    pub(super) fn secure(&mut self, connection: &mut WorkerConnection<P>) -> KeepOrClose {
        use super::reader::ReadEnd;
        let sent = connection.link.flush();
        if let Err(error) = sent {
            return self.never_opened(connection, FailureKind::Tls, &error.to_string());
        }
        while !connection.link.is_open() {
            match self.reader.read(connection, self.shared.live.slot(self.id)) {
                ReadEnd::More => {}
                ReadEnd::Drained if connection.link.is_open() => break,
                ReadEnd::Drained => return KeepOrClose::Keep,
                ReadEnd::Broken(error) => {
                    return self.never_opened(connection, FailureKind::Tls, &error.to_string());
                }
                ReadEnd::Done { .. } | ReadEnd::Unexpected | ReadEnd::Closed => {
                    let message = "the server closed the connection during the TLS handshake";
                    return self.never_opened(connection, FailureKind::Tls, message);
                }
            }
        }
        connection.setup.secured = Some(self.clock.now());
        self.on_open(connection)
    }

    /// The connection can carry requests.
    fn on_open(&mut self, connection: &mut WorkerConnection<P>) -> KeepOrClose {
        let Some(flight) = connection.flight.take() else {
            self.spare_is_open(connection.target);
            connection.stage = Stage::Idle;
            self.idle[usize::from(connection.target)].push(connection.key);
            return KeepOrClose::Keep;
        };
        self.send(connection, flight)
    }

    fn never_opened(
        &mut self,
        connection: &mut WorkerConnection<P>,
        kind: FailureKind,
        why: &str,
    ) -> KeepOrClose {
        // The next connection tries the target's next address.
        self.address[usize::from(connection.target)] += 1;
        self.shared.connection_failed(connection.target, self.reader.now);
        match connection.flight.take() {
            Some(flight) => self.fail(flight, kind, why),
            None => self.spare_is_open(connection.target),
        }
        KeepOrClose::Close
    }

    /// Writes a request on an open connection.
    pub(super) fn send(
        &mut self,
        connection: &mut WorkerConnection<P>,
        mut flight: Box<Flight>,
    ) -> KeepOrClose {
        connection.exchange.reset();
        connection.pulse = Pulse::default();
        connection.was_lazy = false;
        connection.last_content = None;
        connection.end_marker = None;
        self.describe(connection, &mut flight);
        let timeline = &mut flight.timeline;
        let now = self.clock.now();
        self.reader.now = now;
        timeline.times.first_byte_sent = Some(now);
        connection.last_activity = now;
        connection.stage = Stage::Writing;
        let (index, attempt) = (timeline.identity.index, timeline.identity.attempt);
        let is_measured = timeline.identity.phase == Phase::Measure;
        let is_fresh = !std::mem::replace(&mut flight.is_announced, true);
        let freed = flight.place_freed.take();
        connection.flight = Some(flight);
        let disposition = self.write_on(connection);
        if let Some(freed) = freed {
            self.account.refill_delay.add(now - freed);
        }
        if is_fresh {
            self.shared.live.slot(self.id).sent();
        }
        if is_fresh && is_measured {
            self.account.started += u64::from(attempt == 0);
            self.notify(Notice::Started { index, attempt, at: now });
        }
        disposition
    }

    /// Records the connection in the timeline.
    fn describe(&mut self, connection: &WorkerConnection<P>, flight: &mut Flight) {
        let timeline = &mut flight.timeline;
        let asked = timeline.requested.output_tokens.unwrap_or(0).min(MOST_EVENTS_AHEAD);
        timeline.events.reserve(asked as usize + 4);
        if timeline.times.connect_begin.is_some() {
            timeline.times.connect_end = connection.setup.connected;
            timeline.times.tls_end = connection.setup.secured;
        } else {
            self.account.reused += u64::from(connection.uses > 0);
        }
        let carrier = &mut timeline.connection;
        carrier.id = connection.id;
        carrier.uses_before = connection.uses;
        carrier.age = connection.setup.connected.map(|connected| self.reader.now - connected);
        carrier.worker = self.id;
    }

    /// Writes the rest of the request.
    pub(super) fn write_on(&mut self, connection: &mut WorkerConnection<P>) -> KeepOrClose {
        let Some(flight) = connection.flight.as_deref_mut() else { return KeepOrClose::Close };
        match connection.link.write(&flight.request.bytes[flight.written..]) {
            Ok(Sent::All) => {
                flight.timeline.times.last_byte_sent = Some(self.clock.now());
                connection.stage = Stage::Reading;
                KeepOrClose::Keep
            }
            Ok(Sent::Part(count)) => {
                flight.written += count;
                KeepOrClose::Keep
            }
            Err(error) => self.on_write_failed(connection, &error),
        }
    }
}

/// A connection that could not be started, with the flight that needed it.
struct OpenError {
    error: io::Error,
    flight: Option<Box<Flight>>,
}
