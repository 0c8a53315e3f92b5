//! Servers that close connections after announcing keep-alive.

use std::io::Read as _;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::socket::{MsgFlags, send, setsockopt, sockopt};
use tokometer_base::Nanos;
use tokometer_record::{FailureKind, Outcome as End, Timeline};

use super::server::{AfterResponse, FinishedRun, answer, config, event, head, run, serve};
use crate::{Connections, RunConfig};

/// Long enough for any machine, but finite for a test whose request would wait for ever.
const FOR_EVER: Nanos = Nanos::from_secs(10);

fn patient(mut config: RunConfig) -> RunConfig {
    config.timeouts.total = Some(FOR_EVER);
    config
}

fn failure(timeline: &Timeline) -> Option<(FailureKind, &str)> {
    match &timeline.outcome {
        End::Failed(failure) => Some((failure.kind, failure.message.as_str())),
        End::Success | End::Cancelled | End::Abandoned => None,
    }
}

fn assert_all_answered(outcome: &FinishedRun, count: usize) {
    let measured = outcome.measured();
    assert_eq!(measured.len(), count);
    for timeline in measured {
        assert_eq!(failure(timeline), None, "{:?}", timeline.times);
    }
}

/// Answers, and ends its side with the last byte of the answer, so that no request comes in between. Reads
/// until the client has closed: received bytes are acknowledged and discarded.
fn answer_and_close(stream: &mut TcpStream) {
    let text = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 58\r\n\r\n\
                data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\ndata: [DONE]\n\n";
    let with_more = MsgFlags::from_bits_retain(nix::libc::MSG_MORE);
    assert_eq!(send(stream.as_raw_fd(), text.as_bytes(), with_more), Ok(text.len()));
    let _ = stream.shutdown(Shutdown::Write);
    let mut rest = [0; 4_096];
    while stream.read(&mut rest).is_ok_and(|count| count > 0) {}
}

/// As llama.cpp's server: it announces `Keep-Alive`, and after every stream closes its side and keeps
/// reading for a while. A request sent in between is discarded.
#[test]
fn no_request_is_sent_behind_an_answer_that_ended_the_connection() {
    for cap in [1, 8] {
        let address = serve(|asked| {
            answer_and_close(asked.stream);
            AfterResponse::Close
        });
        let outcome = run(patient(config(address, 60, cap)));
        assert_all_answered(&outcome, 60);
        let is_first = |timeline: &&Timeline| timeline.connection.uses_before == 0;
        assert!(outcome.measured().iter().all(is_first), "no connection carried two answers");
    }
}

/// Once known, it gets no request behind an answer: some would arrive before its end and be discarded.
#[test]
fn a_server_that_closes_behind_a_first_answer_gets_a_connection_per_request() {
    let address = serve(|asked| {
        if asked.connection == 0 {
            answer_and_close(asked.stream);
            return AfterResponse::Close;
        }
        answer(asked.stream, 1);
        AfterResponse::Stay
    });
    let outcome = run(patient(config(address, 10, 1)));
    assert_all_answered(&outcome, 10);
    assert!(outcome.measured().iter().all(|timeline| timeline.connection.uses_before == 0));
}

/// A server with a limit of requests per connection.
#[test]
fn requests_after_the_last_one_of_a_connection_take_another() {
    let address = serve(|asked| {
        if asked.request == 2 {
            answer_and_close(asked.stream);
            return AfterResponse::Close;
        }
        answer(asked.stream, 1);
        AfterResponse::Stay
    });
    let outcome = run(patient(config(address, 300, 4)));
    assert_all_answered(&outcome, 300);
    assert!(outcome.measured().iter().all(|timeline| timeline.connection.uses_before <= 2));
}

/// A worker process that dies of some requests. They had looked like connections that were closed while
/// idle: half of these failures were reported as answers.
#[test]
fn a_server_that_takes_a_request_and_closes_without_a_byte_has_failed_each_time() {
    let taken = AtomicU32::new(0);
    let work = Duration::from_millis(50);
    let address = serve(move |asked| {
        if taken.fetch_add(1, Ordering::SeqCst) % 5 == 4 {
            std::thread::sleep(work);
            return AfterResponse::Close;
        }
        answer(asked.stream, 1);
        AfterResponse::Stay
    });
    for connections in [Connections::Auto, Connections::PerRequest] {
        let mut config = patient(config(address, 40, 4));
        config.connections = connections;
        let outcome = run(config);
        let failed: Vec<&Timeline> =
            outcome.measured().into_iter().filter(|timeline| !timeline.is_success()).collect();
        assert_eq!(failed.len(), 8, "{connections:?}");
        for timeline in failed {
            let why = "the server closed the connection without a response";
            assert_eq!(failure(timeline), Some((FailureKind::Cut, why)));
            let times = &timeline.times;
            let waited = times.end.unwrap() - times.first_byte_sent.unwrap();
            assert!(waited >= Nanos::from_millis(50), "its time is part of the failure: {waited}");
        }
        assert_eq!(outcome.end.health.connections_reopened, 0);
    }
}

