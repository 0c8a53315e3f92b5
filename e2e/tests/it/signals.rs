//! Ctrl-C, SIGTERM and SIGHUP.

use nix::sys::signal::Signal;
use tokometer_record::{RunReader, RunState, Stop};

use crate::program::{Server, Started, wait_until};

/// Starts an endless run, waits until it is under way, and sends signals.
fn interrupted(server: &Server, signals: &[Signal]) -> (crate::program::Ended, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "bench --base-url {} --duration 10m --max-concurrency 4 --random-input-len 20 \
         --random-output-len 10 --run-dir r",
        server.url
    );
    let bench = Started::new(folder.path(), &line);
    let starts = folder.path().join("r/starts.arrows");
    wait_until("requests are under way", || {
        std::fs::metadata(&starts).is_ok_and(|found| found.len() > 0)
    });
    for signal in signals {
        bench.signal(*signal);
    }
    (bench.wait(), folder)
}

#[test]
fn the_first_signal_drains_and_reports_what_there_is() {
    let server = Server::new(&["--ttft", "5ms", "--itl", "2ms"]);
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let (ended, folder) = interrupted(&server, &[signal]);
        assert_eq!(ended.code, Some(130), "{}", ended.stderr);
        assert!(ended.stdout.contains("partial"), "{}", ended.stdout);
        let reader = RunReader::open(&folder.path().join("r")).unwrap();
        let RunState::Ended(end) = reader.state().unwrap() else { panic!("the run has no end") };
        assert_eq!(end.stop, Stop::Interrupted);
    }
}

/// The answers stand still for an hour: only leaving at once ends this test.
#[test]
fn the_second_signal_leaves_at_once() {
    let faults = r#"{"stall":{"after_tokens":2,"span":3600000000000}}"#;
    let server = Server::new(&["--ttft", "5ms", "--itl", "2ms", "--faults", faults]);
    let (ended, _folder) = interrupted(&server, &[Signal::SIGINT, Signal::SIGINT, Signal::SIGINT]);
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
}
