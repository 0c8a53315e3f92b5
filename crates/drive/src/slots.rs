//! The slots of this process, which others may change while it measures.

use std::fmt;
use std::sync::{Arc, Weak};

use tokometer_base::Nanos;

use crate::cap::{CapReport, CapSlots};
use crate::inbox::WorkerCommand;
use crate::shared::Shared;

pub(crate) struct RunSlots {
    shared: Weak<Shared>,
    now: Box<dyn Fn() -> Nanos + Send + Sync>,
}

impl fmt::Debug for RunSlots {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RunSlots")
    }
}

impl RunSlots {
    pub(crate) fn new(shared: &Arc<Shared>, now: Box<dyn Fn() -> Nanos + Send + Sync>) -> Self {
        Self { shared: Arc::downgrade(shared), now }
    }
}

impl CapSlots for RunSlots {
    fn grant(&self, slots: u32) {
        let Some(shared) = self.shared.upgrade() else { return };
        for flight in shared.gate.grant(slots, (self.now)()) {
            shared.inbox_of(flight.timeline.identity.index).post(WorkerCommand::Send(flight));
        }
    }

    fn recall(&self, slots: u32) {
        if let Some(shared) = self.shared.upgrade() {
            shared.gate.recall(slots);
            shared.cap_changed();
        }
    }

    fn offer(&self, slots: u32) {
        if let Some(shared) = self.shared.upgrade() {
            shared.gate.offer(slots);
            shared.cap_changed();
        }
    }

    fn report(&self) -> CapReport {
        self.shared.upgrade().map_or_else(CapReport::default, |shared| shared.gate.take_report())
    }
}
