//! How each server is started and asked. `xtask/src/servers.rs` says what each is installed from.
//!
//! Words in braces are filled in when the server starts: `{bin}` its environment's programs, `{model}`
//! the model, `{port}` the port, `{slots}` how many requests it may run at once, `{here}` the project's
//! scripts, `{folder}` the server's own folder, `{upstream}` the address of the server behind a gateway.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Device {
    Cpu,
    /// On an NVIDIA GPU.
    Gpu,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Model {
    /// A folder with safetensors and a tokenizer, by `model.py`.
    Folder,
    /// A GGUF file, which the server's own script writes.
    Gguf,
    /// None: the server passes requests on.
    Nothing,
}

#[derive(Debug)]
pub(super) struct Recipe {
    pub(super) name: &'static str,
    pub(super) model: Model,
    pub(super) command: &'static str,
    pub(super) variables: &'static [(&'static str, &'static str)],
    /// The path that answers 200 once it is up.
    pub(super) health: &'static str,
    /// Requests it runs at once. `None`: it is not configurable, so its queue is not checked.
    pub(super) slots: Option<u32>,
    pub(super) key: Option<&'static str>,
    pub(super) routes: &'static [Route],
    pub(super) counters: Option<Counters>,
    /// The status with which it refuses a prompt beyond its context. `None`: it takes it.
    pub(super) too_long: Option<u16>,
}

/// One protocol of a server.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) name: &'static str,
    /// `--backend` and what else this route needs.
    pub(super) flags: &'static str,
    /// Tokens that the server adds to a prompt of a known length. `None`: a chat template's.
    pub(super) added_tokens: Option<u32>,
    /// Whether `ignore_eos` is taken; otherwise an answer may end early.
    pub(super) is_forced: bool,
}

/// Names of a server's counters and gauges.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counters {
    /// Prompt tokens; several are added up.
    pub(super) prompt: &'static [&'static str],
    pub(super) generated: &'static [&'static str],
    pub(super) running: &'static str,
}

const fn forced(name: &'static str, flags: &'static str, added_tokens: Option<u32>) -> Route {
    Route { name, flags, added_tokens, is_forced: true }
}

const fn free(name: &'static str, flags: &'static str, added_tokens: Option<u32>) -> Route {
    Route { name, flags, added_tokens, is_forced: false }
}

pub(super) const LLAMACPP_COUNTERS: Counters = Counters {
    prompt: &["llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"],
    generated: &["llamacpp:tokens_predicted_total"],
    running: "llamacpp:requests_processing",
};

pub(super) const VLLM_COUNTERS: Counters = Counters {
    prompt: &["vllm:prompt_tokens_total"],
    generated: &["vllm:generation_tokens_total"],
    running: "vllm:num_requests_running",
};

const LLAMACPP: Recipe = Recipe {
    name: "llamacpp",
    model: Model::Gguf,
    command: "{bin}/python {here}/llamacpp.py {model} {port} {slots}",
    variables: &[],
    health: "/health",
    slots: Some(2),
    key: None,
    routes: &[
        forced("completions", "--backend llamacpp-oai", Some(0)),
        forced("chat", "--backend llamacpp-oai-chat", None),
        forced("native", "--backend llamacpp", Some(0)),
    ],
    counters: Some(LLAMACPP_COUNTERS),
    too_long: Some(400),
};

const VLLM_CPU: Recipe = Recipe {
    name: "vllm",
    model: Model::Folder,
    command: "{bin}/vllm serve {model} --served-model-name tiny --host 127.0.0.1 --port {port} \
              --max-num-seqs {slots} --max-model-len 2048 --dtype float32 --enforce-eager",
    variables: &[
        ("VLLM_CPU_KVCACHE_SPACE", "1"),
        ("VLLM_NO_USAGE_STATS", "1"),
        ("VLLM_CACHE_ROOT", "{folder}/cache"),
    ],
    health: "/health",
    slots: Some(4),
    key: None,
    routes: &[
        forced("completions", "--backend vllm --model tiny", Some(0)),
        forced("chat", "--backend vllm-chat --model tiny", None),
        forced("token ids", "--backend vllm --model tiny --prompt-token-ids", Some(0)),
    ],
    counters: Some(VLLM_COUNTERS),
    too_long: Some(400),
};

