//! `tokometer dataset --trace`: what a recorded trace holds, its rows that cannot be used, and its export.

use std::fs;

use crate::program::run;

/// Three calls that share a first block, and one without a prompt.
const TRACE: &str = r#"{"timestamp": 0, "input_length": 1100, "output_length": 52, "hash_ids": [7, 8, 9]}
{"timestamp": 3000, "input_length": 1400, "output_length": 9, "hash_ids": [7, 8, 31]}
{"timestamp": 3000, "input_length": 600, "output_length": 20, "hash_ids": [7, 44]}
{"timestamp": 9000, "input_length": 0, "output_length": 20}
"#;

#[test]
fn a_trace_is_described_and_its_bad_rows_are_refused_or_counted() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("t.jsonl"), TRACE).unwrap();
    let refused = run(folder.path(), "dataset --trace t.jsonl");
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("line 4: its prompt has 0 tokens"), "{}", refused.stderr);
    let checked = run(folder.path(), "dataset --trace t.jsonl --check");
    assert_eq!(checked.code, Some(1), "{}", checked.stderr);
    for part in ["mooncake, 4 rows", "3 with 3 requests", "49.5 % of prompt tokens", "zero: 1"] {
        assert!(checked.stdout.contains(part), "{part}\n{}", checked.stdout);
    }
    let without = run(folder.path(), "dataset --check");
    assert_eq!(without.code, Some(2));
    assert!(without.stderr.contains("name it with `--trace`"), "{}", without.stderr);
}

#[test]
fn an_exported_trace_has_the_same_lengths_and_sharing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("t.jsonl"), TRACE).unwrap();
    let line = "dataset --trace t.jsonl --skip-bad-rows --export own.jsonl";
    let first = run(folder.path(), line).succeeded();
    let again = run(folder.path(), "dataset --trace own.jsonl --check").succeeded();
    let shared = |text: &str| -> Vec<String> {
        let wanted = ["sessions", "prompts", "answers", "shared", "starts"];
        let is_wanted = |line: &&str| wanted.iter().any(|word| line.starts_with(word));
        text.lines().filter(is_wanted).map(str::to_owned).collect()
    };
    assert_eq!(shared(&first.stdout).len(), 6, "{}", first.stdout);
    assert_eq!(shared(&first.stdout), shared(&again.stdout));
}

#[test]
fn other_rows_are_replayed_by_a_map_of_their_fields() {
    let folder = tempfile::tempdir().unwrap();
    let rows =
        "{\"u\": {\"p\": 30, \"c\": 4}, \"at\": 1}\n{\"u\": {\"p\": 40, \"c\": 5}, \"at\": 1.1}\n";
    fs::write(folder.path().join("m.jsonl"), rows).unwrap();
    let unknown = run(folder.path(), "dataset --trace m.jsonl");
    assert!(unknown.stderr.contains("--map in=FIELD"), "{}", unknown.stderr);
    let line = "bench --sim --trace m.jsonl --map in=u.p,out=u.c,time=at --no-run-dir";
    let sent = run(folder.path(), line).succeeded();
    assert!(sent.stdout.contains("Total input tokens:                      70"), "{}", sent.stdout);
}
