//! All cases.

use super::case::{AnswerRule, RouteCase, ServedModel, TokenRule};
use super::tokenizers::END_OF_REASONING;

use AnswerRule::{Call, Fit, Reason, Refused, Succeed};
use ServedModel::{Audio, Classifier, CrossEncoder, Embedder, Reasoning, Text, Vision};
use TokenRule::{Equal, Output, QueryOnce, Shown};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// One case streamed, one in one piece.
    Both,
    Streamed,
    Whole,
    /// The route has no stream.
    Always,
}

#[derive(Clone, Copy)]
struct CaseRow {
    name: &'static str,
    on: ServedModel,
    command: &'static str,
    parts: Parts,
    flags: &'static str,
    tokens: TokenRule,
    answers: AnswerRule,
}

/// The commands: one load, a search for the highest load, a bare address.
pub(super) const BENCH: &str = "bench --base-url";
const CAPACITY: &str = "capacity";
const STAIRCASE: &str = "";

/// 16 requests, eight in flight.
const LOAD: &str = "--num-prompts 16 --max-concurrency 8 --disable-tqdm";

const fn text(name: &'static str, flags: &'static str, answers: AnswerRule) -> CaseRow {
    CaseRow { name, on: Text, command: BENCH, parts: Parts::Both, flags, tokens: Equal, answers }
}

const fn on(served: ServedModel, row: CaseRow) -> CaseRow {
    CaseRow { on: served, ..row }
}

const fn vectors(name: &'static str, on: ServedModel, flags: &'static str) -> CaseRow {
    CaseRow {
        name,
        on,
        command: BENCH,
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
    CaseRow { name, on: Audio, command: BENCH, parts, flags, tokens, answers: Succeed }
}

const fn search(
    name: &'static str,
    on: ServedModel,
    command: &'static str,
    flags: &'static str,
) -> CaseRow {
    CaseRow { name, on, command, parts: Parts::Always, flags, tokens: Shown, answers: Succeed }
}

const ROWS: &[CaseRow] = &[
    text("completions", "--backend vllm {text} --ignore-eos", Succeed),
    text("chat", "--backend openai-chat {text} --ignore-eos", Succeed),
    text("responses", "--backend openai-responses {text} --ignore-eos", Succeed),
    text("messages", "--backend anthropic {text}", Succeed),
    text("chat-tools-required", "--backend openai-chat {tools} required", Call),
    text("responses-tools-required", "--backend openai-responses {tools} required", Call),
    text("messages-tools-required", "--backend anthropic {tools} required", Call),
    text("chat-tools-named", "--backend openai-chat {tools} get_weather", Call),
    text("responses-tools-named", "--backend openai-responses {tools} get_weather", Call),
    text("messages-tools-named", "--backend anthropic {tools} get_weather", Fit),
    text("chat-structured", "--backend openai-chat {schema}", Fit),
    text("responses-structured", "--backend openai-responses {schema}", Fit),
    text("messages-structured", "--backend anthropic {schema}", Fit),
    on(
        Reasoning,
        text(
            "chat-reasoning",
            "--backend openai-chat {think} --extra-body {\"logit_bias\":{\"{end}\":3.5}}",
            Reason,
        ),
    ),
    on(
        Reasoning,
        text(
            "responses-reasoning",
            "--backend openai-responses {think} --extra-body {\"logit_bias\":{\"{end}\":3.5}}",
            Reason,
        ),
    ),
    on(Reasoning, text("messages-reasoning", "--backend anthropic {think}", Reason)),
    vectors("embeddings", Embedder, "--backend openai-embeddings {prompt}"),
    vectors("embeddings-batch", Embedder, "--backend openai-embeddings {prompt} --batch-size 4"),
    vectors("embeddings-ids", Embedder, "--backend openai-embeddings {prompt} --prompt-token-ids"),
    vectors(
        "embeddings-base64",
        Embedder,
        "--backend openai-embeddings {prompt} --extra-body {\"encoding_format\":\"base64\"}",
    ),
    vectors(
        "embeddings-bytes",
        Embedder,
        "--backend openai-embeddings {prompt} --extra-body {\"encoding_format\":\"bytes\"}",
    ),
    // No usage: the prompts are counted here.
    vectors(
        "embeddings-bytes-only",
        Embedder,
        "--backend openai-embeddings {prompt} --extra-body {\"encoding_format\":\"bytes_only\"}",
    ),
    vectors("embeddings-chat", Embedder, "--backend openai-embeddings-chat {prompt}"),
    vectors(
        "embeddings-sglang-name",
        Embedder,
        "--backend vllm-embedding --dataset-name random --warmup-requests 0 --random-range-ratio 1 {prompt}",
    ),
    vectors("embeddings-cohere", Embedder, "--backend cohere-embed {prompt}"),
    vectors(
        "embeddings-infinity",
        Embedder,
        "--backend infinity-embeddings --endpoint /v1/embeddings {prompt}",
    ),
    vectors("pooling", Embedder, "--backend vllm-pooling {prompt}"),
    counted(QueryOnce, vectors("score-embedder", Embedder, "--backend vllm-score {documents} 4")),
    counted(QueryOnce, vectors("rerank-embedder", Embedder, "--backend vllm-rerank {documents} 4")),
    refused(vectors("no-chat", Embedder, "--backend openai-chat {prompt} --random-output-len 16")),
    search("staircase-embeddings", Embedder, STAIRCASE, "--backend openai-embeddings --budget 15s"),
    search(
        "capacity-embeddings",
        Embedder,
        CAPACITY,
        "--backend openai-embeddings {prompt} --slo p99_e2e<500ms --budget 20s",
    ),
    vectors("classify", Classifier, "--backend vllm-classify {prompt}"),
    vectors("classify-batch", Classifier, "--backend vllm-classify {prompt} --batch-size 4"),
    vectors("classify-ids", Classifier, "--backend vllm-classify {prompt} --prompt-token-ids"),
    vectors("pooling-classifier", Classifier, "--backend vllm-pooling {prompt}"),
    vectors("score", CrossEncoder, "--backend vllm-score {documents} 4"),
    vectors("rerank", CrossEncoder, "--backend vllm-rerank {documents} 4"),
    vectors("rerank-jina", CrossEncoder, "--backend jina-rerank {documents} 8"),
    vectors("rerank-cohere", CrossEncoder, "--backend cohere-rerank {documents} 8"),
    vectors(
        "rerank-top-n",
        CrossEncoder,
        "--backend vllm-rerank {documents} 8 --extra-body {\"top_n\":2}",
    ),
    vectors("classify-cross-encoder", CrossEncoder, "--backend vllm-classify {prompt}"),
    refused(vectors("no-embeddings", CrossEncoder, "--backend openai-embeddings {prompt}")),
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
        STAIRCASE,
        "--backend openai-audio {brief_sound} --budget 15s",
    ),
    search(
        "capacity-audio",
        Audio,
        CAPACITY,
        "--backend openai-audio {brief_sound} --slo p99_e2e<2s --budget 20s",
    ),
];

