//! A run whose process was killed.

use std::path::Path;

use nix::sys::signal::Signal;
use tokometer_record::{RunReader, RunState};

use crate::program::{Server, Started, run, wait_until};

/// A run of this length in the folder `r`, once some of its requests are on disk.
pub(crate) fn recording(folder: &Path, server: &Server, duration: &str) -> Started {
    let line = format!(
        "bench --base-url {} --duration {duration} --max-concurrency 4 --random-input-len 20 \
         --random-output-len 10 --run-dir r",
        server.url
    );
    let bench = Started::new(folder, &line);
    wait_until("some requests are on disk", || {
        let reader = RunReader::open(&folder.join("r")).ok();
        reader.is_some_and(|reader| reader.timelines().is_ok_and(|rows| rows.count() >= 8))
    });
    bench
}

#[test]
fn a_killed_run_is_reported_as_partial_with_what_was_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "5ms"]);
    let bench = recording(folder.path(), &server, "10m");
    let run_folder = folder.path().join("r");
    bench.signal(Signal::SIGKILL);
    let _ = bench.wait();

    let reader = RunReader::open(&run_folder).unwrap();
    let RunState::Killed { in_flight, .. } = reader.state().unwrap() else {
        panic!("it has an end")
    };
    assert!(in_flight <= 8, "{in_flight}");
    let report = run(folder.path(), "report r --repair").succeeded();
    assert!(report.stdout.contains("partial"), "{}", report.stdout);
    let page = run(folder.path(), "report r --format json").succeeded().json();
    assert_eq!(page["summary"]["ended"], "killed", "{page:#}");
    assert!(page["summary"]["counts"]["succeeded"].as_u64().unwrap() >= 8);
}
