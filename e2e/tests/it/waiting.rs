//! Servers that make the program wait: it waits as long as it was told to, and says for what.

use std::io::Write;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::program::{ProgramExit, Started, run};
use crate::scripted::{AfterResponse, Scripted};

const TOKEN: &str = r#"{"choices":[{"index":0,"text":" word"}]}"#;

fn bench(server: &Scripted, more: &str) -> ProgramExit {
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "bench --base-url {} --num-prompts 3 --max-concurrency 1 --random-input-len 8 \
         --random-output-len 8 --tokenizer cl100k --no-run-dir --format json {more}",
        server.url
    );
    run(folder.path(), &line)
}

fn counts(page: &Value) -> (u64, u64) {
    let count = |name: &str| page["summary"]["counts"][name].as_u64().unwrap();
    (count("succeeded"), count("failed"))
}

/// The run stood still without a word.
#[test]
fn a_wait_that_the_server_asks_for_is_said() {
    let server = Scripted::new(|mut asked| {
        if asked.number == 0 {
            asked.send("HTTP/1.1 429 X\r\nretry-after: 4\r\ncontent-length: 0\r\n\r\n");
        } else {
            asked.good_answer(3);
        }
        AfterResponse::Close
    });
    let ended = bench(&server, "--retries 1");
    assert_eq!(counts(&ended.json()), (3, 0));
    assert!(ended.stderr.contains("the server asks to be tried again in 4 s"), "{}", ended.stderr);
}

/// A stream that never starts, and one that starts without content. Before all requests are sent, and
/// after, a line says how long nothing came; Ctrl-C ends the wait.
#[test]
fn without_a_terminal_lines_say_how_long_a_server_has_been_silent() {
    let server = Scripted::new(|mut asked| {
        if asked.number % 2 == 0 {
            asked.start_stream();
        }
        asked.hold()
    });
    let start = |requests: u32| {
        let folder = tempfile::tempdir().unwrap();
        let line = format!(
            "bench --base-url {} --num-prompts {requests} --max-concurrency 2 \
             --random-input-len 8 --random-output-len 8 --tokenizer cl100k --no-run-dir",
            server.url
        );
        (Started::new(folder.path(), &line), folder)
    };
    let check = |(mut started, _folder): (Started, tempfile::TempDir), words: [&str; 2]| {
        let line = started.stderr_line("no content for");
        assert!(words.iter().all(|words| line.contains(words)), "{line}");
        started.signal(Signal::SIGINT);
        assert_eq!(started.wait().code, Some(130));
    };
    // Both wait at the same time.
    let (some, all) = (start(6), start(2));
    check(some, ["0 of 6 requests after ", "2 in flight"]);
    check(all, ["waiting for 2 requests in flight; everything was sent ", "`--timeout` limits"]);
}

/// The last event of llama.cpp's own protocol has another mark, and a finish reason without a mark
/// ends an answer once nothing more has come for the stall limit.
#[test]
fn other_end_markers_end_an_answer_whose_body_stays_open() {
    let check = |backend: &str, events: [&'static str; 2], more: &str| {
        let server = Scripted::new(move |mut asked| {
            asked.stream_at_once(&events);
            asked.hold()
        });
        let page = bench(&server, &format!("--backend {backend} {more}")).succeeded().json();
        assert_eq!(counts(&page), (3, 0), "{page:#}");
    };
    let last = r#"{"content":"","stop":true,"tokens_predicted":1,"tokens_evaluated":8}"#;
    check("llamacpp", [r#"{"content":" a","stop":false}"#, last], "");
    let finished = r#"{"choices":[{"index":0,"text":"","finish_reason":"length"}]}"#;
    check("openai", [TOKEN, finished], "--stall-timeout 200ms");
}

/// A byte now and then keeps every read short. The limit holds for the whole request.
#[test]
fn a_server_that_drips_its_list_of_models_is_given_up() {
    let server = Scripted::raw(|mut asked| {
        asked.send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{");
        while asked.stream.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
        AfterResponse::Close
    });
    let ended = bench(&server, "--ready-check-timeout-sec 3");
    ended.says(3, &["timed out: no complete response within"]);
}
