//! All cases.

use super::case::{AnswerRule, CaseCommand, RouteCase, ServedModel, TokenRule};
use super::tokenizers::END_OF_REASONING;

use AnswerRule::{Call, Fit, Reason, Refused, Succeed};
use CaseCommand::{Bench, Capacity, Staircase};
use ServedModel::{Audio, Classifier, CrossEncoder, Embedder, Reasoning, Text, Vision};
use TokenRule::{Equal, Output, QueryOnce, Shown};

/// How an answer is delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// One case streamed, one in one piece.
    Both,
    Streamed,
    Whole,
    /// The route has no stream.
    Always,
}

/// A row of the table.
#[derive(Clone, Copy)]
struct CaseRow {
    name: &'static str,
    on: ServedModel,
    command: CaseCommand,
    parts: Parts,
    flags: &'static str,
    tokens: TokenRule,
    answers: AnswerRule,
}

/// 16 requests, eight in flight.
const LOAD: &str = "--num-prompts 16 --max-concurrency 8 --disable-tqdm";

const fn text(name: &'static str, flags: &'static str, answers: AnswerRule) -> CaseRow {
    CaseRow { name, on: Text, command: Bench, parts: Parts::Both, flags, tokens: Equal, answers }
}

const fn on(served: ServedModel, row: CaseRow) -> CaseRow {
    CaseRow { on: served, ..row }
}

const fn vectors(name: &'static str, on: ServedModel, flags: &'static str) -> CaseRow {
    CaseRow {
        name,
        on,
        command: Bench,
        parts: Parts::Always,
        flags,
        tokens: Equal,
        answers: Succeed,
    }
}

const fn counted(tokens: TokenRule, row: CaseRow) -> CaseRow {
    CaseRow { tokens, ..row }
}

const fn refused(row: CaseRow) -> CaseRow {
    CaseRow { answers: Refused, ..row }
}

const fn audio(
    name: &'static str,
    parts: Parts,
    tokens: TokenRule,
    flags: &'static str,
) -> CaseRow {
    CaseRow { name, on: Audio, command: Bench, parts, flags, tokens, answers: Succeed }
}

const fn search(
    name: &'static str,
    on: ServedModel,
    command: CaseCommand,
    flags: &'static str,
) -> CaseRow {
    CaseRow { name, on, command, parts: Parts::Always, flags, tokens: Shown, answers: Succeed }
}

