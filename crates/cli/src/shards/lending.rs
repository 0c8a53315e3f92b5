//! The places of a shared limit on requests in flight, between this process's run and shard 0.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokometer_base::Background;
use tokometer_drive::{CapLending, CapPlaces};
use tokometer_shards::LeaseChange;

/// How often the thread that reports looks whether it has to end.
const LOOK: Duration = Duration::from_millis(50);

/// Nothing that was reported before counts.
const UNKNOWN: u32 = u32::MAX;

/// One run's places.
#[derive(Debug)]
pub(super) struct PlaceLink {
    places: Mutex<Option<CapPlaces>>,
    /// Requests that wait, as last reported.
    told: AtomicU32,
    signal: SyncSender<()>,
    signalled: Mutex<Option<Receiver<()>>>,
}

impl PlaceLink {
    pub(super) fn new() -> Arc<Self> {
        // One signal that waits stands for any number of changes.
        let (signal, signalled) = sync_channel(1);
        let (places, told) = (Mutex::new(None), AtomicU32::new(UNKNOWN));
        Arc::new(Self { places, told, signal, signalled: Mutex::new(Some(signalled)) })
    }

    fn places(&self) -> Option<CapPlaces> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What shard 0 has decided.
    pub(super) fn apply(&self, change: LeaseChange) {
        let Some(places) = self.places() else { return };
        let LeaseChange { granted, recalled, offered } = change;
        // A place that comes and goes serves one request in between.
        places.grant(granted);
        places.recall(recalled);
        places.offer(offered);
        self.told.store(UNKNOWN, Ordering::Release);
        self.changed();
    }

    /// Calls `report` with places that are given back and the number of requests that wait, whenever one
    /// of them changes. More than `cap` waiting requests are as many as `cap`.
    pub(super) fn start_reports(
        self: &Arc<Self>,
        cap: u32,
        report: impl Fn(u32, u32) + Send + 'static,
    ) -> Option<Background> {
        let receiver = self.signalled.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let link = Arc::clone(self);
        Some(Background::start("places", move |stop| {
            while !stop.is_raised_within(Duration::ZERO) {
                if receiver.recv_timeout(LOOK).is_ok() {
                    link.report(cap, &report);
                }
            }
        }))
    }

    fn report(&self, cap: u32, report: &impl Fn(u32, u32)) {
        let Some(places) = self.places() else { return };
        let now = places.report();
        let want = now.waiting.min(cap);
        if now.freed > 0 || self.told.swap(want, Ordering::AcqRel) != want {
            report(now.freed, want);
        }
    }
}

impl CapLending for PlaceLink {
    fn begin(&self, places: CapPlaces) {
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = Some(places);
    }

    fn changed(&self) {
        // Full: a signal is waiting already.
        let _ = self.signal.try_send(());
    }
}
