//! The benchmark report of llm-d, version 0.2, as JSON.
//!
//! Its figures are our own definitions, since the schema is no tool's. The schema refuses keys that it
//! does not know, and a statistic needs a mean: what was not measured is left out. What the schema
//! requires of an inference engine and nobody has said (accelerator, its number, parallelism) is not
//! invented: the server is then a component of the kind `generic`, which requires none of it.

use serde_json::{Map, Value, json};
use tokometer_base::units::nearest_count;
use tokometer_figures::{Distribution, Quantity, Summary};
use tokometer_record::{RunInfo, TargetInfo};

use super::inferencex::UnixWindow;

/// Version of the schema.
const VERSION: &str = "0.2";

/// The percentiles that the schema knows, with their keys.
const PERCENTILES: [(f64, &str); 12] = [
    (0.1, "p0p1"),
    (1.0, "p1"),
    (5.0, "p5"),
    (10.0, "p10"),
    (25.0, "p25"),
    (50.0, "p50"),
    (75.0, "p75"),
    (90.0, "p90"),
    (95.0, "p95"),
    (99.0, "p99"),
    (99.9, "p99p9"),
    (100.0, "max"),
];

/// The percentiles that a summary must have been made with.
pub fn llm_d_percentiles() -> Vec<f64> {
    PERCENTILES.iter().map(|(percent, _)| *percent).filter(|percent| *percent < 100.0).collect()
}

#[derive(Debug, Clone, Copy, Default)]
pub struct LlmdContext<'a> {
    /// The measured phase; `None` for a run without an end.
    pub window: Option<UnixWindow>,
    /// GPUs behind the endpoint, where the user gave their number.
    pub gpus: Option<u32>,
    /// `accelerator=NAME` is its name, `replicas` and the keys of `PARALLELISM` are numbers; others
    /// become keywords.
    pub metadata: &'a [(String, String)],
}

/// What the schema knows about parallelism.
const PARALLELISM: [&str; 6] = ["tp", "dp", "dp_local", "workers", "ep", "pp"];

impl LlmdContext<'_> {
    fn word(&self, key: &str) -> Option<&str> {
        self.metadata.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    fn count(&self, key: &str) -> Option<u32> {
        self.word(key)?.parse().ok().filter(|count| *count > 0)
    }

    /// How the GPUs share the work; `None` where nobody has said so. One GPU leaves no choice.
    fn parallelism(&self) -> Option<Value> {
        let given = PARALLELISM.map(|key| (key, self.count(key).map(Value::from)));
        if given.iter().all(|(_, count)| count.is_none()) {
            return (self.gpus == Some(1)).then(|| json!({ "tp": 1 }));
        }
        Some(known(given))
    }
}

/// The report of a run. `None` where no request succeeded: the schema requires a length of prompts.
pub fn llm_d_json(summary: &Summary, info: &RunInfo, context: &LlmdContext<'_>) -> Option<String> {
    let report = json!({
        "version": VERSION,
        "run": run(info, context),
        "scenario": {
            "stack": info.targets.iter().map(|target| stack(target, context)).collect::<Vec<_>>(),
            "load": load(summary, info)?,
        },
        "results": { "request_performance": { "aggregate": aggregate(summary) } },
    });
    Some(format!("{report:#}\n"))
}

/// An object without the keys that have no value.
fn known<const N: usize>(pairs: [(&str, Option<Value>); N]) -> Value {
    let pairs = pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(pairs.collect::<Map<String, Value>>())
}

