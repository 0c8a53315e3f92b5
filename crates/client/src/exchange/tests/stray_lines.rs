//! What servers and proxies write into a stream that has begun.

use super::*;

const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
const STOP: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// The outcome of a stream of these bytes, however it is split.
fn outcome(body: &str) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let stream = format!("{head}{body}");
    let by = |step: usize| {
        let mut exchange = exchange("openai-chat", &settings());
        outcome_of(&read_pieces(&mut exchange, stream.as_bytes().chunks(step)).0)
    };
    let found = by(stream.len());
    assert_eq!(by(3), found, "{body}");
    found
}

/// The line was skipped, and the failure named only the missing end marker.
#[test]
fn a_line_that_is_no_event_is_told_where_the_stream_is_cut() {
    let cut = "cut the stream ended without its end marker";
    let page = "the server answered with an HTML page (title: 504 Gateway Time-out), not an API \
                response; check `--base-url` and `--endpoint`";
    for (line, words) in [
        ("Internal Server Error", "Internal Server Error"),
        ("upstream connect error: reset", "upstream connect error: reset"),
        ("<html><title>504 Gateway Time-out</title></html>", page),
    ] {
        let expected = format!("{cut}; last line received: {words}");
        assert_eq!(outcome(&format!("{TOKEN}{line}\n\n")), expected);
        assert_eq!(outcome(&format!("{TOKEN}{line}")), expected);
        // An answer that is complete is not affected.
        assert_eq!(outcome(&format!("{TOKEN}{line}\n\n{DONE}")), "ok");
    }
    for harmless in ["retry: 5", "x-field: 7", ": comment", "1f"] {
        assert_eq!(outcome(&format!("{TOKEN}{harmless}\n\n")), cut, "{harmless}");
        assert_eq!(outcome(&format!("{TOKEN}{harmless}\n\n{DONE}")), "ok", "{harmless}");
    }
    let error = "{\"error\":{\"message\":\"worker gone\"}}";
    assert_eq!(outcome(&format!("{TOKEN}{error}\n\n{DONE}")), "in-stream worker gone");
    assert_eq!(outcome(&format!("{TOKEN}{error}")), "in-stream worker gone");
}

/// A line before the first token failed an answer that came whole behind it.
#[test]
fn content_after_a_line_that_is_no_event_clears_it() {
    assert_eq!(outcome(&format!("keepalive\n\n{TOKEN}{DONE}")), "ok");
    assert_eq!(outcome(&format!("{TOKEN}keepalive\n{TOKEN}{DONE}")), "ok");
    let cut = "cut the stream ended without its end marker";
    assert_eq!(outcome(&format!("keepalive\n\n{TOKEN}")), cut);
}

/// Only the last line was kept: `</html>`, or the closing brace of an error.
#[test]
fn lines_that_follow_each_other_are_read_as_one_text() {
    let nginx = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n\
                 <center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx/1.24.0</center>\r\n\
                 </body>\r\n</html>\r\n";
    let page = "the server answered with an HTML page (title: 502 Bad Gateway), not an API \
                response; check `--base-url` and `--endpoint`";
    let spaced = nginx.replace("<body>", "\r\n<body>").replace("</body>", "</body>\r\n");
    for body in [nginx, &spaced] {
        let found = outcome(&format!("{TOKEN}{body}"));
        assert!(found.starts_with("cut ") && found.ends_with(page), "{found}");
    }
    let error = "{\n  \"error\": {\"message\": \"worker gone\"}\n}\n";
    assert_eq!(outcome(&format!("{TOKEN}{error}\n{STOP}{DONE}")), "in-stream worker gone");
    assert_eq!(outcome(&format!("{TOKEN}{error}")), "in-stream worker gone");
    let prefixed = format!("upstream failed\n{}\n", error.replace('\n', ""));
    assert_eq!(outcome(&format!("{TOKEN}{prefixed}{STOP}{DONE}")), "in-stream worker gone");
    let raised = "Traceback (most recent call last):\n  File \"serve.py\", line 7, in run\n\
                  RuntimeError: CUDA out of memory\n";
    let shown = "Traceback (most recent call last): File \"serve.py\", line 7, in run \
                 RuntimeError: CUDA out of memory";
    let cut = "cut the stream ended without its end marker; last line received:";
    assert_eq!(outcome(&format!("{TOKEN}{raised}\n")), format!("{cut} {shown}"));
}

