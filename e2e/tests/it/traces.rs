//! `tokometer dataset --trace`: what a recorded trace holds, its rows that cannot be used, and its export.

use std::fs;

use std::path::Path;

use tokometer_record::{Phase, Timeline};

use crate::program::{Server, Started, run};
use crate::shards;

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

/// The measured rows of a run, in the order of the trace.
fn rows(run: &Path) -> Vec<Timeline> {
    let mut rows = shards::rows(run);
    rows.retain(|row| row.identity.phase == Phase::Measure);
    rows.sort_by_key(|row| row.identity.index);
    rows
}

/// Sessions that share nothing, each of two agents after a first turn, which the last turn joins. Prompts
/// repeat 100 tokens of the first turn, and 90 of an agent.
fn with_agents(sessions: u64) -> String {
    let made = |name: u64, tokens: u32| {
        format!(r#"{{"made":{{"name":{{"block":{name}}},"tokens":{tokens}}}}}"#)
    };
    let session = |number: u64| {
        let turn = |pieces: &[String], rest: &str| {
            format!(r#"{{"pieces":[{}],"answer_tokens":7,{rest}"delay_ns":0}}"#, pieces.join(","))
        };
        let (shared, agent) = (made(10 * number, 100), made(10 * number + 1, 90));
        let (a, b) = (r#""parents":[0],"agent":"a","#, r#""parents":[0],"agent":"b","#);
        let turns = [
            turn(std::slice::from_ref(&shared), ""),
            turn(&[shared.clone(), agent.clone()], a),
            turn(&[shared.clone(), made(10 * number + 2, 40)], b),
            turn(&[shared, agent, made(10 * number + 3, 30)], r#""parents":[1,2],"#),
        ];
        format!("{{\"start_ns\":0,\"turns\":[{}]}}\n", turns.join(","))
    };
    (0..sessions).map(session).collect()
}

/// A block has 16 tokens.
#[test]
fn cached_tokens_are_those_that_the_server_counts_and_that_a_prediction_has() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("t.jsonl"), with_agents(2)).unwrap();
    let server = Server::new(&["--enable-prompt-tokens-details"]);
    let url = &server.url;
    let sent = format!("bench --base-url {url} --trace t.jsonl --run-dir r --quiet");
    run(folder.path(), &sent).succeeded();
    let predicted = "predict --engine default --trace t.jsonl --max-sessions 2 --run-dir p --quiet";
    run(folder.path(), predicted).succeeded();
    let (sent, predicted) = (rows(&folder.path().join("r")), rows(&folder.path().join("p")));
    let possible: Vec<_> = sent.iter().map(|row| row.requested.possible_cached_tokens).collect();
    assert_eq!(possible, [0, 0, 96, 96, 176, 96, 96, 176].map(Some));
    assert_eq!(sent.len(), predicted.len());
    for (sent, predicted) in sent.iter().zip(&predicted) {
        let cached = |row: &Timeline| row.usage.unwrap().cached_tokens.unwrap_or(0);
        let possible = |row: &Timeline| row.requested.possible_cached_tokens;
        assert_eq!(Some(cached(sent)), possible(sent), "{:?}", sent.identity);
        assert_eq!((cached(sent), possible(sent)), (cached(predicted), possible(predicted)));
        let (one, other) = (&sent.identity, &predicted.identity);
        assert_eq!((one.session, one.turn, one.turns), (other.session, other.turn, other.turns));
        assert_eq!((&one.parents, &one.agent), (&other.parents, &other.agent));
    }
    let told = run(folder.path(), "report r").succeeded();
    assert!(told.stdout.contains("\nsessions     2 of 2 · p50 "), "{}", told.stdout);
    let told = run(folder.path(), "report r --details").succeeded();
    assert!(told.stdout.contains("2 of 2 finished"), "{}", told.stdout);
}

#[test]
fn a_trace_in_shards_is_the_trace_of_one_process_row_by_row() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.jsonl");
    fs::write(&trace, with_agents(7)).unwrap();
    let server = Server::quick();
    let trace = trace.display();
    let line = format!("bench --base-url {} --trace {trace} --run-dir run --quiet", server.url);
    run(folder.path(), &line).succeeded();
    for end in shards::start(folder.path(), &line, 4).into_iter().map(Started::wait) {
        assert_eq!(end.code, Some(0), "{}", end.stderr);
    }
    let facts = |run: &Path| -> Vec<_> {
        let of = |row: Timeline| {
            let (identity, asked) = (row.identity, row.requested);
            let place = (identity.session, identity.turn, identity.turns, identity.parents);
            let lengths = (asked.prompt_tokens, asked.output_tokens, asked.possible_cached_tokens);
            (identity.index, place, identity.agent, lengths, asked.prompt_hash)
        };
        rows(run).into_iter().map(of).collect()
    };
    let whole = facts(&folder.path().join("run"));
    assert_eq!(whole.len(), 28);
    assert_eq!(facts(&folder.path().join("machine0/run")), whole);
}
