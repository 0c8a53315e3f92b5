//! Limits of waiting: between tokens, behind an end marker, before another attempt.

use tokometer_base::Nanos;
use tokometer_record::{FailureKind, Outcome, Stop, Timeline};
use tokometer_schedule::SendLimit;

use super::faults::check;
use super::scenario::{Ran, Scenario};
use super::server::Fault;
use crate::Timeouts;

/// A limit is looked after this often at least.
const LOOK: Nanos = Nanos::from_millis(60);

fn faulty(seed: u64, fault: Fault) -> Scenario {
    let mut scenario = Scenario::plain(seed, 6, 2);
    scenario.habits.first = Some((usize::MAX, fault));
    scenario
}

fn failure(timeline: &Timeline) -> (FailureKind, &str) {
    match &timeline.outcome {
        Outcome::Failed(failure) => (failure.kind, failure.message.as_str()),
        other => panic!("{other:?}"),
    }
}

/// Pings used to keep an answer alive that would never end.
#[test]
fn only_content_puts_the_stall_limit_off_and_the_failure_names_the_last_token() {
    let stall = Nanos::from_secs(1);
    for fault in [Fault::Pings(3), Fault::Stalls(3)] {
        let mut scenario = faulty(1, fault);
        scenario.config.timeouts =
            Timeouts { stall: Some(stall), total: None, ..Timeouts::default() };
        let ran = check(&scenario);
        assert_eq!(ran.measured().count(), 6);
        for timeline in ran.measured() {
            let said = "timed out: no token for 1.00 s after token 3";
            assert_eq!(failure(timeline), (FailureKind::Stall, said));
            let content = timeline.events.iter().rfind(|event| event.kind.is_content()).unwrap().at;
            let end = timeline.times.end.unwrap();
            assert!(end > content + stall && end < content + stall + LOOK, "{timeline:?}");
        }
    }
}

/// Queues of minutes are legitimate, and many servers send their head long before the first token.
#[test]
fn before_the_first_content_only_the_total_limit_holds() {
    let total = Nanos::from_secs(10);
    for fault in [Fault::Pings(0), Fault::Stalls(0)] {
        let mut scenario = faulty(2, fault);
        let stall = Some(Nanos::from_millis(100));
        scenario.config.timeouts = Timeouts { stall, total: Some(total), ..Timeouts::default() };
        let ran = check(&scenario);
        for timeline in ran.measured() {
            assert_eq!(failure(timeline).0, FailureKind::Timeout, "{timeline:?}");
            let sent = timeline.times.first_byte_sent.unwrap();
            assert!(timeline.times.end.unwrap() > sent + total, "{timeline:?}");
        }
    }
}

#[test]
fn without_a_stall_limit_an_answer_may_pause_for_longer() {
    let mut scenario = Scenario::plain(3, 2, 2);
    scenario.tokens = 2;
    scenario.config.timeouts = Timeouts { stall: None, ..Timeouts::default() };
    scenario.habits.gap = Some(Nanos::from_secs(125));
    assert!(check(&scenario).measured().all(Timeline::is_success));
    scenario.config.timeouts = Timeouts::default();
    let ran = scenario.run();
    assert!(ran.measured().all(|timeline| failure(timeline).0 == FailureKind::Stall));
}

/// Such an answer used to wait for the end of its body for ever, and fail when the connection broke.
#[test]
fn an_end_marker_ends_the_answer_though_the_body_stays_open() {
    let ran = check(&faulty(4, Fault::LeavesOpen));
    assert_eq!(ran.measured().count(), 6);
    for timeline in ran.measured() {
        assert!(timeline.is_success(), "{timeline:?}");
        assert_eq!(timeline.times.end, timeline.events.last().map(|event| event.at));
        assert_eq!(timeline.connection.uses_before, 0, "an open body spoils its connection");
        let waited = timeline.times.freed.unwrap() - timeline.times.end.unwrap();
        assert!(waited >= Nanos::from_millis(250), "{waited}");
    }
    // The wait for the server was counted as a delay of the client.
    let refills = &ran.end.as_ref().unwrap().health.refill_delay;
    let slowest = refills.quantile(1.0).unwrap_or_default();
    assert!(slowest < Nanos::from_millis(100), "{slowest}");
}