const ROWS: &[CaseRow] = &[
    text(
        "completions",
        "--backend vllm --random-input-len 64 --random-output-len 48 --ignore-eos",
        Succeed,
    ),
    text(
        "chat",
        "--backend openai-chat --random-input-len 64 --random-output-len 48 --ignore-eos",
        Succeed,
    ),
    text(
        "responses",
        "--backend openai-responses --random-input-len 64 --random-output-len 48 --ignore-eos",
        Succeed,
    ),
    text("messages", "--backend anthropic --random-input-len 64 --random-output-len 48", Succeed),
    text(
        "chat-tools-required",
        "--backend openai-chat --random-input-len 64 --random-output-len 160 --tools {models}/tools.json --tool-choice required",
        Call,
    ),
    text(
        "responses-tools-required",
        "--backend openai-responses --random-input-len 64 --random-output-len 160 --tools {models}/tools.json --tool-choice required",
        Call,
    ),
    text(
        "messages-tools-required",
        "--backend anthropic --random-input-len 64 --random-output-len 160 --tools {models}/tools.json --tool-choice required",
        Call,
    ),
    text(
        "chat-tools-named",
        "--backend openai-chat --random-input-len 64 --random-output-len 160 --tools {models}/tools.json --tool-choice get_weather",
        Call,
    ),
    text(
        "responses-tools-named",
        "--backend openai-responses --random-input-len 64 --random-output-len 160 --tools {models}/tools.json --tool-choice get_weather",
        Call,
    ),
    text(
        "messages-tools-named",
        "--backend anthropic --random-input-len 64 --random-output-len 160 --tools {models}/tools.json --tool-choice get_weather",
        Fit,
    ),
    text(
        "chat-structured",
        "--backend openai-chat --random-input-len 64 --random-output-len 128 --structured {models}/schema.json",
        Fit,
    ),
    text(
        "responses-structured",
        "--backend openai-responses --random-input-len 64 --random-output-len 128 --structured {models}/schema.json",
        Fit,
    ),
    text(
        "messages-structured",
        "--backend anthropic --random-input-len 64 --random-output-len 128 --structured {models}/schema.json",
        Fit,
    ),
    on(
        Reasoning,
        text(
            "chat-reasoning",
            "--backend openai-chat --random-input-len 64 --random-output-len 96 --extra-body {\"logit_bias\":{\"{end}\":3.5}}",
            Reason,
        ),
    ),
    on(
        Reasoning,
        text(
            "responses-reasoning",
            "--backend openai-responses --random-input-len 64 --random-output-len 96 --extra-body {\"logit_bias\":{\"{end}\":3.5}}",
            Reason,
        ),
    ),
    on(
        Reasoning,
        text(
            "messages-reasoning",
            "--backend anthropic --random-input-len 64 --random-output-len 96",
            Reason,
        ),
    ),
    vectors("embeddings", Embedder, "--backend openai-embeddings --random-input-len 64"),
    vectors(
        "embeddings-batch",
        Embedder,
        "--backend openai-embeddings --random-input-len 64 --batch-size 4",
    ),
    vectors(
        "embeddings-ids",
        Embedder,
        "--backend openai-embeddings --random-input-len 64 --prompt-token-ids",
    ),
    vectors(
        "embeddings-base64",
        Embedder,
        "--backend openai-embeddings --random-input-len 64 --extra-body {\"encoding_format\":\"base64\"}",
    ),
    vectors(
        "embeddings-bytes",
        Embedder,
        "--backend openai-embeddings --random-input-len 64 --extra-body {\"encoding_format\":\"bytes\"}",
    ),
    // No usage: the prompts are counted here.
    vectors(
        "embeddings-bytes-only",
        Embedder,
        "--backend openai-embeddings --random-input-len 64 --extra-body {\"encoding_format\":\"bytes_only\"}",
    ),
    vectors("embeddings-chat", Embedder, "--backend openai-embeddings-chat --random-input-len 64"),
    vectors(
        "embeddings-sglang-name",
        Embedder,
        "--backend vllm-embedding --dataset-name random --warmup-requests 0 --random-range-ratio 1 --random-input-len 64",
    ),
    vectors("embeddings-cohere", Embedder, "--backend cohere-embed --random-input-len 64"),
    vectors(
        "embeddings-infinity",
        Embedder,
        "--backend infinity-embeddings --endpoint /v1/embeddings --random-input-len 64",
    ),
    vectors("pooling", Embedder, "--backend vllm-pooling --random-input-len 64"),
    counted(
        QueryOnce,
        vectors(
            "score-embedder",
            Embedder,
            "--backend vllm-score --dataset-name random-rerank --batch-size 4 --random-input-len 64",
        ),
    ),
    counted(
        QueryOnce,
        vectors(
            "rerank-embedder",
            Embedder,
            "--backend vllm-rerank --dataset-name random-rerank --batch-size 4 --random-input-len 64",
        ),
    ),
    refused(vectors(
        "no-chat",
        Embedder,
        "--backend openai-chat --random-input-len 64 --random-output-len 16",
    )),
    search("staircase-embeddings", Embedder, Staircase, "--backend openai-embeddings --budget 15s"),
    search(
        "capacity-embeddings",
        Embedder,
        Capacity,
        "--backend openai-embeddings --random-input-len 64 --slo p99_e2e<500ms --budget 20s",
    ),
    vectors("classify", Classifier, "--backend vllm-classify --random-input-len 64"),
    vectors(
        "classify-batch",
        Classifier,
        "--backend vllm-classify --random-input-len 64 --batch-size 4",
    ),
    vectors(
        "classify-ids",
        Classifier,
        "--backend vllm-classify --random-input-len 64 --prompt-token-ids",
    ),
    vectors("pooling-classifier", Classifier, "--backend vllm-pooling --random-input-len 64"),
    vectors(
        "score",
        CrossEncoder,
        "--backend vllm-score --dataset-name random-rerank --batch-size 4 --random-input-len 64",
    ),
    vectors(
        "rerank",
        CrossEncoder,
        "--backend vllm-rerank --dataset-name random-rerank --batch-size 4 --random-input-len 64",
    ),
    vectors(
        "rerank-jina",
        CrossEncoder,
        "--backend jina-rerank --dataset-name random-rerank --batch-size 8 --random-input-len 64",
    ),
    vectors(
        "rerank-cohere",
        CrossEncoder,
        "--backend cohere-rerank --dataset-name random-rerank --batch-size 8 --random-input-len 64",
    ),
    vectors(
        "rerank-top-n",
        CrossEncoder,
        "--backend vllm-rerank --dataset-name random-rerank --batch-size 8 --random-input-len 64 --extra-body {\"top_n\":2}",
    ),
    vectors(
        "classify-cross-encoder",
        CrossEncoder,
        "--backend vllm-classify --random-input-len 64",
    ),
    refused(vectors(
        "no-embeddings",
        CrossEncoder,
        "--backend openai-embeddings --random-input-len 64",
    )),
    on(Vision, text("chat-images", "--backend openai-chat {images}", Succeed)),
    on(Vision, text("responses-images", "--backend openai-responses {images}", Succeed)),
    on(Vision, text("messages-images", "--backend anthropic {images}", Succeed)),
    // At temperature 0 a model of random weights ends at once, which is a transcript without text.
    audio(
        "transcription",
        Parts::Streamed,
        Output,
        "--backend openai-audio {sound} --temperature 1",
    ),
    audio("transcription", Parts::Whole, Shown, "--backend openai-audio {sound} --temperature 1"),
    audio(
        "transcription-silent",
        Parts::Streamed,
        Output,
        "--backend openai-audio {sound} --temperature 0",
    ),
    audio(
        "transcription-silent",
        Parts::Whole,
        Shown,
        "--backend openai-audio {sound} --temperature 0",
    ),
    audio(
        "transcription-verbose",
        Parts::Whole,
        Shown,
        "--backend openai-audio {sound} --temperature 1 --extra-body {\"response_format\":\"verbose_json\"}",
    ),
    audio(
        "translation",
        Parts::Streamed,
        Output,
        "--backend openai-audio --endpoint /v1/audio/translations {sound} --temperature 1",
    ),
    search(
        "staircase-audio",
        Audio,
        Staircase,
        "--backend openai-audio --dataset-name random-audio --audio-length-mean 5 --random-output-len 16 --temperature 1 --budget 15s",
    ),
    search(
        "capacity-audio",
        Audio,
        Capacity,
        "--backend openai-audio --dataset-name random-audio --audio-length-mean 5 --random-output-len 16 --temperature 1 --slo p99_e2e<2s --budget 20s",
    ),
];

