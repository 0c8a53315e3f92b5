//! Random faults: no attempt is lost, every failure has its kind, and every time is correct.

use std::collections::BTreeMap;

use tokometer_base::Nanos;
use tokometer_record::{Failure, FailureKind, Outcome, Stop, Timeline};

use super::scenario::{Ran, Scenario, tag};
use super::server::Served;
use crate::Notice;

/// What the server did with this attempt: the last request it received between the send and the end.
fn served<'a>(ran: &'a Ran, timeline: &Timeline) -> Option<&'a Served> {
    let (sent, end) = (timeline.times.first_byte_sent?, timeline.times.end?);
    let tag = tag(&timeline.identity);
    ran.served.iter().rfind(|served| served.tag == tag && served.at >= sent && served.at <= end)
}

fn check_outcome(scenario: &Scenario, ran: &Ran, timeline: &Timeline) {
    let served = served(ran, timeline);
    let context = format!("seed {}: {timeline:?}, {served:?}", scenario.seed.0);
    match (&timeline.outcome, served) {
        (Outcome::Success, Some(served)) => assert_eq!(served.fault.failure(), None, "{context}"),
        (Outcome::Abandoned, _) => assert!(scenario.interrupt_at.is_some(), "{context}"),
        (Outcome::Cancelled, _) => {
            let drawn = scenario.config.cancelled_after(&timeline.identity);
            assert!(drawn.is_some(), "{context}");
        }
        (Outcome::Failed(failure), Some(served)) => {
            assert_eq!(Some(failure.kind), served.fault.failure(), "{context}");
        }
        (Outcome::Failed(failure), None) => {
            let is_connect =
                matches!(failure.kind, FailureKind::Connect | FailureKind::ConnectTimeout);
            assert!(is_connect, "{context}");
        }
        (Outcome::Success, None) => panic!("{context}"),
    }
    if let Some(served) = served {
        check_tokens(scenario, timeline, served);
    }
}

/// Every token that arrived is in the text and in the events. Its time is when it reached the client,
/// or is marked as an upper bound. The two bytes that end a chunk count as part of the event: a
/// server that sends them separately may delay the time by that much.
fn check_tokens(scenario: &Scenario, timeline: &Timeline, served: &Served) {
    let context = format!("seed {}: {timeline:?}, {served:?}", scenario.seed.0);
    let contents: Vec<_> = timeline.events.iter().filter(|event| event.kind.is_content()).collect();
    let text: String =
        served.tokens.iter().take(contents.len()).map(|token| token.text.as_str()).collect();
    // Only a response whose end was read has its text: a stall or a reset leaves only the events.
    assert_eq!(timeline.text.as_ref().unwrap_or(&text), &text, "{context}");
    if timeline.is_success() {
        assert!(timeline.text.is_some() && contents.len() == served.tokens.len(), "{context}");
    }
    let is_exact = timeline.stamp_source != tokometer_record::StampSource::User;
    for (event, token) in contents.iter().zip(&served.tokens) {
        assert!(event.at >= token.arrived, "{context}");
        if is_exact && !event.is_upper_bound() {
            assert!(event.at <= token.closed, "{context}");
        }
    }
    // A stamp that is too late has a bound of how much, where figures depend on it.
    let waits = timeline.merge_waits;
    let ends = [(0, waits.first), (contents.len().wrapping_sub(1), waits.last)];
    for (index, wait) in ends {
        let Some((event, token)) = contents.get(index).zip(served.tokens.get(index)) else {
            continue;
        };
        assert_eq!(wait.is_some(), event.is_upper_bound(), "{context}");
        assert!(wait.is_none_or(|wait| event.at - token.arrived <= wait), "{context}");
    }
}

/// What the server took is sent again only as another attempt: a failure would be hidden otherwise.
fn check_sent_once(scenario: &Scenario, ran: &Ran) {
    let count = |tags: Vec<String>| {
        tags.into_iter().fold(BTreeMap::<String, usize>::new(), |mut counts, tag| {
            *counts.entry(tag).or_default() += 1;
            counts
        })
    };
    let attempts = count(ran.timelines().map(|timeline| tag(&timeline.identity)).collect());
    let served = count(ran.served.iter().map(|served| served.tag.clone()).collect());
    for (tag, times) in served {
        let attempts = attempts.get(&tag).copied().unwrap_or_default();
        assert!(times <= attempts, "seed {}: {tag} served {times} times", scenario.seed.0);
    }
}

fn check_times(scenario: &Scenario, timeline: &Timeline) {
    let times = &timeline.times;
    let order: Vec<Nanos> = [
        times.intended,
        Some(times.admitted),
        times.first_byte_sent,
        times.headers,
        timeline.events.first().map(|event| event.at),
        timeline.events.last().map(|event| event.at),
        times.end,
    ]
    .into_iter()
    .flatten()
    .collect();
    assert!(order.is_sorted(), "seed {}: {timeline:?}", scenario.seed.0);
    assert!(times.end.is_some() && timeline.clock_faults == 0, "{timeline:?}");
}

