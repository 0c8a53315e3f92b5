//! Early ends: the time is over, or a thread of the run panics.

use tokometer_base::Nanos;
use tokometer_record::{Stop, Timeline};
use tokometer_schedule::{Arrivals, First, Pace, SendLimit};

use super::faults::check;
use super::scenario::{Scenario, Source};
use super::server::PANIC;
use crate::{Error, Prepare, PrepareError, QueuedRequest};

fn for_a_time(seed: u64, duration: Nanos) -> Scenario {
    let mut scenario = Scenario::plain(seed, 1, 3);
    scenario.config.limits.extent = SendLimit { count: None, duration: Some(duration) };
    scenario
}

#[test]
fn a_duration_ends_the_sending_and_not_what_is_under_way() {
    let duration = Nanos::from_millis(500);
    let ran = check(&for_a_time(1, duration));
    let end = ran.end.as_ref().unwrap();
    assert_eq!((end.stop, end.never_sent), (Stop::Complete, 0));
    let end_of_sending = end.measure_begin + duration;
    assert!(ran.measured().count() > 30);
    let is_within = |at: Nanos| at < end_of_sending;
    assert!(ran.measured().all(|t| t.is_success() && is_within(t.times.admitted)));
    assert!(ran.measured().any(|t| t.times.end.is_some_and(|end| !is_within(end))));
}

/// One request at a time at a rate far above what that allows: requests that were due and never sent
/// are counted, including those never prepared.
#[test]
fn requests_that_were_due_and_never_sent_before_the_time_was_over_are_counted() {
    let mut scenario = for_a_time(7, Nanos::from_millis(500));
    scenario.config.limits.max_concurrency = Some(1);
    let pace = Pace::flat(1e5, None, First::Waits);
    scenario.config.arrivals = Arrivals::Paced(pace);
    let ran = check(&scenario);
    let end = ran.end.as_ref().unwrap();
    assert_eq!(end.stop, Stop::Complete);
    // Equal gaps of 10 µs: the last time before the end is the 49,999th.
    assert_eq!(ran.measured().count() as u64 + end.never_sent, 49_999);
}

#[test]
fn the_end_of_the_time_ends_conversations_too() {
    let mut scenario = for_a_time(2, Nanos::from_millis(500));
    scenario.think = Some(Nanos::from_millis(1));
    let ran = check(&scenario);
    assert!(ran.measured().count() > 30);
    let last = ran.measured().map(|timeline| timeline.times.admitted).max().unwrap();
    assert!(last < ran.end.unwrap().measure_begin + Nanos::from_millis(500));
}

/// Later turns used to fill the slots of first turns that were due and never sent.
#[test]
fn first_turns_that_were_due_and_never_sent_are_counted_beside_later_turns() {
    let mut scenario = for_a_time(9, Nanos::from_millis(500));
    scenario.think = Some(Nanos::ZERO);
    scenario.config.limits.max_concurrency = Some(1);
    let pace = Pace::flat(200.0, None, First::Waits);
    scenario.config.arrivals = Arrivals::Paced(pace);
    let ran = check(&scenario);
    let first = ran.measured().filter(|timeline| timeline.identity.turn == 0).count() as u64;
    let later = ran.measured().count() as u64 - first;
    assert!(first < 60 && later > 0, "{first} first turns, {later} later ones");
    let end = ran.end.as_ref().unwrap();
    let end_of_sending = end.measure_begin + Nanos::from_millis(500);
    let is_followed = |turn: &Timeline| {
        let (session, next) = (turn.identity.session, turn.identity.turn + 1);
        ran.measured().any(|one| (one.identity.session, one.identity.turn) == (session, next))
    };
    // A later turn is due when the answer before it has come.
    let is_next_due = |turn: &&Timeline| {
        turn.identity.turn < 2 && turn.times.end < Some(end_of_sending) && !is_followed(turn)
    };
    let waiting = ran.measured().filter(is_next_due).count() as u64;
    // Gaps of 5 ms: 99 conversations were due.
    assert_eq!(end.never_sent, 99 - first + waiting, "{first} first turns, {later} later ones");
}

/// A source whose items have times of their own, a millisecond apart.
struct Trace(Source, u64);

impl Prepare for Trace {
    fn prepare(&mut self) -> Result<Option<QueuedRequest>, PrepareError> {
        self.1 += 1;
        let due = Some(Nanos::from_millis(self.1));
        Ok(self.0.prepare()?.map(|item| QueuedRequest { due, ..item }))
    }
}

#[test]
fn requests_of_a_trace_that_were_due_and_never_sent_are_counted() {
    let mut scenario = for_a_time(10, Nanos::from_millis(500));
    scenario.config.limits.max_concurrency = Some(1);
    let ran = scenario.run_source(Box::new(Trace(Source::new(&scenario), 0)));
    let sent = ran.measured().count() as u64;
    assert!(sent < 200, "{sent}");
    assert_eq!(sent + ran.end.as_ref().unwrap().never_sent, 499);
    // An interrupt leaves later ones out: they were not due yet.
    scenario.interrupt_at = Some(Nanos::from_millis(250));
    let ran = scenario.run_source(Box::new(Trace(Source::new(&scenario), 0)));
    let due = ran.measured().count() as u64 + ran.end.as_ref().unwrap().never_sent;
    assert!((200..=250).contains(&due), "{due}");
}

/// A source that panics instead of making its eleventh item.
struct Fragile(Source, u32);

impl Prepare for Fragile {
    fn prepare(&mut self) -> Result<Option<QueuedRequest>, PrepareError> {
        self.1 += 1;
        assert!(self.1 <= 10, "{PANIC}");
        self.0.prepare()
    }
}

fn panicked(end: &Result<tokometer_record::RunEnd, Error>) -> &'static str {
    match end {
        Err(Error::Panicked { thread, message }) => {
            assert!(message.contains(PANIC), "{message}");
            thread
        }
        other => panic!("{other:?}"),
    }
}

/// After a panic the owner waited for ever for requests that no thread would end.
#[test]
fn a_preparer_that_panics_ends_the_run_with_what_was_measured() {
    let mut scenario = Scenario::plain(3, 50, 2);
    scenario.config.limits.warmups = 8;
    let ran = scenario.run_source(Box::new(Fragile(Source::new(&scenario), 0)));
    assert_eq!(panicked(&ran.end), "preparer");
    assert!(ran.timelines().count() > 0);
}

#[test]
fn a_worker_that_panics_ends_the_run_with_what_was_measured() {
    for workers in 1..=3 {
        let mut scenario = Scenario::plain(4, 50, 6);
        scenario.config.workers = Some(workers);
        scenario.habits.panics_at = Some(20);
        let ran = scenario.run();
        assert_eq!(panicked(&ran.end), "worker", "{workers} workers");
        assert!(ran.measured().filter(|timeline| timeline.is_success()).count() >= 10);
    }
}
