//! A limit on requests in flight that other processes share.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokometer_base::Nanos;
use tokometer_record::Timeline;

use super::scenario::{Ran, Scenario};
use crate::{CapLending, CapReport, CapSlots};

/// The other processes: they do something after the first change that this run reports.
#[derive(Debug)]
struct Others {
    act: fn(&dyn CapSlots),
    slots: Mutex<Option<Arc<dyn CapSlots>>>,
    changes: AtomicU32,
    /// Changes that the act itself has led to.
    told: AtomicU32,
    reports: Mutex<Vec<CapReport>>,
}

impl CapLending for Others {
    fn begin(&self, slots: Arc<dyn CapSlots>) {
        *self.slots.lock().unwrap() = Some(slots);
    }

    fn changed(&self) {
        let slots = self.slots.lock().unwrap().clone().unwrap();
        if self.changes.fetch_add(1, Ordering::SeqCst) == 0 {
            (self.act)(&*slots);
            self.told.store(self.changes.load(Ordering::SeqCst) - 1, Ordering::SeqCst);
        }
        self.reports.lock().unwrap().push(slots.report());
    }
}

/// A run of 12 requests with so many slots, and what it reported.
fn run(cap: u32, act: fn(&dyn CapSlots)) -> (Ran, Arc<Others>) {
    let others = Arc::new(Others {
        act,
        slots: Mutex::default(),
        changes: AtomicU32::new(0),
        told: AtomicU32::new(0),
        reports: Mutex::default(),
    });
    let mut scenario = Scenario::plain(3, 12, cap);
    scenario.config.cap_lending = Some(Arc::clone(&others) as Arc<dyn CapLending>);
    let ran = scenario.run();
    assert!(ran.measured().count() == 12 && ran.measured().all(Timeline::is_success));
    (ran, others)
}

fn freed(others: &Others) -> u32 {
    others.reports.lock().unwrap().iter().map(|report| report.freed).sum()
}

/// Requests in flight when each one was sent, itself included, in order of sending.
fn in_flight(ran: &Ran) -> Vec<usize> {
    let span = |row: &Timeline| (row.times.admitted, row.times.end.unwrap());
    let mut spans: Vec<(Nanos, Nanos)> = ran.measured().map(span).collect();
    spans.sort_unstable();
    let at =
        |begin: Nanos, slot: usize| spans[..=slot].iter().filter(|(_, end)| *end > begin).count();
    spans.iter().enumerate().map(|(slot, (begin, _))| at(*begin, slot)).collect()
}

#[test]
fn granted_slots_are_taken_by_requests_that_wait() {
    let (ran, others) = run(1, |slots| slots.grant(2));
    let course = in_flight(&ran);
    assert_eq!(course.iter().max(), Some(&3), "{course:?}");
    let reports = others.reports.lock().unwrap().clone();
    assert!(reports.iter().any(|report| report.waiting > 0), "{reports:?}");
    assert!(reports.iter().all(|report| report.freed == 0), "{reports:?}");
}

#[test]
fn recalled_slots_are_given_up_although_requests_wait() {
    let (ran, others) = run(4, |slots| slots.recall(3));
    let course = in_flight(&ran);
    assert_eq!(course.iter().max(), Some(&4), "{course:?}");
    // From the fifth on, one at a time.
    assert!(course[4..].iter().all(|flights| *flights == 1), "{course:?}");
    assert_eq!((freed(&others), others.told.load(Ordering::SeqCst)), (3, 1));
}

#[test]
fn offered_slots_are_given_up_once_nothing_waits_for_them() {
    let (ran, others) = run(4, |slots| slots.offer(2));
    let course = in_flight(&ran);
    assert!(course[3..].iter().all(|flights| *flights == 4), "{course:?}");
    let reports = others.reports.lock().unwrap().clone();
    let early = reports.iter().filter(|report| report.waiting > 0 && report.freed > 0);
    assert_eq!((early.count(), freed(&others)), (0, 2), "{reports:?}");
    assert_eq!(others.told.load(Ordering::SeqCst), 1);
}

#[test]
fn slots_of_a_run_that_has_ended_change_nothing() {
    let (_ran, others) = run(2, |_slots| {});
    let slots = others.slots.lock().unwrap().clone().unwrap();
    let changes = others.changes.load(Ordering::SeqCst);
    slots.grant(1);
    slots.recall(1);
    slots.offer(1);
    assert_eq!(slots.report(), CapReport::default());
    assert_eq!(others.changes.load(Ordering::SeqCst), changes);
}
