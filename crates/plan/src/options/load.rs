//! When requests are sent, and when a run ends.

use serde_json::Value;
use tokometer_base::Cancellation;
use tokometer_decide::sequential::PrecisionGoal;

use super::row::Kind::{Choice, Count, Counts, Number, Parsed, Rate, Rates, Time};
use super::row::{option, other, switch};
use super::{Fragment, Group, MOST_REQUESTS, number};
use crate::Content;

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
        option("max-concurrency", "N", Counts, "Requests in flight, or a list [default: no limit]")
            .short('c').sets("load.max_concurrency").most(MOST_IN_FLIGHT).known("PRSO")
            .remark("a list makes a sweep").also(&[other("sweep-max-concurrency", "R")]),
        option("max-sessions", "N", Count, "Sessions in progress, the pauses between their turns included [default: no limit]")
            .sets("load.max_sessions").most(MOST_IN_FLIGHT),
        option("cancel", "RULE", Parsed(cancellation), "Cancel a share of the requests as their users would, such as \"10% after 20 tokens\" or \"10% after 2s\"")
            .sets("load.cancel"),
        option("ramp-up-strategy", "HOW", Choice(&["linear", "exponential"]), "Ramp the request rate up, linearly or exponentially")
            .sets("load.ramp.strategy").known("PR"),
        option("ramp-up-start-rps", "RATE", Number, "Request rate at the start of the ramp-up")
            .sets("load.ramp.from").known("PR"),
        option("ramp-up-end-rps", "RATE", Number, "Request rate at the end of the ramp-up")
            .sets("load.ramp.to").known("PR"),
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

fn precision_goal(text: &str) -> Result<Value, String> {
    let goal = PrecisionGoal::parse(text)
        .map_err(|why| format!("{why}; write it as `--until \"p99 ttft ±10%\"`"))?;
    serde_json::to_value(goal).map_err(|why| why.to_string())
}
