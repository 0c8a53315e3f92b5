//! Whole answers that are no streams: statuses, bodies, encodings, heads.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::case::Case;
use super::scripts::{answer, error, events, good, hold};
use crate::scripted::{AfterResponse, ScriptedRequest};

const JSON: &str = "application/json";

/// A whole answer without streaming, for cases that break one part of it.
fn busy(mut asked: ScriptedRequest<'_>, retry_after: &str) -> AfterResponse {
    asked.send(format!(
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: {retry_after}\r\ncontent-length: 4\r\n\r\nbusy"
    ));
    AfterResponse::Stay
}

/// An answer whose body is said to be compressed.
fn compressed(mut asked: ScriptedRequest<'_>, encoding: &str, body: &[u8]) -> AfterResponse {
    asked.send(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: {encoding}\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    ));
    asked.send(body);
    AfterResponse::Stay
}

/// A good stream, compressed.
fn gzip() -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(events(4).as_bytes()).unwrap();
    encoder.finish().unwrap()
}

pub(super) const CASES: &[Case] = &[
    Case::second("status 400 with an error object", |asked| {
        error(asked, "400 Bad Request", "the prompt is too long")
    })
    .says(&["1 × status 400: the prompt is too long"]),
    Case::every("status 400 for every request", |asked| error(asked, "400 Bad Request", "bad prompt"))
        .says(&["no request succeeded", "status 400", "bad prompt"]),
    Case::second("status 401 in the middle of a run", |asked| {
        error(asked, "401 Unauthorized", "the key has expired")
    })
    .says(&["1 × status 401: the key has expired"]),
    Case::second("status 403", |asked| error(asked, "403 Forbidden", "not for you"))
        .says(&["1 × status 403: not for you"]),
    Case::every("status 404: the path does not exist", |asked| {
        answer(asked, "404 Not Found", JSON, r#"{"detail":"Not Found"}"#)
    })
    .says(&["no request succeeded", "3 × status 404: Not Found", "`POST /v1/completions` is not accepted", "--backend openai"]),
    Case::second("status 405", |asked| {
        answer(asked, "405 Method Not Allowed", JSON, r#"{"detail":"Method Not Allowed"}"#)
    })
    .says(&["1 × status 405"]),
    Case::second("status 408", |asked| answer(asked, "408 Request Timeout", "text/plain", "too slow"))
        .says(&["1 × status 408: too slow"]),
    Case::second("status 413", |asked| answer(asked, "413 Payload Too Large", "text/plain", "too large"))
        .says(&["1 × status 413: too large"]),
    Case::second("status 422 with FastAPI's list of problems", |asked| {
        let body = r#"{"detail":[{"loc":["body","prompt"],"msg":"field required","type":"x"}]}"#;
        answer(asked, "422 Unprocessable Entity", JSON, body)
    })
    .says(&["1 × status 422", "required"]),
    Case::second("status 429 without retries", |asked| busy(asked, "1")).says(&["1 × status 429: busy"]),
    Case::second("status 429 with `Retry-After: 0` and `--retries 1`", |asked| busy(asked, "0"))
        .flags("--retries 1")
        .counts(3, 0)
        .says(&["3 of 3 succeeded"]),
    Case::second("status 499, which no standard names", |asked| answer(asked, "499 Gone Away", "text/plain", ""))
        .says(&["1 × status 499"]),
    Case::second("status 500 without a body", |asked| answer(asked, "500 Internal Server Error", "text/plain", ""))
        .says(&["1 × status 500"]),
    Case::second("status 500 with an HTML page", |asked| {
        let page = "<html><head><title>Oops</title></head><body><h1>Server broke</h1></body></html>";
        answer(asked, "500 Internal Server Error", "text/html", page)
    })
    .says(&["1 × status 500"]),
    Case::second("status 502 from a proxy", |asked| {
        answer(asked, "502 Bad Gateway", "text/html", "<html><title>502 Bad</title><h1>Bad Gateway</h1></html>")
    })
    .says(&["1 × status 502: the server answered with an HTML page (title: 502 Bad)"]),
    Case::second("status 503", |asked| error(asked, "503 Service Unavailable", "overloaded"))
        .says(&["1 × status 503: overloaded"]),
    Case::second("status 504", |asked| answer(asked, "504 Gateway Timeout", "text/plain", "upstream timed out"))
        .says(&["1 × status 504: upstream timed out"]),
    Case::second("status 599", |asked| answer(asked, "599 Odd", "text/plain", "odd"))
        .says(&["1 × status 599: odd"]),
    Case::second("status 206", |asked| answer(asked, "206 Partial Content", JSON, "{}")).says(&["1 × "]),
    Case::second("a redirect (301) without an address", |mut asked| {
        asked.send("HTTP/1.1 301 Moved Permanently\r\ncontent-length: 0\r\n\r\n");
        AfterResponse::Stay
    })
    .says(&["1 × status 301"]),
    Case::second("an error object with status 200", |asked| error(asked, "200 OK", "CUDA out of memory"))
        .says(&["CUDA out of memory"]),
    Case::second("an error object with status 200 as text/plain", |asked| {
        answer(asked, "200 OK", "text/plain", r#"{"error":{"message":"CUDA out of memory"}}"#)
    })
    .says(&["CUDA out of memory"]),
    Case::second("an HTML page with status 200", |asked| {
        answer(asked, "200 OK", "text/html", "<html><title>Sign in</title><body>Please log in</body></html>")
    })
    .says(&["1 × ", "HTML page (title: Sign in), not an API response; check `--base-url`"]),
    Case::second("an empty body with status 200", |asked| answer(asked, "200 OK", "text/event-stream", ""))
        .says(&["1 × unusable response (status 200): the response body is empty"]),
    Case::second("a whole JSON answer instead of a stream", |asked| {
        let body = r#"{"choices":[{"index":0,"text":" word word word word","finish_reason":"length"}],"usage":{"prompt_tokens":8,"completion_tokens":4}}"#;
        answer(asked, "200 OK", JSON, body)
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("status 100 before the answer", |mut asked| {
        asked.send("HTTP/1.1 100 Continue\r\n\r\n");
        good(asked)
    })
    .counts(3, 0)
    .says(&["3 of 3 succeeded"]),
    Case::second("status 103 with hints before the answer", |mut asked| {
        asked.send("HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n");
        good(asked)
    })
    .counts(3, 0)
    .says(&["3 of 3 succeeded"]),
    Case::second("status 101: another protocol", |mut asked| {
        asked.send("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n");
        asked.hold()
    })
    .flags("--timeout 3s")
    .says(&["1 × "]),
    Case::second("an answer in HTTP/1.0", |mut asked| {
        asked.send("HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
        asked.send(events(4));
        AfterResponse::Close
    })
    .counts(3, 0)
    .tokens(12)
    .says(&["3 of 3 succeeded"]),
    Case::second("an answer in HTTP/2 without being asked", |mut asked| {
        asked.send(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64\x00\x04\x00\x10\x00\x00");
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::second("an answer in HTTP/0.9: no head", |mut asked| {
        asked.send("hello\n");
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::second("an SSH server's greeting", |mut asked| {
        asked.send("SSH-2.0-OpenSSH_9.6\r\n");
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::second("a status line without a number", |mut asked| {
        asked.send("HTTP/1.1 OK\r\ncontent-length: 0\r\n\r\n");
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::second("a status of five digits", |mut asked| {
        asked.send("HTTP/1.1 20000 OK\r\ncontent-length: 0\r\n\r\n");
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::second("a header line without a colon", |mut asked| {
        asked.send("HTTP/1.1 200 OK\r\nthis is no header\r\ncontent-length: 0\r\n\r\n");
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::second("a head without an end", |mut asked| {
        asked.send("HTTP/1.1 200 OK\r\n");
        for _ in 0..200 {
            asked.send(format!("x-filler: {}\r\n", "x".repeat(8000)));
        }
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::second("a thousand headers", |mut asked| {
        asked.send("HTTP/1.1 200 OK\r\n");
        asked.send("x: 1\r\n".repeat(1000) + "content-length: 0\r\n\r\n");
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::second("a Content-Length that is not a number", |mut asked| {
        asked.send("HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n");
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::second("a negative Content-Length", |mut asked| {
        asked.send("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n");
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::second("two Content-Lengths that differ", |mut asked| {
        asked.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 5\r\ncontent-length: 500\r\n\r\nhello");
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::second("a Content-Length above what follows, in the middle of an answer", |mut asked| {
        let body = &events(4)[..100];
        asked.send(format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}", body.len() + 50));
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::second("a Content-Length below what follows", |mut asked| {
        let body = events(4);
        asked.send(format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}", body.len() - 120));
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::second("an unknown Transfer-Encoding", |mut asked| {
        asked.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: zip\r\n\r\nabcd");
        AfterResponse::Close
    })
    .says(&["1 × "]),
    Case::raw("the list of models is answered with 401", |asked| error(asked, "401 Unauthorized", "no key"))
        .says(&["401", "OPENAI_API_KEY"]),
    Case::raw("the list of models is answered with 500", |asked| error(asked, "500 Internal Server Error", "broken"))
        .says(&["500"]),
    Case::raw("the list of models is empty", |asked| answer(asked, "200 OK", JSON, r#"{"data":[]}"#))
        .says(&["the server lists no models", "load a model on the server"]),
    Case::raw("the list of models is cut", |mut asked| {
        asked.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"data\":[");
        AfterResponse::Close
    })
    .says(&["/v1/models"]),
    Case::sim("the model is not among those that the server lists", &[])
        .flags("--model other")
        .counts(0, 3)
        .exit(7)
        .says(&["does not list the model `other`", "`simulated`", "404"]),
    Case::sim("the server wants a key", &["--api-key", "k"]).exit(3).says(&["401", "OPENAI_API_KEY"]),
    Case::sim("two answers of 503 before the server is ready", &["--faults", r#"{"errors":{"status":503,"which":{"first":2}}}"#])
        .flags("--ready-check-timeout-sec 20")
        .counts(3, 0)
        .says(&["not ready yet", "503"]),
    Case::sim("503 until the ready check gives up", &["--faults", r#"{"errors":{"status":503,"which":{"share":1.0}}}"#])
        .flags("--ready-check-timeout-sec 2")
        .exit(3)
        .says(&["did not complete the first prompt", "503"]),
    Case::second("status 204", |mut asked| {
        asked.send("HTTP/1.1 204 No Content\r\n\r\n");
        AfterResponse::Stay
    })
    .says(&["status 204, which has no body"]),
    Case::second("a redirect (307) to another host", |mut asked| {
        asked.send(
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: https://new.example/v1/completions\r\n\
             content-length: 0\r\n\r\n",
        );
        AfterResponse::Stay
    })
    .says(&["1 × status 307: the server redirects to", "use `--base-url https://new.example`"]),
    Case::second("a redirect (308) to itself", |mut asked| {
        let line = "HTTP/1.1 308 Permanent Redirect\r\nlocation: /v1/completions\r\n";
        asked.send(format!("{line}content-length: 0\r\n\r\n"));
        AfterResponse::Stay
    })
    .says(&["1 × status 308"]),
    Case::second("a stream compressed with gzip", |asked| compressed(asked, "gzip", &gzip()))
        .counts(3, 0)
        .tokens(12)
        .says(&["note[compressed-stream]", "the times of tokens inside a compressed block are unknown"]),
    Case::second("a stream compressed with gzip and cut", |asked| {
        compressed(asked, "gzip", &gzip()[..20])
    })
    .says(&["1 × "]),
    Case::second("a stream that is called gzip and is plain", |asked| {
        compressed(asked, "gzip", events(4).as_bytes())
    })
    .says(&["1 × "]),
    Case::second("a stream compressed with br", |asked| compressed(asked, "br", b"xyz"))
        .says(&["1 × ", "compressed the response (br)", "turn compression off"]),
    Case::second("a stream compressed with zstd", |asked| {
        compressed(asked, "zstd", b"\x28\xb5\x2f\xfd")
    })
    .says(&["1 × ", "(zstd)"]),
    Case::second("a stream compressed twice", |asked| compressed(asked, "gzip, br", b"xyz"))
        .says(&["1 × "]),
    Case::raw("the list of models is an HTML page", |asked| {
        answer(asked, "200 OK", "text/html", "<html><title>Sign in</title></html>")
    })
    .says(&["Sign in", "--base-url"]),
    Case::raw("there is no list of models, and no model is named", |asked| {
        answer(asked, "404 Not Found", JSON, r#"{"detail":"Not Found"}"#)
    })
    .says(&["cannot find out which model to measure", "status 404: Not Found", "`--model`"]),
    Case::raw("there is no list of models, and the model is named", |asked| {
        if asked.line.starts_with("POST") {
            return good(asked);
        }
        answer(asked, "404 Not Found", JSON, r#"{"detail":"Not Found"}"#)
    })
    .flags("--model m")
    .counts(3, 0)
    .exit(0)
    .says(&["3 of 3 succeeded"]),
    Case::raw("the server accepts connections and never answers", hold)
        .flags("--ready-check-timeout-sec 1")
        .says(&["no answer from", "within"]),
];
