//! Answers that are no answers: compressed, moved, interim, empty.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

const EVENTS: &str = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n\
    data: {\"choices\":[{\"text\":\"b\"}]}\n\ndata: [DONE]\n\n";

fn answer(head: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_compressed_stream_is_decoded_and_its_times_are_upper_bounds() {
    let head = "200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip";
    let answer = answer(head, &gzip(EVENTS));
    for step in [1, 7, answer.len()] {
        let mut exchange = exchange("vllm", &settings());
        let (timeline, progress) = read_pieces(&mut exchange, answer.chunks(step));
        assert_eq!(outcome_of(&timeline), "ok", "by {step}");
        assert_eq!(progress, ResponseProgress::Done { keep_alive: true, unread: 0 });
        assert_eq!(letters(&timeline.events), "tt.");
        assert!(timeline.events.iter().all(Event::is_upper_bound), "by {step}");
        assert!(exchange.is_compressed());
    }
}

#[test]
fn a_compressed_answer_in_one_piece_or_of_refusal_is_decoded_too() {
    let json = "Content-Type: application/json\r\nContent-Encoding: gzip";
    let whole = gzip(r#"{"choices":[{"text":"hi"}],"usage":{"completion_tokens":1}}"#);
    let outcome = |answer: &[u8]| outcome_of(&read_whole("vllm", answer));
    assert_eq!(outcome(&answer(&format!("200 OK\r\n{json}"), &whole)), "ok");
    let refusal = gzip(r#"{"error":{"message":"too long"}}"#);
    assert_eq!(outcome(&answer(&format!("400 No\r\n{json}"), &refusal)), "status too long");
    let cut = &whole[..whole.len() / 2];
    let outcome = outcome(&answer(&format!("200 OK\r\n{json}"), cut));
    assert_eq!(outcome, "protocol the response body is not valid gzip");
}

#[test]
fn an_encoding_that_cannot_be_decoded_is_named_with_what_to_do() {
    for name in ["br", "deflate", "zstd"] {
        let head = format!("200 OK\r\nContent-Encoding: {name}");
        let outcome = outcome_of(&read_whole("vllm", &answer(&head, b"\x0b\x02\x80")));
        let expected = format!("protocol the server compressed the response ({name}) though it");
        assert!(outcome.starts_with(&expected), "{outcome}");
        assert!(outcome.contains("turn compression off"), "{outcome}");
    }
}

#[test]
fn answers_without_a_body_and_redirects_are_failures_that_say_so() {
    let check = |answer: &[u8], expected: &str| {
        assert_eq!(outcome_of(&read_whole("vllm", answer)), expected);
    };
    let none = "which has no body, instead of an answer";
    check(
        b"HTTP/1.1 204 No Content\r\n\r\n",
        &format!("protocol the server responded with status 204, {none}"),
    );
    check(
        &answer("205 Reset Content", b""),
        &format!("protocol the server responded with status 205, {none}"),
    );
    check(&answer("200 OK", b""), "protocol the response body is empty");
    check(&answer("503 Busy", b""), "status the response body is empty");
    check(
        &answer("308 Moved\r\nLocation: https://h.example/api/v1/completions", b"Moved"),
        "status the server redirects to https://h.example/api/v1/completions; \
         use `--base-url https://h.example/api`",
    );
}

#[test]
fn interim_answers_are_passed_over_and_alone_they_are_named() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
    let good = answer("200 OK\r\nContent-Type: text/event-stream", EVENTS.as_bytes());
    let whole = [interim.as_bytes(), &good].concat();
    assert_eq!(outcome_of(&read_whole("vllm", &whole)), "ok");
    let mut exchange = exchange("vllm", &settings());
    let (timeline, _progress) = read_pieces(&mut exchange, [interim.as_bytes()]);
    let outcome = outcome_of(&timeline);
    assert_eq!(outcome, "cut the server sent only an interim response (status 103) and closed");
}

/// An address that ends in `/v1`, as OpenAI's clients want it, doubled the `/v1` of the route.
#[test]
fn a_base_url_that_ends_in_v1_is_understood() {
    let check = |base: &str, endpoint: Option<&str>, expected: &str| {
        let mut settings = Settings::new(Url::parse(base).unwrap(), "tiny");
        settings.path = endpoint.map(str::to_owned);
        let dialect = Dialect::named("vllm").unwrap();
        assert_eq!(dialect.request_path(&settings), expected, "{base} {endpoint:?}");
    };
    check("http://h/v1", None, "/v1/completions");
    check("http://h/v1/", Some("/v1/chat/completions"), "/v1/chat/completions");
    check("http://h/v1", Some("/chat/completions"), "/v1/chat/completions");
    check("http://h/openai/v1", None, "/openai/v1/completions");
    check("http://h/openai", None, "/openai/v1/completions");
    check("http://h", Some("generate"), "/generate");
}
