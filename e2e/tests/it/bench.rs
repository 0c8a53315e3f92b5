//! `bench` from end to end.

use std::path::Path;

use serde_json::Value;
use tokometer_base::Nanos;
use tokometer_record::{Phase, RunReader, RunState, Stop, Timeline};

use crate::program::{Server, run};

#[test]
fn without_a_target_the_embedded_simulator_is_measured_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let line =
        "bench --num-prompts 20 --request-rate 100 --random-output-len 5 --format json --run-dir r";
    let page = run(folder.path(), line).succeeded().json();
    assert_eq!(page["summary"]["counts"]["succeeded"], 20, "{page:#}");
    let reader = RunReader::open(&folder.path().join("r")).unwrap();
    assert!(reader.info().targets[0].is_simulated);
    let measured = reader.timelines().unwrap().filter(|row| row.identity.phase == Phase::Measure);
    assert_eq!(measured.count(), 20);
    let RunState::Ended(end) = reader.state().unwrap() else { panic!("the run has no end") };
    assert_eq!(end.stop, Stop::Complete);
}

#[test]
fn a_report_of_the_run_says_what_the_bench_said() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let line = format!(
        "bench --base-url {} --num-prompts 10 --random-input-len 20 --random-output-len 5 --run-dir r",
        server.url
    );
    let bench = run(folder.path(), &line).succeeded();
    let report = run(folder.path(), "report r").succeeded();
    assert_eq!(bench.stdout, report.stdout);
    assert!(bench.stdout.starts_with("============ Serving Benchmark Result ============\n"));
    assert!(bench.stdout.contains("verdict: "), "{}", bench.stdout);
}

#[test]
fn result_files_of_both_families_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let line = format!(
        "bench --base-url {} --num-prompts 6 --random-input-len 20 --random-output-len 5 \
         --save-result --save-detailed --result-dir out --result-filename a.json --metadata k=v \
         --output-file b.jsonl --output-details --tag t --no-run-dir --quiet",
        server.url
    );
    let ended = run(folder.path(), &line).succeeded();
    assert_eq!(ended.stdout, "");
    assert!(!folder.path().join("runs").exists());
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let vllm: Value = serde_json::from_str(&read("out/a.json")).unwrap();
    assert_eq!((&vllm["completed"], &vllm["k"]), (&Value::from(6), &Value::from("v")));
    assert_eq!(vllm["input_lens"].as_array().unwrap().len(), 6);
    let sglang: Value = serde_json::from_str(read("b.jsonl").trim()).unwrap();
    assert_eq!((&sglang["tag"], &sglang["completed"]), (&Value::from("t"), &Value::from(6)));
}

#[test]
fn a_ramp_s_whole_rates_and_the_server_s_words_are_in_the_result_files() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let line = format!(
        "bench --base-url {} --num-prompts 9 --random-input-len 20 --random-output-len 3 \
         --ramp-up-strategy linear --ramp-up-start-rps 30 --ramp-up-end-rps 32 --save-result \
         --result-filename a.json --no-run-dir --quiet",
        server.url
    );
    run(folder.path(), &line).succeeded();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let vllm: Value = serde_json::from_str(&read("a.json")).unwrap();
    let changes = vllm["rps_change_events"].as_array().unwrap();
    let rates: Vec<f64> = changes.iter().map(|change| change["rps"].as_f64().unwrap()).collect();
    assert_eq!(rates, [30.0, 31.0, 32.0]);
    let times: Vec<&str> =
        changes.iter().map(|change| change["timestamp"].as_str().unwrap()).collect();
    assert!(times.is_sorted() && times[0] < times[2], "{times:?}");

    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--flavour", "sglang"]);
    let line = format!(
        "bench --backend sglang --base-url {} --dataset-name random --num-prompts 3 \
         --random-input-len 20 --random-output-len 3 --output-file b.jsonl --no-run-dir --quiet",
        server.url
    );
    run(folder.path(), &line).succeeded();
    let sglang: Value = serde_json::from_str(read("b.jsonl").trim()).unwrap();
    assert_eq!(sglang["server_info"]["server"], "tokometer-sim");
}

#[test]
fn a_duration_ends_the_run_without_a_number_of_requests() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let line = format!(
        "bench --base-url {} --duration 500ms --max-concurrency 2 --random-input-len 20 \
         --random-output-len 3 --format json --run-dir r",
        server.url
    );
    let page = run(folder.path(), &line).succeeded().json();
    assert!(page["summary"]["counts"]["succeeded"].as_u64().unwrap() > 0, "{page:#}");
    assert_eq!(page["summary"]["counts"]["failed"], 0);
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let program = crate::program::path().display();
    let script = format!(
        "{program} bench --num-prompts 3 --request-rate 100 --random-output-len 3 --no-run-dir \
         | true; echo ${{PIPESTATUS[0]}}"
    );
    let output = std::process::Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0", "{output:?}");
}

