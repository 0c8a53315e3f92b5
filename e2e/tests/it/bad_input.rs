//! What users get wrong, and what the program says then: one row each.

use std::path::Path;

use crate::program::{ProgramExit, Server, command, ended, run};

/// A small load that ends quickly.
const SMALL: &str = "--num-prompts 4 --random-input-len 20 --random-output-len 3 --no-run-dir";

fn check(ended: &ProgramExit, parts: &[&str], code: i32) {
    for part in parts {
        assert!(
            ended.stderr.contains(part),
            "`{part}` is not in:\n{}\n{}",
            ended.stderr,
            ended.stdout
        );
    }
    assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[test]
fn bad_command_lines_are_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let row = |line: &str, parts: &[&str]| check(&run(folder.path(), line), parts, 2);
    row("bench --num-promts 5", &["unknown flag `--num-promts`", "`--num-prompts`"]);
    row("bench --backend vlm", &["unknown backend `vlm`", "vllm"]);
    row("bench --dataset-name rando", &["unknown dataset `rando`", "random"]);
    row("bench --socket-reads eagre", &["eagre", "eager"]);
    row("bench --layout v9", &["v9", "v4"]);
    row("bench --request-rate 0", &["a rate must be greater than zero", "--request-rate inf"]);
    row("bench --random-input-len -3", &["`-3`", "must not be negative", "`--random-input-len <"]);
    row("bench --num-prompts 3.5", &["`3.5`", "not a whole number", "`--num-prompts <"]);
    row("bench --max-concurrency 0", &["no request could be sent"]);
    row("bench --num-prompts 1,2,...,5", &["never reaches 5"]);
    row("bench --goodput ttft=5", &["cannot use `ttft=5` for `--goodput`", "ttft:200"]);
    row("bench --metric-percentiles 50,x", &["`x` is not a percentile"]);
    row("bench --duration soon", &["cannot use `soon` for `--duration`", "30s"]);
    row("bench --extra-body [1]", &["--extra-body", "JSON object"]);
    row("bench --chat-template-kwargs x", &["--chat-template-kwargs", "JSON object"]);
    row("bench --base-url ftp://h --model m", &["ftp://h"]);
    row("bench --pd-separated", &["unsupported flag `--pd-separated`"]);
    row("bench --tokenizer missing/tokenizer.json", &["missing/tokenizer.json"]);
    row("bench --plan missing.toml", &["missing.toml"]);
    row("report missing.txt", &["missing.txt"]);
    row("sim --profile nope", &["nope", "default"]);
}

#[test]
fn a_name_that_is_no_text_is_refused_by_every_command() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"run\xff");
    for line in ["report", "doctor", "compare x", "bench --sim --run-dir"] {
        let ended = ended(command(folder.path(), line).arg(name));
        check(&ended, &["cannot use the argument `run\u{fffd}`", "not valid UTF-8", "rename"], 2);
    }
}

#[test]
fn flags_without_effect_are_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench --trust-remote-code --tokenizer-mode auto --print-plan";
    let ended = run(folder.path(), line).succeeded();
    assert_eq!(ended.stderr.matches("`--trust-remote-code` has no effect").count(), 1);
}

#[test]
fn servers_that_cannot_be_used_are_named_with_their_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let row = |url: &str, flags: &str, parts: &[&str], code: i32| {
        let line = format!("bench --base-url {url} {SMALL} {flags}");
        check(&run(folder.path(), &line), parts, code);
    };
    row("http://127.0.0.1:1", "", &["cannot reach http://127.0.0.1:1", "tokometer sim"], 3);
    let server = Server::quick();
    row(&server.url, "--model other", &["no request succeeded", "404", "`--model`"], 7);
    row(&server.url, "--endpoint /nowhere/completions", &["no request succeeded", "404"], 7);
    let locked = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--api-key", "k"]);
    row(&locked.url, "", &["401", "OPENAI_API_KEY"], 3);
    for status in ["429", "500"] {
        let faults = format!(r#"{{"errors":{{"status":{status},"which":{{"share":1.0}}}}}}"#);
        let broken = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--faults", &faults]);
        row(&broken.url, "--model simulated", &["no request succeeded", status], 7);
    }
    let faults = r#"{"die_after_requests":12}"#;
    let dying = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--faults", faults]);
    let line = format!(
        "bench --base-url {} {SMALL} --max-concurrency 1 --num-prompts 40 --tokenizer cl100k",
        dying.url
    );
    let ended = run(folder.path(), &line);
    check(&ended, &["the server became unreachable during the run"], 3);
    assert!(ended.stdout.contains("connect"), "{}", ended.stdout);
}

/// A mistyped model sent all its requests, and the route was blamed.
#[test]
fn a_server_that_refuses_the_first_requests_alike_is_asked_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let line = format!(
        "bench --base-url {} --model other --num-prompts 100 --max-concurrency 1 --random-input-len 8 \
         --random-output-len 3 --tokenizer cl100k --no-run-dir --format json",
        server.url
    );
    let ended = run(folder.path(), &line);
    check(&ended, &["does not have the model `other`: name one that it has with `--model`"], 7);
    assert!(!ended.stderr.contains("--endpoint"), "{}", ended.stderr);
    let page = ended.json();
    let remarks = page["run"]["remarks"].to_string();
    assert!(remarks.contains("the server does not list the model `other`"), "{remarks}");
    let summary = &page["summary"];
    assert_eq!(summary["ended"]["early"], "refused", "{summary:#}");
    let [failed, never] = ["failed", "never_sent"].map(|key| &summary["counts"][key]);
    // The one after the fifth was on its way.
    assert!(failed.as_u64().unwrap() <= 6, "{summary:#}");
    assert_eq!(failed.as_u64().unwrap() + never.as_u64().unwrap(), 100);
}

