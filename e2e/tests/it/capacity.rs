//! `tokometer capacity` as its user sees it. How near it comes to the truth is proved in virtual
//! time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;

use crate::program::{ProgramExit, Server, Started, command, ended, wait_until};
use crate::scripted::{AfterResponse, Scripted};

const SMALL: &str = "--random-input-len 20 --random-output-len 3 --disable-tqdm --run-dir r";

fn capacity(folder: &std::path::Path, slo: &str, line: &str) -> ProgramExit {
    let mut command = command(folder, &format!("capacity {line} {SMALL}"));
    ended(command.args(["--slo", slo]))
}

#[test]
fn objectives_that_cannot_be_read_are_refused_with_one_hint() {
    let folder = tempfile::tempdir().unwrap();
    let refused = capacity(folder.path(), "p99 ttft 2s", "--base-url http://127.0.0.1:9");
    assert_eq!(refused.code, Some(2));
    assert_eq!(refused.stderr.matches("try `").count(), 1, "{}", refused.stderr);
    assert!(!folder.path().join("r").exists(), "nothing was measured, so nothing is left");
}

/// The search waited for two whole points, and a staircase that had failed began it all the same.
#[test]
fn a_server_that_fails_every_request_ends_a_search_at_once() {
    let server = Scripted::new(|mut asked| {
        asked.answer("500 Internal Server Error", "application/json", r#"{"error":"broken"}"#);
        AfterResponse::Close
    });
    let check = |flags: &str, place: &str| {
        let folder = tempfile::tempdir().unwrap();
        let line = format!("--base-url {} --tokenizer cl100k {flags}", server.url);
        let ended = capacity(folder.path(), "p99 ttft < 1s", &line);
        assert_eq!(ended.code, Some(7), "{}\n{}", ended.stdout, ended.stderr);
        let words = format!("no request succeeded {place}");
        ended.prints(&[&words, "broken"]);
    };
    check("--start 20", "at 20 req/s");
    assert!(server.requests() < 200, "{} of about 400 were sent", server.requests());
    check("--budget 6s", "in the staircase");
}

#[test]
fn objectives_that_no_load_meets_and_those_that_every_load_meets_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let line = |span: &str| {
        let span = format!("--min-duration {span} --max-duration {span}");
        format!("--base-url {} --start 20 {span} --max 40", server.url)
    };
    let none = capacity(folder.path(), "p50 ttft < 1us", &line("400ms"));
    assert_eq!(none.code, Some(1), "{}\n{}", none.stdout, none.stderr);
    // A load of a few requests per second was not tried, and was said not to meet them.
    let words = "capacity: no measured load meets the objectives";
    assert!(none.stdout.contains(words), "{}", none.stdout);
    // A point of less than half a second was announced as one of 0 s.
    assert!(!none.stderr.contains(" for 0 s"), "{}", none.stderr);
    assert_eq!(none.stderr.matches("use a longer `--max-duration`").count(), 1, "{}", none.stderr);
    let line = line("1s");
    let refused = capacity(folder.path(), "p50 ttft < 10min", &line);
    refused.says(6, &["already holds a run"]);
    let line = format!("{line} --gpus 2 --overwrite");
    let all = capacity(folder.path(), "p50 ttft < 10min", &format!("{line} --html a.html"));
    let all = all.succeeded();
    assert!(all.stdout.contains("capacity: at least 40.00 req/s"), "{}", all.stdout);
    let words = all.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("the limit is `--max`"), "{}", all.stdout);
    assert!(all.stdout.contains("tok/s per GPU"), "{}", all.stdout);

    // The folder shows what the command showed.
    let again = crate::program::run(folder.path(), "report r").succeeded();
    assert_eq!(again.stdout, all.stdout);
    let _ = crate::program::run(folder.path(), "report r --html b.html").succeeded();
    let [a, b] = ["a.html", "b.html"].map(|name| {
        let page = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(page.contains("at least 40.00 req/s"), "no answer on {name}");
        assert!(page.contains("tokometer capacity --base-url"), "no command on {name}");
        page
    });
    assert_eq!(a, b);
    // GPUs and their price may be given later; they had no effect.
    let line = "report r --html c.html --gpus 4 --price 2.5/h";
    let _ = crate::program::run(folder.path(), line).succeeded();
    let page = std::fs::read_to_string(folder.path().join("c.html")).unwrap();
    assert!(page.contains("per million output tokens (4 GPUs at $2.5/h each)"), "no cost");
    assert!(page.contains("4 GPUs (as given)"), "not the GPUs that were given");
}