/// One or two images of two sizes in each request.
const IMAGES: &str = "--dataset-name random-mm --random-input-len 32 --random-output-len 32 \
    --random-mm-base-items-per-request 2 --random-mm-num-mm-items-range-ratio 0.5 \
    --random-mm-bucket-config {(256,256,1):0.5,(448,672,1):0.5}";

/// Five seconds of noise in each request.
const SOUND: &str = "--dataset-name random-audio --audio-length-mean 5 --audio-length-stddev 2 --random-output-len 48";

/// Every case of every server.
pub(super) fn cases() -> Vec<RouteCase> {
    ROWS.iter().flat_map(both).collect()
}

fn both(row: &CaseRow) -> Vec<RouteCase> {
    match row.parts {
        Parts::Both => vec![case(row, Parts::Streamed), case(row, Parts::Whole)],
        parts => vec![case(row, parts)],
    }
}

fn case(row: &CaseRow, parts: Parts) -> RouteCase {
    let flags = row
        .flags
        .replace("{images}", IMAGES)
        .replace("{sound}", SOUND)
        .replace("{end}", &END_OF_REASONING.to_string());
    let mut words: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
    if row.command == Bench {
        words.extend(LOAD.split_whitespace().map(str::to_owned));
    }
    let is_whole = parts == Parts::Whole;
    if is_whole {
        words.push("--disable-stream".to_owned());
    }
    RouteCase {
        name: format!("{}{}", row.name, if is_whole { "-whole" } else { "" }),
        on: row.on,
        command: row.command,
        words,
        tokens: row.tokens,
        answers: row.answers,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_every_kind_of_server_has_cases() {
        let cases = cases();
        let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), cases.len());
        for served in [Text, Reasoning, Embedder, Classifier, CrossEncoder, Vision, Audio] {
            assert!(cases.iter().any(|case| case.on == served), "{served:?}");
        }
        let left = cases
            .iter()
            .flat_map(|case| &case.words)
            .find(|word| word.starts_with("{p") || word.contains("{end}"));
        assert_eq!(left, None);
    }
}
