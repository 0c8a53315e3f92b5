//! Behaviour of a run, case by case.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::{Connections, Interrupt, Timeouts, WarmUps};
use tokometer_base::{Nanos, Seed};
use tokometer_client::Dialect;
use tokometer_record::{
    EventKind, FailureKind, Outcome as End, Phase, StampSource, Stop, Timeline,
};
use tokometer_schedule::{Arrivals, First, Pace};

use super::server::{
    AfterResponse, answer, config, finish, head, item, read_request, refuse, run, run_source,
    serve, serve_answers, target, token,
};

fn kind(timeline: &Timeline) -> Option<FailureKind> {
    match &timeline.outcome {
        End::Failed(failure) => Some(failure.kind),
        End::Success | End::Cancelled | End::Abandoned => None,
    }
}

#[test]
fn every_request_is_answered_and_every_time_is_in_its_order() {
    let address = serve_answers(3);
    let outcome = run(config(address, 20, 4));
    assert_eq!((outcome.end.stop, outcome.end.never_sent), (Stop::Complete, 0));
    assert_eq!((outcome.timelines.len(), outcome.started.len()), (20, 20));
    for (index, timeline) in (0..).zip(outcome.measured()) {
        assert_eq!((timeline.identity.index, &timeline.outcome), (index, &End::Success));
        assert_eq!(timeline.text.as_deref(), Some(" word word word"));
        let times = &timeline.times;
        assert_eq!(times.intended, None, "an infinite rate intends no times");
        let order = [
            Some(times.admitted),
            times.first_byte_sent,
            times.headers,
            timeline.first_content().map(|event| event.at),
            timeline.last_content().map(|event| event.at),
            times.end,
        ];
        assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?}");
        assert_ne!(timeline.stamp_source, StampSource::KernelBelowTls);
        assert!(timeline.network.is_some());
    }
    assert!(outcome.end.measure_begin < outcome.end.measure_end);
}

