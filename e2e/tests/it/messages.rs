//! What the program says about servers that answer, but not as an inference server does: one row each.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::program::{ProgramExit, command, ended, ended_with_input, run};
use crate::scripted::{AfterResponse, Scripted, ScriptedRequest};

const SMALL: &str = "--num-prompts 4 --random-input-len 20 --random-output-len 3 --no-run-dir \
                     --model scripted --tokenizer cl100k --details";

/// Words of all output, so that a test does not depend on where lines are broken.
fn words(ended: &ProgramExit) -> String {
    let text = format!("{} {}", ended.stdout, ended.stderr);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(ended: &ProgramExit, parts: &[&str], code: i32) {
    let said = words(ended);
    for part in parts {
        assert!(said.contains(part), "`{part}` is not in:\n{}\n{}", ended.stdout, ended.stderr);
    }
    assert_eq!(ended.code, Some(code), "{}\n{}", ended.stdout, ended.stderr);
    assert!(!said.contains("os error") && !said.contains("panicked"), "{said}");
}

fn bench(url: &str, more: &str) -> ProgramExit {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &format!("bench --base-url {url} {SMALL} {more}"))
}

/// Every prompt gets this answer.
fn answered(script: impl Fn(&mut ScriptedRequest<'_>) + Send + Sync + 'static) -> ProgramExit {
    let server = Scripted::new(move |mut asked| {
        script(&mut asked);
        AfterResponse::Close
    });
    bench(&server.url, "")
}

const STREAM: &str = "data: {\"choices\":[{\"index\":0,\"text\":\" a\"}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"text\":\" b\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":2}}\n\n\
    data: [DONE]\n\n";

#[test]
fn a_compressed_stream_is_counted_and_noted() {
    let ended = answered(|asked| {
        assert!(asked.head.contains("Accept-Encoding: identity"), "{}", asked.head);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(STREAM.as_bytes()).unwrap();
        let body = encoder.finish().unwrap();
        asked.send(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        ));
        asked.send(body);
    });
    let parts = [
        "4 of 4 succeeded",
        "8 out",
        "note[compressed-stream]: the server compressed 4 answers",
        "the times of tokens inside a compressed block are unknown",
    ];
    check(&ended, &parts, 0);
}

#[test]
fn an_encoding_that_cannot_be_read_fails_each_request_with_its_name() {
    let ended = answered(|asked| {
        asked.send(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: br\r\n\
             content-length: 3\r\n\r\nxyz",
        );
    });
    let parts = ["0 of 4 succeeded", "compressed the response (br)", "turn compression off"];
    check(&ended, &parts, 7);
}