const VLLM_GPU: Recipe = Recipe {
    command: "{bin}/vllm serve {model} --served-model-name tiny --host 127.0.0.1 --port {port} \
              --max-num-seqs {slots} --max-model-len 2048 --gpu-memory-utilization 0.2",
    variables: &[("VLLM_NO_USAGE_STATS", "1"), ("VLLM_CACHE_ROOT", "{folder}/cache")],
    ..VLLM_CPU
};

const TRANSFORMERS_CPU: Recipe = Recipe {
    name: "transformers",
    model: Model::Folder,
    command: "{bin}/transformers serve {model} --continuous-batching --device cpu \
              --host 127.0.0.1 --port {port}",
    variables: &[],
    health: "/health",
    slots: None,
    key: None,
    routes: &[
        free("completions", "--backend openai --model {model}", Some(0)),
        // It ignores the newer name of the limit in a chat, and then writes a thousand tokens.
        free(
            "chat",
            "--backend openai-chat --model {model} --extra-body {\"max_tokens\":16}",
            None,
        ),
    ],
    counters: None,
    too_long: None,
};

const TRANSFORMERS_GPU: Recipe = Recipe {
    command: "{bin}/transformers serve {model} --continuous-batching --cb-use-cuda-graph \
              --host 127.0.0.1 --port {port}",
    ..TRANSFORMERS_CPU
};

const SGLANG_CPU: Recipe = Recipe {
    name: "sglang",
    model: Model::Folder,
    command: "{bin}/python -m sglang.launch_server --model-path {model} --served-model-name tiny \
              --host 127.0.0.1 --port {port} --device cpu --attention-backend torch_native \
              --max-running-requests {slots} --context-length 2048 --max-total-tokens 16384 \
              --dtype float32 --enable-metrics --disable-overlap-schedule",
    variables: &[("LD_LIBRARY_PATH", "{folder}/stub"), ("SGLANG_USE_CPU_ENGINE", "1")],
    health: "/health",
    slots: Some(4),
    key: None,
    routes: &[
        forced("completions", "--backend sglang-oai --model tiny --tokenizer {model}", Some(0)),
        forced("chat", "--backend sglang-oai-chat --model tiny --tokenizer {model}", None),
        forced("native", "--backend sglang --model tiny --tokenizer {model}", Some(0)),
    ],
    counters: Some(Counters {
        prompt: &["sglang:prompt_tokens_total"],
        generated: &["sglang:generation_tokens_total"],
        running: "sglang:num_running_reqs",
    }),
    too_long: Some(400),
};

const SGLANG_GPU: Recipe = Recipe {
    command: "{bin}/python -m sglang.launch_server --model-path {model} --served-model-name tiny \
              --host 127.0.0.1 --port {port} --max-running-requests {slots} --context-length 2048 \
              --mem-fraction-static 0.2 --enable-metrics",
    variables: &[],
    ..SGLANG_CPU
};

const LITELLM: Recipe = Recipe {
    name: "litellm",
    model: Model::Nothing,
    command: "{bin}/python {here}/litellm_routes.py {folder}/routes.yaml {upstream} {port}",
    variables: &[],
    health: "/health/liveliness",
    slots: None,
    key: Some("sk-tokometer"),
    routes: &[
        forced("completions", "--backend openai --model tiny-text", Some(0)),
        forced("chat", "--backend openai-chat --model tiny", None),
    ],
    // The simulated server behind the gateway counts.
    counters: Some(VLLM_COUNTERS),
    too_long: Some(400),
};

pub(super) const NAMES: [&str; 5] = ["llamacpp", "vllm", "transformers", "sglang", "litellm"];

pub(super) fn named(name: &str, device: Device) -> Option<&'static Recipe> {
    let recipe = match (name, device) {
        ("llamacpp", _) => &LLAMACPP,
        ("vllm", Device::Cpu) => &VLLM_CPU,
        ("vllm", Device::Gpu) => &VLLM_GPU,
        ("transformers", Device::Cpu) => &TRANSFORMERS_CPU,
        ("transformers", Device::Gpu) => &TRANSFORMERS_GPU,
        ("sglang", Device::Cpu) => &SGLANG_CPU,
        ("sglang", Device::Gpu) => &SGLANG_GPU,
        ("litellm", _) => &LITELLM,
        _ => return None,
    };
    Some(recipe)
}
