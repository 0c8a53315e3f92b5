//! A server by its address alone: which server it is, a staircase of concurrency, one table.

use std::net::TcpListener;

use serde_json::Value;

use crate::program::{Server, command, ended, run};
use crate::scripted::{AfterResponse, Scripted, ScriptedRequest};

const SHORT: &str = "--random-input-len 16 --random-output-len 8 --disable-tqdm";

fn loads(folder: &std::path::Path) -> Vec<u64> {
    let mut points: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    points.sort();
    let load = |path: &std::path::PathBuf| {
        let plan = std::fs::read_to_string(path.join("plan.json")).unwrap();
        let plan: Value = serde_json::from_str(&plan).unwrap();
        plan["load"]["max_concurrency"].as_u64().unwrap()
    };
    points.iter().map(load).collect()
}

#[test]
fn an_address_alone_is_a_staircase_with_one_table_a_page_and_a_next_command() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "20ms", "--itl", "2ms"]);
    let line = |budget: &str| format!("{} --budget {budget} --run-dir s {SHORT}", server.url);
    let found = run(folder.path(), &line("6s")).succeeded();
    let out = &found.stdout;
    assert!(!out.contains("Serving Benchmark Result"), "{out}");
    assert!(out.starts_with("tokometer's simulator "), "{out}");
    let head = out.lines().find(|line| line.starts_with("in flight")).unwrap();
    for word in ["req/s", "tok/s", "per user", "TTFT p50", "p90", "TPOT p50"] {
        assert!(head.contains(word), "{head}");
    }
    let wide = |line: &&str| line.chars().count() > 80 && !line.starts_with("next: ");
    assert_eq!(out.lines().find(wide), None, "{out}");
    assert!(out.contains("\ntrust: "), "{out}");
    // The table, four lines of answer and trust with what led to it, and where to go on.
    let others = out.lines().filter(|line| !line.trim_start().starts_with(char::is_numeric));
    assert!(others.count() <= 16, "{out}");
    assert!(out.contains("\npage: s/page.html\n"), "{out}");
    let next = out.lines().find(|line| line.starts_with("next: ")).unwrap();
    let start = format!("next: tokometer capacity {} ", server.url);
    assert!(next.starts_with(&start) && next.contains("--slo \"p99 ttft < "), "{next}");
    assert!(next.contains("--random-input-len 16 --random-output-len 8"), "{next}");
    let page = std::fs::read_to_string(folder.path().join("s/page.html")).unwrap();
    assert!(page.contains("</html>"), "the page is cut");
    let is_answer =
        |line: &&str| line.starts_with("best trade-off: ") || line.starts_with("highest seen: ");
    let answer = out.lines().find(is_answer).unwrap();
    assert!(page.contains(answer), "the page lacks its answer: {answer}");

    // Steps around the knee are measured again.
    let mut loads = loads(&folder.path().join("s"));
    loads.sort_unstable();
    loads.dedup();
    let is_doubled = loads.windows(2).all(|pair| pair[1] == 2 * pair[0]);
    assert!(loads.len() > 1 && loads[0] == 1 && is_doubled, "{loads:?}");
    let shown = run(folder.path(), "report s").succeeded().stdout;
    let table = |text: &str| -> Vec<String> {
        let rows = text.lines().skip_while(|line| !line.starts_with("in flight"));
        rows.take_while(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(table(&shown), table(out), "`report` shows another table");
    // The verdict and the next command were left out. The page has been named where it was written.
    let all: Vec<&str> = out.lines().filter(|line| !line.starts_with("page: ")).collect();
    assert_eq!(shown.lines().collect::<Vec<_>>(), all);

    let line = line("1s");
    let refused = run(folder.path(), &line);
    assert_eq!(refused.code, Some(6), "{}", refused.stderr);
    let again = format!("{line} --overwrite --format json --html mine.html");
    let document = run(folder.path(), &again).succeeded().json();
    assert_eq!(document["staircase"]["steps"][0]["concurrency"], 1);
    let runs = document["runs"].as_array().unwrap().len();
    assert_eq!(document["staircase"]["steps"].as_array().unwrap().len(), runs);
    assert!(folder.path().join("mine.html").is_file());
    let quiet = run(folder.path(), &format!("{line} --overwrite -q")).succeeded();
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    let quiet = run(folder.path(), &format!("{line} --overwrite -q --format json")).succeeded();
    assert_eq!(
        (quiet.json()["staircase"]["steps"][0]["concurrency"].as_u64(), quiet.stderr.as_str()),
        (Some(1), "")
    );
}

/// A staircase of one step was shown as a run of its own, without its findings.
#[test]
fn a_staircase_of_one_step_is_shown_again_as_a_staircase() {
    let folder = tempfile::tempdir().unwrap();
    // Two more response times do not fit into the budget.
    let server = Server::new(&["--ttft", "200ms", "--itl", "2ms"]);
    let found = run(folder.path(), &format!("{} --budget 600ms -o s {SHORT}", server.url));
    let found = found.succeeded();
    let loads = loads(&folder.path().join("s"));
    assert!(loads.iter().all(|load| *load == 1), "{loads:?}");
    let shown = run(folder.path(), "report s").succeeded().stdout;
    let all: Vec<&str> = found.stdout.lines().filter(|line| !line.starts_with("page: ")).collect();
    assert_eq!(shown.lines().collect::<Vec<_>>(), all);
}

#[test]
fn an_address_with_a_load_is_one_run_with_the_classic_block() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let line =
        format!("bench {}/v1 --max-concurrency 2 --duration 300ms {SHORT} --run-dir r", server.url);
    let found = run(folder.path(), &line).succeeded();
    assert_eq!(found.stdout.matches("Serving Benchmark Result").count(), 1, "{}", found.stdout);
    let plan = std::fs::read_to_string(folder.path().join("r/plan.json")).unwrap();
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["targets"][0]["endpoint"], "/v1/chat/completions");
    let line = format!("bench {} --random-input-len 8,16 --budget 1s", server.url);
    let refused = run(folder.path(), &line);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let line = format!("bench {0} --base-url {0}", server.url);
    let refused = run(folder.path(), &line);
    assert!(refused.stderr.contains("cannot use `--base-url` together with"), "{}", refused.stderr);
}