/// Every point printed its lines, although `--quiet` asks for errors alone.
#[test]
fn a_quiet_search_prints_its_json_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let line = format!(
        "--base-url {} --start 20 --max 20 --min-duration 1s --max-duration 1s -q --overwrite",
        server.url
    );
    let silent = capacity(folder.path(), "p50 ttft < 10min", &line).succeeded();
    assert_eq!((silent.stdout.as_str(), silent.stderr.as_str()), ("", ""));
    let json =
        capacity(folder.path(), "p50 ttft < 10min", &format!("{line} --format json")).succeeded();
    assert_eq!((json.json()["points"][0]["load"].as_f64(), json.stderr.as_str()), (Some(20.0), ""));
}

/// A search of five minutes ended in a folder that was not there.
#[test]
fn a_page_that_cannot_be_written_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let server = Scripted::raw(|asked| panic!("{} was sent", asked.line));
    let slo = "p50 ttft < 10min";
    let refused = |line: &str, parts: &[&str], code: i32| {
        let line = format!("--base-url {} --model m {line}", server.url);
        let ended = capacity(folder.path(), slo, &line);
        ended.says(code, parts);
    };
    let missing = ["cannot write `no/page.html`: there is no such", "create the folder `no` first"];
    refused("--html no/page.html", &missing, 6);
    refused("--html .", &["cannot write `.`: it is a folder"], 6);
    refused("--html - --format json", &["both the page and the JSON", "--html page.html"], 2);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something was left behind");
}

/// The page followed the text on standard output.
#[test]
fn a_page_on_standard_output_replaces_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let is_page = |text: &str| text.starts_with("<!") && text.trim_end().ends_with("</html>");
    let line = format!(
        "--base-url {} --start 20 --max 20 --min-duration 1s --max-duration 1s --html -",
        server.url
    );
    let found = capacity(folder.path(), "p50 ttft < 10min", &line).succeeded();
    assert!(is_page(&found.stdout), "{:.200}", found.stdout);
    assert!(!found.stderr.contains("page: -"), "{}", found.stderr);
    let small = "--random-input-len 20 --random-output-len 3 --no-run-dir --html -";
    for load in ["-n 2 -c 1", "--budget 1s"] {
        let line = format!("bench {} {load} {small}", server.url);
        let found = crate::program::run(folder.path(), &line).succeeded();
        assert!(is_page(&found.stdout), "{load}: {:.200}", found.stdout);
    }
    // The folder of the run does not exist before it.
    let line = format!("bench {} -n 2 -c 1 -o new --html new/page.html", server.url);
    let found = crate::program::run(folder.path(), &line).succeeded();
    assert!(found.stderr.contains("page: new/page.html"), "{}", found.stderr);
}

/// `latency` and a metric without a statistic were taken for something without a word.
#[test]
fn objectives_that_could_mean_something_else_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let said = |slo: &str| {
        let ended = capacity(folder.path(), slo, "--base-url http://127.0.0.1:9 --print-plan");
        ended.succeeded().stderr
    };
    assert_eq!(
        said("p99 latency < 2s"),
        "note: `p99 latency < 2s` is read as p99 E2E, from sending a request to its last token\n"
    );
    assert!(said("ttft < 2s").contains("is read as mean TTFT\n  write `p99 ttft < 2s`"));
    assert_eq!(said("p99 ttft < 2s, p99 e2e < 9s"), "");
}

