//! What is asked: the dataset, and the options of generated ones.

use serde_json::Value;
use tokometer_workload::Ratio;
use tokometer_workload::datasets::random_mm::SizeBuckets;

use super::row::Kind::{Choice, Count, Counts, Number, Object, Parsed, Text};
use super::row::{Holds, option, other, switch};
use super::{EVERY, Group, MOST_TOKENS};

const RANDOM_TEXT: &[&str] = &["random", "random-ids", "random-mm", "image", "random-audio"];
const RANDOM_INPUT: &[&str] = &["random", "random-ids", "random-mm", "image", "random-rerank"];

#[rustfmt::skip] // The columns of a row stand side by side.
pub(super) const GROUPS: &[Group] = &[
    Group { title: "Workload", rows: &[
        option("dataset-name", "NAME", Text, "Dataset [default: random; SGLang: sharegpt]")
            .sets("workload.dataset").known("PRSO"),
        option("dataset-path", "PATH", Text, "The dataset's file (`-`: standard input), folder or hub id")
            .sets("workload.path").of(EVERY).known("PRSO"),
        option("input-len", "TOKENS", Counts, "Prompt length [default: 1024; URL: 512; demo: 256]")
            .sets("workload.input_len").of(EVERY).most(MOST_TOKENS).known("PR")
            .remark("the input length of whichever dataset is chosen"),
        option("output-len", "TOKENS", Counts, "Output length [default: 128; SGLang: 1024; demo: 64]")
            .sets("workload.output_len").of(EVERY).most(MOST_TOKENS).known("PR")
            .remark("the output length of whichever dataset is chosen")
            .also(&[other("spec-bench-output-len", "P")]),
        option("batch-size", "N", Count, "Prompts per request, for backends that answer each of them (embeddings, classify) [default: 1]")
            .sets("prompts.batch_size").also(&[other("random-batch-size", "PR")]),
        switch("no-oversample", "never", "Do not repeat rows if the dataset is too short: send fewer requests")
            .sets("prompts.oversample").known("P"),
        switch("skip-bad-rows", "skip", "Leave out rows of a file that cannot be used, instead of refusing the file")
            .sets("prompts.bad_rows"),
        switch("disable-shuffle", "as_in_file", "Keep the order of the dataset's rows")
            .sets("prompts.row_order").known("P"),
        switch("skip-chat-template", "skip", "Send prompts without applying the tokenizer's chat template")
            .sets("prompts.templating").known("P"),
        switch("apply-chat-template", "apply", "Apply the tokenizer's chat template to prompts")
            .sets("prompts.templating").known("S").also(&[other("use-chat-template", "O")]),
        option("chat-template-kwargs", "JSON", Object, "Additional values for the tokenizer's chat template")
            .sets("prompts.template_values").holds(Holds::Json).known("P")
            .remark("where a template is applied here"),
        option("prompt-suffix", "TEXT", Text, "Text added to each prompt of a conversation dataset")
            .sets("workload.prompt_suffix").of(EVERY).known("S"),
        switch("prompt-token-ids", "token-ids", "Send token ids instead of text, if the backend accepts them")
            .sets("prompts.form").known("R").also(&[other("tokenize-prompt", "S")]),
        option("max-model-len", "TOKENS", Count, "Skip prompts that exceed this context length together with their output")
            .sets("prompts.max_model_len").known("R"),
    ]},
    Group { title: "Workload: random", rows: &[
        option("random-input-len", "TOKENS", Counts, "Prompt length in tokens [default: 1024]")
            .sets("workload.input_len").of(RANDOM_INPUT).known("PRS")
            .remark("a list makes a sweep"),
        option("random-output-len", "TOKENS", Counts, "Output length in tokens [default: 128; SGLang's conventions: 1024]")
            .sets("workload.output_len").of(RANDOM_TEXT).known("PRS")
            .remark("a list makes a sweep"),
        option("random-range-ratio", "RATIO", Parsed(ratio), "Range of the lengths, or {\"input\": A, \"output\": B}; --conventions decides its meaning [default: 0; URL without lengths: 0.5]")
            .sets("workload.range_ratio").of(RANDOM_INPUT).known("PRS")
            .remark("`--conventions` decides its meaning"),
        option("random-prefix-len", "TOKENS", Count, "Length of the prefix shared by all prompts [default: 0]")
            .sets("workload.prefix_len").of(&["random", "random-mm"]).most(MOST_TOKENS).known("PR"),
        option("random-cache-hit-fraction", "SHARE", Number, "Share of prompts that begin with one common text [default: 0]")
            .sets("workload.cache_hit_fraction").of(&["random"]).most(1.0).known("R"),
        option("random-cache-ratio", "SHARE", Number, "Share of such a prompt that is common [default: 0]")
            .sets("workload.cache_ratio").of(&["random"]).most(1.0).known("R"),
        switch("no-reranker", "embedding", "For random-rerank: the model embeds query and documents one by one")
            .sets("workload.scoring").of(&["random-rerank"]).known("PR"),
    ]},
    Group { title: "Workload: images", rows: &[
        option("random-mm-base-items-per-request", "N", Count, "Images per request for random-mm [default: 1]")
            .sets("workload.mm_items").of(&["random-mm"]).known("PR"),
        option("random-mm-num-mm-items-range-ratio", "RATIO", Number, "Range of the number of images for random-mm, from 0 to 1 [default: 0]")
            .sets("workload.mm_items_ratio").of(&["random-mm"]).known("PR"),
        option("random-mm-limit-mm-per-prompt", "JSON", Parsed(image_limit), "Maximum number of images per request, such as {\"image\": 4} [default: 255]")
            .sets("workload.mm_images_max").of(&["random-mm"]).dotted().known("PR")
            .remark("its limit of `image`"),
        option("random-mm-bucket-config", "BUCKETS", Parsed(size_buckets), "Image sizes for random-mm with the share of each [default: {(256, 256, 1): 0.5, (720, 1280, 1): 0.5}]")
            .sets("workload.mm_buckets").of(&["random-mm"]).dotted().known("PR")
            .remark("images; a bucket of video is refused"),
        option("image-count", "N", Count, "Images per request for image [default: 1]")
            .sets("workload.image_count").of(&["image"]).known("S"),
        switch("random-image-count", "true", "Draw the number of images between 1 and --image-count")
            .sets("workload.is_image_count_random").of(&["image"]).known("S"),
        option("image-resolution", "SIZE", Text, "Image size: 4k, 1080p, 720p, 360p, `HxW` or `random:HxW-HxW` [default: 1080p]")
            .sets("workload.image_resolution").of(&["image"]).known("S"),
        option("image-format", "FORMAT", Choice(&["jpeg", "png"]), "Image format [default: jpeg]")
            .sets("workload.image_format").of(&["image"]).known("S"),
        option("image-content", "WHAT", Choice(&["random", "blank"]), "Image content: noise or plain white [default: random]")
            .sets("workload.image_content").of(&["image"]).known("S"),
    ]},
    Group { title: "Workload: audio", rows: &[
        option("audio-length-mean", "SECONDS", Number, "Mean length of a generated audio clip [default: 10]")
            .sets("workload.audio_seconds").of(&["random-audio"]),
        option("audio-length-stddev", "SECONDS", Number, "Standard deviation of the audio length [default: 0]")
            .sets("workload.audio_seconds_stddev").of(&["random-audio"]),
    ]},
];

fn ratio(text: &str) -> Result<Value, String> {
    let ratio: Ratio = text.parse()?;
    serde_json::to_value(ratio).map_err(|why| why.to_string())
}

fn size_buckets(text: &str) -> Result<Value, String> {
    serde_json::to_value(text.parse::<SizeBuckets>()?).map_err(|why| why.to_string())
}

/// The limit of images; Python's quotes are accepted.
fn image_limit(text: &str) -> Result<Value, String> {
    let limits: Option<Value> = serde_json::from_str(&text.replace('\'', "\"")).ok();
    let limit = limits.as_ref().and_then(|limits| limits.get("image")?.as_u64());
    limit.map(Value::from).ok_or_else(|| "write {\"image\": N}".to_owned())
}