/// Requests of one length in a closed loop run in lock-step.
#[test]
fn lengths_that_nobody_gave_vary_and_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let check = |line: &str, expected: bool| {
        let planned =
            ended(&mut command(folder.path(), &format!("{line} --print-plan"))).succeeded();
        assert_eq!(
            planned.stdout.contains("range_ratio = 0.5"),
            expected,
            "{line}: {}",
            planned.stdout
        );
    };
    let url = &server.url;
    check(url, true);
    check(&format!("bench {url} --max-concurrency 4"), true);
    check(&format!("capacity {url} --slo requests>1"), true);
    check(&format!("{url} --random-input-len 64"), false);
    check(&format!("{url} --conventions sglang --dataset-name random"), false);
    check(&format!("bench --base-url {url}"), false);
    let line =
        format!("bench {url} --max-concurrency 2 --num-prompts 4 --disable-tqdm --no-run-dir");
    let found = run(folder.path(), &line).succeeded();
    assert!(found.stderr.contains("about 512 in, 128 out (±50 %)"), "{}", found.stderr);
}

/// What a server of some kind answers besides its measured routes.
struct Kind {
    headers: &'static str,
    owner: &'static str,
    route: &'static str,
    body: &'static str,
    expected: &'static str,
}

const KINDS: [Kind; 6] = [
    Kind {
        headers: "server: uvicorn",
        owner: "vllm",
        route: "/version",
        body: r#"{"version":"0.11.0"}"#,
        expected: "server: vLLM 0.11.0",
    },
    Kind {
        headers: "server: uvicorn",
        owner: "sglang",
        route: "/get_server_info",
        body: r#"{"version":"0.4.9","tp_size":1}"#,
        expected: "server: SGLang 0.4.9",
    },
    Kind {
        headers: "x-a: b",
        owner: "scripted",
        route: "/info",
        body: r#"{"version":"3.3.1","max_total_tokens":9}"#,
        expected: "server: TGI 3.3.1",
    },
    Kind {
        headers: "Server: llama.cpp",
        owner: "llamacpp",
        route: "/props",
        body: r#"{"build_info":"b1","default_generation_settings":{}}"#,
        expected: "server: llama.cpp b1",
    },
    Kind {
        headers: "x-litellm-version: 1.77",
        owner: "openai",
        route: "/none",
        body: "{}",
        expected: "server: a server behind LiteLLM",
    },
    Kind {
        headers: "x-a: b",
        owner: "acme",
        route: "/none",
        body: "{}",
        expected: "server: an OpenAI-compatible server",
    },
];

