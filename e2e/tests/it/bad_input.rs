//! What users get wrong, and what the program says then: one row each.

use crate::program::{Server, command, ended, run};

#[test]
fn a_name_that_is_no_text_is_refused_by_every_command() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"run\xff");
    for line in ["report", "doctor", "compare x", "bench --sim --run-dir"] {
        let ended = ended(command(folder.path(), line).arg(name));
        ended.says(2, &["cannot use the argument `run\u{fffd}`", "not valid UTF-8", "rename"]);
    }
}

#[test]
fn flags_without_effect_are_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench --trust-remote-code --tokenizer-mode auto --print-plan";
    let ended = run(folder.path(), line).succeeded();
    assert_eq!(ended.stderr.matches("`--trust-remote-code` has no effect").count(), 1);
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
    ended.says(7, &["does not have the model `other`: name one that it has with `--model`"]);
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
fn datasets_with_faults_are_used_as_far_as_they_go_and_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let row = |flags: &str, parts: &[&str]| {
        let line = format!("bench --base-url {} --no-run-dir --details {flags}", server.url);
        run(folder.path(), &line).says(0, parts);
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
