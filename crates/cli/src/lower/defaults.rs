//! Values of fields that nobody set, by the rules of the family's own tool.

use serde_json::{Value, json};
use tokometer_base::Conventions;
use tokometer_client::Dialect;

use super::dataset;
use super::layer::Layer;
use crate::args::compat::nearest;
use crate::exit::Refusal;

/// Whether anything names a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addressed {
    /// A flag or a plan does.
    Yes,
    /// Nothing does: the embedded simulator is meant.
    No,
}

/// What the defaults depend on.
#[derive(Debug, Clone)]
pub(crate) struct Situation {
    /// The backend.
    pub(crate) dialect: Dialect,
    /// Whose rules hold.
    pub(crate) family: Conventions,
    /// The dataset's name.
    pub(crate) dataset: String,
    /// Whether anything names a target.
    pub(crate) addressed: Addressed,
    /// Whether the load is set by somebody.
    pub(crate) has_load: bool,
    /// Whether the run ends by time.
    pub(crate) has_duration: bool,
}

/// The dialect of a backend's name.
pub(crate) fn dialect(name: &str) -> Result<Dialect, Refusal> {
    Dialect::named(name).ok_or_else(|| {
        let all: Vec<&str> = Dialect::names().collect();
        let near = nearest(name, all.iter().copied());
        let hint = if near.is_empty() {
            format!("the backends are {}", all.join(", "))
        } else {
            format!("the nearest are {}; all: {}", near.join(", "), all.join(", "))
        };
        Refusal::usage(format!("there is no backend `{name}`"), hint)
    })
}

/// The embedded simulator's default run: open loop, long enough for its own P99, about 20 seconds.
const DEMO_RATE: f64 = 25.0;
const DEMO_PROMPTS: u64 = 480;
const DEMO_WARMUPS: u64 = 8;
const DEMO_INPUT: u32 = 256;
const DEMO_OUTPUT: u32 = 64;

/// All defaults.
pub(crate) fn defaults(situation: &Situation) -> Result<Layer, Refusal> {
    let is_sglang = situation.family == Conventions::Sglang;
    let mut workload = dataset::defaults(&situation.dataset, situation.family)?;
    let is_unaddressed = situation.addressed == Addressed::No;
    let is_demo = is_unaddressed && situation.dataset == "random";
    if is_demo {
        workload["input_len"] = Value::from(DEMO_INPUT);
        workload["output_len"] = Value::from(DEMO_OUTPUT);
    }
    let rate = if is_demo && !situation.has_load { json!(DEMO_RATE) } else { json!("inf") };
    let num_prompts = match (situation.has_duration, is_demo) {
        (true, _) => Value::Null,
        (false, true) => Value::from(DEMO_PROMPTS),
        (false, false) => Value::from(1_000),
    };
    let fields = json!({
        "name": if is_unaddressed { "simulator" } else { situation.dialect.name() },
        "family": situation.family,
        "seed": if is_sglang { 42 } else { 0 },
        "content": "fresh",
        "targets": [{ "address": address(situation), "backend": situation.dialect.name() }],
        "workload": workload,
        "prompts": {
            "form": "text", "row_order": "shuffled", "oversample": "by_tool", "templating": "by_tool",
        },
        "load": {
            "request_rate": rate, "burstiness": 1.0, "num_prompts": num_prompts,
            "timing": timing(&situation.dataset),
        },
        "phases": {
            "ready_timeout_s": if is_sglang { 60.0 } else { 0.0 },
            "warmups": if is_demo { DEMO_WARMUPS } else { u64::from(is_sglang) },
            "cache": "keep", "flush_timeout_s": 60.0, "profiler": "off", "probe_rate": 0.0,
        },
        "request": { "ignore_eos": ignore_eos(situation), "delivery": "streamed", "usage": "at_end" },
        "client": {
            "connections": if is_sglang { "per-request" } else { "on-demand" },
            "harvest": "adaptive", "stamps": "kernel", "timeout_s": 21_600.0,
            "connect_timeout_s": 10.0, "retries": 0, "scrape_interval_s": 1.0,
        },
        "metrics": {
            "layout": "auto", "sections": ["ttft", "tpot", "itl"], "percentiles": [99.0],
            "judgement": "lenient",
        },
        "output": { "record": "kept", "shown": "text" },
    });
    let Value::Object(fields) = fields else { return Ok(Layer::default()) };
    let mut layer = Layer::new(fields);
    if is_sglang {
        layer.put("phases.warmup_output_max", 32);
    }
    Ok(layer)
}

fn address(situation: &Situation) -> String {
    if situation.addressed == Addressed::No {
        return "simulator:default".to_owned();
    }
    // SGLang's tool says 0.0.0.0, which a connect takes for this host: the name says so.
    format!("http://127.0.0.1:{}", situation.dialect.port_by(situation.family))
}

/// Traces are sent at their own times unless told otherwise.
fn timing(dataset: &str) -> &'static str {
    if matches!(dataset, "timed_trace" | "mooncake") { "trace" } else { "rate" }
}

/// vLLM's tool lets no answer to random prompts end early where the server speaks OpenAI's routes,
/// SGLang's lets none at all.
fn ignore_eos(situation: &Situation) -> &'static str {
    let is_made_up = matches!(situation.dataset.as_str(), "random" | "random-ids" | "timed_trace");
    let is_openai = situation.dialect.is_openai();
    match situation.family {
        Conventions::Sglang => "implied",
        Conventions::Vllm if is_made_up && is_openai => "implied",
        Conventions::Vllm => "off",
    }
}

/// The dataset that a family's tool uses when none is named.
pub(crate) fn dataset_of(family: Conventions) -> &'static str {
    match family {
        Conventions::Vllm => "random",
        Conventions::Sglang => "sharegpt",
    }
}

/// The backend that a family's tool uses when none is named.
pub(crate) fn backend_of(family: Option<Conventions>) -> &'static str {
    match family {
        Some(Conventions::Sglang) => "sglang",
        Some(Conventions::Vllm) | None => "openai",
    }
}