/// The server counts its open requests. A freed slot is used on the connection that became free.
#[test]
fn a_closed_loop_never_exceeds_its_cap_and_reuses_its_connections() {
    let (now, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let seen = Arc::clone(&most);
    let address = serve(move |asked| {
        let open = now.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(open, Ordering::SeqCst);
        head(asked.stream);
        token(asked.stream, "a");
        now.fetch_sub(1, Ordering::SeqCst);
        finish(asked.stream);
        AfterResponse::Stay
    });
    let outcome = run(config(address, 50, 3));
    assert!((1..=3).contains(&seen.load(Ordering::SeqCst)));
    let health = &outcome.end.health;
    assert!(health.connections_opened <= 3, "{health:?}");
    assert_eq!(health.connections_opened + health.connections_reused, 50);
    // A request that waited in the queue took a freed slot; their number depends on timing.
    assert_eq!(health.refill_delay.len(), health.cap_waits);
    assert!(health.cap_waits <= 47);
    assert!(outcome.measured().iter().all(|timeline| timeline.is_success()));
}

#[test]
fn per_request_connections_are_opened_once_per_request() {
    let address = serve_answers(1);
    let mut config = config(address, 6, 2);
    config.connections = Connections::PerRequest;
    let outcome = run(config);
    assert_eq!(outcome.end.health.connections_opened, 6);
    assert!(outcome.measured().iter().all(|timeline| timeline.times.connect_end.is_some()));
}

#[test]
fn connections_opened_before_their_time_cost_their_requests_nothing() {
    let address = serve_answers(1);
    let mut config = config(address, 8, 4);
    config.connections = Connections::Preopen;
    let outcome = run(config);
    for timeline in outcome.measured() {
        assert!(timeline.is_success());
        assert_eq!((timeline.times.connect_begin, timeline.times.connect_end), (None, None));
        assert!(timeline.connection.age.is_some());
    }
}

#[test]
fn a_new_connection_that_dies_without_an_answer_is_a_failure() {
    let address = serve(|_| AfterResponse::Close);
    let outcome = run(config(address, 2, 1));
    let kinds: Vec<_> = outcome.measured().iter().map(|timeline| kind(timeline)).collect();
    assert_eq!(kinds, [Some(FailureKind::Cut); 2]);
}

#[test]
fn a_stream_cut_in_the_middle_keeps_what_had_come() {
    let address = serve(|asked| {
        head(asked.stream);
        token(asked.stream, "half");
        AfterResponse::Close
    });
    let outcome = run(config(address, 1, 1));
    let timeline = outcome.measured()[0];
    assert_eq!(kind(timeline), Some(FailureKind::Cut));
    assert_eq!(timeline.events.iter().filter(|event| event.kind == EventKind::Text).count(), 1);
    assert!(timeline.times.end.is_some());
}

#[test]
fn each_attempt_of_a_retried_request_is_recorded() {
    let tries = AtomicU32::new(0);
    let address = serve(move |asked| {
        if tries.fetch_add(1, Ordering::SeqCst) < 2 {
            refuse(asked.stream, "429 Too Many Requests", "Retry-After: 0\r\n", "slow down");
        } else {
            answer(asked.stream, 1);
        }
        AfterResponse::Stay
    });
    let mut config = config(address, 1, 1);
    config.retries = 3;
    let outcome = run(config);
    let attempts: Vec<_> = outcome
        .measured()
        .iter()
        .map(|timeline| (timeline.identity.attempt, timeline.status, timeline.is_success()))
        .collect();
    let refused = Some(429);
    assert_eq!(attempts, [(0, refused, false), (1, refused, false), (2, Some(200), true)]);
    assert_eq!((outcome.started.len(), outcome.end.never_sent), (3, 0));
}

#[test]
fn nothing_is_retried_without_retries_left() {
    let address = serve(|asked| {
        refuse(asked.stream, "503 Service Unavailable", "", "busy");
        AfterResponse::Stay
    });
    let outcome = run(config(address, 2, 1));
    assert_eq!(outcome.timelines.len(), 2);
    assert!(outcome.measured().iter().all(|timeline| kind(timeline) == Some(FailureKind::Status)));
}

#[test]
fn an_optional_field_is_removed_when_the_server_refuses_it() {
    let address = serve(|asked| {
        if asked.body.contains("stream_options") {
            let body = r#"{"error":{"message":"unknown field: stream_options"}}"#;
            refuse(asked.stream, "400 Bad Request", "", body);
        } else {
            answer(asked.stream, 1);
        }
        AfterResponse::Stay
    });
    let outcome = run(config(address, 5, 1));
    assert_eq!(outcome.end.health.dropped_fields, ["stream_options"]);
    let measured = outcome.measured();
    assert!(measured.len() == 5 && measured.iter().all(|timeline| timeline.is_success()));
    assert_eq!(outcome.started.len(), 5);
}

/// One prompt that was too long for the server removed the length from all later requests.
#[test]
fn a_refused_value_fails_its_request_and_changes_no_other() {
    let lengths = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&lengths);
    let address = serve(move |asked| {
        lengths
            .fetch_add(u32::from(asked.body.contains("max_completion_tokens")), Ordering::SeqCst);
        if asked.body.contains("prompt 2") {
            let body = r#"{"error":{"message":"max_completion_tokens=5000 cannot be greater than max_model_len=2048. Please request fewer output tokens. (parameter=max_completion_tokens, value=5000)","param":"max_completion_tokens","code":400}}"#;
            refuse(asked.stream, "400 Bad Request", "", body);
        } else {
            answer(asked.stream, 1);
        }
        AfterResponse::Stay
    });
    let mut config = config(address, 6, 1);
    config.targets[0].dialect = Dialect::named("openai-chat").unwrap();
    let outcome = run(config);
    let failed: Vec<_> = outcome.measured().iter().map(|timeline| kind(timeline)).collect();
    let expected = [None, None, Some(FailureKind::Status), None, None, None];
    assert_eq!((failed.as_slice(), seen.load(Ordering::SeqCst)), (&expected[..], 6));
    assert!(outcome.end.health.dropped_fields.is_empty());
}

#[test]
fn a_refused_length_is_sent_under_its_other_name() {
    let address = serve(move |asked| {
        if asked.body.contains("max_completion_tokens") {
            let body = r#"{"error":{"message":"Unrecognized request argument supplied: max_completion_tokens"}}"#;
            refuse(asked.stream, "400 Bad Request", "", body);
        } else if asked.body.contains(r#""max_tokens":3"#) {
            answer(asked.stream, 3);
        } else {
            refuse(asked.stream, "500 Internal Server Error", "", "no length");
        }
        AfterResponse::Stay
    });
    let mut config = config(address, 4, 1);
    config.targets[0].dialect = Dialect::named("openai-chat").unwrap();
    let outcome = run(config);
    assert!(outcome.measured().iter().all(|timeline| timeline.is_success()));
    assert_eq!(outcome.end.health.dropped_fields, ["max_completion_tokens (sent as max_tokens)"]);
}

