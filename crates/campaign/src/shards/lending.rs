//! The slots of a shared limit on requests in flight, between this process's run and shard 0.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokometer_base::Background;
use tokometer_drive::{CapLending, CapReport, CapSlots};
use tokometer_shards::LeaseChange;

/// How often the thread that reports looks whether it has to end.
const LOOK: Duration = Duration::from_millis(50);

/// Nothing that was reported before counts.
const UNKNOWN: u32 = u32::MAX;

/// One run's slots.
#[derive(Debug)]
pub(super) struct SlotLink {
    slots: Mutex<Option<Arc<dyn CapSlots>>>,
    /// Requests that wait, as last reported.
    told: AtomicU32,
    signal: SyncSender<()>,
    signalled: Mutex<Option<Receiver<()>>>,
}

impl SlotLink {
    pub(super) fn new() -> Arc<Self> {
        // One signal that waits stands for any number of changes.
        let (signal, signalled) = sync_channel(1);
        let (slots, told) = (Mutex::new(None), AtomicU32::new(UNKNOWN));
        Arc::new(Self { slots, told, signal, signalled: Mutex::new(Some(signalled)) })
    }

    fn slots(&self) -> Option<Arc<dyn CapSlots>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What shard 0 has decided.
    pub(super) fn apply(&self, change: LeaseChange) {
        if let Some(slots) = self.slots() {
            self.apply_to(&*slots, change);
        }
    }

    fn apply_to(&self, slots: &dyn CapSlots, change: LeaseChange) {
        let LeaseChange { granted, recalled, offered } = change;
        // A slot that comes and goes serves one request in between.
        slots.grant(granted);
        slots.recall(recalled);
        slots.offer(offered);
        self.forget();
        self.changed();
    }

    /// What was reported before a change says nothing of what waits after it.
    fn forget(&self) {
        self.told.store(UNKNOWN, Ordering::Release);
    }

    /// Calls `report` with slots that are given back and the number of requests that wait, whenever one
    /// of them changes. More than `cap` waiting requests are as many as `cap`.
    pub(super) fn start_reports(
        self: &Arc<Self>,
        cap: u32,
        report: impl Fn(u32, u32) + Send + 'static,
    ) -> Option<Background> {
        let receiver = self.signalled.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let link = Arc::clone(self);
        Some(Background::start("slots", move |stop| {
            while !stop.is_raised_within(Duration::ZERO) {
                if receiver.recv_timeout(LOOK).is_ok() {
                    link.report(cap, &report);
                }
            }
        }))
    }

    fn report(&self, cap: u32, report: &impl Fn(u32, u32)) {
        let Some(slots) = self.slots() else { return };
        if let Some((freed, want)) = self.news(slots.report(), cap) {
            report(freed, want);
        }
    }

    /// What shard 0 does not know yet: slots given back, and requests that wait.
    fn news(&self, now: CapReport, cap: u32) -> Option<(u32, u32)> {
        let want = now.waiting.min(cap);
        let before = self.told.swap(want, Ordering::AcqRel);
        (now.freed > 0 || before != want).then_some((now.freed, want))
    }
}

impl CapLending for SlotLink {
    fn begin(&self, slots: Arc<dyn CapSlots>) {
        *self.slots.lock().unwrap_or_else(PoisonError::into_inner) = Some(slots);
    }

    fn changed(&self) {
        // Full: a signal is waiting already.
        let _ = self.signal.try_send(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_0_is_told_what_it_does_not_know() {
        let link = SlotLink::new();
        let check = |freed, waiting, expected| {
            assert_eq!(link.news(CapReport { freed, waiting }, 4), expected, "{freed} {waiting}");
        };
        check(0, 0, Some((0, 0)));
        check(0, 0, None);
        check(0, 3, Some((0, 3)));
        check(0, 3, None);
        // More requests than there are slots cannot be served at once.
        check(0, 9, Some((0, 4)));
        check(0, 7, None);
        // A slot that is given back is always news, and what waits beside it is known then.
        check(1, 2, Some((1, 2)));
        check(0, 2, None);
        check(1, 2, Some((1, 2)));
        check(2, 2, Some((2, 2)));
    }

    /// A change may have served what waited: the same number that waits again is news.
    #[test]
    fn a_change_of_slots_makes_what_waits_news_again() {
        let link = SlotLink::new();
        for waiting in [2, 0] {
            assert!(link.news(CapReport { freed: 0, waiting }, 4).is_some());
            link.forget();
            assert_eq!(link.news(CapReport { freed: 0, waiting }, 4), Some((0, waiting)));
        }
    }

    /// Slots in the order in which they were changed.
    #[derive(Debug, Default)]
    struct Changed(Mutex<Vec<(&'static str, u32)>>);

    impl CapSlots for Changed {
        fn grant(&self, slots: u32) {
            self.0.lock().unwrap().push(("grant", slots));
        }

        fn recall(&self, slots: u32) {
            self.0.lock().unwrap().push(("recall", slots));
        }

        fn offer(&self, slots: u32) {
            self.0.lock().unwrap().push(("offer", slots));
        }

        fn report(&self) -> CapReport {
            CapReport::default()
        }
    }

    /// With fewer slots than shards, a slot that was recalled first would serve nobody.
    #[test]
    fn a_slot_that_comes_and_goes_is_granted_first_and_reported_after() {
        let (link, slots) = (SlotLink::new(), Changed::default());
        assert!(link.news(CapReport { freed: 0, waiting: 1 }, 4).is_some());
        link.apply_to(&slots, LeaseChange { granted: 1, recalled: 2, offered: 3 });
        assert_eq!(*slots.0.lock().unwrap(), [("grant", 1), ("recall", 2), ("offer", 3)]);
        let signalled = link.signalled.lock().unwrap().take().unwrap();
        assert!(signalled.try_recv().is_ok(), "the thread that reports looks");
        assert_eq!(link.news(CapReport { freed: 0, waiting: 1 }, 4), Some((0, 1)), "again");
    }

    /// Many changes before the thread looks are one signal, and none is lost.
    #[test]
    fn changes_that_nobody_has_seen_yet_are_one_signal() {
        let link = SlotLink::new();
        (0..3).for_each(|_| link.changed());
        let signalled = link.signalled.lock().unwrap().take().unwrap();
        assert!(signalled.try_recv().is_ok());
        assert!(signalled.try_recv().is_err());
        link.changed();
        assert!(signalled.try_recv().is_ok());
        assert!(link.start_reports(1, |_, _| {}).is_none(), "one thread reports");
    }
}