#[test]
fn datasets_that_cannot_be_used_are_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("empty.jsonl", "");
    write("broken.jsonl", "this is not JSON\n");
    write("short.jsonl", "{\"prompt\": \"one\"}\n");
    let row = |flags: &str, parts: &[&str]| {
        check(&run(folder.path(), &format!("bench --no-run-dir {flags}")), parts, 2);
    };
    row("--dataset-name custom --dataset-path missing.jsonl", &["missing.jsonl"]);
    row("--dataset-name custom --dataset-path empty.jsonl", &["empty.jsonl", "empty"]);
    row("--dataset-name custom --dataset-path broken.jsonl", &["broken.jsonl", "line 1"]);
    row("--dataset-name custom", &["--dataset-path"]);
    write("book.txt", "too short a book");
    row("--dataset-name book --dataset-path book.txt --book-input-len 1000", &["book.txt"]);
    write("short.txt", "A book of few words.");
    row(
        "--dataset-name book --dataset-path short.txt --book-input-len 1000",
        &["short.txt", "1000"],
    );
}

#[test]
fn datasets_with_faults_are_used_as_far_as_they_go_and_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let row = |flags: &str, parts: &[&str]| {
        let line = format!("bench --base-url {} --no-run-dir --details {flags}", server.url);
        let ended = run(folder.path(), &line).succeeded();
        let words = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in parts {
            assert!(words.contains(part), "`{part}` is not in {}", ended.stdout);
        }
    };
    let talk = r#"{"conversations":[{"value":"How are you on this day?"},{"value":"Very well, thank you."}]}"#;
    write("talks.json", &format!("[{talk},\n{{\"conversations\":3}},\n{{\"id\":1}},\n{talk}]"));
    row(
        "--dataset-name sharegpt --dataset-path talks.json --num-prompts 4",
        &["2 of 4 entries", "line 2", "2 usable entries for 4 prompts"],
    );
    let call = |at: f64, block: u32| {
        format!(r#"{{"timestamp":{at},"input_length":16,"output_length":2,"hash_ids":[{block}]}}"#)
    };
    write("trace.jsonl", &[call(0.05, 1), call(0.01, 2), call(0.03, 3)].join("\n"));
    row(
        "--dataset-name timed_trace --dataset-path trace.jsonl --num-prompts 3",
        &["1 of 3 requests in `trace.jsonl` are earlier", "line 2", "in order of time"],
    );
}

#[test]
fn reports_that_were_cut_or_mixed_are_read_as_far_as_they_go_and_called_inconsistent() {
    let folder = tempfile::tempdir().unwrap();
    let seed = |name: &str| {
        std::fs::read_to_string(crate::program::root().join("fixtures/seeds").join(name)).unwrap()
    };
    let whole = seed("000_659e43dd1329acd2.txt");
    let other = seed("004_8163290e84c3957c.txt");
    let other = &other[other.find("====").unwrap()..];
    let cut: Vec<&str> = whole.lines().take(12).collect();
    let mixed: Vec<&str> = whole.lines().zip(other.lines()).flat_map(|(a, b)| [a, b]).collect();
    let row = |name: &str, lines: &[&str], finding: &str| {
        std::fs::write(folder.path().join(name), lines.join("\n")).unwrap();
        let ended = run(folder.path(), &format!("doctor {name}"));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stdout.contains(finding), "`{finding}` is not in {}", ended.stdout);
        let rows = run(folder.path(), &format!("report {name} --format csv")).succeeded().stdout;
        assert!(rows.contains("3000"), "{rows}");
    };
    row("cut.txt", &cut, "the block is truncated after line");
    row("mixed.txt", &mixed, "lines of two blocks are mixed");
}

#[test]
fn paths_that_cannot_be_written_are_found_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    let row = |flags: &str| {
        let line = format!("bench --base-url http://127.0.0.1:1 --model m {flags}");
        // A run would have failed with 3: nothing listens there.
        check(&run(folder.path(), &line), &["cannot write", "file"], 6);
    };
    row("--run-dir file/run");
    row("--save-result --result-dir file/out --no-run-dir");
    row("--output-file file/out.jsonl --no-run-dir");
}

#[test]
fn a_full_disk_ends_the_run_and_keeps_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    std::fs::create_dir(folder.path().join("r")).unwrap();
    // Every write to this file is answered with "no space left on device".
    std::os::unix::fs::symlink("/dev/full", folder.path().join("r/requests.arrows")).unwrap();
    let line = format!(
        "bench --base-url {} --duration 10m --max-concurrency 2 --random-input-len 20 \
         --random-output-len 3 --run-dir r",
        server.url
    );
    check(&run(folder.path(), &line), &["cannot write", "requests.arrows", "No space left"], 6);
}

#[test]
fn more_connections_than_descriptors_are_refused_with_the_number_that_is_possible() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let line = format!(
        "bench --base-url {} --num-prompts 600 --max-concurrency 600 --random-input-len 20 \
         --random-output-len 3 --no-run-dir",
        server.url
    );
    let program = command(folder.path(), &line);
    let script =
        format!("ulimit -n 300; exec {} {line}", Path::new(program.get_program()).display());
    let mut shell = std::process::Command::new("bash");
    let limited = ended(shell.args(["-c", &script]).current_dir(folder.path()));
    check(&limited, &["cannot open 600 connections", "236"], 2);
}