#[test]
fn a_field_that_one_target_refuses_is_still_sent_to_the_other() {
    let picky = serve(|asked| {
        if asked.body.contains("stream_options") {
            refuse(asked.stream, "400 Bad Request", "", "unknown field: stream_options");
        } else {
            answer(asked.stream, 1);
        }
        AfterResponse::Stay
    });
    let other = serve(|asked| {
        if asked.body.contains("stream_options") {
            answer(asked.stream, 1);
        } else {
            refuse(asked.stream, "500 Internal Server Error", "", "no stream_options");
        }
        AfterResponse::Stay
    });
    let mut config = config(picky, 8, 1);
    config.targets.push(target(other));
    let source = config.clone();
    let mut next = 0;
    let prepare = move || {
        let mut item = item(&source, next, Phase::Measure);
        item.identity.target = u16::try_from(next % 2).unwrap();
        next += 1;
        Ok(Some(item))
    };
    let outcome = run_source(config, Box::new(prepare), Arc::new(Interrupt::default()));
    let measured = outcome.measured();
    assert!(measured.len() == 8 && measured.iter().all(|timeline| timeline.is_success()));
}

#[test]
fn each_timeout_ends_a_silent_request() {
    let check = |timeouts: Timeouts, expected| {
        let address = serve(|asked| {
            head(asked.stream);
            token(asked.stream, "a");
            // The client closes when it gives up; only then does this return.
            let _ = std::io::Read::read(asked.stream, &mut [0; 1]);
            AfterResponse::Close
        });
        let mut config = config(address, 1, 1);
        config.timeouts = timeouts;
        assert_eq!(kind(run(config).measured()[0]), Some(expected), "{timeouts:?}");
    };
    let short = Some(Nanos::from_millis(30));
    let patient = Timeouts { stall: None, total: None, ..Timeouts::default() };
    check(Timeouts { stall: short, ..patient }, FailureKind::Stall);
    check(Timeouts { total: short, ..patient }, FailureKind::Timeout);
}

#[test]
fn an_unreachable_target_ends_the_run_instead_of_failing_to_its_end() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let outcome = run(config(address, 5_000, 4));
    assert_eq!(outcome.end.stop, Stop::TargetLost);
    let measured = outcome.measured();
    assert!(measured.iter().all(|timeline| kind(timeline) == Some(FailureKind::Connect)));
    assert_eq!(measured.len() as u64 + outcome.end.never_sent, 5_000);
    assert!(measured.len() <= 50 + 4, "{} requests were spent", measured.len());
}

/// The listener closes before the last response, so that no connection is accepted and then lost.
#[test]
fn a_killed_server_stops_the_run_after_fifty_failed_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _peer) = listener.accept().unwrap();
        let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
        for _request in 0..19 {
            read_request(&mut reader).unwrap();
            answer(&mut stream, 1);
        }
        read_request(&mut reader).unwrap();
        drop(listener);
        answer(&mut stream, 1);
    });
    let mut config = config(address, 5_000, 1);
    config.workers = Some(1);
    let outcome = run(config);
    server.join().unwrap();
    assert_eq!(outcome.end.stop, Stop::TargetLost);
    let succeeded = outcome.measured().iter().filter(|timeline| timeline.is_success()).count();
    assert_eq!((succeeded, outcome.measured().len()), (20, 70));
    assert_eq!(outcome.end.never_sent, 5_000 - 70);
}

#[test]
fn warm_ups_end_before_the_first_measured_request_begins() {
    let address = serve_answers(1);
    let mut config = config(address, 5, 2);
    config.limits.warmups = 3;
    let outcome = run(config);
    let of = |phase| outcome.timelines.iter().filter(move |t| t.identity.phase == phase);
    assert_eq!((of(Phase::Warmup).count(), of(Phase::Measure).count()), (3, 5));
    let warm_end = of(Phase::Warmup).filter_map(|timeline| timeline.times.end).max();
    let first = of(Phase::Measure).map(|timeline| timeline.times.admitted).min();
    assert!(warm_end < first);
    assert_eq!(outcome.started.len(), 5, "only measured requests have start rows");
}