/// The measured requests of the run in `folder`, conversation by conversation.
fn turns(folder: &Path) -> Vec<Timeline> {
    let reader = RunReader::open(&folder.join("r")).unwrap();
    let rows = reader.timelines().unwrap();
    let mut rows: Vec<_> = rows.filter(|row| row.identity.phase == Phase::Measure).collect();
    rows.sort_by_key(|row| (row.identity.session, row.identity.turn));
    rows
}

/// Each turn waits for the answer before it and carries what was said; a server with a prefix cache
/// would be asked for the same beginning again.
#[test]
fn conversations_are_held_turn_by_turn() {
    let server = Server::new(&["--ttft", "3ms", "--itl", "1ms"]);
    for backend in ["sglang-oai-chat", "vllm"] {
        let folder = tempfile::tempdir().unwrap();
        let line = format!(
            "bench --backend {backend} --base-url {} --dataset-name generated-shared-prefix \
             --gsp-num-groups 2 --gsp-prompts-per-group 2 --gsp-system-prompt-len 20 \
             --gsp-question-len 10 --gsp-output-len 5 --gsp-num-turns 3 --max-concurrency 2 \
             --quiet --run-dir r",
            server.url
        );
        run(folder.path(), &line).succeeded();
        let rows = turns(folder.path());
        assert_eq!(rows.len(), 12, "{backend}");
        for talk in rows.chunks(3) {
            let turns: Vec<u32> = talk.iter().map(|row| row.identity.turn).collect();
            assert_eq!(turns, [0, 1, 2]);
            for pair in talk.windows(2) {
                assert!(pair[0].times.end < pair[1].times.first_byte_sent);
                let tokens = |at: usize| pair[at].usage.unwrap().prompt_tokens.unwrap();
                assert!(tokens(1) >= tokens(0) + 10, "{backend}: what was said is sent again");
            }
        }
    }
}

#[test]
fn any_dataset_can_be_held_as_conversations() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "3ms", "--itl", "1ms"]);
    let line = format!(
        "bench --backend openai-chat --base-url {} --num-prompts 4 --random-input-len 12 \
         --random-output-len 4 --multi-turn --multi-turn-num-turns 2 --multi-turn-delay-ms 5 \
         --multi-turn-concurrency 2 --per-turn-input-len 6 --quiet --run-dir r",
        server.url
    );
    run(folder.path(), &line).succeeded();
    let rows = turns(folder.path());
    assert_eq!(rows.len(), 8);
    for talk in rows.chunks(2) {
        let think = Nanos::from_millis(5);
        assert_eq!(talk[1].times.intended, talk[0].times.end.map(|end| end + think));
    }
}

/// Turns of 50 tokens and answers of 20: the third prompt has 190.
#[test]
fn a_turn_beyond_the_context_ends_its_session_and_is_not_cut() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "3ms", "--itl", "1ms"]);
    for answers in ["live", "recorded"] {
        let line = format!(
            "bench --base-url {} --tokenizer cl100k --num-prompts 2 --random-input-len 50 \
             --random-output-len 20 --ignore-eos --multi-turn --multi-turn-num-turns 3 \
             --max-model-len 200 --answers {answers} --run-dir r --overwrite --format json",
            server.url
        );
        let page = run(folder.path(), &line).succeeded().json();
        let counts = &page["summary"]["counts"];
        assert_eq!((&counts["succeeded"], &counts["never_sent"]), (&4.into(), &2.into()));
        let notes = &page["summary"]["notes"];
        assert!(notes.to_string().contains("context-overflow"), "{notes}");
        let rows = turns(folder.path());
        let planned = rows.iter().map(|row| row.requested.prompt_tokens).collect::<Vec<_>>();
        let known = (answers == "recorded").then_some(120);
        assert_eq!(planned, [Some(50), known, Some(50), known], "{answers}");
        if let Some(known) = known {
            assert_eq!(rows[1].usage.unwrap().prompt_tokens, Some(known), "exact lengths");
        }
    }
}