/// One end per start, consecutive attempt numbers, and a retry exactly where one is due.
fn check_attempts(scenario: &Scenario, ran: &Ran) {
    let seed = scenario.seed.0;
    let mut starts = BTreeMap::new();
    for notice in &ran.notices {
        if let Notice::Started { index, attempt, at } = notice {
            assert_eq!(starts.insert((*index, *attempt), *at), None, "seed {seed}: started twice");
        }
    }
    let mut attempts: BTreeMap<u64, Vec<&Timeline>> = BTreeMap::new();
    for timeline in ran.measured() {
        let key = (timeline.identity.index, timeline.identity.attempt);
        let sent = timeline.times.lost_send.or(timeline.times.first_byte_sent);
        assert_eq!(starts.remove(&key), sent, "seed {seed}: {timeline:?}");
        attempts.entry(key.0).or_default().push(timeline);
    }
    assert!(starts.is_empty(), "seed {seed}: {starts:?} never ended");
    for attempts in attempts.values() {
        let numbers: Vec<u32> = attempts.iter().map(|t| t.identity.attempt).collect();
        let expected: Vec<u32> = (0..).take(attempts.len()).collect();
        assert_eq!(numbers, expected, "seed {seed}");
        let may_stop = scenario.interrupt_at.is_some();
        let (last, earlier) = attempts.split_last().unwrap();
        assert!(earlier.iter().all(|attempt| is_retryable(attempt)), "seed {seed}: {earlier:?}");
        let is_last = last.identity.attempt == scenario.config.retries;
        assert!(is_last || may_stop || !is_retryable(last), "seed {seed}: {last:?}");
    }
    check_count(scenario, ran, attempts.len());
}

fn is_retryable(timeline: &Timeline) -> bool {
    let Outcome::Failed(Failure { kind, status, .. }) = &timeline.outcome else { return false };
    match kind {
        FailureKind::Status => matches!(status, Some(429 | 503)),
        FailureKind::Connect
        | FailureKind::ConnectTimeout
        | FailureKind::Send
        | FailureKind::Stall
        | FailureKind::Cut => true,
        _ => false,
    }
}

fn check_count(scenario: &Scenario, ran: &Ran, begun: usize) {
    let end = ran.end.as_ref().unwrap();
    if scenario.interrupt_at.is_none() {
        assert_eq!(end.stop, Stop::Complete, "seed {}", scenario.seed.0);
    }
    if let (None, Some(count)) = (scenario.think, scenario.config.limits.extent.count) {
        assert_eq!(begun as u64 + end.never_sent, count, "seed {}", scenario.seed.0);
    }
}

/// Checks the number of requests in flight, from the record alone.
fn check_cap(scenario: &Scenario, ran: &Ran) {
    let mut changes = Vec::new();
    for timeline in ran.timelines() {
        if let (Some(sent), Some(end)) = (timeline.times.first_byte_sent, timeline.times.end) {
            changes.push((sent, 1));
            changes.push((end, -1));
        }
    }
    // At the same time an end comes before the send that takes its slot.
    changes.sort_unstable();
    let cap = i64::from(scenario.config.limits.max_concurrency.unwrap());
    let mut in_flight: i64 = 0;
    for (at, change) in changes {
        in_flight += change;
        assert!(in_flight <= cap, "seed {}: {in_flight} at {at}", scenario.seed.0);
    }
}

pub(super) fn check(scenario: &Scenario) -> Ran {
    let ran = scenario.run();
    assert!(ran.end.is_ok(), "seed {}: {:?}", scenario.seed.0, ran.end);
    for timeline in ran.timelines() {
        check_times(scenario, timeline);
        check_outcome(scenario, &ran, timeline);
    }
    check_attempts(scenario, &ran);
    check_sent_once(scenario, &ran);
    check_cap(scenario, &ran);
    ran
}

/// Stalls, cuts, resets, refusals, bad chunks, slow readers, connections refused, unanswered or
/// closed while idle, interrupts: each attempt is recorded once, with the right failure and with
/// correct times.
#[test]
fn a_hundred_runs_with_random_faults_lose_nothing_and_name_every_failure() {
    let mut kinds = BTreeMap::new();
    let mut reopened = 0;
    for seed in 0..100 {
        let ran = check(&Scenario::draw(seed));
        for timeline in ran.timelines() {
            let kind = match &timeline.outcome {
                Outcome::Success => "success",
                Outcome::Abandoned => "abandoned",
                Outcome::Cancelled => "cancelled",
                Outcome::Failed(failure) => failure.kind.name(),
            };
            *kinds.entry(kind).or_insert(0) += 1;
        }
        reopened += ran.end.unwrap().health.connections_reopened;
    }
    // Faults that never happen would prove nothing.
    let met: Vec<&str> = kinds.keys().copied().collect();
    let expected = [
        "abandoned",
        "cancelled",
        "connect",
        "connect-timeout",
        "cut",
        "in-stream",
        "no-content",
        "protocol",
        "stall",
        "status",
        "success",
        "timeout",
    ];
    assert_eq!(met, expected, "{kinds:?}");
    assert!(kinds["success"] > 1_000 && reopened > 0, "{kinds:?}, {reopened} reopened");
}