fn whole(asked: &mut ScriptedRequest<'_>, status: &str, headers: &str, body: &str) {
    let length = body.len();
    asked.send(format!(
        "HTTP/1.1 {status}\r\n{headers}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    ));
}

/// One chat answer: whole for the probe, streamed for a measured request.
fn chat(asked: &mut ScriptedRequest<'_>) -> AfterResponse {
    if !String::from_utf8_lossy(&asked.body).contains("\"stream\":true") {
        whole(asked, "200 OK", "x-a: b", r#"{"choices":[{"message":{"content":"a"}}]}"#);
        return AfterResponse::Stay;
    }
    asked.start_stream();
    asked.event(r#"{"choices":[{"index":0,"delta":{"content":" a"}}]}"#);
    asked.event(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#);
    asked.event(r#"{"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":1}}"#);
    asked.event("[DONE]");
    AfterResponse::Close
}

#[test]
fn servers_are_told_by_what_they_say_of_themselves() {
    let folder = tempfile::tempdir().unwrap();
    for kind in &KINDS {
        let server = Scripted::raw(|mut asked| {
            match asked.line.as_str() {
                "GET /v1/models" => {
                    let list = format!(r#"{{"data":[{{"id":"m","owned_by":"{}"}}]}}"#, kind.owner);
                    whole(&mut asked, "200 OK", kind.headers, &list);
                }
                line if line == format!("GET {}", kind.route) => {
                    whole(&mut asked, "200 OK", kind.headers, kind.body);
                }
                "POST /v1/chat/completions" => return chat(&mut asked),
                _ => whole(&mut asked, "404 Not Found", kind.headers, "{}"),
            }
            AfterResponse::Stay
        });
        let line = format!(
            "{} --max-concurrency 1 --num-prompts 1 {SHORT} --tokenizer cl100k --no-run-dir",
            server.url
        );
        let found = run(folder.path(), &line).succeeded();
        assert!(found.stderr.contains(kind.expected), "{}: {}", kind.expected, found.stderr);
    }
}

/// A model without a chat template has a chat route that refuses every request.
#[test]
fn a_server_that_refuses_chat_is_measured_with_completions() {
    let folder = tempfile::tempdir().unwrap();
    let server = Scripted::new(|mut asked| {
        let is_streamed = String::from_utf8_lossy(&asked.body).contains("\"stream\":true");
        if asked.line != "POST /v1/completions" {
            asked.answer("400 Bad Request", "application/json", r#"{"error":"no chat template"}"#);
        } else if is_streamed {
            asked.good_answer(2);
            return AfterResponse::Close;
        } else {
            asked.answer("200 OK", "application/json", r#"{"choices":[{"text":"a"}]}"#);
        }
        AfterResponse::Stay
    });
    let line = format!(
        "{} --max-concurrency 1 --num-prompts 1 {SHORT} --tokenizer cl100k --no-run-dir",
        server.url
    );
    let found = run(folder.path(), &line).succeeded();
    assert!(found.stderr.contains("measuring /v1/completions instead"), "{}", found.stderr);
}

/// Gateways route to models, and servers load adapters, that they do not list.
#[test]
fn a_model_that_is_not_listed_goes_to_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Scripted::new(|mut asked| {
        let is_it = String::from_utf8_lossy(&asked.body).contains("\"model\":\"other\"");
        if is_it {
            asked.good_answer(2);
        } else {
            asked.answer("404 Not Found", "application/json", "{}");
        }
        AfterResponse::Close
    });
    let line = format!(
        "bench --base-url {} --model other --num-prompts 2 {SHORT} --tokenizer cl100k --details --no-run-dir",
        server.url
    );
    let found = run(folder.path(), &line).succeeded();
    let remark = "the server does not list the model `other`";
    assert!(found.stdout.contains(remark), "{}", found.stdout);
}

#[test]
fn printing_a_plan_sends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let lines = [
        url.clone(),
        format!("bench {url}"),
        format!("bench {url} --max-concurrency 4"),
        format!("bench --base-url {url} --against {url}"),
        format!("capacity {url} --slo requests>1"),
        format!("capacity {url} --slo requests>1 --budget 5m"),
        format!("capacity --base-url {url} --slo requests>1"),
        format!("predict --engine default --base-url {url}"),
        format!("dataset --base-url {url}"),
    ];
    for line in lines {
        let planned = ended(&mut command(folder.path(), &format!("{line} --print-plan")));
        planned.says(0, &["[load]"]);
        assert!(listener.accept().is_err(), "`{line} --print-plan` connected");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something was written");
}

#[test]
fn a_search_has_a_budget_begins_near_the_knee_and_says_what_it_knows() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "20ms", "--itl", "2ms"]);
    let line = format!(
        "capacity {} --budget 12s --max 60 --html page.html --run-dir c {SHORT}",
        server.url
    );
    let mut search = command(folder.path(), &line);
    let found = ended(search.args(["--slo", "p50 ttft < 5s"])).succeeded();
    assert!(found.stdout.contains("\ncapacity: "), "{}", found.stdout);
    let words = [
        "a staircase of at most",
        "first estimate, for a server of ",
        "outcome       tok/s           limit    left  nearest to its limit",
        "  met         ",
    ];
    for words in words {
        assert!(found.stderr.contains(words), "no `{words}` in {}", found.stderr);
    }
    assert!(!found.stderr.contains(" for 0 s"), "{}", found.stderr);
    assert!(folder.path().join("page.html").is_file());
    assert!(folder.path().join("c/staircase/staircase.json").is_file());
    let resumed = format!("{line} --resume --random-output-len 9");
    let mut resumed = command(folder.path(), &resumed);
    let resumed = ended(resumed.args(["--slo", "p50 ttft < 5s"]));
    resumed.says(2, &["output_len is 8 there and 9 here"]);
    let mut refused = command(folder.path(), "capacity http://127.0.0.1:9");
    let refused = ended(refused.args(["--slo", "p99 ttft < 2"]));
    refused.says(2, &["write `p99 ttft < 2s` or"]);
}