/// The second point has no answers until the search is resumed.
#[test]
fn an_interrupted_search_says_what_is_known_and_goes_on_from_its_folders() {
    let folder = tempfile::tempdir().unwrap();
    let second = folder.path().join("r/001-40");
    let (held, is_resumed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (note, goes_on) = (Arc::clone(&held), Arc::clone(&is_resumed));
    let server = Scripted::new(move |mut asked| {
        if asked.line != "POST /v1/completions" {
            asked.answer("404 Not Found", "text/plain", "");
            return AfterResponse::Stay;
        }
        if second.exists() && !goes_on.load(Ordering::SeqCst) {
            note.store(true, Ordering::SeqCst);
            return asked.hold();
        }
        asked.good_answer(3);
        AfterResponse::Close
    });
    let line = format!(
        "capacity --base-url {} --start 20 --min-duration 1s --max-duration 1s --tokenizer cl100k \
         {SMALL} --slo requests>0.001",
        server.url
    );
    let search = Started::new(folder.path(), &line);
    wait_until("the second point is under way", || held.load(Ordering::SeqCst));
    // The second signal ends the wait for answers; two equal ones may arrive as one.
    search.signal(Signal::SIGINT);
    search.signal(Signal::SIGTERM);
    let stopped = search.wait();
    stopped.says(130, &["(interrupted before the search finished)"]);
    let end = folder.path().join("r/000-20/end.json");
    let written = || std::fs::metadata(&end).unwrap().modified().unwrap();
    let before = written();
    is_resumed.store(true, Ordering::SeqCst);
    let resumed = crate::program::run(folder.path(), &format!("{line} --resume --points 2"));
    let resumed = resumed.succeeded();
    assert_eq!(written(), before, "a finished point was measured again");
    assert!(resumed.stdout.contains("req/s (the points or the time ended"), "{}", resumed.stdout);
    let json = std::fs::read_to_string(folder.path().join("r/capacity.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["points"].as_array().unwrap().len(), 2);
}

#[test]
fn a_search_stops_at_once_when_nothing_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let faults = r#"{"errors":{"status":503,"which":{"share":1.0}}}"#;
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--faults", faults]);
    let times = "--start 20 --min-duration 1s --max-duration 1s";
    let dead =
        capacity(folder.path(), "p50 ttft < 1s", &format!("--base-url {} {times}", server.url));
    assert_eq!(dead.code, Some(7), "{}", dead.stderr);
    assert_eq!(dead.stderr.matches("  failed  ").count(), 1, "{}", dead.stderr);
    dead.prints(&["no request succeeded at 20 req/s", "503"]);
}

/// A prediction must not be taken for a measurement.
#[test]
fn an_engine_is_searched_in_virtual_time_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let line = "capacity --engine small --random-input-len 256 --random-output-len 8 --max-duration 10s \
                --points 16 --replicas 1,2 --request-rate 20";
    let mut found = command(folder.path(), line);
    let found = ended(found.args(["--slo", "p90 ttft < 2s"])).succeeded();
    assert!(
        found.stdout.starts_with("PREDICTED in virtual time, not measured"),
        "{}",
        found.stdout
    );
    assert!(!found.stdout.contains("VALID"), "{}", found.stdout);
    for row in ["replicas=1", "replicas=2", "for 20.00 req/s:"] {
        assert!(found.stdout.contains(row), "{}", found.stdout);
    }
    let refused = format!("{line} --base-url http://127.0.0.1:9 --slo requests>1");
    let refused = ended(&mut command(folder.path(), &refused));
    refused.says(2, &["cannot use `--engine` with a server"]);
}

/// The budget was ignored, and the second `--slo` replaced the first, both without a word.
#[test]
fn a_prediction_keeps_its_budget_and_every_objective() {
    let folder = tempfile::tempdir().unwrap();
    let line = "capacity --engine small --random-input-len 64 --random-output-len 8 --budget 40s \
                --format json --slo requests>0.001";
    let mut found = command(folder.path(), line);
    let found = ended(found.args(["--slo", "p90 ttft < 2s"])).succeeded().json();
    let findings = &found["capacities"][0]["findings"];
    assert_eq!(findings["slo"], "requests>0.001, p90 ttft < 2s");
    let seconds = |point: &serde_json::Value| {
        point["requests"].as_f64().unwrap() / point["sent"].as_f64().unwrap()
    };
    let all: f64 = findings["points"].as_array().unwrap().iter().map(seconds).sum();
    assert!(all > 4.0 && all < 42.0, "{all}: {findings}");
}

/// A profile fitted to prompts of 506 tokens answered for prompts of 2,000 without a word.
#[test]
fn a_search_with_prompts_beyond_the_profile_s_data_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let search = |tokens: u32| {
        let line = format!(
            "capacity --engine sglang-rust --random-input-len {tokens} --random-output-len 4 \
             --points 2 --max-duration 2s --min-duration 1s --format json --slo requests>0"
        );
        ended(&mut command(folder.path(), &line)).succeeded().json()
    };
    assert_eq!(search(2_000)["beyond_range"]["calibrated"], 506);
    assert_eq!(search(500)["beyond_range"], serde_json::Value::Null);
}

