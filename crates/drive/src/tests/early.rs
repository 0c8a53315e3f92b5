//! Responses that arrive before their request was completely written.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokometer_base::{Nanos, Prompt};
use tokometer_client::RequestInput;
use tokometer_record::{AttemptId, Failure, FailureKind, Outcome as End, Phase};

use super::server::{FinishedRun, config, finish, head, run_source, token};
use crate::{Interrupt, QueuedRequest};

/// More than the socket buffers of both ends hold, so that the client is still writing when the
/// response arrives.
const PROMPT_BYTES: usize = 12 << 20;

/// A server that reads only the beginning of each request and then runs `script`.
fn serve_early(script: fn(&mut TcpStream)) -> (SocketAddr, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            count.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                // A connection that closes unused carried no request.
                if stream.read(&mut [0; 64]).unwrap_or(0) > 0 {
                    script(&mut stream);
                }
            });
        }
    });
    (address, connections)
}

fn run_large(address: SocketAddr, count: u64) -> FinishedRun {
    let mut config = config(address, count, 1);
    config.timeouts.total = Some(Nanos::from_secs(30));
    let source = config.clone();
    let text = "x".repeat(PROMPT_BYTES);
    let mut next = 0;
    let prepare = move || {
        let target = &source.targets[0];
        let prompt = Prompt { output_tokens: Some(2), ..Prompt::text(text.clone()) };
        let request =
            target.dialect.prepare(&target.settings, &RequestInput::new(&prompt, next)).unwrap();
        let identity = AttemptId::new(next, Phase::Measure);
        next += 1;
        Ok((next <= count).then_some(QueuedRequest {
            request,
            identity,
            due: None,
            recorded: None,
        }))
    };
    run_source(config, Box::new(prepare), Arc::new(Interrupt::default()))
}

fn check_refused(outcome: &FinishedRun, status: u16, words: &str) {
    for timeline in outcome.measured() {
        let message = words.to_owned();
        let failure = Failure { kind: FailureKind::Status, status: Some(status), message };
        assert_eq!(timeline.outcome, End::Failed(failure));
    }
}

/// The rest of the request would be taken for the next one.
#[test]
fn a_connection_whose_request_was_not_written_is_not_used_again() {
    let (address, connections) = serve_early(|stream| {
        let answer = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nbusy";
        stream.write_all(answer).unwrap();
        // The connection stays open without a reader.
        Box::leak(Box::new(stream.try_clone().unwrap()));
    });
    let outcome = run_large(address, 3);
    assert_eq!(outcome.measured().len(), 3);
    check_refused(&outcome, 429, "busy");
    assert_eq!(connections.load(Ordering::SeqCst), 3);
}

/// The server closes with unread bytes, which resets the connection: the write fails, but the
/// response can still be read.
#[test]
fn an_answer_is_read_before_a_failed_write_is_reported() {
    let (address, _connections) = serve_early(|stream| {
        let answer = b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n\r\ntoo large";
        stream.write_all(answer).unwrap();
    });
    let outcome = run_large(address, 3);
    assert_eq!(outcome.measured().len(), 3);
    check_refused(&outcome, 413, "too large");
}

/// The request's bytes were dropped at the response's header, and the rest of them was written after.
#[test]
fn an_answer_that_begins_early_does_not_end_the_writing() {
    let (address, _connections) = serve_early(|stream| {
        head(stream);
        token(stream, "a");
        let mut left = PROMPT_BYTES;
        let mut buffer = vec![0; 1 << 20];
        while left > 0 {
            match stream.read(&mut buffer).unwrap() {
                0 => return,
                count => left = left.saturating_sub(count),
            }
        }
        finish(stream);
    });
    let outcome = run_large(address, 2);
    let measured = outcome.measured();
    assert!(measured.len() == 2 && measured.iter().all(|timeline| timeline.is_success()));
}
