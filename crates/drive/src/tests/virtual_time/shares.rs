//! One run from several processes.

use std::collections::BTreeMap;

use tokometer_base::Nanos;
use tokometer_schedule::{Arrivals, First, Pace, SendLimit, Share, Stage};

use super::faults::check;
use super::scenario::{Ran, Scenario};
use crate::Error;

const START: Nanos = Nanos::from_millis(80);

fn of_share(scenario: &Scenario, share: Share) -> Scenario {
    let mut own = scenario.clone();
    let limits = &mut own.config.limits;
    own.config.whole_extent = Some(limits.extent);
    limits.extent.count = limits.extent.count.map(|count| share.of(count));
    limits.max_concurrency = limits.max_concurrency.map(|cap| share.of_cap(cap));
    own.config.share = share;
    own.start = Some(START);
    own
}

fn intended(ran: &Ran) -> BTreeMap<u64, Nanos> {
    let time = |timeline: &tokometer_record::Timeline| {
        (timeline.identity.index, timeline.times.intended.unwrap())
    };
    ran.measured().map(time).collect()
}

#[test]
fn shards_intend_what_one_process_intends_to_the_nanosecond() {
    let mut scenario = Scenario::plain(5, 97, 1_000);
    scenario.config.arrivals = Arrivals::poisson(400.0);
    let whole = Scenario { start: Some(START), ..scenario.clone() }.run();
    let mut together = BTreeMap::new();
    for rank in 0..4 {
        let ran = of_share(&scenario, Share::new(rank, 4).unwrap()).run();
        let end = ran.end.as_ref().unwrap();
        assert_eq!((end.measure_begin, end.never_sent), (START, 0));
        together.append(&mut intended(&ran));
    }
    assert_eq!(together.len(), 97);
    assert_eq!(together, intended(&whole));
}

#[test]
fn a_closed_loop_waits_for_the_common_start_and_splits_its_cap() {
    let scenario = Scenario::plain(6, 30, 7);
    for rank in 0..3 {
        let share = Share::new(rank, 3).unwrap();
        let own = of_share(&scenario, share);
        let ran = own.run();
        let first = ran.measured().filter_map(|timeline| timeline.times.first_byte_sent).min();
        assert!(first.unwrap() >= START, "{first:?}");
        assert_eq!(ran.measured().count(), 10);
        assert!(ran.measured().all(|timeline| share.has(timeline.identity.index)));
        assert_eq!(own.config.limits.max_concurrency, Some(share.of_cap(7)));
    }
}

/// A share of a short run may be empty.
#[test]
fn a_shard_without_requests_ends_at_once() {
    let scenario = of_share(&Scenario::plain(7, 2, 8), Share::new(3, 4).unwrap());
    let ran = scenario.run();
    assert_eq!((ran.notices.len(), ran.end.unwrap().never_sent), (0, 0));
}

#[test]
fn a_start_that_cannot_be_agreed_on_is_no_run() {
    let scenario = Scenario::plain(8, 5, 2);
    let ran = scenario.run_from(Box::new(|| Err("the leader is gone".to_owned())));
    let why = ran.end.unwrap_err();
    assert!(matches!(&why, Error::Start { reason } if reason == "the leader is gone"), "{why}");
    assert!(ran.notices.is_empty());
}

fn staged(list: &str) -> Scenario {
    let mut scenario = Scenario::plain(7, 4_000, 1_000);
    let pace =
        Pace { stages: Stage::list(list).unwrap(), burstiness: Some(1.0), first: First::Waits };
    scenario.config.arrivals = Arrivals::Paced(pace);
    scenario
}

#[test]
fn shards_of_a_run_in_stages_are_that_run_row_by_row() {
    let mut scenario = staged("100ms@300/s, 50ms@300..900/s, 60 requests@500/s");
    scenario.config.limits.extent =
        SendLimit { count: None, duration: Some(Nanos::from_millis(400)) };
    let whole = intended(&Scenario { start: Some(START), ..scenario.clone() }.run());
    assert_eq!(whole.len(), 30 + 30 + 60);
    let mut together = BTreeMap::new();
    for rank in 0..3 {
        let ran = of_share(&scenario, Share::new(rank, 3).unwrap()).run();
        assert_eq!(ran.end.as_ref().unwrap().never_sent, 0);
        together.append(&mut intended(&ran));
    }
    assert_eq!(together, whole);
}

#[test]
fn a_closed_loop_between_rates_keeps_its_number_and_ends_with_its_stage() {
    let mut scenario = staged("100ms@200/s, 200ms@5 sessions, 100ms@200/s");
    let end = Nanos::from_millis(400);
    scenario.config.limits.extent = SendLimit { count: None, duration: Some(end) };
    let ran = check(&scenario);
    let begin = ran.end.as_ref().unwrap().measure_begin;
    let rows: Vec<_> = ran.measured().collect();
    let timed = rows.iter().filter(|row| row.times.intended.is_some()).count();
    assert_eq!((timed, ran.end.as_ref().unwrap().never_sent), (40, 0));
    let stage = begin + Nanos::from_millis(100)..begin + Nanos::from_millis(300);
    // A later turn has no time either: it follows the end of the one before.
    let is_looped =
        |row: &&&tokometer_record::Timeline| row.times.intended.is_none() && row.identity.turn == 0;
    let looped: Vec<_> = rows.iter().filter(is_looped).collect();
    assert!(looped.len() > 5, "a session that ends makes room for another: {}", looped.len());
    for row in looped {
        let sent = row.times.admitted;
        assert!(stage.contains(&sent), "{sent}");
        let is_there = |other: &&&tokometer_record::Timeline| {
            other.times.admitted <= sent && other.times.end.is_none_or(|end| end > sent)
        };
        assert!(rows.iter().filter(is_there).count() <= 5);
    }
}
