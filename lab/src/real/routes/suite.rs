//! How each server serves the models of the cases.

use super::super::recipe::{Counters, Device, LLAMACPP_COUNTERS, VLLM_COUNTERS};
use super::case::{RouteCase, ServedModel};

use ServedModel::{Audio, Classifier, CrossEncoder, Embedder, Reasoning, Text, Vision};

#[derive(Debug)]
pub(super) struct ModelServer {
    pub(super) model: ServedModel,
    /// Shell words behind `exec`; `{port}` is its port.
    pub(super) command: &'static str,
    /// Flags of a second attempt where the first one ends at once.
    pub(super) further: &'static str,
}

/// One server program and what it serves.
#[derive(Debug)]
pub(in crate::real) struct RouteSuite {
    pub(in crate::real) server: &'static str,
    pub(super) servers: &'static [ModelServer],
    /// Words that all commands share: `{common}`.
    pub(super) common: &'static str,
    pub(super) variables: &'static [(&'static str, &'static str)],
    pub(super) health: &'static str,
    pub(super) counters: Counters,
    /// A counter of requests that ended, where there is one.
    pub(super) requests: Option<&'static str>,
    /// Whether prompts are counted with the model's own files; otherwise by the server's route for it.
    pub(super) has_model_files: bool,
    /// Cases, by the beginning of their names, whose route the server does not have.
    pub(super) lacks: &'static [&'static str],
    /// Cases, by the beginning of their names, in which the server ignores the constraint.
    pub(super) ignores: &'static [&'static str],
}

impl RouteSuite {
    /// Whether the server has what a case needs.
    pub(super) fn drives(&self, case: &RouteCase) -> bool {
        let is_served = self.servers.iter().any(|server| server.model == case.on);
        is_served && !self.lacks.iter().any(|start| case.name.starts_with(start))
    }

    /// Whether the server applies the schema or the tool choice of a case.
    pub(super) fn constrains(&self, case: &RouteCase) -> bool {
        !self.ignores.iter().any(|start| case.name.starts_with(start))
    }
}

const fn served(model: ServedModel, command: &'static str, further: &'static str) -> ModelServer {
    ModelServer { model, command, further }
}

const TRITON: &str = "--attention-backend TRITON_ATTN";

/// On an H200 seven of these start side by side in about two minutes.
const VLLM_GPU: RouteSuite = RouteSuite {
    server: "vllm",
    servers: &[
        served(
            Text,
            "$VLLM serve \"$MODELS/text\" {common} --max-model-len 4096 --enable-auto-tool-choice --tool-call-parser hermes --enable-prompt-tokens-details --structured-outputs-config '{\"disable_any_whitespace\":true,\"backend\":\"xgrammar\"}'",
            TRITON,
        ),
        served(
            Reasoning,
            "$VLLM serve \"$MODELS/text\" {common} --max-model-len 4096 --reasoning-parser qwen3",
            TRITON,
        ),
        served(
            Embedder,
            "$VLLM serve \"$MODELS/text\" {common} --max-model-len 2048 --runner pooling --convert embed",
            TRITON,
        ),
        served(
            Classifier,
            "$VLLM serve \"$MODELS/classifier\" {common} --max-model-len 2048 --runner pooling --convert classify",
            TRITON,
        ),
        served(
            CrossEncoder,
            "$VLLM serve \"$MODELS/crossencoder\" {common} --max-model-len 512 --runner pooling",
            TRITON,
        ),
        served(
            Vision,
            "$VLLM serve \"$MODELS/vision\" {common} --max-model-len 8192 --max-num-batched-tokens 8192 --limit-mm-per-prompt '{\"image\":4}' --mm-encoder-attn-backend TORCH_SDPA",
            TRITON,
        ),
        served(
            Audio,
            "$VLLM serve \"$MODELS/audio\" {common} --max-model-len 448 --max-num-seqs 16",
            TRITON,
        ),
    ],
    common: "--served-model-name tiny --host 127.0.0.1 --port {port} --load-format dummy --dtype bfloat16 --enforce-eager --generation-config vllm --max-num-seqs 64 --max-num-batched-tokens 4096 --gpu-memory-utilization 0.07 --kv-cache-memory-bytes 1073741824",
    variables: &[
        ("VLLM", "python3 -m vllm.entrypoints.cli.main"),
        ("VLLM_NO_USAGE_STATS", "1"),
        ("VLLM_USE_FLASHINFER_SAMPLER", "0"),
        ("OMP_NUM_THREADS", "2"),
    ],
    health: "/health",
    counters: VLLM_COUNTERS,
    requests: Some("vllm:request_success_total"),
    has_model_files: true,
    lacks: &[],
    ignores: &[],
};

const VLLM_CPU: RouteSuite = RouteSuite {
    common: "--served-model-name tiny --host 127.0.0.1 --port {port} --load-format dummy --dtype bfloat16 --enforce-eager --generation-config vllm --max-num-seqs 16 --max-num-batched-tokens 4096",
    variables: &[("VLLM", "vllm"), ("VLLM_NO_USAGE_STATS", "1"), ("VLLM_CPU_KVCACHE_SPACE", "1")],
    ..VLLM_GPU
};

const SIMULATED: RouteSuite = RouteSuite {
    server: "sim",
    servers: &[
        served(Text, "\"$TOKOMETER\" sim {common}", ""),
        served(Reasoning, "\"$TOKOMETER\" sim {common} --reasoning 16", ""),
        served(Embedder, "\"$TOKOMETER\" sim {common}", ""),
        served(Classifier, "\"$TOKOMETER\" sim {common}", ""),
        served(CrossEncoder, "\"$TOKOMETER\" sim {common}", ""),
        served(Vision, "\"$TOKOMETER\" sim {common}", ""),
        served(Audio, "\"$TOKOMETER\" sim {common}", ""),
    ],
    common: "--port {port} --model tiny --slower 0.2",
    variables: &[],
    health: "/health",
    counters: VLLM_COUNTERS,
    requests: Some("vllm:request_success_total"),
    has_model_files: false,
    // It has every route.
    lacks: &["no-"],
    ignores: &[],
};

const LLAMACPP: RouteSuite = RouteSuite {
    server: "llamacpp",
    servers: &[
        served(Text, "{common} --plain-text", ""),
        served(Embedder, "{common} --plain-text --pooling mean", ""),
        served(CrossEncoder, "{common} --plain-text --pooling rank", ""),
    ],
    common: "$PYTHON \"$SCRIPTS/llamacpp.py\" \"$RESULTS/tiny.gguf\" {port} 4 --slot-context 512",
    variables: &[("PYTHON", "python3"), ("SCRIPTS", "e2e/real")],
    health: "/health",
    counters: LLAMACPP_COUNTERS,
    requests: None,
    has_model_files: false,
    lacks: &[
        "no-",
        "embeddings-bytes",
        "embeddings-chat",
        "embeddings-cohere",
        "pooling",
        "score",
        "rerank-embedder",
        "rerank-cohere",
        "classify",
    ],
    ignores: &["responses-", "messages-", "chat-tools"],
};

pub(in crate::real) fn suite_of(server: &str, device: Device) -> Option<&'static RouteSuite> {
    match (server, device) {
        ("vllm", Device::Gpu) => Some(&VLLM_GPU),
        ("vllm", Device::Cpu) => Some(&VLLM_CPU),
        ("sim", _) => Some(&SIMULATED),
        ("llamacpp", _) => Some(&LLAMACPP),
        _ => None,
    }
}
