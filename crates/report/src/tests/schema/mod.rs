//! The JSON Schemas of `docs/schema`: of every file and every output that programs read.
//!
//! They are made of the types that write and read these files, with the comments of their fields.
//! `TOKOMETER_WRITE_PAGES=1 cargo test -p tokometer-report schema` writes those that differ.

mod shape;
mod words;

use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokometer_decide::capacity::Findings;
use tokometer_decide::staircase::StaircaseFindings;
use tokometer_figures::ConfidenceInterval;
use tokometer_figures::define::{Formula, METRICS};
use tokometer_figures::summary::PercentileValue;
use tokometer_plan::{CanaryRow, PartialPlan};
use tokometer_record::RunInfo;

use self::shape::{any_of, schema_of};
use self::words::FieldComments;
use crate::SummaryFile;

/// An interval is read with its ends or with the reason why there is none, beside the percentile.
fn percentiles() -> Vec<Value> {
    let known = ConfidenceInterval::Known { low: 0.5, high: 1.5 };
    let entry = |value, above, interval| {
        json!(PercentileValue { percent: 99.5, value, above, interval, is_supported: true })
    };
    let unknown = ConfidenceInterval::default();
    vec![entry(Some(0.5), Some(0.5), known), entry(None, None, unknown)]
}

fn canary() -> Value {
    let text = || Some("4".to_owned());
    json!(CanaryRow {
        prompt: text(),
        messages: Some(vec![json!({})]),
        expected: text(),
        pattern: text(),
        output_tokens: Some(1),
    })
}

/// What readers take without saying so.
fn samples(path: &str) -> Option<Vec<Value>> {
    let ends = |end: &str| path.ends_with(end);
    match path {
        // Those of other tools' figures are pairs.
        _ if path.starts_with("summary.")
            && ends("percentiles[]")
            && !path.contains("families") =>
        {
            Some(percentiles())
        }
        // Words that are checked together with others.
        // A plan has them as they are typed, a record with their times.
        "load.stages[]" => Some(vec![
            json!("2m@5/s"),
            json!({"text": "2m@5/s", "begin": 0, "end": 1, "rates": [5.5, 5.5], "sessions": 1}),
            json!({"text": "9s@2 sessions", "begin": 0, "end": null, "rates": null, "sessions": null}),
        ]),
        "load.cancel" => Some(vec![json!("10% after 20 tokens")]),
        "load.until.rule" => Some(vec![
            json!({"key": "ttft_ms", "percentile": 99.5, "margin": 0.5}),
            json!({"key": "ttft_ms", "percentile": null, "margin": 0.5}),
        ]),
        "sections[]" => Some(vec![json!({"heading": "Prefill"})]),
        // One of its keys has another name, too, which its reader names among its fields.
        "canary.rows[]" => Some(vec![canary()]),
        _ => None,
    }
}

fn schema<T: DeserializeOwned>() -> Value {
    let comments = FieldComments::read();
    schema_of::<T>(&samples, &|of, field| comments.of(of, field))
}

fn titled(mut schema: Value, title: &str, about: &str) -> Value {
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(title);
    schema["description"] = json!(about);
    schema
}

/// Puts the definitions of all figures at the keys of a summary's maps.
fn with_figures(mut summary: Value) -> Value {
    for (map, is_mine) in [
        ("figures", (|formula| matches!(formula, Formula::Run(_))) as fn(&Formula) -> bool),
        ("intervals", |formula| matches!(formula, Formula::Run(_))),
        ("distributions", |formula| !matches!(formula, Formula::Run(_))),
    ] {
        let spot = &mut summary["properties"]["summary"]["properties"][map];
        let each = spot["additionalProperties"].clone();
        for metric in METRICS.iter().filter(|metric| is_mine(&metric.formula)) {
            let mut schema = each.clone();
            if map == "distributions" {
                // Said once for all keys: a copy for each would make the file a hundred times as long.
                schema = json!({"$ref": "#/$defs/distribution"});
            }
            let words = format!("{} ({}): {}", metric.label, metric.unit.name(), metric.definition);
            schema["description"] = json!(words);
            spot["properties"][metric.key] = schema;
        }
        if map == "distributions" {
            spot["additionalProperties"] = json!({"$ref": "#/$defs/distribution"});
            summary["$defs"]["distribution"] = each;
        }
    }
    summary
}

