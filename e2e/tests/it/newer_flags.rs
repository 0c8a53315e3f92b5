//! Images, structured output, and flags of the newest versions of the other tools.

use tokometer_record::{RunReader, Timeline};

use crate::program::{Server, run};
use crate::scripted::{AfterResponse, Scripted};

/// The server's refusal says what it found in the request.
#[test]
fn images_reach_the_responses_and_messages_routes_in_their_own_form() {
    let folder = tempfile::tempdir().unwrap();
    for (backend, form) in [
        ("openai-responses", r#"{"type":"input_image","image_url":"data:image/jpeg;base64,"#),
        ("anthropic", r#"{"type":"image","source":{"type":"base64","media_type":"image/jpeg""#),
    ] {
        let server = Scripted::new(move |mut asked| {
            let body = String::from_utf8(asked.body.clone()).unwrap();
            let found = if body.contains(form) { "image seen" } else { "no image" };
            let error = format!(r#"{{"error":{{"message":"{found}"}}}}"#);
            asked.answer("400 Bad Request", "application/json", error);
            AfterResponse::Close
        });
        let line = format!(
            "bench --backend {backend} --base-url {} --model m --dataset-name random-mm --num-prompts 2 \
             --random-input-len 5 --tokenizer cl100k --no-run-dir --random-mm-bucket-config {{(64,64,1):1.0}}",
            server.url
        );
        let ended = run(folder.path(), &line);
        let said = format!("{} {}", ended.stdout, ended.stderr);
        assert!(said.contains("image seen") && !said.contains("no image"), "{said}");
    }
}

/// Generated prompts imply `ignore_eos`. vLLM ends a request with status 500 where a model must go on behind
/// the end of its JSON.
#[test]
fn a_constrained_answer_may_end() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("schema.json"), r#"{"type":"boolean"}"#).unwrap();
    let tools = r#"[{"type":"function","function":{"name":"f"}}]"#;
    std::fs::write(folder.path().join("tools.json"), tools).unwrap();
    let cases = [
        ("", true),
        ("--structured schema.json", false),
        ("--tools tools.json", false),
        ("--structured schema.json --ignore-eos", true),
    ];
    for (flags, is_sent) in cases {
        let line = format!("bench --backend openai-chat --model m --print-plan {flags}");
        let plan = run(folder.path(), &line).succeeded().stdout;
        let found = plan.lines().find(|line| line.contains("ignore_eos")).unwrap();
        assert_eq!(!found.contains("off"), is_sent, "{flags}: {found}");
    }
}

#[test]
fn what_has_no_effect_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let said = |flags: &str| {
        let line =
            format!("bench --sim default --tokenizer cl100k --no-run-dir --num-prompts 2 {flags}");
        run(folder.path(), &line).stderr
    };
    let lengths = "--random-input-len 5 --random-output-len 2";
    let queue = said(&format!("{lengths} --percentile-metrics client_queue_time"));
    let needed = "the section `client_queue_time` is not shown: it needs `--max-concurrency`";
    assert!(queue.contains(needed), "{queue}");
    let queued = said(&format!("{lengths} -c 2 --percentile-metrics e2el_including_client_queue"));
    assert!(queued.contains("and a finite `--request-rate`"), "{queued}");
    let audio = said(&format!("{lengths} --dataset-name custom_audio --backend openai-audio"));
    assert!(audio.contains("cannot open the dataset `custom_audio`: no file"), "{audio}");
    assert_eq!(audio.matches("`--random-input-len` has no effect").count(), 1, "{audio}");
}

#[test]
fn structured_answers_are_judged_beside_their_latency() {
    let folder = tempfile::tempdir().unwrap();
    let schema = r#"{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}"#;
    std::fs::write(folder.path().join("schema.json"), schema).unwrap();
    std::fs::write(folder.path().join("none.json"), r#"{"a":1}"#).unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms"]);
    let sent = |backend: &str, file: &str, more: &str| {
        format!(
            "bench --backend {backend} --base-url {} --structured {file} --num-prompts 4 \
             --tokenizer cl100k --random-input-len 20 --no-run-dir --format json {more}",
            server.url
        )
    };
    let line = |file: &str| sent("openai-chat", file, "--random-output-len 9");
    let judged = |line: &str| {
        let page = run(folder.path(), line).succeeded().json();
        ["judged", "json", "valid"].map(|key| page["summary"]["quality"][key].as_u64())
    };
    for backend in ["openai-chat", "openai-responses", "anthropic"] {
        for delivery in ["", "--disable-stream"] {
            let line = sent(backend, "schema.json", &format!("--random-output-len 9 {delivery}"));
            assert_eq!(judged(&line), [Some(4); 3], "{line}");
        }
    }
    // The document has two tokens: the first is no document.
    let line_cut = sent("openai-chat", "schema.json", "--random-output-len 1");
    assert_eq!(judged(&line_cut), [Some(4), Some(0), Some(0)]);
    let refused = run(folder.path(), &line("none.json"));
    refused.says(2, &["none.json`: it is not a JSON schema"]);
    let text = r#"{"type":"object","properties":{"a":{"type":"text","pattern":"x"}}}"#;
    std::fs::write(folder.path().join("none.json"), text).unwrap();
    let refused = run(folder.path(), &line("none.json"));
    refused.says(2, &["`/properties/a/type` names no type"]);
}

#[test]
fn images_are_sent_with_every_request() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms"]);
    let line = format!(
        "bench --backend openai-chat --base-url {} --dataset-name random-mm --num-prompts 4 \
         --tokenizer cl100k --random-input-len 20 --random-output-len 3 --quiet --run-dir run \
         --random-mm-base-items-per-request 2 --random-mm-bucket-config {{(64,64,1):1.0}}",
        server.url
    );
    run(folder.path(), &line).succeeded();
    let reader = RunReader::open(&folder.path().join("run")).unwrap();
    let rows: Vec<Timeline> = reader.timelines().unwrap().collect();
    assert_eq!(rows.iter().filter(|row| row.is_success()).count(), 4);
    assert!(rows.iter().all(|row| row.requested.body_bytes > 5_000), "two images each");
}

#[test]
fn newer_flags_do_what_they_say_or_name_what_to_use() {
    let folder = tempfile::tempdir().unwrap();
    let line =
        "bench --extra-body.chat_template_kwargs.enable_thinking false --rust-client --print-plan";
    let ended = run(folder.path(), line).succeeded();
    ended.prints(&["enable_thinking", "`--rust-client` has no effect"]);
    let row = |line: &str, parts: &[&str]| {
        let ended = run(folder.path(), line);
        ended.says(2, parts);
    };
    row(
        "bench --backend openai-chat --endpoint /v1/responses",
        &["`openai-chat` does not support `/v1/responses`", "--backend openai-responses"],
    );
    row("bench --backend gserver", &["unsupported backend `gserver`", "--backend sglang"]);
    row("bench --dataset-name mmmu", &["unsupported dataset `mmmu`", "custom_image"]);
    row("bench --dataset-name random-mm --tokenizer cl100k", &["use `--backend openai-chat`"]);
}

#[test]
fn the_client_s_queue_is_printed_and_saved_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "20ms", "--itl", "1ms"]);
    let line = format!(
        "bench --base-url {} --num-prompts 12 --random-input-len 20 --random-output-len 3 \
         --request-rate 200 --max-concurrency 2 --no-run-dir --save-result --save-detailed \
         --result-filename out.json --percentile-metrics e2el,client_queue_time,e2el_including_client_queue",
        server.url
    );
    let shown = run(folder.path(), &line).succeeded().stdout;
    assert!(shown.contains("---------------Client-side Queueing---------------"), "{shown}");
    assert!(shown.contains("Mean E2EL incl. Client Queue (ms):"), "{shown}");
    let saved = std::fs::read_to_string(folder.path().join("out.json")).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
    assert!(saved["mean_client_queue_time_ms"].as_f64() > Some(0.0));
    assert_eq!(saved["latencies"].as_array().unwrap().len(), 12);
    let again = run(folder.path(), "report out.json --layout v5").succeeded().stdout;
    assert!(again.contains("Client-side Queueing"), "{again}");
}
