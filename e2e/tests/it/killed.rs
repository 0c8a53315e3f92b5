//! A run whose process was killed.

use std::path::Path;

use tokometer_record::{RunReader, RunState};

use crate::program::{Started, run, wait_until};
use crate::scripted::{AfterResponse, Scripted};

/// How many requests of a run are on disk by now.
pub(crate) fn recorded(run: &Path) -> usize {
    let reader = RunReader::open(run).ok();
    reader.and_then(|reader| Some(reader.timelines().ok()?.count())).unwrap_or(0)
}

/// The server answers 16 requests and holds the next ones, of which four are in flight.
#[test]
fn a_killed_run_is_reported_as_partial_with_what_was_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    let server = Scripted::new(|mut asked| {
        if asked.number >= 16 {
            return asked.hold();
        }
        asked.good_answer(10);
        AfterResponse::Close
    });
    let line = format!(
        "bench --base-url {} --duration 10m --max-concurrency 4 --random-input-len 20 \
         --random-output-len 10 --tokenizer cl100k --run-dir r",
        server.url
    );
    let bench = Started::new(folder.path(), &line);
    let run_folder = folder.path().join("r");
    let begun = || Some(RunReader::open(&run_folder).ok()?.starts().ok()?.count());
    wait_until("all starts and ends are on disk", || {
        recorded(&run_folder) == 16 && begun() == Some(20)
    });
    bench.kill();

    let reader = RunReader::open(&run_folder).unwrap();
    let RunState::Killed { in_flight, .. } = reader.state().unwrap() else {
        panic!("it has an end")
    };
    assert_eq!(in_flight, 4);
    let report = run(folder.path(), "report r --repair").succeeded();
    assert!(report.stdout.contains("partial"), "{}", report.stdout);
    let page = run(folder.path(), "report r --format json").succeeded().json();
    assert_eq!(page["summary"]["ended"], "killed", "{page:#}");
    assert_eq!(page["summary"]["counts"]["succeeded"], 16);
}