/// `summary.json`, and what two targets and several points make of it.
fn summary() -> Value {
    let mut one = with_figures(schema::<SummaryFile<'_>>());
    let defs = one["$defs"].take();
    let _ = one.as_object_mut().map(|one| one.remove("$defs"));
    let this = json!({"$ref": "#/$defs/run"});
    let two = json!({
        "type": "object",
        "properties": {
            "a": this, "b": this,
            "comparison": {"description": "As `tokometer compare --format json` prints it; null where a side has no success."},
        },
        "required": ["a", "b"],
    });
    let mut whole = json!({"anyOf": [this, two], "$defs": defs});
    whole["$defs"]["run"] = one;
    titled(
        whole,
        "summary.json",
        "The figures of a run: `summary.json` of its folder, and what `tokometer report RUN --format json` prints; of two targets measured in turn, both.",
    )
}

fn plan() -> Value {
    let mut plan = schema::<PartialPlan>();
    plan["properties"]["sections"]["items"]["additionalProperties"] = json!(true);
    let about = "A plan for `tokometer bench --plan FILE`: every key may be left out. `tokometer bench --print-plan` prints one.";
    titled(plan, "Plan", about)
}

fn run() -> Value {
    let mut run = schema::<RunInfo>();
    let words = run["properties"]["plan"]["description"].take();
    run["properties"]["plan"] = json!({"$ref": "plan.json", "description": words});
    titled(run, "plan.json of a run folder", "What is known of a run before its first request.")
}

fn table() -> Value {
    let of = |(name, is_text): (String, bool)| {
        let kind = if is_text { "string" } else { "number" };
        (name, json!({"type": [kind, "null"]}))
    };
    let columns: serde_json::Map<String, Value> =
        crate::table::column_kinds().into_iter().map(of).collect();
    let row = json!({"type": "object", "required": columns.keys().collect::<Vec<_>>(), "properties": columns});
    titled(
        json!({"type": "array", "items": row}),
        "Table of runs",
        "What `tokometer report` prints for several runs or reports with `--format json`: a row for each, null for what it has not.",
    )
}

fn files() -> [(&'static str, Value); 6] {
    let capacity = "`capacity.json` of a search's folder, and what `tokometer report FOLDER --format json` prints of it.";
    [
        ("summary", summary()),
        ("plan", plan()),
        ("run", run()),
        ("table", table()),
        ("capacity", titled(schema::<Findings>(), "capacity.json", capacity)),
        (
            "staircase",
            titled(
                schema::<StaircaseFindings>(),
                "staircase.json",
                "What a staircase found: `staircase.json` of its folder.",
            ),
        ),
    ]
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let is_written = std::env::var_os("TOKOMETER_WRITE_PAGES").is_some();
    for (name, schema) in files() {
        let (path, text) = (folder.join(format!("{name}.json")), format!("{schema:#}\n"));
        if is_written {
            fs::write(&path, &text).unwrap();
        }
        let advice = "TOKOMETER_WRITE_PAGES=1 cargo test -p tokometer-report schema";
        assert!(fs::read_to_string(&path).is_ok_and(|is| is == text), "{name}: {advice}");
    }
}

/// Types as serde reads them: what is optional, what may be null, what has variants.
#[test]
fn a_schema_says_what_a_reader_takes() {
    #[derive(serde::Deserialize)]
    #[expect(dead_code, reason = "only its shape is read")]
    struct Inner {
        count: u32,
        #[serde(default)]
        words: Vec<String>,
        choice: Option<Choice>,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Choice {
        FirstOne,
        Second(#[expect(dead_code, reason = "only its shape is read")] f64),
    }
    let found = schema_of::<Inner>(&|_| None, &|of, field| Some(format!("{of} {field}")));
    let choice = json!([
        {"type": "string", "enum": ["first-one"]},
        {"type": "object", "properties": {"second": {"type": "number"}}, "required": ["second"]},
        {"type": "null"},
    ]);
    let expected = json!({
        "type": "object",
        "required": ["count"],
        "properties": {
            "count": {"type": "integer", "minimum": 0, "description": "Inner count"},
            "words": {"type": "array", "items": {"type": "string"}, "description": "Inner words"},
            "choice": {"anyOf": choice, "description": "Inner choice"},
        },
    });
    assert_eq!(found, expected);
    assert_eq!(any_of(vec![json!({"type": "null"}), json!({})]), json!({}));
}
