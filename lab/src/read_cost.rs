//! What reading one event costs: 64 events per read, each in its own HTTP chunk.
//!
//! `cargo lab read-cost` prints nanoseconds per event for the
//! usual shape of an OpenAI stream, for one whose events never look alike, and for the native
//! protocols. No socket is involved.

use tokometer_base::{Clock, MonotonicClock, Nanos};
use tokometer_client::{Dialect, Exchange, KeepText, ReadStamp, ResponseProgress, Settings, Url};
use tokometer_record::{AttemptId, Phase, RequestedLengths, Timeline};

const EVENTS_PER_READ: usize = 64;
const READS: usize = 16;
const ROUNDS: usize = 200;

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
    transfer-encoding: chunked\r\n\r\n";

fn chunk(event: &str) -> String {
    let data = format!("data: {event}\n\n");
    format!("{:x}\r\n{data}\r\n", data.len())
}

fn reads(event: impl Fn(usize) -> String) -> Vec<String> {
    let mut reads: Vec<String> = (0..READS)
        .map(|read| {
            (0..EVENTS_PER_READ).map(|n| chunk(&event(read * EVENTS_PER_READ + n))).collect()
        })
        .collect();
    reads[0].insert_str(0, HEAD);
    reads.push(format!("{}0\r\n\r\n", chunk("[DONE]")));
    reads
}

fn nanos_per_event(backend: &str, keep_text: KeepText, event: impl Fn(usize) -> String) -> f64 {
    let settings = Settings::new(Url::http("127.0.0.1", 8000), "tiny");
    let dialect = Dialect::named(backend).expect("a name of the table");
    let mut exchange = Exchange::new(&dialect, &settings, keep_text);
    let (reads, clock) = (reads(event), MonotonicClock);
    let mut best = Nanos::MAX;
    for _ in 0..ROUNDS {
        let identity = AttemptId::new(0, Phase::Measure);
        let mut timeline = Timeline::new(identity, RequestedLengths::default(), Nanos::ZERO);
        exchange.reset();
        let before = clock.now();
        let mut progress = ResponseProgress::More;
        for read in &reads {
            progress = exchange.on_read(read.as_bytes(), ReadStamp::exact(before), &mut timeline);
        }
        best = best.min(clock.now() - before);
        assert!(
            progress != ResponseProgress::More && timeline.is_success(),
            "{:?}",
            timeline.outcome
        );
        assert_eq!(timeline.events.len(), READS * EVENTS_PER_READ + 1);
    }
    best.0 as f64 / (READS * EVENTS_PER_READ) as f64
}

/// Reads the four kinds of stream and prints their costs.
#[expect(clippy::print_stdout, reason = "the table is the result")]
pub(crate) fn run() {
    let alike = |n: usize| {
        format!(
            r#"{{"id":"cmpl-ba94c6b908262c8f","object":"text_completion","created":1794723448,"model":"tiny","choices":[{{"index":0,"text":" word{n}","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}}]}}"#
        )
    };
    let never_alike = |n: usize| alike(n).replace("1794723448", &format!("17947{n:05}"));
    let tgi = |n: usize| {
        let end = if n == READS * EVENTS_PER_READ - 1 { r#""all""# } else { "null" };
        format!(
            r#"{{"index":{n},"token":{{"id":{n},"text":" word","logprob":-1.0,"special":false}},"generated_text":{end},"details":null}}"#
        )
    };
    let sglang = |n: usize| {
        format!(
            r#"{{"text":"{}","output_ids":[1],"meta_info":{{"id":"5191a6b470934514","finish_reason":null,"prompt_tokens":4,"completion_tokens":{},"cached_tokens":0}}}}"#,
            "word ".repeat(n % 20 + 1),
            n + 1
        )
    };
    let rows = [
        ("vllm, events alike", nanos_per_event("vllm", KeepText::No, alike)),
        ("vllm, events alike, text kept", nanos_per_event("vllm", KeepText::Yes, alike)),
        ("vllm, no two events alike", nanos_per_event("vllm", KeepText::No, never_alike)),
        ("tgi", nanos_per_event("tgi", KeepText::No, tgi)),
        ("sglang, pieces", nanos_per_event("sglang", KeepText::No, sglang)),
    ];
    for (name, nanos) in rows {
        println!("{name:<32} {nanos:>7.1} ns per event");
    }
}
