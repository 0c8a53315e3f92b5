//! Requests that their user cancels: the connection is closed, as by a user who leaves.

use tokometer_base::{CancelAfter, Clock};

use super::ending::note_network;
use super::{KeepOrClose, Readiness, Worker, WorkerConnection};
use crate::platform::Platform;

impl<P: Platform> Worker<P> {
    /// Plans the end of a request that was just sent, where its user waits for a time.
    pub(super) fn await_cancel(&mut self, connection: &mut WorkerConnection<P>) {
        let Some(flight) = connection.flight.as_deref_mut() else { return };
        let Some(CancelAfter::Time(span)) = flight.cancel_after else { return };
        let at = flight.timeline.times.last_byte_sent.unwrap_or(self.reader.now) + span;
        flight.cancel_at = Some(at);
        // Most are later than all others: the next one stands last.
        let index = self.cancels.partition_point(|(other, _)| *other > at);
        self.cancels.insert(index, (at, connection.key));
    }

    /// Cancels the requests whose time has come. Those that have ended are no longer on their connection.
    pub(super) fn cancel_due(&mut self) {
        while let Some((at, key)) = self.cancels.pop_if(|(at, _)| *at <= self.reader.now) {
            let Some(mut connection) = self.connections.take(key) else { continue };
            let is_due = |connection: &WorkerConnection<P>| {
                let flight = connection.flight.as_deref();
                flight.is_some_and(|flight| flight.cancel_at == Some(at))
            };
            let mut disposition = KeepOrClose::Keep;
            if is_due(&connection) {
                // What has arrived by now was seen: it may be the whole answer.
                let readiness = Readiness { is_readable: false, is_ending: false };
                disposition = self.drain(&mut connection, readiness);
                if is_due(&connection) && connection.is_unfinished() {
                    disposition = self.cancel(&mut connection);
                }
            }
            self.settle(connection, disposition);
        }
    }

    /// Ends the request of a connection, which is then closed. Its slot is free at once.
    pub(super) fn cancel(&mut self, connection: &mut WorkerConnection<P>) -> KeepOrClose {
        let Some(mut flight) = connection.flight.take() else { return KeepOrClose::Close };
        self.reader.now = self.clock.now();
        connection.exchange.cancel(self.reader.now, &mut flight.timeline);
        note_network(connection, &mut flight);
        let next = self.successor(&flight);
        self.ready.extend(next);
        self.record(flight);
        KeepOrClose::Close
    }
}
