//! The first wave: requests that leave together when the measured phase begins, such as all of a burst.
//!
//! What can be done before the start is done before: the requests are in their worker, their connections
//! are open, their memory is reserved. At the start a stamp and a write are left for each. What has to
//! be counted and reported follows after each group.

use std::collections::VecDeque;
use std::io;

use tokometer_base::{Clock, Nanos};
use tokometer_client::conn::{Sent, Wire};

use super::connection::{ConnectionStage, OpenConnection};
use super::sending::{Announcement, reserve_events};
use super::{KeepOrClose, Readiness, Worker, WorkerConnection};
use crate::flight::{Flight, SendProgress};
use crate::platform::{Interest, Platform};

/// Requests that are sent before the sockets are read again. Two tokens of a stream that wait for a read
/// share its time.
const GROUP: usize = 256;

/// Connections that are being opened at one time. Servers drop connections that they cannot accept fast
/// enough, and the kernel tries again only after a second; common limits are 128 and more.
const DIALS_MOST: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Wave {
    due: Option<Nanos>,
    /// Keys of the connections that hold a flight.
    armed: VecDeque<u64>,
    /// Flights whose connections are not being opened yet.
    unopened: VecDeque<Box<Flight>>,
    /// Flights that open their connection when they are sent.
    bare: VecDeque<Box<Flight>>,
}

impl Wave {
    /// When the wave, or the rest of it, is due. `None` before the measured phase and after the wave.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.due
    }

    pub(super) fn begin_at(&mut self, due: Nanos) {
        self.due = Some(due);
    }
}

impl<P: Platform> Worker<P> {
    /// Takes a flight before its time and gives it a connection.
    pub(super) fn hold(&mut self, mut flight: Box<Flight>) {
        flight.progress = SendProgress::Held;
        self.shared.trim(&mut flight);
        reserve_events(&mut flight);
        while let Some(key) = self.idle[usize::from(flight.target())].pop() {
            if let Some(mut connection) = self.connections.take(key) {
                self.arm(&mut connection, flight);
                self.connections.put(connection.key, connection);
                return;
            }
        }
        if self.shared.config.opens_wave() {
            self.wave.unopened.push_back(flight);
        } else {
            self.set_aside(flight);
        }
    }

    /// Opens connections for flights of the wave, a few at a time.
    pub(super) fn open_for_wave(&mut self) {
        while self.dials.len() < DIALS_MOST
            && let Some(flight) = self.wave.unopened.pop_front()
        {
            self.reader.now = self.clock.now();
            self.open(flight.target(), Some(flight));
        }
    }

    /// Assigns an open connection to a flight of the wave.
    pub(super) fn arm(&mut self, connection: &mut WorkerConnection<P>, flight: Box<Flight>) {
        connection.clear();
        let _statistics = connection.update_account();
        connection.stage = ConnectionStage::Armed;
        connection.flight = Some(flight);
        self.wave.armed.push_back(connection.key);
        self.shared.armed();
    }

    /// Keeps a flight of the wave that has no connection.
    pub(super) fn set_aside(&mut self, flight: Box<Flight>) {
        self.wave.bare.push_back(flight);
        self.shared.armed();
    }

    /// Handles an event of a connection whose request is not due. The server may have closed it.
    pub(super) fn check_armed(
        &mut self,
        connection: &mut WorkerConnection<P>,
        readiness: Readiness,
    ) -> KeepOrClose {
        let flight = connection.flight.take();
        connection.stage = ConnectionStage::Idle;
        let disposition = self.drain(connection, readiness);
        if disposition == KeepOrClose::Keep {
            connection.stage = ConnectionStage::Armed;
            connection.flight = flight;
        } else {
            self.wave.bare.extend(flight);
        }
        disposition
    }

    pub(super) fn send_wave(&mut self) {
        let Some(due) = self.wave.due.filter(|due| *due <= self.reader.now) else { return };
        if self.shared.is_stopping() {
            return self.dismiss_wave();
        }
        let group = self.wave.armed.len().min(GROUP);
        let group: Vec<u64> = self.wave.armed.drain(..group).collect();
        if group.is_empty() {
            self.wave.due = None;
            self.release_dials(due);
            return self.launch_bare(due);
        }
        let failed = self.fire(&group, due);
        for key in group {
            if let Some(mut connection) = self.connections.take(key) {
                self.note_sent(&mut connection);
                self.connections.put(connection.key, connection);
            }
        }
        for (key, error) in failed {
            let Some(mut connection) = self.connections.take(key) else { continue };
            let disposition = self.on_write_failed(&mut connection, &error);
            self.settle(connection, disposition);
        }
    }