/// The time of the reset was that of the last read, so the wait for it counted as a delay of the client.
#[test]
fn a_reset_behind_the_end_marker_frees_the_slot_when_it_comes() {
    let ran = check(&faulty(4, Fault::ResetsAfter));
    assert_eq!(ran.measured().count(), 6);
    for timeline in ran.measured() {
        assert!(timeline.is_success(), "{timeline:?}");
        let last = timeline.events.last().unwrap().at;
        assert!(timeline.times.end.unwrap() >= last + Nanos::from_millis(40), "{timeline:?}");
    }
    let refills = &ran.end.as_ref().unwrap().health.refill_delay;
    let slowest = refills.quantile(1.0).unwrap_or_default();
    assert!(slowest < Nanos::from_millis(30), "{slowest}");
}

#[test]
fn an_interrupt_keeps_an_answer_whose_body_stays_open() {
    let mut scenario = faulty(5, Fault::LeavesOpen);
    scenario.interrupt_at = Some(Nanos::from_millis(120));
    scenario.second_interrupt = Some(Nanos::ZERO);
    let ran = check(&scenario);
    let has_marker = |timeline: &Timeline| {
        timeline.events.iter().any(|event| event.kind == tokometer_record::EventKind::End)
    };
    assert!(ran.measured().any(has_marker));
    assert!(ran.measured().all(|timeline| timeline.is_success() == has_marker(timeline)));
}

fn retried(ran: &Ran) -> (&Timeline, &Timeline) {
    let first = ran.measured().find(|timeline| timeline.status == Some(429)).unwrap();
    let again = |timeline: &&Timeline| {
        timeline.identity.index == first.identity.index && timeline.identity.attempt == 1
    };
    (first, ran.measured().find(again).unwrap())
}

/// The server asks for an hour. The attempt waits for the limit, and meanwhile the only slot is free.
#[test]
fn a_wait_before_another_attempt_is_limited_and_holds_no_slot() {
    let mut scenario = Scenario::plain(6, 5, 1);
    scenario.habits.first = Some((1, Fault::Status(429)));
    scenario.habits.retry_after = Some(3_600);
    scenario.config.retries = 2;
    scenario.config.retry_max_wait = Nanos::from_secs(5);
    let ran = check(&scenario);
    let end = ran.end.as_ref().unwrap();
    assert_eq!((end.stop, end.never_sent, ran.measured().count()), (Stop::Complete, 0, 6));
    let (first, again) = retried(&ran);
    let waited = again.times.first_byte_sent.unwrap() - first.times.end.unwrap();
    assert!(again.is_success());
    assert!(waited >= Nanos::from_secs(5) && waited < Nanos::from_secs(5) + LOOK, "{waited}");
    let others = ran.measured().filter(|timeline| timeline.identity.index > 0);
    for other in others {
        assert!(other.times.end.unwrap() < again.times.first_byte_sent.unwrap(), "{other:?}");
    }
}

/// An attempt whose time comes while all slots are taken goes before those that were never sent.
#[test]
fn a_further_attempt_takes_the_next_free_slot() {
    let mut scenario = Scenario::plain(7, 40, 1);
    scenario.habits.first = Some((1, Fault::Status(429)));
    scenario.habits.retry_after = Some(0);
    scenario.habits.gap = Some(Nanos::from_millis(10));
    scenario.config.retries = 1;
    let ran = check(&scenario);
    let (_first, again) = retried(&ran);
    let before = ran
        .measured()
        .filter(|timeline| timeline.times.first_byte_sent < again.times.first_byte_sent);
    assert!(before.count() <= 3, "the attempt waited behind the whole line");
}

#[test]
fn a_timed_run_does_not_wait_for_an_attempt_after_its_end() {
    let mut scenario = Scenario::plain(8, 1, 2);
    let duration = Nanos::from_millis(500);
    scenario.config.limits.extent = SendLimit { count: None, duration: Some(duration) };
    scenario.habits.first = Some((3, Fault::Status(429)));
    scenario.habits.retry_after = Some(30);
    scenario.config.retries = 5;
    let ran = scenario.run();
    let end = ran.end.as_ref().unwrap();
    assert_eq!((end.stop, end.never_sent), (Stop::Complete, 0));
    assert!(end.measure_end < end.measure_begin + duration + Nanos::from_millis(200), "{end:?}");
    let refused: Vec<_> = ran.measured().filter(|timeline| timeline.status == Some(429)).collect();
    assert_eq!(refused.len(), 3);
    assert!(refused.iter().all(|timeline| timeline.identity.attempt == 0));
}
