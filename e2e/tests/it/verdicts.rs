//! The verdict about each figure of real runs.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::program::{Server, Started, run, wait_until};
use crate::scripted::{AfterResponse, Scripted};

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The whole process is stopped, so the control thread is late as well: not the client was slow.
#[test]
fn a_stopped_client_is_late_and_so_is_its_control_thread() {
    let folder = tempfile::tempdir().unwrap();
    let server = Scripted::new(|mut asked| {
        asked.good_answer(4);
        AfterResponse::Close
    });
    // Most of three seconds is left when it is stopped.
    let line = format!(
        "bench --base-url {} --request-rate 100 --num-prompts 300 --random-input-len 8 \
         --random-output-len 4 --tokenizer cl100k --disable-tqdm --details --run-dir r",
        server.url
    );
    let bench = Started::new(folder.path(), &line);
    wait_until("requests are under way", || server.requests() >= 10);
    bench.signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(600));
    bench.signal(Signal::SIGCONT);
    let ended = bench.wait().succeeded();
    let health = &json(&folder.path().join("r/end.json"))["health"];
    let length = |stall: &Value| stall["end"].as_u64().unwrap() - stall["begin"].as_u64().unwrap();
    let stalls = health["stalls"].as_array().unwrap();
    assert!(stalls.iter().any(|stall| length(stall) > 200_000_000), "{health:#}");
    let summary = &json(&folder.path().join("r/summary.json"))["summary"];
    let notes = summary["notes"].as_array().unwrap();
    let late = notes.iter().find(|note| note["code"] == "late-sends").unwrap();
    assert!(late["found"].as_str().unwrap().contains("the control thread was late too"), "{late}");
    // The figure and the table agree about it.
    let planned = &summary["figure_verdicts"]["ttft_from_intended_ms_mean"];
    assert_eq!((&planned["verdict"], &planned["is_result"]), (&"INVALID".into(), &false.into()));
    assert!(ended.stdout.contains("affected     INVALID: "), "{}", ended.stdout);
}

/// A verdict is a function of the record: `report` repeats it, and every figure has one.
#[test]
fn every_figure_of_a_report_has_its_verdict_and_the_run_has_the_worst() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::quick());
    let line = format!(
        "bench --base-url {} --num-prompts 64 --max-concurrency 8 --random-input-len 8 \
         --random-output-len 4 --tokenizer cl100k --disable-tqdm --run-dir r",
        server.url
    );
    run(folder.path(), &line).succeeded();
    let fresh = json(&folder.path().join("r/summary.json"))["summary"].clone();
    let again = run(folder.path(), "report r --format json").succeeded().json()["summary"].clone();
    assert_eq!(fresh["figure_verdicts"], again["figure_verdicts"]);
    let figures = fresh["figure_verdicts"].as_object().unwrap();
    for key in ["ttft_ms_mean", "ttft_ms_p99", "tpot_ms_p50", "e2e_ms_mean", "requests_per_s"] {
        assert!(figures.contains_key(key), "{key}: {figures:#?}");
    }
    let rank =
        |verdict: &Value| ["VALID", "SUSPECT", "INVALID"].iter().position(|one| verdict == one);
    let results = figures.values().filter(|figure| figure["is_result"] == true);
    let worst = results.map(|figure| rank(&figure["verdict"])).max().unwrap();
    assert_eq!(rank(&fresh["verdict"]), worst);
}
