//! Requests that their user cancels.

use tokometer_base::{CancelAfter, Cancellation, Nanos};
use tokometer_record::{Outcome, Timeline};

use super::faults::check;
use super::scenario::Scenario;

fn scenario(after: CancelAfter) -> Scenario {
    let mut scenario = Scenario::plain(5, 60, 4);
    scenario.tokens = 12;
    scenario.habits.gap = Some(Nanos::from_millis(10));
    scenario.config.cancellation = Some(Cancellation { share: 0.4, after });
    scenario.config.retries = 2;
    scenario
}

fn tokens(timeline: &Timeline) -> usize {
    timeline.events.iter().filter(|event| event.kind.is_content()).count()
}

#[test]
fn drawn_requests_end_with_their_last_token_and_all_others_are_complete() {
    let scenario = scenario(CancelAfter::Tokens(5));
    let ran = check(&scenario);
    assert_eq!(ran.measured().count(), 60, "a cancelled request is not sent again");
    for timeline in ran.measured() {
        let is_drawn = scenario.config.cancelled_after(&timeline.identity).is_some();
        let expected = if is_drawn { Outcome::Cancelled } else { Outcome::Success };
        assert_eq!(timeline.outcome, expected, "{timeline:?}");
        // Several tokens may arrive together.
        let came = if is_drawn { 5..12 } else { 12..13 };
        assert!(came.contains(&tokens(timeline)), "{timeline:?}");
    }
    let refills = &ran.end.unwrap().health.refill_delay;
    assert!(refills.quantile(1.0).unwrap() < Nanos::from_millis(1), "the slot is free at once");
}

#[test]
fn a_time_counts_from_the_last_byte_of_the_request() {
    let span = Nanos::from_millis(45);
    let scenario = scenario(CancelAfter::Time(span));
    let ran = check(&scenario);
    let cancelled: Vec<&Timeline> =
        ran.measured().filter(|one| one.outcome == Outcome::Cancelled).collect();
    assert!(cancelled.len() > 10, "{}", cancelled.len());
    for timeline in cancelled {
        let waited = timeline.times.end.unwrap() - timeline.times.last_byte_sent.unwrap();
        assert!(waited >= span && waited < span + Nanos::from_millis(1), "{waited}");
    }
}

#[test]
fn an_answer_that_is_complete_by_then_is_a_success() {
    for after in [CancelAfter::Time(Nanos::from_secs(9)), CancelAfter::Tokens(12)] {
        let ran = check(&scenario(after));
        assert!(ran.measured().all(Timeline::is_success));
    }
}

#[test]
fn a_conversation_goes_on_behind_a_cancelled_turn() {
    let mut scenario = scenario(CancelAfter::Tokens(3));
    scenario.think = Some(Nanos::from_millis(2));
    scenario.config.cancellation.as_mut().unwrap().share = 1.0;
    let ran = check(&scenario);
    // Three turns of each of the sixty conversations.
    assert_eq!(ran.measured().filter(|one| one.outcome == Outcome::Cancelled).count(), 180);
    assert!(ran.measured().all(|one| one.text.as_ref().is_some_and(|text| !text.is_empty())));
}
