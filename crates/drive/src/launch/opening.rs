//! What is done before the measured phase so that its first requests find everything ready.

use std::sync::atomic::Ordering;

use tokometer_base::Clock;
use tokometer_schedule::Arrivals;

use super::{LOOK, Owner};
use crate::config::{Connections, RunConfig};
use crate::inbox::WorkerCommand;
use crate::platform::{Platform, Wake};

impl<P: Platform> Owner<P> {
    /// Opens the connections whose number is known, and waits for them.
    pub(super) fn preopen(&self) {
        let config = &self.shared.config;
        if config.connections != Connections::Preopen {
            return;
        }
        let targets = u16::try_from(config.targets.len()).unwrap_or(1).max(1);
        let Some(wanted) = wanted_per_target(config) else { return };
        let workers = self.shared.inboxes.len() as u64;
        let opening = &self.shared.opening;
        for (worker, inbox) in (0_u64..).zip(&self.shared.inboxes) {
            let share = wanted / workers + u64::from(worker < wanted % workers);
            let count = u32::try_from(share).unwrap_or(u32::MAX);
            for target in 0..targets {
                // Counted before the worker knows: it may be done before this thread goes on, and what it
                // takes from a count of zero would be missing for ever.
                opening.fetch_add(u64::from(count), Ordering::AcqRel);
                inbox.post(WorkerCommand::Preopen { target, count });
            }
        }
        let deadline = self.clock.now() + config.timeouts.connect;
        while opening.load(Ordering::Acquire) > 0
            && self.clock.now() < deadline
            && !self.interrupt.is_raised()
        {
            self.platform.pause(LOOK);
        }
    }

    /// Lets the requests that leave together reach their workers, and their connections be opened. Waits
    /// as long as connections are being made.
    pub(super) fn gather_wave(&mut self, preparer: &dyn Wake) {
        if self.shared.config.wave_size() == 0 || self.stop.is_some() {
            return;
        }
        self.progress.want_wave();
        preparer.wake();
        let timeout = self.shared.config.timeouts.connect;
        let (mut deadline, mut left) = (self.clock.now() + timeout, u64::MAX);
        while !self.progress.is_wave_fed() || self.shared.arming() > 0 {
            self.platform.pause(LOOK);
            let now = self.clock.now();
            self.check_stop(now);
            let still = self.shared.arming();
            if still != left {
                (deadline, left) = (now + timeout, still);
            }
            if self.stop.is_some() || now >= deadline {
                return;
            }
        }
    }
}

/// Connections to open to each target before a phase, where their number is known. A block of
/// requests may go to one target alone, so each target needs as many as the limit allows.
fn wanted_per_target(config: &RunConfig) -> Option<u64> {
    let cap = config.limits.max_concurrency.map(u64::from);
    let targets = (config.targets.len() as u64).max(1);
    let planned = config.limits.extent.count.map(|count| count.div_ceil(targets));
    match (cap, planned) {
        (Some(cap), Some(planned)) => Some(cap.min(planned)),
        (Some(cap), None) => Some(cap),
        (None, planned) => planned.filter(|_| config.arrivals == Arrivals::AtOnce),
    }
}