    /// Writes the requests of these connections. Returns those that cannot be written to.
    fn fire(&mut self, group: &[u64], admitted: Nanos) -> Vec<(u64, io::Error)> {
        let mut failed = Vec::new();
        for key in group {
            if let Some(connection) = self.connections.get_mut(*key)
                && let Err(error) = write_armed(connection, &self.clock, admitted)
            {
                failed.push((*key, error));
            }
        }
        failed
    }

    /// Counts and reports a request of the wave that was sent.
    fn note_sent(&mut self, connection: &mut WorkerConnection<P>) {
        let Some(mut flight) = connection.flight.take() else { return };
        if let Some(sent) = flight.timeline.times.first_byte_sent {
            self.shared.taken(&flight);
            self.describe(connection, &mut flight, sent);
            let announcement = Announcement::of(&mut flight, sent);
            self.announce(announcement);
        }
        connection.flight = Some(flight);
        if connection.stage == ConnectionStage::Writing {
            self.watch(connection, Interest::ReadsAndWrites);
        }
    }

    fn launch_bare(&mut self, admitted: Nanos) {
        let flights = std::mem::take(&mut self.wave.bare).into_iter();
        for mut flight in flights.chain(std::mem::take(&mut self.wave.unopened)) {
            flight.progress = SendProgress::Waiting;
            flight.timeline.times.admitted = admitted;
            self.launch(flight);
        }
    }

    /// Lets the flights go whose connections are still being opened: they are sent as soon as these are
    /// open.
    fn release_dials(&mut self, due: Nanos) {
        let dialled = self.dials.values_mut().filter_map(|dial| dial.flight.as_deref_mut());
        let securing = self.connections.iter_mut();
        let securing = securing.filter(|connection| connection.stage == ConnectionStage::Securing);
        let securing = securing.filter_map(|connection| connection.flight.as_deref_mut());
        for flight in dialled.chain(securing).filter(|flight| flight.is_held()) {
            flight.progress = SendProgress::Waiting;
            flight.timeline.times.admitted = due;
            flight.timeline.times.connect_begin = Some(due);
            self.shared.taken(flight);
        }
    }

    pub(super) fn dismiss_wave(&mut self) {
        self.wave.due = None;
        let mut flights = std::mem::take(&mut self.wave.bare);
        flights.append(&mut self.wave.unopened);
        for key in std::mem::take(&mut self.wave.armed) {
            let Some(mut connection) = self.connections.take(key) else { continue };
            flights.extend(connection.flight.take());
            self.rest(&mut connection);
            self.connections.put(connection.key, connection);
        }
        let dialled = self.dials.values_mut().map(|dial| &mut dial.flight);
        let securing = self.connections.iter_mut().map(|connection| &mut connection.flight);
        for flight in dialled.chain(securing) {
            flights.extend(flight.take_if(|flight| flight.is_held()));
        }
        let waiting = flights.len();
        self.shared.dismiss(flights, self.reader.now);
        for _ in 0..waiting {
            let next = self.shared.release(self.reader.now);
            self.ready.extend(next);
        }
    }
}

/// Writes the request of an armed connection: its time is taken right before the first byte.
fn write_armed<W: Wire>(
    connection: &mut OpenConnection<W>,
    clock: &impl Clock,
    admitted: Nanos,
) -> io::Result<()> {
    let Some(flight) = connection.flight.as_deref_mut() else { return Ok(()) };
    flight.progress = SendProgress::Waiting;
    let times = &mut flight.timeline.times;
    times.admitted = admitted;
    connection.stage = ConnectionStage::Writing;
    let sent_at = clock.now();
    times.first_byte_sent = Some(sent_at);
    connection.last_activity = sent_at;
    match connection.link.write(&flight.request.bytes)? {
        Sent::All => {
            times.last_byte_sent = Some(clock.now());
            connection.stage = ConnectionStage::Reading;
        }
        Sent::Part(count) => flight.written = count,
    }
    Ok(())
}
