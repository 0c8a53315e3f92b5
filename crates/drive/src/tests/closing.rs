//! Servers that close connections they had promised to keep.

use std::io::Read as _;
use std::net::{Shutdown, TcpStream};

use tokometer_base::Nanos;
use tokometer_record::{FailureKind, Outcome as End, Timeline};

use super::server::{FinishedRun, Then, answer, config, head, run, serve};
use crate::Config;

/// Long enough for any machine, and an end for a test whose request would wait for ever.
const FOR_EVER: Nanos = Nanos::from_secs(10);

fn patient(mut config: Config) -> Config {
    config.timeouts.total = Some(FOR_EVER);
    // However long a busy machine takes to close a connection, that is not what is tested.
    config.timeouts.stale = FOR_EVER;
    config
}

fn failure(timeline: &Timeline) -> Option<(FailureKind, &str)> {
    match &timeline.outcome {
        End::Failed(failure) => Some((failure.kind, failure.message.as_str())),
        End::Success | End::Abandoned => None,
    }
}

fn assert_all_answered(outcome: &FinishedRun, count: usize) {
    let measured = outcome.measured();
    assert_eq!(measured.len(), count);
    for timeline in measured {
        assert_eq!(failure(timeline), None, "{:?}", timeline.times);
    }
}

/// Ends its side and reads on until the client has gone: what comes is acknowledged and thrown away.
fn close_gently(stream: &mut TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
    let mut rest = [0; 4_096];
    while stream.read(&mut rest).is_ok_and(|count| count > 0) {}
}

/// llama.cpp's server: it announces `Keep-Alive`, and after every stream ends its side and reads on for
/// a while. A request that goes out in between is swallowed.
#[test]
fn requests_that_a_closing_server_swallows_are_sent_again() {
    for cap in [1, 8] {
        let address = serve(|asked| {
            answer(asked.stream, 1);
            close_gently(asked.stream);
            Then::Closes
        });
        let outcome = run(patient(config(address, 60, cap)));
        assert_all_answered(&outcome, 60);
        for timeline in outcome.measured() {
            let times = &timeline.times;
            assert_eq!(timeline.connection.reopened, u32::from(times.lost_send.is_some()));
            assert!(times.connect_end.is_some(), "no connection carried two answers");
            if let Some(lost) = times.lost_send {
                let order =
                    [Some(times.admitted), Some(lost), times.connect_begin, times.connect_end];
                assert!(order.is_sorted() && times.connect_end <= times.first_byte_sent);
            }
        }
    }
}

/// Closing over a request that was not read resets the connection.
#[test]
fn requests_that_meet_a_reset_are_sent_again() {
    let address = serve(|asked| {
        answer(asked.stream, 1);
        if asked.request == 2 { Then::Closes } else { Then::Stays }
    });
    let outcome = run(patient(config(address, 300, 4)));
    assert_all_answered(&outcome, 300);
    assert!(outcome.measured().iter().all(|timeline| timeline.connection.uses_before <= 2));
}

#[test]
fn an_announced_end_costs_no_request_a_second_sending() {
    let address = serve(|asked| {
        let text = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n\
                    data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\ndata: [DONE]\n\n";
        std::io::Write::write_all(asked.stream, text.as_bytes()).unwrap();
        Then::Closes
    });
    let outcome = run(patient(config(address, 50, 2)));
    assert_all_answered(&outcome, 50);
    assert_eq!(outcome.end.health.connections_reopened, 0);
    assert!(outcome.measured().iter().all(|timeline| timeline.times.lost_send.is_none()));
}

/// A proxy that gives up on a slow server closes like this. Sending such a request again would take the
/// time that it had waited out of the figures.
#[test]
fn a_request_that_had_waited_when_its_kept_connection_closed_has_failed() {
    let address = serve(|asked| {
        if asked.connection == 0 && asked.request == 1 {
            return Then::Closes;
        }
        answer(asked.stream, 1);
        Then::Stays
    });
    let mut config = patient(config(address, 3, 1));
    config.timeouts.stale = Nanos::ZERO;
    let outcome = run(config);
    let failures: Vec<_> = outcome.measured().iter().map(|timeline| failure(timeline)).collect();
    let why = "the server closed the connection without a response";
    assert_eq!(failures, [None, Some((FailureKind::Cut, why)), None]);
    assert_eq!(outcome.end.health.connections_reopened, 0);
}

/// A connection that is silent may belong to a server that works: only a limit ends the wait, and
/// nothing is sent twice.
#[test]
fn a_kept_connection_that_stays_silent_is_given_up_by_the_limit() {
    let address = serve(|asked| {
        if asked.connection == 0 && asked.request == 1 {
            let _ = asked.stream.read(&mut [0; 1]);
            return Then::Closes;
        }
        answer(asked.stream, 1);
        Then::Stays
    });
    let mut config = patient(config(address, 3, 1));
    config.timeouts.stall = Some(Nanos::from_millis(30));
    let outcome = run(config);
    let kinds: Vec<_> =
        outcome.measured().iter().map(|timeline| failure(timeline).map(|(kind, _)| kind)).collect();
    assert_eq!(kinds, [None, Some(FailureKind::Stall), None]);
    assert_eq!(outcome.timelines.len(), 3);
}

/// The head has come: the server took the request, and what follows is its answer, cut or not.
#[test]
fn an_answer_that_had_begun_is_not_asked_for_again() {
    let address = serve(|asked| {
        if asked.connection == 0 && asked.request == 1 {
            head(asked.stream);
            return Then::Closes;
        }
        answer(asked.stream, 1);
        Then::Stays
    });
    let outcome = run(patient(config(address, 3, 1)));
    let kinds: Vec<_> =
        outcome.measured().iter().map(|timeline| failure(timeline).map(|(kind, _)| kind)).collect();
    assert_eq!(kinds, [None, Some(FailureKind::Cut), None]);
    assert_eq!(outcome.end.health.connections_reopened, 0);
}
