//! What happens before the measured phase: is the server up, is it warm, is its cache empty.

use crate::program::{Server, run};
use crate::scripted::{AfterResponse, Scripted};

/// A small load that ends quickly.
const SMALL: &str =
    "--num-prompts 4 --random-input-len 20 --random-output-len 3 --tokenizer cl100k";

/// The server's own log of the requests it answered, by their paths.
fn paths(truth: &std::path::Path) -> Vec<String> {
    let log = std::fs::read_to_string(truth).unwrap();
    let requests = log.lines().filter(|line| line.starts_with("R "));
    requests.map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn vllm_s_check_sends_a_prompt_until_it_is_answered_and_leaves_it_out_of_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let truth = folder.path().join("truth");
    let faults = r#"{"errors":{"status":503,"which":{"first":2}}}"#;
    let server = Server::new(&[
        "--ttft",
        "5ms",
        "--itl",
        "1ms",
        "--faults",
        faults,
        "--truth",
        &truth.display().to_string(),
    ]);
    let line =
        format!("bench --base-url {} {SMALL} --ready-check-timeout-sec 8 --run-dir r", server.url);
    let ended = run(folder.path(), &line).succeeded();
    assert!(
        ended.stderr.contains("not ready yet (it responded with status 503"),
        "{}",
        ended.stderr
    );
    let page = run(folder.path(), "report r --format json").succeeded().json();
    assert_eq!(page["summary"]["counts"]["succeeded"], 4, "{page:#}");
    assert_eq!(page["summary"]["counts"]["sent"], 4);
    server.stop();
    // One for the check that succeeded, and the four of the run.
    assert_eq!(paths(&truth), ["/v1/completions"; 5]);
}

#[test]
fn without_a_time_for_it_there_is_no_check() {
    let folder = tempfile::tempdir().unwrap();
    let faults = r#"{"errors":{"status":503,"which":{"first":2}}}"#;
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--faults", faults]);
    let line = format!("bench --base-url {} {SMALL} --format json --no-run-dir", server.url);
    let page = run(folder.path(), &line).succeeded().json();
    assert_eq!(page["summary"]["counts"]["failed"], 2);
}

#[test]
fn a_server_that_never_gets_ready_is_named_with_its_words() {
    let folder = tempfile::tempdir().unwrap();
    let check = |faults: &str, more: &str, parts: &[&str]| {
        let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--faults", faults]);
        let line = format!("bench --base-url {} {SMALL} --no-run-dir {more}", server.url);
        let ended = run(folder.path(), &line);
        ended.says(3, parts);
    };
    let overloaded = r#"{"errors":{"status":503,"which":{"share":1.0}}}"#;
    let words = ["did not complete the first prompt within 2 s", "503"];
    check(overloaded, "--ready-check-timeout-sec 2", &words);
    // A search for capacity waited half a minute for a server that answers, and fails each time.
    let broken = r#"{"errors":{"status":500,"which":{"share":1.0}}}"#;
    let words = ["the server failed the first prompt again and again", "status 500"];
    check(broken, "--ready-check-timeout-sec 30", &words);
    // A refusal of the request itself is not waited for: the test would take an hour.
    let refused = r#"{"errors":{"status":400,"which":{"share":1.0}}}"#;
    check(refused, "--ready-check-timeout-sec 3600", &["it responded with status 400"]);
}

/// A failure inside the stream was waited for like a server that is starting.
#[test]
fn a_server_that_fails_inside_its_stream_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = Scripted::new(|mut asked| {
        let event = "data: {\"error\":{\"message\":\"out of memory\"}}\n\n";
        asked.answer("200 OK", "text/event-stream", event);
        AfterResponse::Close
    });
    let line = format!(
        "bench --base-url {} {SMALL} --no-run-dir --ready-check-timeout-sec 30",
        server.url
    );
    let words = ["the server failed the first prompt again and again", "out of memory"];
    run(folder.path(), &line).says(3, &words);
}

