//! The first wave on loopback: requests whose connections are opened before they are due.

use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, mpsc};

use tokometer_base::Nanos;
use tokometer_record::{FailureKind, Outcome, Phase, RunEnd, Timeline};

use super::server::{answer, config, item, read_request};
use crate::{AwaitStart, Interrupt, Live, Notice, Outlets, PrepareError, QueuedRequest, RunConfig};

const REQUESTS: u64 = 12;

/// A run that calls `start` when everything is prepared.
fn run(config: RunConfig, start: AwaitStart) -> (RunEnd, Vec<Timeline>) {
    run_shown(config, start, Arc::default())
}

fn run_shown(config: RunConfig, start: AwaitStart, live: Arc<Live>) -> (RunEnd, Vec<Timeline>) {
    let (notices, received) = mpsc::channel();
    let (source, mut next) = (config.clone(), 0);
    let prepare = move || -> Result<Option<QueuedRequest>, PrepareError> {
        next += 1;
        Ok((next <= REQUESTS).then(|| item(&source, next - 1, Phase::Measure)))
    };
    let interrupt = Arc::new(Interrupt::default());
    let outlets = Outlets { notices, live, interrupt, between: None, start: Some(start) };
    let end = crate::run(config, Box::new(prepare), outlets).unwrap();
    let ended = |notice| match notice {
        Notice::Ended(timeline) => Some(*timeline),
        Notice::Started { .. } | Notice::Exchanged(_) => None,
    };
    (end, received.into_iter().filter_map(ended).collect())
}

fn burst(address: std::net::SocketAddr) -> RunConfig {
    let mut config = config(address, REQUESTS, 1);
    config.limits.max_concurrency = None;
    config
}

fn respond(mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while read_request(&mut reader).is_some() {
        answer(&mut stream, 2);
    }
}

/// Servers and proxies close connections that stay idle, perhaps between the opening and the start.
#[test]
fn connections_that_a_server_closes_before_the_start_are_opened_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (opened, all_opened) = mpsc::channel();
    std::thread::spawn(move || {
        let mut streams = listener.incoming().map(Result::unwrap);
        let first: Vec<_> = streams.by_ref().take(usize::try_from(REQUESTS).unwrap()).collect();
        opened.send(first).unwrap();
        for stream in streams {
            std::thread::spawn(move || respond(stream));
        }
    });
    let start: AwaitStart = Box::new(move || {
        drop(all_opened.recv().unwrap());
        Ok(None)
    });
    let (end, timelines) = run(burst(address), start);
    assert_eq!(timelines.len() as u64, REQUESTS);
    for timeline in timelines {
        assert!(timeline.is_success(), "{:?}", timeline.outcome);
        assert_eq!(timeline.times.admitted, end.measure_begin);
        assert!(timeline.times.connect_begin >= Some(end.measure_begin), "{:?}", timeline.times);
    }
}

/// A connection that cannot be opened ahead is tried again when its request is due, and that attempt is
/// the one that counts.
#[test]
fn requests_to_nobody_fail_at_the_start_and_not_before() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (end, timelines) = run(burst(address), Box::new(|| Ok(None)));
    assert_eq!(timelines.len() as u64, REQUESTS);
    for timeline in timelines {
        let Outcome::Failed(failure) = &timeline.outcome else { panic!("{timeline:?}") };
        assert_eq!(failure.kind, FailureKind::Connect);
        assert!(timeline.times.connect_begin.unwrap_or(Nanos::ZERO) >= end.measure_begin);
    }
}

/// While other processes were waited for, a display said that everything was sent and waited for.
#[test]
fn before_the_start_nothing_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            std::thread::spawn(move || respond(stream));
        }
    });
    let live = Arc::new(Live::default());
    let (seen, all_sent) = mpsc::channel();
    let watched = Arc::clone(&live);
    let start: AwaitStart = Box::new(move || {
        seen.send(watched.all_sent()).unwrap();
        Ok(None)
    });
    let (_end, timelines) = run_shown(burst(address), start, live);
    assert_eq!(timelines.len() as u64, REQUESTS);
    assert_eq!(all_sent.recv().unwrap(), None);
}
