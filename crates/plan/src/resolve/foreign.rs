//! Names of other tools' backends and datasets that we do not have, with what to use instead.

/// Backends of vLLM's and SGLang's tools.
const BACKENDS: [(&str, &str); 4] = [
    ("gserver", "use `--backend sglang` with the HTTP address of the server"),
    (
        "openai-embeddings-clip",
        "use `--backend openai-embeddings-chat` with images in the rows of `--dataset-name custom`",
    ),
    (
        "openai-embeddings-vlm2vec",
        "use `--backend openai-embeddings-chat` with images in the rows of `--dataset-name custom`",
    ),
    ("infinity-embeddings-clip", "use `--backend infinity-embeddings` with texts"),
];

/// Datasets of vLLM's and SGLang's tools.
const DATASETS: [(&str, &str); 12] = [
    ("speed_bench", SPEED),
    ("speed-bench", SPEED),
    ("bfcl", "use `--dataset-name openai` with rows of `messages` and `tools`"),
    ("mmmu", "use `--dataset-name custom_image` with rows of `prompt` and `image_files`"),
    ("longbench_v2", "use `--dataset-name hf --dataset-path FILE --hf-text-column context`"),
    ("agentic-trace", "use `--trace FILE --answers live --output-len 220`"),
    ("blazedit", "use `--dataset-name custom` with the edits as prompts"),
    ("instruct-coder", "use `--dataset-name hf`"),
    ("vision-arena", "use `--dataset-name custom_image`"),
    ("asr", "use `--dataset-name custom_audio` with `--backend openai-audio`"),
    ("burst-gpt", "use `--dataset-name burstgpt`"),
    ("gsp", "use `--dataset-name generated-shared-prefix`"),
];

const SPEED: &str =
    "use `--dataset-name hf --dataset-path FILE` with the dataset's files, or `spec_bench`";

pub(super) fn backend(name: &str) -> Option<&'static str> {
    BACKENDS.iter().find(|(known, _)| *known == name).map(|(_, hint)| *hint)
}

pub(super) fn dataset(name: &str) -> Option<&'static str> {
    DATASETS.iter().find(|(known, _)| *known == name).map(|(_, hint)| *hint)
}
