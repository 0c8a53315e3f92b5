//! Periodic checks: timeouts, stop requests, clocks.

use tokometer_base::Nanos;
use tokometer_record::FailureKind;

use super::connection::{Connection, Stage};
use super::{KeepOrClose, Worker};
use crate::config::Timeouts;
use crate::platform::Platform;

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
            let line = self.shared.gate.dismiss(self.reader.now);
            self.shared.dismiss(line, self.reader.now);
            self.expire();
        }
    }

    /// Fails flights that exceeded a timeout.
    fn expire(&mut self) {
        let (now, timeouts) = (self.reader.now, self.shared.config.timeouts);
        let expired: Vec<(u64, Expiry)> = self
            .connections
            .iter()
            .filter_map(|connection| Some((connection.key, expiry(connection, now, &timeouts)?)))
            .collect();
        for (key, expiry) in expired {
            let Some(mut connection) = self.connections.take(key) else { continue };
            match connection.flight.take() {
                Some(flight) => self.fail(flight, expiry.kind(), &expiry.message(&timeouts)),
                None => self.spare_is_open(connection.target),
            }
            if expiry == Expiry::Connect {
                self.shared.connection_failed(connection.target, now);
            }
            self.settle(connection, KeepOrClose::Close);
        }
    }

    /// Drops flights that have not been sent.
    fn dismiss_paced(&mut self) {
        self.shared.dismiss(std::mem::take(&mut self.paced), self.reader.now);
        self.spares.forget_flights();
        for (_at, flight) in std::mem::take(&mut self.deferred) {
            self.dismiss(flight);
        }
    }

    /// Abandons everything in flight.
    fn abandon_all(&mut self) {
        self.dismiss_paced();
        let keys: Vec<u64> = self
            .connections
            .iter()
            .filter(|connection| connection.flight.is_some())
            .map(|connection| connection.key)
            .collect();
        for key in keys {
            let Some(mut connection) = self.connections.take(key) else { continue };
            if let Some(flight) = connection.flight.take() {
                let _place = self.shared.gate.release(self.reader.now);
                self.abandon(flight);
            }
            self.settle(connection, KeepOrClose::Close);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    Connect,
    Stall,
    Total,
}

impl Expiry {
    fn kind(self) -> FailureKind {
        match self {
            Self::Connect => FailureKind::ConnectTimeout,
            Self::Stall => FailureKind::Stall,
            Self::Total => FailureKind::Timeout,
        }
    }

    fn message(self, timeouts: &Timeouts) -> String {
        match self {
            Self::Connect => format!("timed out: no connection within {}", timeouts.connect),
            Self::Stall => {
                format!("timed out: no new data for {}", timeouts.stall.unwrap_or_default())
            }
            Self::Total => format!(
                "timed out: no complete response within {}",
                timeouts.total.unwrap_or_default()
            ),
        }
    }
}

fn expiry<W>(connection: &Connection<W>, now: Nanos, timeouts: &Timeouts) -> Option<Expiry> {
    match connection.stage {
        Stage::Connecting | Stage::Securing => {
            (now - connection.setup.begin > timeouts.connect).then_some(Expiry::Connect)
        }
        Stage::Idle => None,
        Stage::Writing | Stage::Reading => {
            let times = &connection.flight.as_ref()?.timeline.times;
            let sent = times.first_byte_sent.unwrap_or(connection.last_activity);
            let exceeds =
                |since: Nanos, limit: Option<Nanos>| limit.is_some_and(|limit| now - since > limit);
            if exceeds(sent, timeouts.total) {
                Some(Expiry::Total)
            } else {
                exceeds(connection.last_activity, timeouts.stall).then_some(Expiry::Stall)
            }
        }
    }
}
