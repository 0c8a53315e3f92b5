//! Streams that are cut, stand still, or hold what no stream should.

use std::io::Write as _;

use super::case::Case;
use super::scripts::{CHUNKED, LAST, TOKEN, USAGE, chunk, events, good, hold, reset, stream};
use crate::scripted::{AfterResponse, ScriptedRequest};

/// One token, then whatever follows.
fn after_token(asked: ScriptedRequest<'_>, rest: &str) -> AfterResponse {
    stream(asked, format!("data: {TOKEN}\n\n{rest}"))
}

/// A good stream with other line ends.
fn line_ends(asked: ScriptedRequest<'_>, end: &str) -> AfterResponse {
    stream(asked, events(4).replace('\n', end))
}

/// A good answer in chunks that are not what they should be.
fn chunked(mut asked: ScriptedRequest<'_>, body: &str) -> AfterResponse {
    asked.send(CHUNKED);
    asked.send(body);
    AfterResponse::Close
}

/// Comments until the client gives up.
fn comments(asked: &mut ScriptedRequest<'_>) -> AfterResponse {
    while asked.stream.write_all(b": ping\n\n").is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    AfterResponse::Close
}

pub(super) const CASES: &[Case] = &[
    Case::second("the connection is reset after one token", |mut asked| {
        asked.start_stream();
        asked.event(TOKEN);
        std::thread::sleep(std::time::Duration::from_millis(200));
        asked.reset()
    })
    .says(&["1 × "]),
    Case::second("the connection is closed after one token", |asked| after_token(asked, ""))
        .says(&["1 × "]),
    Case::second("a fresh connection is closed before the head", |_| AfterResponse::Close)
        .flags("--connections per-request")
        .says(&["1 × "]),
    Case::second("a fresh connection is reset before the head", reset)
        .flags("--connections per-request")
        .says(&["1 × "]),
    Case::second("a connection that was used before is closed before the head", |_| {
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::second("a connection that was used before is reset before the head", |asked| {
        std::thread::sleep(std::time::Duration::from_millis(200));
        reset(asked)
    })
    .says(&["1 × "]),
    Case::second("the head is cut", |mut asked| {
        asked.send("HTTP/1.1 200 OK\r\ncontent-ty");
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::second("the connection is closed right after the head", |asked| stream(asked, ""))
        .says(&["1 × "]),
    Case::second("an event is cut in its middle", |asked| {
        after_token(asked, "data: {\"choices\":[{\"ind")
    })
    .says(&["1 × "]),
    Case::second("the last event lacks its blank line", |asked| {
        stream(asked, events(4).trim_end())
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("a chunk is cut", |asked| chunked(asked, &format!("ff\r\ndata: {TOKEN}\n\n")))
        .says(&["1 × "]),
    Case::second("the last chunk is missing in the middle of an answer", |asked| {
        chunked(asked, &chunk(&format!("data: {TOKEN}\n\n").repeat(2)))
    })
    .says(&["1 × "]),
    Case::second("the last chunk is missing after `[DONE]`", |asked| {
        chunked(asked, &chunk(&events(4)))
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("a chunk size is not a number", |asked| chunked(asked, "xyz\r\nabc\r\n0\r\n\r\n"))
        .says(&["1 × "]),
    Case::second("a chunk size is negative", |asked| chunked(asked, "-5\r\nabcde\r\n0\r\n\r\n"))
        .says(&["1 × "]),
    Case::second("a chunk size of 2^64", |asked| chunked(asked, "10000000000000000\r\nabc"))
        .says(&["1 × "]),
    Case::second("a chunk longer than its size", |asked| {
        chunked(asked, "3\r\nabcdef\r\n0\r\n\r\n")
    })
    .says(&["1 × "]),
    Case::second("chunk extensions and trailers", |mut asked| {
        let body = events(4);
        asked.send(CHUNKED);
        asked.send(format!("{:x};name=value\r\n{body}\r\n0\r\nx-checksum: 1\r\n\r\n", body.len()));
        AfterResponse::Stay
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("every byte in a chunk of its own", |mut asked| {
        asked.send(CHUNKED);
        let all: String = events(4).chars().map(|one| chunk(&one.to_string())).collect();
        asked.send(all + "0\r\n\r\n");
        AfterResponse::Stay
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("an error event in the stream", |asked| {
        after_token(
            asked,
            "data: {\"error\":{\"message\":\"engine died\",\"code\":500}}\n\ndata: [DONE]\n\n",
        )
    })
    .says(&["engine died"]),
    Case::second("an event named `error`", |asked| {
        after_token(asked, "event: error\ndata: {\"message\":\"engine died\"}\n\n")
    })
    .says(&["engine died"]),
    Case::second("an error in a gateway's form, then `[DONE]`", |asked| {
        let error = r#"{"throttlingException":{"message":"engine died"}}"#;
        after_token(asked, &format!("data: {error}\n\ndata: [DONE]\n\n"))
    })
    .says(&["engine died"]),
    Case::second("an error code with a text, as FastChat sends it, then `[DONE]`", |asked| {
        let error = r#"{"text":"engine died","error_code":50002}"#;
        after_token(asked, &format!("data: {error}\n\ndata: [DONE]\n\n"))
    })
    .says(&["engine died"]),
    Case::second("an error event, then a body that stays open", |mut asked| {
        asked.start_stream();
        asked.event(r#"{"error":{"message":"engine died"}}"#);
        hold(asked)
    })
    .says(&["engine died"]),
    Case::second("the words of a proxy in the middle of an answer", |asked| {
        after_token(asked, "upstream connect error: connection termination\n")
    })
    .says(&["upstream connect error"]),
    Case::second("pings whose data is no JSON", |asked| {
        let ping = "event: ping\ndata: 2026-11-16 10:00:00.463789\n\n";
        stream(asked, format!("{ping}{}", events(4)))
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("events without blank lines between them", |asked| {
        stream(asked, events(4).replace("\n\n", "\n"))
    })
    .says(&["blank line"]),
    Case::second("a finish reason `abort` after two tokens", |asked| {
        after_token(
            asked,
            &format!(
                "data: {TOKEN}\n\ndata: {}\n\ndata: [DONE]\n\n",
                LAST.replace("length", "abort")
            ),
        )
    })
    .says(&["abort"]),
    Case::second("a finish reason `error` after two tokens", |asked| {
        after_token(
            asked,
            &format!(
                "data: {TOKEN}\n\ndata: {}\n\ndata: [DONE]\n\n",
                LAST.replace("length", "error")
            ),
        )
    })
    .says(&["error"]),
    Case::second("an event that is not JSON", |asked| {
        after_token(asked, "data: {not json}\n\ndata: [DONE]\n\n")
    })
    .says(&["an event is not JSON"]),
    Case::second("an event that is HTML", |asked| after_token(asked, "data: <html>\n\n"))
        .says(&["an event is not JSON"]),
    Case::second("an event whose text is no UTF-8", |asked| {
        let mut body = b"data: {\"choices\":[{\"index\":0,\"text\":\"\xff\xfe\"}]}\n\n".to_vec();
        body.extend(events(3).bytes());
        stream(asked, body)
    })
    .counts(3, 0)
    .says(&["3 of 3 succeeded"]),
    Case::second("a lone surrogate in an event's text", |asked| {
        stream(asked, format!("data: {}\n\n{}", TOKEN.replace(" word", "\\ud800"), events(3)))
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("lines end with CRLF", |asked| line_ends(asked, "\r\n"))
        .counts(3, 0)
        .tokens(12)
        .says(&["3 of 3 succeeded"]),
    Case::second("lines end with CR", |asked| line_ends(asked, "\r"))
        .counts(3, 0)
        .tokens(12)
        .says(&["3 of 3 succeeded"]),
    Case::second("a byte order mark at the start", |asked| {
        stream(asked, format!("\u{feff}{}", events(4)))
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("events of several data lines", |asked| {
        stream(asked, events(4).replace("{\"index\"", "\ndata: {\"index\""))
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("no space after `data:`", |asked| {
        stream(asked, events(4).replace("data: ", "data:"))
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("comments between events", |asked| {
        stream(asked, events(4).replace("data:", ": ping\n\ndata:"))
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("nothing but comments", |asked| stream(asked, ": ping\n\n".repeat(20)))
        .says(&["1 × "]),
    Case::second("unknown fields and event ids", |asked| {
        stream(asked, events(4).replace("data:", "id: 7\nretry: 10\nx: y\ndata:"))
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("no `[DONE]`, but a finish reason and usage", |asked| {
        stream(asked, events(4).replace("data: [DONE]\n\n", ""))
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("neither a finish reason nor `[DONE]`", |asked| {
        stream(asked, format!("data: {TOKEN}\n\n").repeat(4))
    })
    .says(&["1 × "]),
    Case::second("`[DONE]` twice", |asked| stream(asked, events(4) + "data: [DONE]\n\n"))
        .counts(3, 0)
        .tokens(12)
        .says(&["3 of 3 succeeded"]),
    Case::second("`[DONE]` at once", |asked| stream(asked, "data: [DONE]\n\n"))
        .says(&["1 × response without content (status 200)", "ended without content (events: 1)"]),
    Case::second("tokens after `[DONE]`", |asked| {
        stream(asked, events(4) + &format!("data: {TOKEN}\n\n"))
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("an event of 10 MB in an answer of 4 tokens", |asked| {
        let long = TOKEN.replace(" word", &" word".repeat(2 << 20));
        stream(asked, format!("data: {long}\n\n{}", events(3)))
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("a line of 10 MB without an end", |asked| stream(asked, "x".repeat(10 << 20)))
        .says(&["1 × "]),
    Case::second("empty choices before every token", |asked| {
        stream(
            asked,
            events(4).replace(
                "data: {\"choices\":[{",
                "data: {\"choices\":[]}\n\ndata: {\"choices\":[{",
            ),
        )
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("events without choices", |asked| {
        stream(asked, format!("data: {{\"id\":\"x\"}}\n\n{}", events(4)))
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("choices of the wrong type", |asked| {
        stream(asked, format!("data: {{\"choices\":\"none\"}}\n\n{}", events(4)))
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("a text that is a number", |asked| {
        stream(asked, format!("data: {}\n\n{}", TOKEN.replace("\" word\"", "7"), events(4)))
    })
    .counts(3, 0)
    .says(&["3 of 3 succeeded"]),
    Case::second("events nested a thousand deep", |asked| {
        stream(asked, format!("data: {}{}\n\n{}", "[".repeat(1000), "]".repeat(1000), events(4)))
    })
    .says(&["1 × "]),
    Case::second("an answer without any text", |asked| {
        stream(
            asked,
            format!("data: {LAST}\n\ndata: {}\n\ndata: [DONE]\n\n", USAGE.replace(":4", ":0")),
        )
    })
    .says(&["1 × "]),
    Case::second("a stream that stands still, with `--stall-timeout 3s`", |mut asked| {
        asked.start_stream();
        asked.event(TOKEN);
        asked.hold()
    })
    .flags("--stall-timeout 3s")
    .says(&["1 × "]),
    Case::second("a head and nothing more, with `--timeout 3s`", |mut asked| {
        asked.start_stream();
        asked.hold()
    })
    .flags("--timeout 3s")
    .says(&["1 × "]),
    Case::second("no answer at all, with `--timeout 3s`", hold)
        .flags("--timeout 3s")
        .says(&["1 × "]),
    Case::second("one byte every 100 ms, with `--timeout 3s`", |mut asked| {
        asked.start_stream();
        for byte in events(4).bytes().take(60) {
            asked.send([byte]);
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        AfterResponse::Close
    })
    .flags("--timeout 3s")
    .says(&["1 × "]),
    Case::second("an answer that goes on after it ended on the same connection", |mut asked| {
        asked.send(CHUNKED);
        asked.send(chunk(&events(4)) + "0\r\n\r\nHTTP/1.1 200 OK\r\n\r\ngarbage");
        AfterResponse::Stay
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::every("the connection is closed after each answer without saying so", |asked| {
        good(asked);
        AfterResponse::Close
    })
    .counts(3, 0)
    .exit(0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("the connection closes after the finish reason, before usage", |asked| {
        chunked(asked, &chunk(&format!("data: {TOKEN}\n\ndata: {LAST}\n\n")))
    })
    .says(&["1 × ", "after the finish reason"]),
    Case::second("one token, then only comments", |mut asked| {
        asked.start_stream();
        asked.event(TOKEN);
        comments(&mut asked)
    })
    .flags("--stall-timeout 3s")
    .says(&["1 × "]),
    Case::second("only comments, and no token", |mut asked| {
        asked.start_stream();
        comments(&mut asked)
    })
    .flags("--timeout 3s")
    .says(&["1 × "]),
];