#[test]
fn no_request_is_sent_on_a_connection_whose_end_is_announced() {
    let address = serve(|asked| {
        let text = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n\
                    data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\ndata: [DONE]\n\n";
        std::io::Write::write_all(asked.stream, text.as_bytes()).unwrap();
        AfterResponse::Close
    });
    let outcome = run(patient(config(address, 50, 2)));
    assert_all_answered(&outcome, 50);
    assert_eq!(outcome.end.health.connections_reopened, 0);
    assert!(outcome.measured().iter().all(|timeline| timeline.times.lost_send.is_none()));
}

/// A silent connection may belong to a server that is working: only a timeout ends the wait, and
/// nothing is sent twice.
#[test]
fn a_silent_kept_connection_ends_with_the_timeout() {
    let address = serve(|asked| {
        if asked.connection == 0 && asked.request == 1 {
            let _ = asked.stream.read(&mut [0; 1]);
            return AfterResponse::Close;
        }
        answer(asked.stream, 1);
        AfterResponse::Stay
    });
    let mut config = patient(config(address, 3, 1));
    // The other two requests must not reach it, however busy the machine is.
    config.timeouts.total = Some(Nanos::from_secs(2));
    let outcome = run(config);
    let kinds: Vec<_> =
        outcome.measured().iter().map(|timeline| failure(timeline).map(|(kind, _)| kind)).collect();
    assert_eq!(kinds, [None, Some(FailureKind::Timeout), None]);
    assert_eq!(outcome.timelines.len(), 3);
}

/// The words of the server were lost: the failure was the reset, or after hours the timeout.
#[test]
fn what_a_server_says_of_a_failure_is_kept_however_the_connection_ends() {
    let error = r#"{"error":{"message":"worker gone"}}"#;
    for is_left_open in [false, true] {
        let address = serve(move |asked| {
            head(asked.stream);
            event(asked.stream, error);
            if is_left_open {
                let _ = asked.stream.read(&mut [0; 1]);
            } else {
                // The client has read the event before the reset.
                std::thread::sleep(std::time::Duration::from_millis(50));
                let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
                setsockopt(&*asked.stream, sockopt::Linger, &linger).unwrap();
            }
            AfterResponse::Close
        });
        let outcome = run(patient(config(address, 1, 1)));
        let failures: Vec<_> = outcome.measured().iter().map(|one| failure(one)).collect();
        assert_eq!(failures, [Some((FailureKind::InStream, "worker gone"))], "{is_left_open}");
    }
}

/// A status with a body shorter than announced.
#[test]
fn a_refusal_whose_body_does_not_end_is_told_by_its_status() {
    let address = serve(|asked| {
        let text = "HTTP/1.1 503 Busy\r\nContent-Length: 900\r\n\r\n{\"error\":\"too busy\"}";
        std::io::Write::write_all(asked.stream, text.as_bytes()).unwrap();
        let _ = asked.stream.read(&mut [0; 1]);
        AfterResponse::Close
    });
    let outcome = run(patient(config(address, 1, 1)));
    let failures: Vec<_> = outcome.measured().iter().map(|one| failure(one)).collect();
    assert_eq!(failures, [Some((FailureKind::Status, "too busy"))]);
}

/// The header has arrived: the server accepted the request, and what follows is its response, cut or
/// not.
#[test]
fn a_response_that_had_begun_is_not_requested_again() {
    let address = serve(|asked| {
        if asked.connection == 0 && asked.request == 1 {
            head(asked.stream);
            return AfterResponse::Close;
        }
        answer(asked.stream, 1);
        AfterResponse::Stay
    });
    let outcome = run(patient(config(address, 3, 1)));
    let kinds: Vec<_> =
        outcome.measured().iter().map(|timeline| failure(timeline).map(|(kind, _)| kind)).collect();
    assert_eq!(kinds, [None, Some(FailureKind::Cut), None]);
    assert_eq!(outcome.end.health.connections_reopened, 0);
}
