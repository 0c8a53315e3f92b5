//! When requests are sent, and when a run ends.

use serde_json::{Map, Value, json};
use tokometer_base::Cancellation;
use tokometer_decide::sequential::PrecisionGoal;
use tokometer_schedule::Stage;

use super::row::Kind::{Choice, Count, Counts, Number, Parsed, Rate, Rates, Repeated, Time};
use super::row::{option, other, switch};
use super::{Fragment, Group, MOST_REQUESTS, number};
use crate::{Content, PartialClass};

/// Requests in flight: more than a machine has ports for.
const MOST_IN_FLIGHT: f64 = 1e6;

/// Answers of SGLang's warm-up requests are no longer than this.
pub const SGLANG_WARMUP_TOKENS: u32 = 32;

#[rustfmt::skip] // The columns of a row stand side by side.
pub(super) const GROUPS: &[Group] = &[
    Group { title: "Arrivals", rows: &[
        option("request-rate", "RATE", Rates, "Requests/s, or a list [default: inf; demo: 25]")
            .short('r').sets("load.request_rate").known("PRSO").remark("a list makes a sweep")
            .also(&[other("sweep-request-rate", "R")]),
        option("burstiness", "SHAPE", Rate, "Burstiness of arrivals: 1 is a Poisson process, below 1 burstier, inf constant intervals")
            .sets("load.burstiness").default("1").known("PRO"),
        option("class", "KEYS", Repeated(class), "A class of requests, such as \"name=chat weight=3 priority=0 goodput.ttft=500\" (the keys of `[[classes]]`); repeat it for each")
            .sets("classes"),
        option("max-concurrency", "N", Counts, "Requests in flight, or a list [default: no limit]")
            .short('c').sets("load.max_concurrency").most(MOST_IN_FLIGHT).known("PRSO")
            .remark("a list makes a sweep").also(&[other("sweep-max-concurrency", "R")]),
        option("max-sessions", "N", Count, "Sessions in progress, the pauses between their turns included [default: no limit]")
            .sets("load.max_sessions").most(MOST_IN_FLIGHT),
        option("cancel", "RULE", Parsed(cancellation), "Cancel a share of the requests as their users would, such as \"10% after 20 tokens\" or \"10% after 2s\"")
            .sets("load.cancel"),
        option("stages", "LIST", Parsed(stages), "Stages of the load, such as \"2m@5/s, 30s@5..50/s, 2m@8 sessions\"")
            .sets("load.stages"),
        option("ramp-up-strategy", "HOW", Choice(&["linear", "exponential"]), "Ramp the request rate up over the whole run, linearly or exponentially")
            .text(|to| &mut to.ramp.shape).known("PR").remark("becomes a stage as long as the run"),
        option("ramp-up-start-rps", "RATE", Number, "Request rate at the start of the ramp-up")
            .text(|to| &mut to.ramp.from).known("PR"),
        option("ramp-up-end-rps", "RATE", Number, "Request rate at the end of the ramp-up")
            .text(|to| &mut to.ramp.to).known("PR"),
        option("warmup-requests", "N", Count, "Warm-up requests of at most 32 output tokens, as in SGLang's `bench_serving`")
            .put(warmup_requests).known("S")
            .remark("as `--num-warmups`, with at most 32 output tokens"),
        option("num-warmups", "N", Count, "Warm-up requests, sent before the measured phase with different content [default: 0]")
            .sets("phases.warmups").most(MOST_REQUESTS).known("PR")
            .remark("warm-up requests have different content"),
        option("probe-request-rate", "RATE", Number, "Rate of one-token probe requests, sent in addition to the load")
            .sets("phases.probe_rate").default("0").known("P"),
        option("seed", "N", Count, "Random seed; if given, prompts repeat as well [default: 0; SGLang: 42]")
            .sets("seed").put(seed).known("PRSO")
            .remark("if given, the prompts are also the same in every run"),
    ]},
    Group { title: "Stop", rows: &[
        option("num-prompts", "N", Counts, "Requests to send, or a list [default: 1000; demo: 480]")
            .short('n').sets("load.num_prompts").most(MOST_REQUESTS).known("PRSO")
            .remark("a list makes a sweep"),
        option("duration", "TIME", Time, "Stop sending after this time, such as 30s or 5m")
            .sets("load.duration_s"),
        option("until", "RULE", Parsed(precision_goal), "Stop once a figure is known this precisely, such as \"p99 ttft ±10%\"; --duration is then the maximum")
            .sets("load.until.rule"),
        option("at-least", "TIME", Time, "With --until: minimum duration [default: 5s]")
            .sets("load.until.min_s").needs(&["until"]),
        switch("stop-when-overloaded", "stop", "Stop when the server is overloaded and its backlog keeps growing")
            .sets("load.overload"),
    ]},
];

fn warmup_requests(to: &mut Fragment, count: &str) -> Result<(), String> {
    let phases = &mut to.part.phases;
    phases.warmups = Some(number(count)?);
    phases.warmup_output_max = Some(Some(SGLANG_WARMUP_TOKENS));
    Ok(())
}

/// An explicit seed repeats the content as well.
fn seed(to: &mut Fragment, seed: &str) -> Result<(), String> {
    (to.part.seed, to.part.content) = (Some(number(seed)?), Some(Content::Repeated));
    Ok(())
}

fn cancellation(text: &str) -> Result<Value, String> {
    text.parse::<Cancellation>().map(|cancellation| Value::from(String::from(cancellation)))
}

fn stages(text: &str) -> Result<Value, String> {
    serde_json::to_value(Stage::list(text)?).map_err(|why| why.to_string())
}

/// Words `KEY=VALUE`, with dots for inner keys, as a table of a plan file.
fn class(text: &str) -> Result<Value, String> {
    let mut class = Map::new();
    for word in text.split_whitespace() {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| format!("`{word}` has no value; write it as `weight=3`"))?;
        let (path, key) = key.rsplit_once('.').unwrap_or(("", key));
        let value = match serde_json::from_str(value) {
            Ok(value) if !matches!(path, "headers") && key != "name" && key != "lora" => value,
            _ => Value::from(value),
        };
        if path == "headers" {
            let headers = class.entry(path).or_insert_with(|| Value::Array(Vec::new()));
            headers.as_array_mut().into_iter().for_each(|all| all.push(json!([key, value])));
            continue;
        }
        let mut inner = &mut class;
        for name in path.split('.').filter(|name| !name.is_empty()) {
            let table = inner.entry(name).or_insert_with(|| Value::Object(Map::new()));
            inner = table.as_object_mut().ok_or_else(|| format!("`{name}` is given twice"))?;
        }
        if inner.insert(key.to_owned(), value).is_some() {
            return Err(format!("`{key}` is given twice"));
        }
    }
    let checked = serde_json::from_value::<PartialClass>(Value::Object(class.clone()));
    match checked {
        Err(why) => Err(why.to_string()),
        Ok(one) if one.name.is_none() => Err("it has no name; write `name=chat`".to_owned()),
        Ok(_) => Ok(Value::Object(class)),
    }
}

fn precision_goal(text: &str) -> Result<Value, String> {
    let goal = PrecisionGoal::parse(text)
        .map_err(|why| format!("{why}; write it as `--until \"p99 ttft ±10%\"`"))?;
    serde_json::to_value(goal).map_err(|why| why.to_string())
}