/// SGLang's conventions: measuring a server that fails every warm-up would only take time.
#[test]
fn a_run_that_needs_a_warm_up_ends_when_none_is_answered() {
    let run_with = |warm_ups: WarmUps, answered: u32| {
        let asked_before = AtomicU32::new(0);
        let address = serve(move |asked| {
            if asked_before.fetch_add(1, Ordering::SeqCst) < answered {
                answer(asked.stream, 1);
            } else {
                refuse(asked.stream, "503 Service Unavailable", "", "busy");
            }
            AfterResponse::Stay
        });
        let mut config = config(address, 5, 1);
        config.limits.warmups = 2;
        config.warm_ups = warm_ups;
        let source = config.clone();
        let mut next = 0;
        let prepare = move || {
            next += 1;
            let phase = if next <= 2 { Phase::Warmup } else { Phase::Measure };
            Ok(Some(super::server::item(&source, next - 1, phase)))
        };
        let (notices, received) = std::sync::mpsc::channel();
        let outlets = crate::Outlets {
            notices,
            live: Arc::default(),
            interrupt: Arc::default(),
            between: None,
            start: None,
        };
        let ended = crate::run(config, Box::new(prepare), outlets);
        let ended = ended.map(drop).map_err(|error| error.to_string());
        (ended, received.into_iter().count())
    };
    let (ended, notices) = run_with(WarmUps::Needed, 0);
    let said = ended.unwrap_err();
    assert!(said.contains("all 2 requests failed: status 503: busy"), "{said}");
    assert_eq!(notices, 2, "nothing was measured, and what happened is recorded");
    assert_eq!(run_with(WarmUps::Needed, 1).0, Ok(()));
    assert_eq!(run_with(WarmUps::Tolerated, 0).0, Ok(()));
}

#[test]
fn a_pace_is_kept_from_the_plan_and_never_early() {
    let address = serve_answers(1);
    let mut config = config(address, 40, 100);
    config.arrivals = Arrivals::Paced(Pace::flat(1_000.0, Some(1.0), First::Waits));
    config.seed = Seed(9);
    let outcome = run(config);
    let begin = outcome.end.measure_begin;
    let measured = outcome.measured();
    for timeline in &measured {
        let intended = timeline.times.intended.unwrap();
        assert!(begin <= intended && intended <= timeline.times.admitted);
        assert!(Some(timeline.times.admitted) <= timeline.times.first_byte_sent);
    }
    let last = measured.last().unwrap().times.intended.unwrap();
    assert_eq!((last - begin).0.div_ceil(1_000), 40_000, "stretched to number over rate");
}

/// All requests must be in flight together before the first response: with fewer the server would
/// wait for ever.
#[test]
fn workers_share_one_gate() {
    let meeting = Arc::new((Mutex::new(0_u32), Condvar::new()));
    let address = serve(move |asked| {
        let (count, changed) = &*meeting;
        let mut here = count.lock().unwrap();
        *here += 1;
        changed.notify_all();
        let _here = changed.wait_while(here, |here| *here < 12).unwrap();
        answer(asked.stream, 1);
        AfterResponse::Stay
    });
    let mut config = config(address, 12, 12);
    config.workers = Some(3);
    let outcome = run(config);
    assert!(outcome.measured().iter().all(|timeline| timeline.is_success()));
    assert_eq!(outcome.end.health.workers.len(), 3);
    let mut workers: Vec<u16> =
        outcome.measured().iter().map(|timeline| timeline.connection.worker).collect();
    workers.sort_unstable();
    workers.dedup();
    assert_eq!(workers, [0, 1, 2]);
}

#[test]
fn a_target_that_the_run_does_not_have_is_an_error() {
    let address = serve(|_| AfterResponse::Close);
    let config = config(address, 1, 1);
    let mut item = super::server::item(&config, 0, Phase::Measure);
    item.identity.target = 7;
    let mut items = vec![item];
    let (notices, _received) = std::sync::mpsc::channel();
    let outlets = crate::Outlets {
        notices,
        live: Arc::default(),
        interrupt: Arc::default(),
        between: None,
        start: None,
    };
    let refused = crate::run(config, Box::new(move || Ok(items.pop())), outlets).unwrap_err();
    assert!(refused.to_string().contains("target 7"), "{refused}");
    let _unused = target(address);
}