#[test]
fn answers_that_are_no_answers_are_failures_with_clear_words() {
    let row =
        |script: fn(&mut ScriptedRequest<'_>), parts: &[&str]| check(&answered(script), parts, 7);
    row(
        |asked| asked.send("HTTP/1.1 204 No Content\r\n\r\n"),
        &["4 × unusable response (status 204)", "status 204, which has no body"],
    );
    row(
        |asked| asked.answer("200 OK", "text/event-stream", ""),
        &["4 × unusable response (status 200): the response body is empty"],
    );
    row(
        |asked| asked.answer("200 OK", "text/event-stream", "data: [DONE]\n\n"),
        &["4 × response without content (status 200)", "ended without content (events: 1)"],
    );
    row(
        |asked| asked.answer("200 OK", "text/html", "<html><title>Sign in</title></html>"),
        &["HTML page (title: Sign in), not an API response; check `--base-url`"],
    );
    row(
        |asked| asked.answer("502 Bad", "text/html", "<html><title>502 Bad</title></html>"),
        &["4 × status 502: the server answered with an HTML page (title: 502 Bad)"],
    );
    row(
        |asked| {
            asked.send(
                "HTTP/1.1 308 Moved\r\nlocation: https://new.example/v1/completions\r\n\
                 content-length: 0\r\n\r\n",
            );
        },
        &["redirects to https://new.example/v1/completions; use `--base-url https://new.example`"],
    );
    row(|_asked| {}, &["4 × the response was cut off: the server closed the connection without"]);
    row(
        |asked| asked.answer("404 Not Found", "application/json", r#"{"detail":"Not Found"}"#),
        &[
            "4 × status 404: Not Found",
            "`POST /v1/completions` is not accepted",
            "--backend openai",
        ],
    );
}

#[test]
fn an_interim_answer_before_the_answer_changes_nothing() {
    let ended = answered(|asked| {
        asked.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n");
        asked.good_answer(3);
    });
    check(&ended, &["4 of 4 succeeded"], 0);
}

#[test]
fn a_failed_run_groups_its_causes_within_80_columns() {
    let server = Scripted::new(|mut asked| {
        if asked.number % 2 == 0 {
            let body = format!("\"{}\"", "busy ".repeat(50));
            asked.answer("503 Busy", "application/json", body);
        } else {
            asked.start_stream();
            asked.event(r#"{"choices":[{"index":0,"text":" a"}]}"#);
        }
        AfterResponse::Close
    });
    let ended = bench(&server.url, "--max-concurrency 1");
    check(&ended, &["2 × status 503: ", "2 × the response was cut off (status 200): "], 7);
    assert!(ended.stderr.contains("\nerror: no request succeeded\n"), "{}", ended.stderr);
    let is_cause = |line: &&str| line.contains(" × ") || line.starts_with("    ");
    for line in ended.stdout.lines().chain(ended.stderr.lines()).filter(is_cause) {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

/// A server that reads a little and sends these bytes, whatever is asked.
fn blunt(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(Shutdown::Write);
        }
    });
    address.to_string()
}

#[test]
fn tls_and_plain_http_on_each_others_ports_are_recognised_at_once() {
    // Nobody waits an hour: that an address has the wrong scheme is final.
    let wait = "--ready-check-timeout-sec 3600";
    let alert = blunt(b"\x15\x03\x01\x00\x02\x02\x46");
    let ended = bench(&format!("http://{alert}"), wait);
    check(&ended, &["the server speaks TLS on this port; use https:// in `--base-url`"], 3);
    let plain = blunt(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    let ended = bench(&format!("https://{plain}"), &format!("{wait} --insecure"));
    check(&ended, &["the server does not speak TLS on this port; use http:// in `--base-url`"], 3);
    let nginx = "HTTP/1.1 400 Bad Request\r\ncontent-length: 83\r\n\r\n\
        <html><head><title>400 The plain HTTP request was sent to HTTPS port</title></html>";
    let ended = bench(&format!("http://{}", blunt(nginx.as_bytes())), "");
    check(&ended, &["the server speaks TLS on this port; use https:// in `--base-url`"], 7);
}

#[test]
fn servers_that_cannot_be_reached_are_told_apart() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let parts = ["cannot reach http://127.0.0.1", "no server listens there", "tokometer sim"];
    check(&bench(&format!("http://{gone}"), ""), &parts, 3);
    let parts = ["the host name `no-such-host.invalid` cannot be resolved"];
    check(&bench("http://no-such-host.invalid:8000", ""), &parts, 3);
    let parts = ["closed the connection without a response", "needs https://"];
    check(&bench(&format!("http://{}", blunt(b"")), ""), &parts, 3);
}

/// A proxy's error page made a user wait for half a minute without a reason.
#[test]
fn a_server_that_lists_no_model_is_told_from_one_that_has_no_list() {
    let folder = tempfile::tempdir().unwrap();
    let row = |list: fn(&mut ScriptedRequest<'_>), parts: &[&str]| {
        let server = Scripted::raw(move |mut asked| {
            list(&mut asked);
            AfterResponse::Close
        });
        let line = format!("{} --ready-check-timeout-sec 2 --no-run-dir", server.url);
        let ended = run(folder.path(), &line);
        check(&ended, parts, 3);
        assert!(!ended.stderr.contains("OpenAI-compatible"), "{}", ended.stderr);
    };
    row(
        |asked| asked.answer("404 Not Found", "application/json", r#"{"detail":"Not Found"}"#),
        &["cannot find out which model to measure", "status 404: Not Found", "`--model`"],
    );
    row(
        |asked| asked.answer("200 OK", "application/json", r#"{"data":[]}"#),
        &["the server lists no models", "load a model on the server"],
    );
    row(
        |asked| asked.answer("502 Bad", "text/html", "<html><title>502 Bad</title></html>"),
        &[
            "the server is not ready yet (it responded with status 502)",
            "HTML page (title: 502 Bad)",
        ],
    );
}

#[test]
fn a_redirect_at_the_ready_check_is_followed_and_named() {
    let server = Scripted::raw(|mut asked| {
        match asked.line.as_str() {
            "GET /v1/models" => asked.send(
                "HTTP/1.1 307 Moved\r\nlocation: /api/v1/models\r\ncontent-length: 0\r\n\r\n",
            ),
            "GET /api/v1/models" => {
                asked.answer("200 OK", "application/json", r#"{"data":[{"id":"scripted"}]}"#);
            }
            line if line.starts_with("POST") => asked.good_answer(3),
            _ => asked.answer("404 Not Found", "text/plain", ""),
        }
        AfterResponse::Close
    });
    let ended = bench(&server.url, "");
    let advice = format!("use `--base-url {}/api`", server.url);
    check(&ended, &["4 of 4 succeeded", "the server redirects to", &advice], 0);
}

#[test]
fn a_refused_key_is_said_at_once_with_what_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let server = Scripted::new(|mut asked| {
        if asked.head.contains("Authorization: Bearer right") {
            asked.good_answer(3);
        } else {
            asked.answer("401 Unauthorized", "application/json", r#"{"error":"no"}"#);
        }
        AfterResponse::Close
    });
    let line = |more: &str| {
        let wait = "--ready-check-timeout-sec 3600";
        format!("bench --base-url {} {SMALL} {wait} {more}", server.url)
    };
    let unset = ["status 401: no", "no API key was sent: set OPENAI_API_KEY", "`--api-key`"];
    check(&run(folder.path(), &line("")), &unset, 3);
    let wrong = ["status 401: no", "the API key that was sent was refused: check OPENAI_API_KEY"];
    check(&run(folder.path(), &line("--api-key wrong")), &wrong, 3);
    std::fs::write(folder.path().join("key"), "right\n").unwrap();
    check(&run(folder.path(), &line("--api-key-file key")), &["4 of 4 succeeded"], 0);
    check(&run(folder.path(), &line("--api-key right")), &["4 of 4 succeeded"], 0);
    let line = line("--api-key right").replace("--no-run-dir", "--run-dir r");
    check(&run(folder.path(), &line), &["4 of 4 succeeded"], 0);
    for file in ["plan.json", "summary.json", "end.json"] {
        let text = std::fs::read_to_string(folder.path().join("r").join(file)).unwrap();
        assert!(!text.contains("right"), "{file}");
    }
    let missing = ["cannot use `--api-key-file none`: the file cannot be read (entity not found)"];
    check(&run(folder.path(), "bench --api-key-file none"), &missing, 2);
}

#[test]
fn a_refused_first_prompt_names_the_route_or_the_field_to_change() {
    let row = |status: &'static str, parts: &[&str]| {
        let server = Scripted::new(move |mut asked| {
            asked.answer(status, "application/json", r#"{"error":"no"}"#);
            AfterResponse::Close
        });
        let ended = bench(&server.url, "--ready-check-timeout-sec 3600");
        let refused = format!(
            "the server refused the first prompt: it responded with status {}",
            &status[..3]
        );
        check(&ended, &[&[refused.as_str()], parts].concat(), 3);
    };
    let route = ["does not accept `POST /v1/completions`", "--backend openai"];
    row("404 Not Found", &route);
    row("405 Method Not Allowed", &route);
    row("413 Too Large", &["larger than the server accepts"]);
    row("422 Unprocessable", &["--extra-body"]);
    row("403 Forbidden", &["no API key was sent"]);
}

#[test]
fn command_lines_that_cannot_be_meant_name_what_to_type() {
    let folder = tempfile::tempdir().unwrap();
    let row = |line: &str, parts: &[&str]| check(&run(folder.path(), line), parts, 2);
    row("bench --random-input-len 4294967295", &["`workload.input_len`: the most is 10000000"]);
    row("bench --num-prompts 18446744073709551615", &["the most is 1000000000"]);
    row("bench --num-prompts 0", &["nothing to measure"]);
    row("bench --random-input-len 0", &["at least one token"]);
    row("bench --resume --no-run-dir", &["--resume", "together with", "--no-run-dir"]);
    row("bench --plan .", &["cannot read the plan `.`: it is a folder", "`./plan.json`"]);
    row("bench --resume", &["cannot use `--resume` without the folder", "`--run-dir DIR`"]);
    row("bench --overwrite", &["cannot use `--overwrite` without the folder", "`--run-dir DIR`"]);
    let ramp =
        "cannot use `--ramp-up-strategy` without `--ramp-up-start-rps` and `--ramp-up-end-rps`";
    row("bench --ramp-up-strategy linear", &[ramp, "--ramp-up-start-rps 1"]);
    row("bench --ramp-up-start-rps 1", &["without `--ramp-up-strategy` and `--ramp-up-end-rps`"]);
    row("bench --base-url http://h --sim", &["cannot use `--sim` together with `--base-url`"]);
    row(
        "compare --a nope --b nope",
        &["cannot read `nope`: there is no such file", "give run folders"],
    );
    row("report nope", &["cannot read `nope`: there is no such file", "give run folders"]);
    row("bench --plan nope.toml", &["there is no such file", "`--print-plan`"]);
    row("help nope", &["nope"]);
    row("bench --rate 4", &["unknown flag `--rate`", "similar: `--request-rate`"]);
    row("bench --url http://h", &["similar: `--base-url`"]);
    row("bench --concurrency 4", &["similar: `--max-concurrency`"]);
    row("bench --qps 4", &["unknown flag `--qps`", "similar: `--request-rate`"]);
    row("bench --vus 4", &["similar: `--max-concurrency`"]);
    row("bench --total-requests 4", &["similar: `--num-prompts`"]);
    row("bench --max-tokens 4", &["similar: `--output-len`"]);
    row("capacity --qps 4", &["similar: `--request-rate`"]);
    row("bench -m model", &["unknown flag `-m`", "similar: `--model`"]);
    row("predict --engine small --slo x", &["unknown flag `--slo`", "`tokometer bench --slo`"]);
    row("bench --slo x", &["cannot use `--slo`", "no comparison"]);
    row("bench --require-power", &["cannot use `--require-power` without `--slo`"]);
    row("sim --profil small --prot 1", &["unknown flag `--profil`", "similar: `--profile`"]);
    row("bench --connections 5", &["the choices are auto, preopen", "`--max-concurrency 5`"]);
    row("bench --num-prompts", &["cannot use `--num-prompts` without a value", "Requests to send"]);
    row("bench 30", &["cannot use `30`", "a number is no address", "http://HOST:PORT"]);
    row("capacity http://h:1", &["`tokometer capacity` needs `--slo <OBJECTIVES>`", "p99 ttft"]);
    row(
        "runs/last",
        &["cannot use `runs/last`: it is not a command", "`tokometer report runs/last`"],
    );
    row("bench --duration 1m30", &["`1m30` has no unit after `30`", "`4m30s`"]);
    let file =
        ["cannot read the file of `--structured nope.json`", "check the path", "JSON schema"];
    row("bench --structured nope.json", &file);
    let file = ["cannot read the file of `--canary nope.jsonl`", "check the path", "per line"];
    row("bench --canary nope.jsonl", &file);
    let file = ["cannot read the file of `--tools nope.json`", "check the path", "\"function\""];
    row("bench --tools nope.json", &file);
    let search = "capacity --engine small --slo requests>1 --max-duration 5s";
    row(search, &["cannot use `--max-duration 5s`", "at least", "add `--min-duration 5s`"]);
    row("ftp://h:9", &["unknown scheme `ftp://`", "http://HOST:PORT"]);
    row("compare a b c", &["on which side `c` is", "`tokometer compare --a RUN… --b RUN…`"]);
    row("report r --json", &["--format json"]);
}

#[test]
fn times_of_several_units_are_added_up_wherever_a_time_is_typed() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench --sim --duration 1m30s --timeout 1h30m --stall-timeout 1m --print-plan";
    let plan = ["duration_s = 90.0", "timeout_s = 5400.0"];
    check(&run(folder.path(), line), &plan, 0);
}

#[test]
fn a_whole_address_takes_precedence_over_its_parts_with_a_remark() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench --base-url http://a:1 --host b --port 2 --print-plan";
    let ended = run(folder.path(), line);
    let remark = "note: `--host` and `--port` have no effect: `--base-url` is the whole address";
    check(&ended, &[remark, "address = \"http://a:1\""], 0);
}

#[test]
fn a_dashboard_without_a_terminal_says_what_is_shown_instead() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench --sim --live -n 2 --input-len 20 --output-len 3 --no-run-dir --quiet";
    check(
        &run(folder.path(), &line.replace(" --quiet", "")),
        &["`--live` has no effect here", "--prometheus-port"],
        0,
    );
}

#[test]
fn a_sweep_where_one_run_is_wanted_names_one_of_its_runs() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench --sim -c 1,2 -n 2 --input-len 20 --output-len 3 --quiet -o s";
    run(folder.path(), line).succeeded();
    let row = |line: &str, parts: &[&str]| check(&run(folder.path(), line), parts, 2);
    let one = "`s/000-max_concurrency=1`";
    row("compare s", &["cannot read `s` as a run: it holds 2 runs", one]);
    row("report s --trace t.json", &["cannot write `t.json` for 2 runs", one]);
    row("bench --plan s", &["it is a folder", "`s/000-max_concurrency=1/plan.json`"]);
    let points = run(folder.path(), "compare --a s --b s").succeeded().stdout;
    for point in ["000-max_concurrency=1\n", "001-max_concurrency=2\n"] {
        assert!(points.contains(point), "{points}");
    }
    row("compare --a s --b s/000-max_concurrency=1", &["`--a` is a sweep and `--b` is not"]);
}

/// Files go through pipes: `-` is standard input and standard output.
#[test]
fn a_dash_is_standard_input_and_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let input = |line: &str, text: &str| ended_with_input(folder.path(), line, text).succeeded();
    let rows = "{\"prompt\": \"one two three\"}\n{\"prompt\": \"four five\"}\n";
    let line = "bench --sim --dataset-name custom --dataset-path - --custom-output-len 3 -n 2 -c 1,2 -o s --format json";
    let page: serde_json::Value = serde_json::from_str(&input(line, rows).stdout).unwrap();
    assert_eq!(page["points"][1]["summary"]["counts"]["succeeded"], 2);
    let run_of = "s/000-max_concurrency=1";
    let csv = run(folder.path(), &format!("report {run_of} --csv -")).succeeded();
    assert_eq!(csv.stdout.lines().count(), 3, "{}", csv.stdout);
    let page = run(folder.path(), &format!("report {run_of} --html -")).succeeded().stdout;
    assert!(page.starts_with("<!") && page.trim_end().ends_with("</html>"), "{}", page.len());
    let exported = run(folder.path(), "dataset --input-len 20 --output-len 3 -n 4 --export -");
    let exported = exported.succeeded().stdout;
    assert_eq!(exported.lines().count(), 4, "{exported}");
    let report = run(folder.path(), &format!("report {run_of}")).succeeded().stdout;
    check(&input("report - --format csv", &report), &["standard input"], 0);
    let line =
        "bench --sim -n 2 --input-len 20 --output-len 3 --no-run-dir --quiet --output-file -";
    let printed = run(folder.path(), line).succeeded().stdout;
    let result: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(result["completed"], 2);
    let profile =
        std::fs::read_to_string(crate::program::root().join("crates/sim/profiles/default.toml"));
    let predicted = input("predict --engine - -n 5 --format json", &profile.unwrap());
    assert!(predicted.stdout.contains("prediction"));
}

