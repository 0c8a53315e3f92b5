//! What the program says about servers that answer, but not as an inference server does: one row each.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};

use crate::program::{ProgramExit, ended_with_input, run};
use crate::scripted::{AfterResponse, Scripted};

const SMALL: &str = "--num-prompts 4 --random-input-len 20 --random-output-len 3 --no-run-dir \
                     --model scripted --tokenizer cl100k --details";

fn bench(url: &str, more: &str) -> ProgramExit {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &format!("bench --base-url {url} {SMALL} {more}"))
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
    ended.says(3, &["the server speaks TLS on this port; use https:// in `--base-url`"]);
    let plain = blunt(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    let ended = bench(&format!("https://{plain}"), &format!("{wait} --insecure"));
    ended.says(3, &["the server does not speak TLS on this port; use http:// in `--base-url`"]);
    let nginx = "HTTP/1.1 400 Bad Request\r\ncontent-length: 83\r\n\r\n\
        <html><head><title>400 The plain HTTP request was sent to HTTPS port</title></html>";
    let ended = bench(&format!("http://{}", blunt(nginx.as_bytes())), "");
    ended.says(7, &["the server speaks TLS on this port; use https:// in `--base-url`"]);
}

/// A proxy's error page made a user wait for half a minute without a reason.
#[test]
fn a_list_of_models_that_is_an_error_page_is_said_while_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let server = Scripted::raw(|mut asked| {
        asked.answer("502 Bad", "text/html", "<html><title>502 Bad</title></html>");
        AfterResponse::Close
    });
    let line = format!("{} --ready-check-timeout-sec 2 --no-run-dir", server.url);
    let ended = run(folder.path(), &line);
    let status = "the server is not ready yet (it responded with status 502)";
    ended.says(3, &[status, "HTML page (title: 502 Bad)"]);
    assert!(!ended.stderr.contains("OpenAI-compatible"), "{}", ended.stderr);
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
    ended.says(0, &["4 of 4 succeeded", "the server redirects to", &advice]);
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
    run(folder.path(), &line("")).says(3, &unset);
    let wrong = ["status 401: no", "the API key that was sent was refused: check OPENAI_API_KEY"];
    run(folder.path(), &line("--api-key wrong")).says(3, &wrong);
    std::fs::write(folder.path().join("key"), "right\n").unwrap();
    run(folder.path(), &line("--api-key-file key")).says(0, &["4 of 4 succeeded"]);
    run(folder.path(), &line("--api-key right")).says(0, &["4 of 4 succeeded"]);
    let line = line("--api-key right").replace("--no-run-dir", "--run-dir r");
    run(folder.path(), &line).says(0, &["4 of 4 succeeded"]);
    for file in ["plan.json", "summary.json", "end.json"] {
        let text = std::fs::read_to_string(folder.path().join("r").join(file)).unwrap();
        assert!(!text.contains("right"), "{file}");
    }
    let missing = ["cannot use `--api-key-file none`: there is no such file"];
    run(folder.path(), "bench --api-key-file none").says(2, &missing);
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
        ended.says(3, &[&[refused.as_str()], parts].concat());
    };
    let route = ["does not accept `POST /v1/completions`", "--backend openai"];
    row("404 Not Found", &route);
    row("405 Method Not Allowed", &route);
    row("413 Too Large", &["larger than the server accepts"]);
    row("422 Unprocessable", &["--extra-body"]);
    // Those without a name of their own were waited for: the test would take an hour.
    row("418 A teapot", &["status 418: no"]);
    row("403 Forbidden", &["no API key was sent"]);
}

#[test]
fn command_lines_that_cannot_be_meant_name_what_to_type() {
    let folder = tempfile::tempdir().unwrap();
    let row = |line: &str, parts: &[&str]| run(folder.path(), line).says(2, parts);
    row("bench --random-input-len 0", &["at least one token"]);
    row("bench --socket-reads eagre", &["eagre", "eager"]);
    row("bench --goodput ttft=5", &["cannot use `ttft=5` for `--goodput`", "ttft:200"]);
    row("bench --metric-percentiles 50,x", &["`x` is not a percentile"]);
    row("bench --chat-template-kwargs x", &["--chat-template-kwargs", "JSON object"]);
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
    row("bench --qps 4", &["unknown flag `--qps`", "similar: `--request-rate`"]);
    row("bench --max-tokens 4", &["similar: `--output-len`"]);
    row("capacity --qps 4", &["similar: `--request-rate`"]);
    row("predict --engine small --slo x", &["unknown flag `--slo`", "`tokometer bench --slo`"]);
    row("bench --slo x", &["cannot use `--slo`", "no comparison"]);
    row("bench --require-power", &["cannot use `--require-power` without `--slo`"]);
    row("sim --profil small --prot 1", &["unknown flag `--profil`", "similar: `--profile`"]);
    row("bench 30", &["cannot use `30`", "a number is no address", "http://HOST:PORT"]);
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
    row("compare a b c", &["on which side `c` is", "`tokometer compare --a RUN… --b RUN…`"]);
}

#[test]
fn times_of_several_units_are_added_up_wherever_a_time_is_typed() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench --sim --duration 1m30s --timeout 1h30m --stall-timeout 1m --print-plan";
    let plan = ["duration_s = 90.0", "timeout_s = 5400.0"];
    run(folder.path(), line).says(0, &plan);
}

#[test]
fn a_whole_address_takes_precedence_over_its_parts_with_a_remark() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench --base-url http://a:1 --host b --port 2 --print-plan";
    let ended = run(folder.path(), line);
    let remark = "note: `--host` and `--port` have no effect: `--base-url` is the whole address";
    ended.says(0, &[remark, "address = \"http://a:1\""]);
}

#[test]
fn a_dashboard_without_a_terminal_says_what_is_shown_instead() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench --sim --live -n 2 --input-len 20 --output-len 3 --no-run-dir --quiet";
    run(folder.path(), &line.replace(" --quiet", ""))
        .says(0, &["`--live` has no effect here", "--prometheus-port"]);
}

#[test]
fn a_sweep_where_one_run_is_wanted_names_one_of_its_runs() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench --sim -c 1,2 -n 2 --input-len 20 --output-len 3 --quiet -o s";
    run(folder.path(), line).succeeded();
    let row = |line: &str, parts: &[&str]| run(folder.path(), line).says(2, parts);
    let one = "`s/000-max_concurrency=1`";
    row("compare s", &["cannot read `s` as a run: it holds 2 runs", one]);
    row("report s --perfetto t.json", &["cannot write `t.json` for 2 runs", one]);
    row("report s --trace t.json", &["unknown flag `--trace`", "it is called `--perfetto` now"]);
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
    input("report - --format csv", &report).says(0, &["standard input"]);
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
