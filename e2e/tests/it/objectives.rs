//! `bench --slo`: objectives decide the exit code of a run that did not fail.

use serde_json::Value;

use crate::program::{ProgramExit, Server, command, ended, run};

const SMALL: &str = "--random-input-len 20 --random-output-len 2";

/// A server that is far slower than a busy machine is late.
fn server() -> Server {
    Server::new(&["--ttft", "200ms", "--itl", "1ms"])
}

fn judged(folder: &std::path::Path, line: &str, slo: &str) -> ProgramExit {
    ended(command(folder, line).args(["--slo", slo]))
}

#[test]
fn objectives_decide_the_exit_code_and_are_said_even_when_quiet() {
    let folder = tempfile::tempdir().unwrap();
    let server = server();
    let line = format!("bench --base-url {} {SMALL} -n 90 -c 6 -q -o r", server.url);
    let slo = "requests > 0.01, requests > 100000, goodput > 50%, p50 ttft < 10min";
    let quiet = judged(folder.path(), &line, slo);
    let page = std::fs::read_to_string(folder.path().join("r/summary.json")).unwrap();
    let page: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(page["summary"]["goodput"]["good"], 90);
    let outcomes: Vec<&Value> = (0..4).map(|at| &page["objectives"][at]["outcome"]).collect();
    let shown = run(folder.path(), "report r").succeeded().stdout;
    // A machine that is too busy makes figures INVALID, and an objective of such a figure undecided.
    let words =
        [("pass", "pass         "), ("cannot-tell", "cannot tell  "), ("fail", "fail         ")];
    for ((outcome, value), missed) in outcomes.iter().zip(["req", "req", "%", "ms"]).zip(0..) {
        let (_, word) = words.iter().find(|(word, _)| outcome == word).unwrap();
        let line = |line: &&str| line.starts_with(word) && line.contains(value);
        // The record knows its objectives.
        assert!(shown.lines().any(|text| line(&text)), "{missed}: {shown}");
        let is_said = quiet.stderr.lines().any(|text| line(&text));
        assert_eq!(is_said, *outcome != "pass", "{missed}: {}", quiet.stderr);
    }
    let code = i32::from(outcomes.iter().any(|outcome| *outcome == "fail"));
    assert_eq!((quiet.code, quiet.stdout.as_str()), (Some(code), ""), "{quiet:?}");
    assert_ne!(outcomes[1], "pass", "{page:#}");
    assert!(!shown.contains("Request goodput"), "the block is that of the tool's own `--goodput`");
}

#[test]
fn data_that_cannot_tell_pass_unless_power_is_required_and_failed_runs_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let server = server();
    let line = |url: &str, flags: &str| {
        format!("bench --base-url {url} {SMALL} -n 6 -c 3 --no-run-dir {flags}")
    };
    for (flags, code) in [("", 0), ("--require-power", 8)] {
        let found = judged(folder.path(), &line(&server.url, flags), "p99 ttft < 10min");
        assert_eq!(found.code, Some(code), "{found:?}");
        let words = ["cannot tell  p99 ttft ", "(no interval: too short):", "add `-n 370`"];
        assert!(words.iter().all(|word| found.stdout.contains(word)), "{}", found.stdout);
    }
    let faults = r#"{"errors":{"status":500,"which":{"share":1.0}}}"#;
    let broken = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--faults", faults]);
    let found = judged(folder.path(), &line(&broken.url, "--require-power"), "p99 ttft < 10min");
    assert_eq!(found.code, Some(7), "{found:?}");
}

#[test]
fn objectives_that_no_run_can_be_judged_by_are_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let check = |line: &str, slo: &str, expected: &str| {
        let found = judged(folder.path(), line, slo);
        found.says(2, &[expected]);
    };
    check("bench --sim", "p99 ttft < 500", "has no unit");
    check("bench --sim", "p99 tttf < 500ms", "similar: TTFT");
    check("bench --sim", "goodput > 99%", "needs a limit for a single request");
    check("bench http://127.0.0.1:9", "p99 ttft < 1s", "cannot judge a staircase by `--slo`");
}
