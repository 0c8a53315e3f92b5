//! A limit on requests in flight that several processes share, by lending each other slots.

use std::fmt;
use std::sync::Arc;

/// The other processes, as a run sees them.
pub trait CapLending: fmt::Debug + Send + Sync {
    /// The run begins; `slots` are its own.
    fn begin(&self, slots: Arc<dyn CapSlots>);

    /// [`CapSlots::report`] may have something new. Called by the threads that send: it must not wait.
    fn changed(&self);
}

/// The slots of a run in progress. After its end nothing happens.
pub trait CapSlots: fmt::Debug + Send + Sync {
    /// Adds slots, and sends what waits for them.
    fn grant(&self, slots: u32);

    /// Gives slots up, as soon as they are free.
    fn recall(&self, slots: u32);

    /// Gives up to so many slots up once nothing waits for them here.
    fn offer(&self, slots: u32);

    fn report(&self) -> CapReport;
}

/// What a run gives to the others, and what it needs of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapReport {
    /// Slots given up since the last report.
    pub freed: u32,
    /// Requests that wait for a slot.
    pub waiting: u32,
}