/// One or two images of two sizes in each request.
const IMAGES: &str = "--dataset-name random-mm --random-input-len 32 --random-output-len 32 \
    --random-mm-base-items-per-request 2 --random-mm-num-mm-items-range-ratio 0.5 \
    --random-mm-bucket-config {(256,256,1):0.5,(448,672,1):0.5}";

/// Five seconds of noise in each request.
const SOUND: &str = "--dataset-name random-audio --audio-length-mean 5 --audio-length-stddev 2 --random-output-len 48";

/// What a word in braces stands for in the rows.
const PHRASES: [(&str, &str); 9] = [
    ("{prompt}", "--random-input-len 64"),
    ("{text}", "--random-input-len 64 --random-output-len 48"),
    ("{think}", "--random-input-len 64 --random-output-len 96"),
    (
        "{tools}",
        "--random-input-len 64 --random-output-len 160 --tools {models}/tools.json --tool-choice",
    ),
    ("{schema}", "--random-input-len 64 --random-output-len 128 --structured {models}/schema.json"),
    ("{documents}", "--dataset-name random-rerank --random-input-len 64 --batch-size"),
    ("{images}", IMAGES),
    ("{sound}", SOUND),
    (
        "{brief_sound}",
        "--dataset-name random-audio --audio-length-mean 5 --random-output-len 16 --temperature 1",
    ),
];

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
    let mut flags = row.flags.replace("{end}", &END_OF_REASONING.to_string());
    for (phrase, words) in PHRASES {
        flags = flags.replace(phrase, words);
    }
    let mut words: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
    if row.command == BENCH {
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
