//! What every captured stream of a real server gives, whole and cut at any byte.

use super::*;

struct ExpectedCapture {
    name: &'static str,
    backend: &'static str,
    /// One letter per event, see [`letters`].
    kinds: &'static str,
    /// Prompt, completion, cached tokens.
    usage: Option<(u32, u32, Option<u32>)>,
    /// Tokens as the events themselves report them.
    event_tokens: Option<u32>,
    /// `ok`, or the kind of failure and the start of its message.
    outcome: &'static str,
}

const fn row(name: &'static str, backend: &'static str, kinds: &'static str) -> ExpectedCapture {
    ExpectedCapture { name, backend, kinds, usage: None, event_tokens: None, outcome: "ok" }
}

impl ExpectedCapture {
    const fn usage(mut self, prompt: u32, completion: u32, cached: Option<u32>) -> Self {
        self.usage = Some((prompt, completion, cached));
        self
    }

    const fn tokens(mut self, tokens: u32) -> Self {
        self.event_tokens = Some(tokens);
        self
    }

    const fn fails(mut self, outcome: &'static str) -> Self {
        self.outcome = outcome;
        self
    }
}

const CAPTURES: &[ExpectedCapture] = &[
    row("vllm-completions", "vllm", "ttttttttttttu.").usage(4, 12, None),
    row("vllm-completions-tokenids", "vllm", "ttttu.").usage(3, 4, None),
    row("vllm-completions-nousage", "vllm", "tttttt."),
    row("vllm-chat", "openai-chat", "rttttttttttttu.").usage(31, 12, None),
    row("vllm-chat-contusage", "openai-chat", "rttttttu.").usage(31, 6, None).tokens(6),
    row("vllm-err-404", "vllm", "").fails("status Not Found"),
    row("vllm-err-badjson", "vllm", "").fails("status 1 validation"),
    row("vllm-err-ctx", "vllm", "").fails("status max_tokens=99999 cannot"),
    row("vllm-err-model", "vllm", "").fails("status The model `nope` does"),
    row("vllm-responses", "openai-responses", "oooottttooou").usage(30, 4, Some(0)),
    row("vllm-responses-stream", "openai-responses", "ooootttttttttttooou").usage(10, 12, Some(0)),
    row("vllm-responses-stream-ignore_eos", "openai-responses", "oooottttttttttttooou").usage(
        10,
        12,
        Some(0),
    ),
    row("vllm-responses-messages-input", "openai-responses", "oooottttttttttttooou").usage(
        18,
        12,
        Some(0),
    ),
    row("vllm-responses-reasoning", "openai-responses", "oooohhhhhhhhhhhhhhhhhhhhhhooou").usage(
        10,
        24,
        Some(0),
    ),
    row("vllm-responses-tools-required", "openai-responses", "ooocoou").usage(185, 64, Some(0)),
    row("vllm-responses-nonstream", "openai-responses", "t").usage(10, 12, Some(0)).tokens(12),
    row("vllm-responses-err-model", "openai-responses", "").fails("status The model `nope` does"),
    row("vllm-responses-err-maxtokens", "openai-responses", "")
        .fails("status max_output_tokens=5000"),
    row("vllm-responses-err-badparam", "openai-responses", "").fails("status max_tokens must"),
    row("vllm-messages", "anthropic", "rottttou.").usage(30, 4, None),
    row("vllm-messages-stream", "anthropic", "rottttttttttttou.").usage(10, 12, None),
    row("vllm-messages-blocks", "anthropic", "rotttttttttttou.").usage(18, 12, None),
    row("vllm-messages-tools-any", "anthropic", "roccccccccccccccccccccccccccccccccccccccou.")
        .usage(181, 64, None),
    row("vllm-messages-nonstream", "anthropic", "t").usage(10, 12, None).tokens(12),
    row("vllm-messages-err-model", "anthropic", "").fails("status The model `nope` does"),
    row("vllm-messages-err-nomax", "anthropic", "").fails("status 1 validation error"),
    row("vllm-messages-err-budget", "anthropic", "").fails("status 1 validation error"),
    row("vllm-embeddings", "openai-embeddings", "R").usage(2, 0, None),
    row("vllm-embeddings-batch", "openai-embeddings", "R").usage(5, 0, None),
    row("vllm-embeddings-chat", "openai-embeddings-chat", "R").usage(7, 0, None),
    row("vllm-embeddings-err-ctx", "openai-embeddings", "").fails("status This model's maximum"),
    row("vllm-embeddings-err-model", "openai-embeddings", "").fails("status The model `nope` does"),
    row("vllm-embeddings-unsupported", "openai-embeddings", "").fails("status Not Found"),
    row("vllm-embserver-chat-unsupported", "openai-chat", "").fails("status Not Found"),
    row("vllm-pooling", "vllm-pooling", "R").usage(2, 0, None),
    row("vllm-rerank", "vllm-rerank", "R").usage(19, 0, None),
    row("vllm-rerank-v1-top_n", "jina-rerank", "R").usage(19, 0, None),
    row("vllm-score", "vllm-score", "R").usage(16, 0, None),
    row("sglang-completions", "sglang-oai", "ttttttu.").usage(4, 6, None),
    row("sglang-chat", "sglang-oai-chat", "rtttttteu.").usage(31, 6, None),
    row("sglang-generate", "sglang", "tttttttt.").usage(4, 8, Some(0)).tokens(8),
    row("sglang-generate-ids", "sglang", "tttt.").usage(3, 4, Some(0)).tokens(4),
    row("sglang-generate-nonstream", "sglang", "t").usage(2, 4, Some(1)).tokens(4),
    row("sglang-err-ctx", "sglang", "!.").fails("in-stream The input (8001"),
    row("sglang-err-ctx-oai", "sglang-oai", "").fails("status The"),
    row("sglang-err-badjson", "sglang", "").fails("status 1 valid"),
    row("llamacpp-completions", "llamacpp-oai", "tttttttttttte.").usage(4, 12, Some(0)),
    row("llamacpp-completions-nonstream", "llamacpp-oai", "t").usage(2, 4, Some(1)).tokens(4),
    row("llamacpp-chat", "llamacpp-oai-chat", "rtttttttttttteu.").usage(31, 12, Some(0)),
    row("llamacpp-ping", "llamacpp-oai", "ttte.").usage(1, 3, Some(0)),
    row("llamacpp-native-completion", "llamacpp", "tttttttte").usage(4, 8, Some(3)).tokens(8),
    row("llamacpp-responses", "openai-responses", "oooottttttooou").usage(20, 6, Some(0)),
    row("llamacpp-messages", "anthropic", "rottttttou.").usage(20, 6, Some(19)),
    // Where the first token is half a character, the server leaves `message_start` and its counts out.
    row("llamacpp-messages-nostart", "anthropic", "otttttou.").usage(0, 6, None),
    row("llamacpp-embeddings", "openai-embeddings", "R").usage(6, 0, None),
    row("llamacpp-rerank", "jina-rerank", "R").usage(10, 0, None),
    row("llamacpp-err-404", "llamacpp", "").fails("status File Not Found"),
    row("llamacpp-err-badjson", "llamacpp", "").fails("status [json.exception.parse_error"),
    row("llamacpp-err-badparam", "llamacpp-oai-chat", "").fails("status Expected 'messages'"),
    row("llamacpp-err-ctx", "llamacpp-oai", "").fails("status re"),
    row("hf-completions", "openai", "tttttttte").usage(4, 8, None),
    row("hf-chat", "openai-chat", "rtttttttttttte").usage(31, 12, None),
    row("hf-err-badjson", "openai-chat", "").fails(r#"status {"detail":[{"type":"json_invalid""#),
    row("hf-err-badparam", "openai-chat", "").fails("status Unexpected fields"),
    row("hf-err-model", "openai-chat", "").fails("status Internal Server Error"),
    row("tgi-generate_stream", "tgi", "tttttt").usage(4, 6, None).tokens(6),
    row("tgi-generate", "tgi", "t").usage(0, 3, None).tokens(3),
    row("tgi-chat", "openai-chat", "ttttu.").usage(30, 4, None),
    row("tgi-completions", "openai", "tttt.").usage(1, 4, None),
    row("tgi-err-badjson", "tgi", "").fails("status Failed to parse the request body as JSON"),
    row("tgi-err-inputlen", "tgi", "!").fails("in-stream Input validation error"),
    row("tgi-err-overloaded", "tgi", "!").fails("in-stream Model is overloaded"),
    row("tgi-generate-overloaded", "tgi", "").fails("status Model is overloaded"),
];

fn captured_settings(row: &ExpectedCapture) -> Settings {
    let mut settings = settings();
    if row.name == "vllm-chat-contusage" {
        settings.usage = UsageReports::Continuous;
    }
    settings
}

#[test]
fn every_capture_gives_the_expected_timeline() {
    for row in CAPTURES {
        let mut exchange = exchange(row.backend, &captured_settings(row));
        let stream = capture(row.name);
        let (timeline, progress) = read_pieces(&mut exchange, [&stream[..]]);
        let name = row.name;
        assert_eq!(progress, ResponseProgress::Done { keep_alive: false, unread: 0 }, "{name}");
        assert_eq!(letters(&timeline.events), row.kinds, "{name}");
        let outcome = outcome_of(&timeline);
        assert!(outcome.starts_with(row.outcome), "{name}: {outcome}");
        let told = timeline.usage.map(|usage| {
            let prompt = usage.prompt_tokens.unwrap_or(0);
            (prompt, usage.completion_tokens.unwrap_or(0), usage.cached_tokens)
        });
        assert_eq!(told, row.usage, "{name}");
        assert_eq!(timeline.event_tokens(), row.event_tokens, "{name}");
        let is_content = |letter: char| "thc".contains(letter);
        assert_eq!(
            timeline.first_content().map(|event| event.read),
            row.kinds.chars().any(is_content).then_some(0),
            "{name}"
        );
    }
}

/// The same timeline without its times, which depend on the splitting.
fn without_times(mut timeline: Timeline) -> Timeline {
    for event in &mut timeline.events {
        *event = Event::new(Nanos::ZERO, 0, event.kind).with_tokens(event.tokens());
    }
    timeline.reads = 0;
    timeline.times.headers = None;
    timeline.times.end = None;
    timeline
}

/// Where to cut a stream in two: in its header, its first events and its end. The part between
/// repeats them, and the byte-by-byte test covers it.
fn cuts(length: usize) -> impl Iterator<Item = usize> {
    // Long streams are cut less often: their time grows with both.
    let step = 1 + length / 4000;
    (0..length).filter(move |cut| *cut < 800 || cut + 400 > length).step_by(step)
}

#[test]
fn splitting_a_capture_at_any_byte_changes_nothing() {
    for row in CAPTURES {
        let mut exchange = exchange(row.backend, &captured_settings(row));
        let stream = capture(row.name);
        let (whole, _) = read_pieces(&mut exchange, [&stream[..]]);
        let whole = without_times(whole);
        exchange.reset();
        let (by_bytes, _) = read_pieces(&mut exchange, stream.chunks(1));
        assert_eq!(without_times(by_bytes), whole, "{} by single bytes", row.name);
        for cut in cuts(stream.len()) {
            exchange.reset();
            let (split, _) = read_pieces(&mut exchange, [&stream[..cut], &stream[cut..]]);
            assert_eq!(without_times(split), whole, "{} cut at {cut}", row.name);
        }
    }
}