/// The deadline cut the last attempt off, and nothing was said of the answer before it.
#[test]
fn an_answer_is_named_though_a_later_attempt_gets_none() {
    let folder = tempfile::tempdir().unwrap();
    let server = Scripted::new(|mut asked| {
        if asked.number > 0 {
            return asked.hold();
        }
        asked.answer("503 Busy", "text/plain", "loading the model");
        AfterResponse::Close
    });
    let line =
        format!("bench --base-url {} {SMALL} --no-run-dir --ready-check-timeout-sec 2", server.url);
    let ended = run(folder.path(), &line);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let said = "did not complete the first prompt within 2 s: it responded with status 503";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn sglang_s_check_asks_for_the_models_and_sends_no_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let truth = folder.path().join("truth");
    let path = truth.display().to_string();
    let server =
        Server::new(&["--ttft", "5ms", "--itl", "1ms", "--flavour", "sglang", "--truth", &path]);
    let line = format!(
        "bench --backend sglang --base-url {} {SMALL} --dataset-name random --warmup-requests 0 \
         --ready-check-timeout-sec 30 --no-run-dir",
        server.url
    );
    run(folder.path(), &line).succeeded();
    server.stop();
    assert_eq!(paths(&truth), ["/generate"; 4]);
}

#[test]
fn a_server_that_cannot_list_its_models_is_measured_once_the_model_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let faults = r#"{"broken_paths":["/v1/models"]}"#;
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--faults", faults]);
    let line = format!("bench --base-url {} {SMALL} --no-run-dir", server.url);
    let refused = run(folder.path(), &line);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("500") && refused.stderr.contains("--model"), "{refused:?}");
    let shown =
        run(folder.path(), &format!("{line} --details --model simulated")).succeeded().stdout;
    assert!(shown.contains("Successful requests:                     4 "), "{shown}");
    assert!(shown.contains("the server does not list its models"), "{shown}");
}

#[test]
fn a_flush_that_the_server_refuses_is_said_once_for_all_points() {
    let folder = tempfile::tempdir().unwrap();
    let check = |backend: &str, flavour: &str, path: &str| {
        let faults = format!(r#"{{"broken_paths":["{path}"]}}"#);
        let flags = ["--ttft", "5ms", "--itl", "1ms", "--flavour", flavour, "--faults", &faults];
        let server = Server::new(&flags);
        let line = format!(
            "bench --backend {backend} --base-url {} {SMALL} --dataset-name random --flush-cache \
             --flush-cache-timeout 7 --max-concurrency 1,2 --no-run-dir",
            server.url
        );
        let ended = run(folder.path(), &line).succeeded();
        let said = format!("the prefix cache was not flushed: {}{path}", server.url);
        assert_eq!(ended.stderr.matches(&said).count(), 1, "{}", ended.stderr);
        assert!(ended.stdout.contains("\nconcurrency "), "{}", ended.stdout);
        let sound = Server::new(&flags[..6]);
        let ended = run(folder.path(), &line.replace(&server.url, &sound.url)).succeeded();
        assert!(!ended.stderr.contains("flushed"), "{}", ended.stderr);
    };
    check("openai", "vllm", "/reset_prefix_cache");
    check("sglang", "sglang", "/flush_cache");
}

/// SGLang's rules stop there; vLLM's measure on and report that nothing was answered.
#[test]
fn a_warm_up_that_nobody_answers_ends_a_run_by_sglang_s_rules() {
    let folder = tempfile::tempdir().unwrap();
    let faults = r#"{"broken_paths":["/generate"]}"#;
    let server =
        Server::new(&["--ttft", "5ms", "--itl", "1ms", "--flavour", "sglang", "--faults", faults]);
    let line = format!(
        "bench --backend sglang --base-url {} {SMALL} --dataset-name random --no-run-dir",
        server.url
    );
    let ended = run(folder.path(), &line);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(7), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("cannot warm up: all 1 requests failed"), "{ended:?}");
    let ended = run(folder.path(), &format!("{line} --conventions vllm --num-warmups 1"));
    ended.says(7, &["Successful requests:                     0 "]);
}
