//! The guard on what comes back: tool calls, canaries, and answers that differ between two runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::program::{Server, run};
use crate::scripted::{AfterResponse, Scripted, ScriptedRequest, wait_in_script};

/// The whole answer to a canary, or a stream with this text.
fn answer(asked: &mut ScriptedRequest<'_>, text: &str) {
    let body: Value = serde_json::from_slice(&asked.body).unwrap();
    if body["stream"] == json!(true) {
        asked.start_stream();
        asked.event(json!({ "choices": [{ "index": 0, "text": text }] }).to_string());
        asked.event(r#"{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}"#);
        asked.event(r#"{"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":2}}"#);
        asked.event("[DONE]");
    } else {
        let choice = json!({ "index": 0, "text": text, "finish_reason": "stop" });
        let body = json!({ "choices": [choice], "usage": { "completion_tokens": 2 } });
        asked.answer("200 OK", "application/json", body.to_string());
    }
}

/// The figures that a run wrote for other programs.
fn summary(folder: &std::path::Path) -> Value {
    let text = std::fs::read_to_string(folder.join("a").join("summary.json")).unwrap();
    let page: Value = serde_json::from_str(&text).unwrap();
    page.get("summary").cloned().unwrap_or(page)
}

#[test]
fn tool_calls_are_joined_and_judged_by_their_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let tools = json!([{ "type": "function", "function": { "name": "weather", "parameters":
        { "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] } } }]);
    std::fs::write(folder.path().join("tools.json"), tools.to_string()).unwrap();
    let server = Scripted::new(|mut asked| {
        let (name, arguments) = match asked.number % 4 {
            0 => ("weather", r#"{"town":"Oslo"}"#),
            1 => ("climate", "{}"),
            _ => ("weather", r#"{"city":"Oslo"}"#),
        };
        let piece = |function: Value| {
            json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [{ "index": 0, "function": function }] } }] })
                .to_string()
        };
        asked.start_stream();
        asked.event(piece(json!({ "name": name, "arguments": "" })));
        for part in [&arguments[..1], &arguments[1..]] {
            asked.event(piece(json!({ "arguments": part })));
        }
        asked.event(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#);
        asked.event(r#"{"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":4}}"#);
        asked.event("[DONE]");
        AfterResponse::Close
    });
    let line = format!(
        "bench --backend openai-chat --base-url {} --model scripted --tokenizer cl100k --num-prompts 8 \
         --random-input-len 20 --tools tools.json --tool-choice required --max-concurrency 1 --details --run-dir a",
        server.url
    );
    let shown = run(folder.path(), &line).succeeded().stdout;
    assert!(shown.contains("4 of 8 tool calls are valid (50.0 %)"), "{shown}");
    assert!(shown.contains("2 of an unknown tool") && shown.contains("2 unlike the schema"));
    let summary = summary(folder.path());
    let found = &summary["quality"]["tool_calls"];
    let expected = json!({ "judged": 8, "valid": 4, "missing": 0, "not_json": 0, "unknown_tool": 2, "not_allowed": 0, "misfit": 2, "unchecked": 0 });
    assert_eq!(*found, expected);
    assert_eq!(summary["quality"]["empty"], 0, "a call is no empty answer");
}

/// A required call is read on every route, in pieces and in one.
#[test]
fn calls_of_every_route_are_valid() {
    let folder = tempfile::tempdir().unwrap();
    let parameters = json!({
        "type": "object", "required": ["city"], "additionalProperties": false,
        "properties": { "city": { "type": "string", "enum": ["Oslo \"N\"", "Rome"] } },
    });
    let function = json!({ "name": "weather", "parameters": parameters });
    let tools = json!([{ "type": "function", "function": function }]).to_string();
    std::fs::write(folder.path().join("tools.json"), tools).unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms"]);
    for backend in ["openai-chat", "openai-responses", "anthropic"] {
        for delivery in ["--tool-choice required", "--tool-choice weather --disable-stream"] {
            let line = format!(
                "bench --backend {backend} --base-url {} --tools tools.json {delivery} --num-prompts 3 \
                 --tokenizer cl100k --random-input-len 20 --random-output-len 40 --no-run-dir --format json",
                server.url
            );
            let summary = &run(folder.path(), &line).succeeded().json()["summary"];
            let calls = &summary["quality"]["tool_calls"];
            let found = (calls["judged"].as_u64(), calls["valid"].as_u64());
            assert_eq!(found, (Some(3), Some(3)), "{line}: {summary}");
            // Each piece has four characters of the arguments, and the server counts each.
            assert_eq!(summary["figures"]["total_output_tokens"], 18.0, "{line}");
        }
    }
}

/// Every request of a dataset may offer other tools. Its answer is judged by these, also when the record
/// is read again.
#[test]
fn rows_with_tools_of_their_own_are_judged_by_them() {
    let folder = tempfile::tempdir().unwrap();
    let schema =
        |kind: &str| json!({ "type": "object", "properties": { "city": { "type": kind } } });
    let tool = |name: &str, schema: Value| {
        let function = json!({ "name": name, "parameters": schema });
        json!([{ "type": "function", "function": function }])
    };
    let strange = json!({ "type": "object", "patternProperties": {} });
    let rows = [
        json!({ "tools": tool("weather", schema("string")) }),
        json!({ "tools": tool("weather", schema("integer")) }),
        json!({ "tools": tool("climate", schema("string")), "tool_choice": "required" }),
        json!({ "tools": tool("weather", strange) }),
        json!({}),
    ];
    let rows = rows.map(|mut row| {
        row["messages"] = json!([{ "role": "user", "content": "How is the weather in Oslo?" }]);
        row.to_string()
    });
    std::fs::write(folder.path().join("rows.jsonl"), rows.join("\n")).unwrap();
    let server = Scripted::new(|mut asked| {
        let call = json!({ "name": "weather", "arguments": r#"{"city":"Oslo"}"# });
        let delta = json!({ "tool_calls": [{ "index": 0, "function": call }] });
        asked.start_stream();
        asked.event(json!({ "choices": [{ "index": 0, "delta": delta }] }).to_string());
        asked.event(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#);
        asked.event(r#"{"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":4}}"#);
        asked.event("[DONE]");
        AfterResponse::Close
    });
    let line = format!(
        "bench --backend openai-chat --base-url {} --model scripted --tokenizer cl100k --dataset-name openai \
         --dataset-path rows.jsonl --num-prompts 5 --max-concurrency 1 --details --run-dir a",
        server.url
    );
    let shown = run(folder.path(), &line).succeeded().stdout;
    let again = run(folder.path(), "report a --details").succeeded().stdout;
    for shown in [shown, again] {
        assert!(shown.contains("1 of 4 tool calls are valid (25.0 %)"), "{shown}");
        assert!(shown.contains("1 with a schema that cannot be"), "{shown}");
    }
    let expected = json!({ "judged": 4, "valid": 1, "missing": 0, "not_json": 0, "unknown_tool": 1, "not_allowed": 0, "misfit": 1, "unchecked": 1 });
    assert_eq!(summary(folder.path())["quality"]["tool_calls"], expected);
}

#[test]
fn canaries_are_sent_beside_the_load_and_left_out_of_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    let rows = [
        r#"{"prompt":"The capital of France is","expected":"Paris"}"#,
        r#"{"prompt":"Two and two is","regex":"^(4|four)"}"#,
    ];
    std::fs::write(folder.path().join("canary.jsonl"), rows.join("\n")).unwrap();
    // Half as many canaries as requests that have ended: the last of 40 waits until there are 20.
    let (canaries, loads) = (Arc::new(AtomicU32::new(0)), AtomicU32::new(0));
    let server = Scripted::new(move |mut asked| {
        let body: Value = serde_json::from_slice(&asked.body).unwrap();
        let prompt = body["prompt"].as_str().unwrap_or_default();
        let is_canary = prompt.starts_with("Two") || prompt.starts_with("The capital");
        assert!(!is_canary || body["temperature"] == json!(0.0), "{body}");
        let _before = canaries.fetch_add(u32::from(is_canary), Ordering::SeqCst);
        if !is_canary && loads.fetch_add(1, Ordering::SeqCst) == 39 {
            wait_in_script(|| canaries.load(Ordering::SeqCst) >= 20);
        }
        answer(&mut asked, if prompt.starts_with("The capital") { " Paris" } else { "5" });
        AfterResponse::Close
    });
    let line = format!(
        "bench --base-url {} --model scripted --tokenizer cl100k --num-prompts 40 --max-concurrency 2 \
         --random-input-len 20 --canary canary.jsonl --canary-share 0.5 --run-dir a \
         --ready-check-timeout-sec 0 --num-warmups 0",
        server.url
    );
    run(folder.path(), &line).succeeded();
    let summary = summary(folder.path());
    assert_eq!(summary["counts"]["succeeded"], 40, "{summary}");
    let (sent, good) = (&summary["canaries"]["sent"], &summary["canaries"]["as_expected"]);
    let (sent, good) = (sent.as_u64().unwrap(), good.as_u64().unwrap());
    assert_eq!((sent, good), (20, 10), "{}", summary["canaries"]);
    let shown = run(folder.path(), "report a --details").succeeded().stdout;
    assert!(shown.contains(&format!("{good} of {sent} as expected")), "{shown}");
    assert!(shown.contains("note[canary-failed]"), "{shown}");
    assert_eq!(summary["canaries"]["faults"][0], json!({ "canary": 2, "answer": "5" }));
}

#[test]
fn a_canary_that_cannot_be_used_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let check = |rows: &str, flags: &str, parts: &[&str]| {
        std::fs::write(folder.path().join("c.jsonl"), rows).unwrap();
        let ended = run(folder.path(), &format!("bench --sim default --num-prompts 2 {flags}"));
        ended.says(2, parts);
    };
    let good = r#"{"prompt":"a","expected":"b"}"#;
    let second = |row: &str| format!("{good}\n{row}");
    let file = "--canary c.jsonl";
    check(&second(r#"{"prompt":"a"}"#), file, &["line 2", "neither `expected` nor `regex`"]);
    check(&second(r#"{"prompt":"a","regex":"("}"#), file, &["line 2", "regular expression"]);
    check(&second(r#"{"expected":"b"}"#), file, &["line 2", "either a `prompt` or `messages`"]);
    check(&second(r#"{"promt":"a","expected":"b"}"#), file, &["line 2", "promt"]);
    check("", file, &["it has no canaries"]);
    check(good, "--canary c.jsonl --canary-share 2", &["`--canary-share`: the most is 1"]);
    check(good, "--canary-share 0.1", &["without `--canary`"]);
    check(good, "--canary c.jsonl --backend openai-embeddings", &["`openai-embeddings`"]);
}

#[test]
fn compare_says_how_many_greedy_answers_differ() {
    let folder = tempfile::tempdir().unwrap();
    let server = |other: bool| {
        Scripted::new(move |mut asked| {
            let body: Value = serde_json::from_slice(&asked.body).unwrap();
            let prompt = body["prompt"].as_str().unwrap_or_default().to_owned();
            // A third of the prompts, by their length, has another answer.
            let is_changed = other && prompt.len().is_multiple_of(3);
            answer(&mut asked, &if is_changed { "other".to_owned() } else { prompt });
            AfterResponse::Close
        })
    };
    for (name, other, temperature) in [("a", false, "0"), ("b", true, "0"), ("c", true, "0.7")] {
        let line = format!(
            "bench --base-url {} --model scripted --tokenizer cl100k --num-prompts 30 --seed 3 \
             --random-input-len 20 --temperature {temperature} --max-concurrency 2 --run-dir {name}",
            server(other).url
        );
        run(folder.path(), &line).succeeded();
    }
    let compared = run(folder.path(), "compare --a a --b b --format json").json();
    let greedy = &compared["answers"]["greedy"];
    assert_eq!(greedy["compared"], 30, "{compared}");
    let differ = greedy["differ"].as_u64().unwrap();
    assert!((1..30).contains(&differ), "{compared}");
    let shown = run(folder.path(), "compare --a a --b b --details").stdout;
    assert!(shown.contains(&format!("greedy answers: {differ} of 30 differ")), "{shown}");
    let same = run(folder.path(), "compare --a a --b a --format json").json();
    assert_eq!(same["answers"]["greedy"]["differ"], 0, "{same}");
    let sampled = run(folder.path(), "compare --a a --b c --force --format json").json();
    assert_eq!(sampled["answers"]["greedy"], Value::Null, "{sampled}");
}