/// The sizes of the rows of all points and steps below a folder.
fn row_bytes(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| match path.metadata() {
            Ok(found) if found.is_dir() => row_bytes(&path),
            Ok(found) if path.ends_with("requests.arrows") => found.len(),
            _ => 0,
        })
        .sum()
}

/// A search of five minutes kept 164 MB, nearly all of it the times of tokens.
#[test]
fn the_events_of_points_are_packed_without_loss_unless_they_are_to_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "500us"]);
    let line = |name: &str, flags: &str| {
        format!(
            "capacity --base-url {} --over concurrency --start 8 --max 8 --min-duration 1s \
             --max-duration 1s --random-input-len 20 --random-output-len 300 --slo requests>0.001 \
             --disable-tqdm --run-dir {name} {flags}",
            server.url
        )
    };
    let run = |line: &str| crate::program::run(folder.path(), line).succeeded();
    let per_token = |name: &str| {
        let rows = run(&format!("report {name}/000-8 --csv -")).stdout.lines().count() - 1;
        row_bytes(&folder.path().join(name)) as f64 / (300 * rows) as f64
    };
    run(&line("packed", ""));
    run(&line("plain", "--keep-events"));
    let (packed, plain) = (per_token("packed"), per_token("plain"));
    assert!(plain > 15.0 && packed < plain / 2.5, "{packed} and {plain} bytes per token");
    // Figures that need every event are there, and every command reads the folder.
    let shown = run("report packed/000-8").stdout;
    assert!(shown.contains("Inter-token Latency") && shown.contains("Mean ITL (ms)"), "{shown}");
    run("report packed --html page.html");
    run("compare --a packed/000-8 --b plain/000-8");
    let written = || std::fs::metadata(folder.path().join("packed/000-8/end.json")).unwrap();
    let before = written().modified().unwrap();
    run(&line("packed", "--resume"));
    assert_eq!(written().modified().unwrap(), before, "a finished point was measured again");
}

#[test]
fn a_search_is_not_resumed_with_points_of_another_plan_target_or_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let (server, other) = (Server::quick(), Server::quick());
    let rows = folder.path().join("rows.txt");
    std::fs::write(&rows, "one line of a sonnet\nanother line of it\n".repeat(40)).unwrap();
    let line = |url: &str, flags: &str| {
        format!(
            "capacity --base-url {url} --dataset-name sonnet --dataset-path rows.txt --sonnet-input-len 40 \
             --sonnet-prefix-len 10 --sonnet-output-len 3 --start 20 --max 20 --min-duration 1s \
             --max-duration 1s --slo requests>0.001 --disable-tqdm --run-dir r {flags}"
        )
    };
    crate::program::run(folder.path(), &line(&server.url, "")).succeeded();
    let refused = |line: &str, part: &str| {
        let found = crate::program::run(folder.path(), line);
        found.says(2, &["cannot resume `r/000-20`", part]);
    };
    crate::program::run(folder.path(), &line(&server.url, "--resume")).succeeded();
    refused(
        &line(&server.url, "--resume --sonnet-output-len 4"),
        "output_len is 3 there and 4 here",
    );
    // Another first load, so that no folder of the new search has the name of an old one.
    refused(&line(&other.url, "--resume --start 10"), "address is");
    refused(&line(&server.url, "--resume --over concurrency"), "load.");
    std::fs::write(&rows, "other lines of a sonnet\nand another\n".repeat(40)).unwrap();
    refused(&line(&server.url, "--resume"), "the dataset's file has changed");
}