fn iso(seconds: f64) -> Option<String> {
    let since = jiff::SignedDuration::try_from_secs_f64(seconds).ok()?;
    let time = jiff::Timestamp::from_duration(since);
    time.ok().map(|time| time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

fn run(info: &RunInfo, context: &LlmdContext<'_>) -> Value {
    let time = context.window.map(|(begin, end)| {
        json!({
            "start": iso(begin),
            "end": iso(end),
            "duration": format!("PT{:.3}S", end - begin),
        })
    });
    let words: Vec<String> = context
        .metadata
        .iter()
        .filter(|(key, _)| {
            !["accelerator", "replicas"].contains(&key.as_str())
                && !PARALLELISM.contains(&key.as_str())
        })
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    known([
        ("uid", Some(json!(format!("{}-{:x}", info.started.0, info.salt)))),
        ("time", time),
        ("description", Some(json!(info.name))),
        ("keywords", (!words.is_empty()).then(|| json!(words))),
    ])
}

/// The name and version that a server reports of itself, such as `vllm 0.11`.
fn tool(target: &TargetInfo) -> (&str, &str) {
    let reported = target.server.as_deref().unwrap_or(&target.backend);
    reported.split_once([' ', '/']).unwrap_or((reported, "unknown"))
}

fn stack(target: &TargetInfo, context: &LlmdContext<'_>) -> Value {
    let (tool, version) = tool(target);
    let accelerator = known([
        ("model", context.word("accelerator").map(Value::from)),
        ("count", context.gpus.map(Value::from)),
        ("parallelism", context.parallelism()),
    ]);
    let parts = accelerator.as_object().map_or(0, Map::len);
    let is_engine = parts == 3;
    let replicas = context.count("replicas").or(is_engine.then_some(1));
    json!({
        "metadata": {
            "schema_version": VERSION,
            "label": target.base_url,
            "cfg_id": format!("{}:{}", target.base_url, target.model),
        },
        "standardized": known([
            ("kind", Some(json!(if is_engine { "inference_engine" } else { "generic" }))),
            ("tool", Some(json!(tool))),
            ("tool_version", Some(json!(version))),
            ("role", is_engine.then(|| json!("replica"))),
            ("replicas", replicas.map(Value::from)),
            ("model", Some(json!({ "name": target.model }))),
            ("accelerator", (parts > 0).then_some(accelerator)),
        ]),
        "native": {},
    })
}

fn load(summary: &Summary, info: &RunInfo) -> Option<Value> {
    let lengths = |key: &str| {
        let found = summary.distribution(key)?;
        let (low, high) = found.min.zip(found.max)?;
        let is_fixed = (high - low).abs() < 0.5;
        Some(known([
            ("distribution", Some(json!(if is_fixed { "fixed" } else { "other" }))),
            ("value", Some(json!(found.mean?))),
            ("std_dev", found.std.filter(|_| !is_fixed).map(Value::from)),
            ("min", Some(json!(nearest_count(low)))),
            ("max", Some(nearest_count(high)).filter(|most| *most > 0).map(Value::from)),
        ]))
    };
    let source = if info.dataset.starts_with("random") { "random" } else { "sampled" };
    Some(json!({
        "metadata": { "schema_version": VERSION, "cfg_id": info.name },
        "standardized": known([
            ("tool", Some(json!("tokometer"))),
            ("tool_version", Some(json!(info.version))),
            ("source", Some(json!(source))),
            ("input_seq_len", Some(lengths("prompt_tokens")?)),
            ("output_seq_len", lengths("output_tokens")),
            ("rate_qps", info.load.request_rate.map(Value::from)),
            ("concurrency", info.load.max_concurrency.map(Value::from)),
        ]),
        "native": { "config": info.plan },
    }))
}

/// A statistic with its unit. A percentile without enough requests is left out: a reader of the file has
/// no mark for it.
fn statistic(summary: &Summary, key: impl AsRef<str>, units: &str) -> Option<Value> {
    let found: &Distribution = summary.distribution(key).filter(|found| !found.is_withheld)?;
    let mut object = Map::new();
    object.insert("units".to_owned(), json!(units));
    object.insert("mean".to_owned(), json!(found.mean?));
    let whole = [("stddev", found.std), ("min", found.min)];
    for (key, value) in whole {
        object.extend(value.map(|value| (key.to_owned(), json!(value))));
    }
    for (percent, key) in PERCENTILES {
        let value = if percent < 100.0 {
            let entry = found.percentile(percent).filter(|entry| entry.is_supported);
            entry.and_then(|entry| entry.value)
        } else {
            found.max
        };
        object.extend(value.map(|value| (key.to_owned(), json!(value))));
    }
    Some(Value::Object(object))
}

fn aggregate(summary: &Summary) -> Value {
    let counts = &summary.counts;
    let rate = |quantity: Quantity, units: &str| {
        summary.figure(quantity).map(|mean| json!({ "units": units, "mean": mean }))
    };
    json!({
        "requests": known([
            ("total", Some(json!(counts.sent))),
            ("failures", Some(json!(counts.failed))),
            ("incomplete", Some(json!(counts.abandoned))),
            ("input_length", statistic(summary, "prompt_tokens", "count")),
            ("output_length", statistic(summary, "output_tokens", "count")),
        ]),
        "latency": known([
            ("time_to_first_token", statistic(summary, Quantity::Ttft, "ms")),
            ("time_per_output_token", statistic(summary, Quantity::Tpot, "ms/token")),
            ("inter_token_latency", statistic(summary, Quantity::Itl, "ms/token")),
            ("request_latency", statistic(summary, Quantity::E2e, "ms")),
        ]),
        "throughput": known([
            ("input_token_rate", rate(Quantity::Prompt, "tokens/s")),
            ("output_token_rate", rate(Quantity::Output, "tokens/s")),
            ("total_token_rate", rate(Quantity::Total, "tokens/s")),
            ("request_rate", rate(Quantity::Requests, "queries/s")),
        ]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{info, summary};

    fn report(gpus: Option<u32>, metadata: &[(&str, &str)]) -> Value {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let metadata: Vec<(String, String)> = metadata.iter().map(owned).collect();
        let context = LlmdContext { window: Some((100.0, 150.5)), gpus, metadata: &metadata };
        let mut summary = summary();
        assert_eq!(llm_d_json(&summary, &info(), &context), None, "no length of prompts is known");
        let lengths = summary.distributions["e2e_ms"].clone();
        let _ = summary.distributions.insert("prompt_tokens".to_owned(), lengths);
        serde_json::from_str(&llm_d_json(&summary, &info(), &context).unwrap()).unwrap()
    }

    fn at(report: &Value, path: &str) -> Value {
        report.pointer(path).unwrap_or(&Value::Null).clone()
    }

    #[test]
    fn the_report_has_what_the_schema_requires_and_nothing_without_a_value() {
        let report = report(Some(8), &[("accelerator", "H200"), ("tp", "8"), ("team", "a")]);
        let at = |path: &str| at(&report, path);
        assert_eq!(at("/version"), "0.2");
        assert_eq!(at("/run/time/duration"), "PT50.500S");
        assert_eq!(at("/run/time/start"), "1970-01-01T00:01:40.000Z");
        assert_eq!(at("/run/keywords"), json!(["team=a"]));
        assert_eq!(at("/scenario/load/standardized/source"), "random");
        assert!(at("/scenario/load/native").is_object());
        let aggregate = "/results/request_performance/aggregate";
        assert_eq!(at(&format!("{aggregate}/latency/time_to_first_token/units")), "ms");
        assert!(at(&format!("{aggregate}/latency/time_to_first_token/mean")).is_number());
        assert!(at(&format!("{aggregate}/throughput/output_token_rate/mean")).is_number());
        let mut stated = report.clone();
        // The plan is in our own form, which has nulls.
        stated["scenario"]["load"]["native"] = json!({});
        assert!(!stated.to_string().contains("null"), "{stated:#}");
    }

    /// The reader of the package `llmd-benchmark-report` refused a report whose server had the role
    /// `aggregate`, no number of replicas and no parallelism.
    #[test]
    fn a_server_is_an_inference_engine_only_with_all_that_one_must_have() {
        let stack = |gpus, metadata: &[(&str, &str)]| {
            let stack = at(&report(gpus, metadata), "/scenario/stack/0");
            assert_eq!(stack["native"], json!({}));
            assert_eq!((&stack["standardized"]["tool"]), "vllm");
            stack["standardized"].clone()
        };
        let engine = stack(Some(8), &[("accelerator", "H200"), ("tp", "4"), ("replicas", "2")]);
        let accelerator = json!({ "model": "H200", "count": 8, "parallelism": { "tp": 4 } });
        assert_eq!(
            (&engine["kind"], &engine["role"]),
            (&json!("inference_engine"), &json!("replica"))
        );
        assert_eq!((&engine["replicas"], &engine["accelerator"]), (&json!(2), &accelerator));
        let one = stack(Some(1), &[("accelerator", "H200")]);
        assert_eq!((&one["kind"], &one["replicas"]), (&json!("inference_engine"), &json!(1)));
        assert_eq!(one["accelerator"]["parallelism"], json!({ "tp": 1 }));
        for (gpus, metadata) in [
            (None, &[][..]),
            (Some(8), &[("accelerator", "H200")]),
            (Some(8), &[("tp", "8")]),
            (Some(8), &[("accelerator", "H200"), ("tp", "eight")]),
            (None, &[("accelerator", "H200"), ("tp", "8")]),
        ] {
            let stated = stack(gpus, metadata);
            assert_eq!(stated["kind"], "generic", "{stated:#}");
            assert_eq!((&stated["role"], &stated["replicas"]), (&Value::Null, &Value::Null));
        }
    }
}
