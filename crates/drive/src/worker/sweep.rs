//! Periodic checks: timeouts, stop requests, clocks.

use tokometer_base::Nanos;
use tokometer_record::FailureKind;

use super::connection::{ConnectionStage, OpenConnection};
use super::{KeepOrClose, Worker, WorkerConnection};
use crate::config::Timeouts;
use crate::flight::Flight;
use crate::platform::Platform;

/// Time for a body to end after the end marker of its response. Servers send both together; a later
/// end costs the connection and nothing else.
const OPEN_BODY: Nanos = Nanos::from_millis(250);

/// Time for a body to go on after the server has said that the request failed. Some servers leave it open.
const FAILED_BODY: Nanos = Nanos::from_secs(2);

impl<P: Platform> Worker<P> {
    pub(super) fn sweep(&mut self) {
        self.reader.update_stamps();
        self.traffic.look(self.reader.now);
        if self.shared.is_abandoning() {
            self.abandon_all();
        } else {
            if self.shared.is_stopping() {
                self.dismiss_paced();
            }
            self.expire();
        }
        let line = self.shared.gate.dismiss(self.reader.now);
        self.shared.dismiss(line, self.reader.now);
    }

    fn expire(&mut self) {
        let timeouts = self.shared.config.timeouts;
        self.sweep_dials(&timeouts);
        let now = self.reader.now;
        let expired: Vec<(u64, Expiry)> = self
            .connections
            .iter()
            .filter_map(|connection| Some((connection.key, expiry(connection, now, &timeouts)?)))
            .collect();
        for (key, expiry) in expired {
            let Some(mut connection) = self.connections.take(key) else { continue };
            match expiry {
                Expiry::OpenBody { end } => self.end_open_body(&mut connection, end),
                Expiry::Failed(limit) => self.exceed(&mut connection, limit),
            }
            self.settle(connection, KeepOrClose::Close);
        }
    }

    fn exceed(&mut self, connection: &mut WorkerConnection<P>, limit: Limit) {
        let flight = connection.flight.take();
        let message = limit.message(&self.shared.config.timeouts, flight.as_deref());
        self.give_up(connection.target, flight, limit.kind(), &message);
    }

    /// Ends a complete or failed response whose body the server has left open.
    fn end_open_body(&mut self, connection: &mut WorkerConnection<P>, end: Nanos) {
        if let Some(flight) = connection.flight.as_deref_mut() {
            let end = flight.timeline.events.last().map_or(end, |event| event.at.max(end));
            let _progress = connection.exchange.on_open_body(end, &mut flight.timeline);
            flight.timeline.times.freed = Some(self.reader.now);
        }
        let _closed = self.complete(connection, KeepOrClose::Close);
    }

    fn dismiss_paced(&mut self) {
        self.dismiss_wave();
        self.shared.dismiss(std::mem::take(&mut self.paced), self.reader.now);
        self.spares.forget_flights();
        let deferred = std::mem::take(&mut self.deferred);
        self.shared.dismiss(deferred.into_iter().map(|(_at, flight)| flight), self.reader.now);
    }

    fn abandon_all(&mut self) {
        self.dismiss_paced();
        self.abandon_dials();
        let keys: Vec<u64> = self
            .connections
            .iter()
            .filter(|connection| connection.flight.is_some())
            .map(|connection| connection.key)
            .collect();
        for key in keys {
            let Some(mut connection) = self.connections.take(key) else { continue };
            // What the server said of a failure is worth more than that the run was cut off.
            let failed = connection.exchange.has_failed().then_some(connection.last_activity);
            if let Some(end) = connection.end_marker.or(failed) {
                self.end_open_body(&mut connection, end);
            } else if let Some(flight) = connection.flight.take() {
                let _next = self.shared.release(self.reader.now);
                self.abandon(flight);
            }
            self.settle(connection, KeepOrClose::Close);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    /// The response is complete since `end`, or has failed; only its body has not ended.
    OpenBody {
        end: Nanos,
    },
    Failed(Limit),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Connect,
    Stall,
    Total,
}

impl Limit {
    fn kind(self) -> FailureKind {
        match self {
            Self::Connect => FailureKind::ConnectTimeout,
            Self::Stall => FailureKind::Stall,
            Self::Total => FailureKind::Timeout,
        }
    }

    fn message(self, timeouts: &Timeouts, flight: Option<&Flight>) -> String {
        match self {
            Self::Connect => format!("timed out: no connection within {}", timeouts.connect),
            Self::Stall => {
                let limit = timeouts.stall.unwrap_or_default();
                format!(
                    "timed out: no token for {limit} after token {}",
                    flight.map_or(0, Flight::received_tokens)
                )
            }
            Self::Total => format!(
                "timed out: no complete response within {}",
                timeouts.total.unwrap_or_default()
            ),
        }
    }
}

fn expiry<W>(connection: &OpenConnection<W>, now: Nanos, timeouts: &Timeouts) -> Option<Expiry> {
    match connection.stage {
        ConnectionStage::Securing => (now - connection.setup.begin > timeouts.connect)
            .then_some(Expiry::Failed(Limit::Connect)),
        ConnectionStage::Idle | ConnectionStage::Armed => None,
        ConnectionStage::Writing | ConnectionStage::Reading => {
            reading_expiry(connection, now, timeouts)
        }
    }
}

fn reading_expiry<W>(
    connection: &OpenConnection<W>,
    now: Nanos,
    timeouts: &Timeouts,
) -> Option<Expiry> {
    let exceeds =
        |since: Nanos, limit: Option<Nanos>| limit.is_some_and(|limit| now - since > limit);
    let times = &connection.flight.as_ref()?.timeline.times;
    if let Some(end) = connection.end_marker {
        return exceeds(end, Some(OPEN_BODY)).then_some(Expiry::OpenBody { end });
    }
    let sent = times.first_byte_sent.unwrap_or(connection.last_activity);
    if connection.exchange.has_failed() {
        let is_over = exceeds(connection.last_activity, Some(FAILED_BODY))
            || exceeds(connection.last_content.unwrap_or(sent), timeouts.stall)
            || exceeds(sent, timeouts.total);
        return is_over.then_some(Expiry::OpenBody { end: connection.last_activity });
    }
    if exceeds(sent, timeouts.total) {
        return Some(Expiry::Failed(Limit::Total));
    }
    let content = connection.last_content.filter(|content| exceeds(*content, timeouts.stall))?;
    Some(if connection.exchange.is_finished() {
        Expiry::OpenBody { end: content }
    } else {
        Expiry::Failed(Limit::Stall)
    })
}
