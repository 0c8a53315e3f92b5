//! A limit on requests in flight that several processes share, by lending each other places.

use std::fmt;
use std::sync::{Arc, Weak};

use tokometer_base::Nanos;

use crate::inbox::WorkerCommand;
use crate::shared::Shared;

/// The other processes, as a run sees them.
pub trait CapLending: fmt::Debug + Send + Sync {
    /// The run begins; `places` are its own.
    fn begin(&self, places: CapPlaces);

    /// [`CapPlaces::report`] may have something new. Called by the threads that send: it must not wait.
    fn changed(&self);
}

/// The places of a run in progress. After its end nothing happens.
#[derive(Clone)]
pub struct CapPlaces {
    shared: Weak<Shared>,
    now: Arc<dyn Fn() -> Nanos + Send + Sync>,
}

impl fmt::Debug for CapPlaces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CapPlaces")
    }
}

/// What a run gives to the others, and what it needs of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapReport {
    /// Places given up since the last report.
    pub freed: u32,
    /// Requests that wait for a place.
    pub waiting: u32,
}

impl CapPlaces {
    pub(crate) fn new(shared: &Arc<Shared>, now: Arc<dyn Fn() -> Nanos + Send + Sync>) -> Self {
        Self { shared: Arc::downgrade(shared), now }
    }

    /// Adds places, and sends what waits for them.
    pub fn grant(&self, places: u32) {
        let Some(shared) = self.shared.upgrade() else { return };
        for flight in shared.gate.grant(places, (self.now)()) {
            shared.inbox_of(flight.timeline.identity.index).post(WorkerCommand::Send(flight));
        }
    }

    /// Gives places up, as soon as they are free.
    pub fn recall(&self, places: u32) {
        if let Some(shared) = self.shared.upgrade() {
            shared.gate.recall(places);
            shared.cap_changed();
        }
    }

    /// Gives up to so many places up once nothing waits for them here.
    pub fn offer(&self, places: u32) {
        if let Some(shared) = self.shared.upgrade() {
            shared.gate.offer(places);
            shared.cap_changed();
        }
    }

    /// What has changed since the last report.
    pub fn report(&self) -> CapReport {
        self.shared.upgrade().map_or_else(CapReport::default, |shared| shared.gate.take_report())
    }
}