/// Lines that came before a cut count although the event they stand in is not complete.
#[test]
fn a_body_cut_behind_a_line_that_is_no_event_names_it() {
    let body = format!("{TOKEN}worker gone\n");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\n";
    let found = outcome_of(&read_whole("openai-chat", format!("{head}{body}").as_bytes()));
    assert!(found.starts_with("cut ") && found.ends_with(": worker gone"), "{found}");
}

/// The stream went on to `[DONE]`, so a part of an answer counted as a short one.
#[test]
fn errors_in_the_forms_of_gateways_fail_the_answer_that_they_interrupt() {
    for error in [
        r#"{"internalServerException":{"message":"worker gone","originalStatusCode":500}}"#,
        r#"{"throttlingException":{"message":"worker gone"}}"#,
        r#"{"errors":[{"message":"worker gone"}]}"#,
        r#"[{"error":{"code":503,"message":"worker gone","status":"UNAVAILABLE"}}]"#,
        r#"{"choices":[{"index":0,"delta":{"content":""},"error":{"message":"worker gone"}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"error","error":{"message":"worker gone"}}]}"#,
    ] {
        let event = format!("data: {error}\n\n");
        assert_eq!(outcome(&format!("{TOKEN}{event}{DONE}")), "in-stream worker gone", "{error}");
    }
    for error in [r#"{"detail":{"reason":"worker gone"}}"#, r#"{"detail":[{"msg":"worker gone"}]}"#]
    {
        let event = format!("data: {error}\n\n");
        assert_eq!(outcome(&format!("{TOKEN}{event}{DONE}")), format!("in-stream {error}"));
    }
    let named = "event: error\ndata: worker gone\n\n";
    assert_eq!(outcome(&format!("{TOKEN}{named}{DONE}")), "in-stream worker gone");
    // A message alone may be progress.
    let queued = "data: {\"message\":\"queued\"}\n\n";
    assert_eq!(outcome(&format!("{queued}{TOKEN}{queued}{DONE}")), "ok");
    for empty in ["null", "[]", "\"\"", "0", "0.0", "{}", "{ }", "false"] {
        for fields in ["\"detail\":E,\"errors\":E", "\"error\":E", "\"\\u0065rror\":E"] {
            let event = format!("data: {{{}}}\n\n", fields.replace('E', empty));
            assert_eq!(outcome(&format!("{TOKEN}{event}{DONE}")), "ok", "{event}");
        }
    }
    for error in ["1", "{\"a\":0}", "true"] {
        let event = format!("data: {{\"error\":{error}}}\n\n");
        let expected = format!("in-stream {{\"error\":{error}}}");
        assert_eq!(outcome(&format!("{TOKEN}{event}{DONE}")), expected);
    }
}

/// A ping with the time as its data, as earlier versions of `sse-starlette` send it, failed every answer.
#[test]
fn events_that_keep_the_connection_open_may_have_any_data() {
    for name in ["ping", "heartbeat", "keepalive", "keep-alive"] {
        for data in ["2026-11-16 10:00:00.463789", "ping", "", "{}"] {
            let ping = format!("event: {name}\ndata: {data}\n\n");
            assert_eq!(outcome(&format!("{ping}{TOKEN}{ping}{STOP}{DONE}")), "ok", "{ping}");
        }
    }
    assert_eq!(
        outcome(&format!("event: other\ndata: x\n\n{TOKEN}{STOP}{DONE}")),
        "protocol an event is not JSON: x"
    );
}

#[test]
fn events_without_blank_lines_between_them_are_named() {
    let found = outcome(&format!("{TOKEN}{TOKEN}{STOP}").replace("\n\n", "\n"));
    let expected = "protocol the server does not separate events with blank lines; several were read as one: {";
    assert!(found.starts_with(expected), "{found}");
}

#[test]
fn finish_reasons_of_failure_are_known_in_capitals_too() {
    for reason in ["ERROR", "Cancelled", "network_error"] {
        let last = STOP.replace("stop", reason);
        let early =
            format!("in-stream the server ended the answer early: finish reason `{reason}`");
        assert_eq!(outcome(&format!("{TOKEN}{last}{DONE}")), early);
    }
}
