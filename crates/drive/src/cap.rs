//! A limit on requests in flight that several processes share, by lending each other slots.

use std::fmt;
use std::sync::{Arc, Weak};

use tokometer_base::Nanos;

use crate::inbox::WorkerCommand;
use crate::shared::Shared;

/// The other processes, as a run sees them.
pub trait CapLending: fmt::Debug + Send + Sync {
    /// The run begins; `slots` are its own.
    fn begin(&self, slots: CapSlots);

    /// [`CapSlots::report`] may have something new. Called by the threads that send: it must not wait.
    fn changed(&self);
}

/// The slots of a run in progress. After its end nothing happens.
#[derive(Clone)]
pub struct CapSlots {
    shared: Weak<Shared>,
    now: Arc<dyn Fn() -> Nanos + Send + Sync>,
}

impl fmt::Debug for CapSlots {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CapSlots")
    }
}

/// What a run gives to the others, and what it needs of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapReport {
    /// Slots given up since the last report.
    pub freed: u32,
    /// Requests that wait for a slot.
    pub waiting: u32,
}

impl CapSlots {
    pub(crate) fn new(shared: &Arc<Shared>, now: Arc<dyn Fn() -> Nanos + Send + Sync>) -> Self {
        Self { shared: Arc::downgrade(shared), now }
    }

    /// Adds slots, and sends what waits for them.
    pub fn grant(&self, slots: u32) {
        let Some(shared) = self.shared.upgrade() else { return };
        for flight in shared.gate.grant(slots, (self.now)()) {
            shared.inbox_of(flight.timeline.identity.index).post(WorkerCommand::Send(flight));
        }
    }

    /// Gives slots up, as soon as they are free.
    pub fn recall(&self, slots: u32) {
        if let Some(shared) = self.shared.upgrade() {
            shared.gate.recall(slots);
            shared.cap_changed();
        }
    }

    /// Gives up to so many slots up once nothing waits for them here.
    pub fn offer(&self, slots: u32) {
        if let Some(shared) = self.shared.upgrade() {
            shared.gate.offer(slots);
            shared.cap_changed();
        }
    }

    pub fn report(&self) -> CapReport {
        self.shared.upgrade().map_or_else(CapReport::default, |shared| shared.gate.take_report())
    }
}