/// Two sub-agents after the first turn, one of them slower, and a turn that joins them; then a single
/// request.
const AGENT_TRACE: &str = r#"{"class":"agent","start_ns":0,"turns":[{"pieces":[{"made":{"name":{"block":1},"tokens":32}}],"answer_tokens":4},{"pieces":[{"made":{"name":{"block":1},"tokens":32}},{"answer":0}],"answer_tokens":9,"delay_ns":5000000,"agent":"a"},{"pieces":[{"made":{"name":{"block":2},"tokens":16}}],"parents":[0],"answer_tokens":3,"delay_ns":1000000,"agent":"b"},{"pieces":[{"made":{"name":{"block":1},"tokens":32}},{"answer":0}],"parents":[1,2],"answer_tokens":2,"delay_ns":2000000}]}
{"start_ns":20000000,"turns":[{"pieces":[{"made":{"name":{"block":1},"tokens":24}}],"answer_tokens":3}]}
"#;

#[test]
fn a_trace_is_replayed_with_its_times_its_pauses_and_its_joins() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.jsonl"), AGENT_TRACE).unwrap();
    let server = Server::new(&["--ttft", "3ms", "--itl", "1ms"]);
    let replay = |more: &str| {
        let url = &server.url;
        let line = format!(
            "bench --base-url {url} --tokenizer cl100k --trace t.jsonl --quiet --run-dir r --overwrite {more}"
        );
        run(folder.path(), &line).succeeded();
        let rows = turns(folder.path());
        assert_eq!(rows.len(), 5, "{more}");
        rows
    };
    let rows = replay("");
    let end = |row: usize| rows[row].times.end.unwrap();
    let due = |row: usize| rows[row].times.intended.unwrap();
    assert_eq!(due(1), end(0) + Nanos::from_millis(5));
    assert_eq!(due(2), end(0) + Nanos::from_millis(1));
    assert_eq!(due(3), end(1).max(end(2)) + Nanos::from_millis(2));
    assert_eq!(due(4), due(0) + Nanos::from_millis(20));
    let usage = |row: usize| rows[row].usage.unwrap();
    let lengths = |row: usize| (usage(row).prompt_tokens, usage(row).completion_tokens);
    assert_eq!(
        [0, 1, 2, 3, 4].map(lengths),
        [(32, 4), (36, 9), (16, 3), (36, 2), (24, 3)]
            .map(|(prompt, answer)| (Some(prompt), Some(answer)))
    );
    assert_eq!(rows[0].identity.class.as_deref(), Some("agent"));

    let rows = replay("--pace none --trace-speed 4 --max-sessions 1");
    let (ends, last) = (&rows[..4], &rows[4]);
    assert_eq!(rows[3].times.intended, rows[1].times.end.max(rows[2].times.end));
    assert!(ends.iter().all(|row| row.times.end <= last.times.first_byte_sent), "one at a time");
}

/// Of 80 turns 63 succeeded and 7 failed, and the ten behind failed ones were in no count.
#[test]
fn turns_behind_a_failed_one_are_never_sent_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let faults = r#"{"errors":{"status":500,"which":{"every":5}}}"#;
    let server = Server::new(&["--ttft", "3ms", "--itl", "1ms", "--faults", faults]);
    let line = |more: &str| {
        format!(
            "bench --backend openai-chat --base-url {} --tokenizer cl100k --num-prompts 6 \
             --random-input-len 12 --random-output-len 4 --multi-turn --multi-turn-num-turns 3 \
             --max-concurrency 3 --format json --no-run-dir {more}",
            server.url
        )
    };
    let count = |more: &str| run(folder.path(), &line(more)).json()["summary"]["counts"].clone();
    let counts = count("");
    let of = |name: &str| counts[name].as_u64().unwrap();
    assert!(of("failed") > 0 && of("never_sent") > 0, "{counts}");
    assert_eq!(of("succeeded") + of("failed") + of("never_sent"), 18, "{counts}");
    assert_eq!(count("--retries 3")["never_sent"], 0);
}

/// A server that sends no usage: the text is the only count, whatever files were asked for.
#[test]
fn answers_without_usage_are_counted_from_their_text_and_the_text_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let faults = r#"{"usage":"missing"}"#;
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--faults", faults]);
    let line = format!(
        "bench --base-url {} --num-prompts 12 --random-input-len 20 --random-output-len 16 \
         --tokenizer cl100k --format json --run-dir r",
        server.url
    );
    let page = run(folder.path(), &line).succeeded().json();
    let summary = &page["summary"];
    assert_eq!(summary["count_sources"]["retokenized"], 12, "{summary:#}");
    let classic = &summary["families"]["vllm"];
    let tokens = classic["total_output"].as_u64().unwrap();
    assert!((150..=230).contains(&tokens), "{classic:#}");
    let reader = RunReader::open(&folder.path().join("r")).unwrap();
    assert!(reader.timelines().unwrap().all(|row| row.text.is_none()));
}