#[test]
fn a_base_url_that_ends_in_v1_reaches_the_same_routes() {
    let server = Scripted::new(|mut asked| {
        assert_eq!(asked.line, "POST /v1/completions");
        asked.good_answer(3);
        AfterResponse::Close
    });
    let ended = bench(&format!("{}/v1", server.url), "--endpoint /v1/completions");
    check(&ended, &["4 of 4 succeeded"], 0);
    check(&bench(&format!("{}/v1/", server.url), ""), &["4 of 4 succeeded"], 0);
}

/// The server holds every connection, so this process runs out of descriptors.
#[test]
fn descriptors_that_run_out_are_this_machines_fault_and_not_the_servers() {
    let folder = tempfile::tempdir().unwrap();
    let server = Scripted::new(|asked| {
        let line = asked.line.clone();
        assert!(line.starts_with("POST"), "{line}");
        asked.hold()
    });
    let line = format!(
        "bench --base-url {} --num-prompts 200 --request-rate 2000 --random-input-len 20 \
         --random-output-len 3 --no-run-dir --details --model scripted --tokenizer cl100k --timeout 3s",
        server.url
    );
    let program = command(folder.path(), &line);
    let script =
        format!("ulimit -n 90; exec {} {line}", Path::new(program.get_program()).display());
    let mut shell = std::process::Command::new("bash");
    let limited = ended(shell.args(["-c", &script]).current_dir(folder.path()));
    let parts = [
        "limit of this machine: this process may open only 90 files",
        "raise `ulimit -n`",
        "note[client-limit]",
        "verdict: INVALID",
    ];
    check(&limited, &parts, 7);
}
