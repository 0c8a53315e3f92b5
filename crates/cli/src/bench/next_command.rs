//! The command to type after a staircase: a search for capacity with objectives that fit the server.

use tokometer_base::Conventions;
use tokometer_base::digits::brief;
use tokometer_figures::Quantity;
use tokometer_plan::Plan;
use tokometer_workload::datasets::{random_audio, random_rerank};
use tokometer_workload::{Ratio, Spec};

use super::SummarisedRun;
use crate::lower::{PROMPT_LEN, dataset_for};
use crate::terminal::print_note;

/// What an objective allows, as a multiple of what one request at a time takes: the wait for the first
/// token has room for a short queue, the pace of the text for a full batch.
const TTFT_ROOM: f64 = 5.0;
const TPOT_ROOM: f64 = 2.0;
/// Requests that a search for a P99 needs, about, and the budgets that it may be given, in minutes.
const SEARCH_REQUESTS: f64 = 25_000.0;
const BUDGET_MIN: (f64, f64) = (5.0, 60.0);

pub(crate) fn workload(plan: &Plan) -> String {
    match (&plan.workload, lengths(plan)) {
        (_, Some((input, output))) => {
            let output = if is_pooling(plan) { String::new() } else { format!(", {output} out") };
            match ratio(plan) {
                None => format!("{input} in{output}"),
                Some(ratio) => {
                    format!("about {input} in{output} (±{} %)", brief(100.0 * ratio))
                }
            }
        }
        (Spec::RandomAudio(options), None) => {
            format!(
                "audio clips of {} s, up to {} output tokens",
                options.audio_seconds, options.output_len
            )
        }
        (other, None) => format!("prompts of the dataset {}", other.name()),
    }
}

fn is_pooling(plan: &Plan) -> bool {
    plan.targets.first().is_some_and(|target| target.backend.is_pooling())
}

fn lengths(plan: &Plan) -> Option<(u64, u64)> {
    match &plan.workload {
        Spec::Random(options) => {
            Some((u64::from(options.input_len), u64::from(options.output_len)))
        }
        _ => None,
    }
}

/// By which share the lengths of random prompts vary around theirs; `None` where they do not, or otherwise.
fn ratio(plan: &Plan) -> Option<f64> {
    let Spec::Random(options) = &plan.workload else { return None };
    let Ratio { input, output } = options.range_ratio;
    let is_around = plan.conventions == Conventions::Vllm && input > 0.0;
    (is_around && input.to_bits() == output.to_bits()).then_some(input)
}

/// Prints lengths that vary, which the user may not expect.
pub(crate) fn say_varied(plan: &Plan) {
    if ratio(plan).is_some() {
        print_note(&format!("note: lengths: {}", workload(plan)));
    }
}

/// A search for capacity on the server of a run with one request in flight; `highest` requests per second
/// were seen.
pub(super) fn capacity(run: &SummarisedRun, highest: Option<f64>) -> String {
    let target = run.info.targets.first();
    let address = target.map_or("URL", |target| target.base_url.as_str());
    let mut words = vec![format!("tokometer capacity {address}")];
    let plan = Plan::of(&run.info).ok();
    let model = plan.as_ref().and_then(|plan| plan.targets.first()?.model.clone());
    words.extend(model.map(|model| format!("--model {model}")));
    let backend = target.map_or("", |target| target.backend.as_str());
    if backend != "openai-chat" && !backend.is_empty() {
        words.push(format!("--backend {backend}"));
    }
    words.extend(plan.as_ref().into_iter().flat_map(prompts));
    words.push(format!("--slo \"{}\"", objectives(run)));
    words.push(format!("--budget {}m", budget_min(highest)));
    words.join(" ")
}

/// Minutes in which the server can be sent the requests of a search.
fn budget_min(highest: Option<f64>) -> f64 {
    let minutes = highest.map_or(0.0, |rate| SEARCH_REQUESTS / rate / 60.0);
    minutes.ceil().clamp(BUDGET_MIN.0, BUDGET_MIN.1)
}

/// The flags for prompts like these, where they are not those of a bare address.
fn prompts(plan: &Plan) -> Vec<String> {
    let mut words = Vec::new();
    match lengths(plan) {
        Some((input, _)) if is_pooling(plan) && input != PROMPT_LEN.0 => {
            words.push(format!("--random-input-len {input}"));
            words.extend(varied(plan));
        }
        Some((input, output)) if !is_pooling(plan) && (input, output) != PROMPT_LEN => {
            words.push(format!("--random-input-len {input} --random-output-len {output}"));
            words.extend(varied(plan));
        }
        Some(_) => {}
        None => words.extend(generated(plan)),
    }
    if plan.prompts.batch_size > 1 {
        words.push(format!("--batch-size {}", plan.prompts.batch_size));
    }
    words
}

/// With lengths of its own, a command varies them only where that is said.
fn varied(plan: &Plan) -> Option<String> {
    ratio(plan).map(|ratio| format!("--random-range-ratio {ratio}"))
}

/// The flags for generated content that is no plain text, or for the rows of a file.
fn generated(plan: &Plan) -> Vec<String> {
    let mut words = Vec::new();
    let name = plan.workload.name();
    if dataset_for(plan.targets.first().map(|target| target.backend)) != name {
        words.push(format!("--dataset-name {name}"));
    }
    let mut put = |flag: &str, value: String, usual: String| {
        if value != usual {
            words.push(format!("--{flag} {value}"));
        }
    };
    match &plan.workload {
        Spec::RandomAudio(options) => {
            let usual = random_audio::Options::default();
            let seconds = |seconds: f64| seconds.to_string();
            put("audio-length-mean", seconds(options.audio_seconds), seconds(usual.audio_seconds));
            let spread = (options.audio_seconds_stddev, usual.audio_seconds_stddev);
            put("audio-length-stddev", seconds(spread.0), seconds(spread.1));
            put("output-len", options.output_len.to_string(), usual.output_len.to_string());
        }
        Spec::RandomRerank(options) => {
            let usual = random_rerank::Options::by_conventions(plan.conventions);
            put("input-len", options.input_len.to_string(), usual.input_len.to_string());
        }
        _ => {}
    }
    words
}

fn objectives(run: &SummarisedRun) -> String {
    let limit = |quantity: Quantity, room: f64| {
        let found = run.summary.distribution(quantity)?;
        let millis = found.percentile(50.0).and_then(|one| one.value).or(found.mean)?;
        let name = quantity.label().to_lowercase();
        Some(format!("p99 {name} < {}", shown(nice(room * millis))))
    };
    let both = [limit(Quantity::Ttft, TTFT_ROOM), limit(Quantity::Tpot, TPOT_ROOM)];
    let both: Vec<String> = both.into_iter().flatten().collect();
    if !both.is_empty() {
        return both.join(", ");
    }
    // Answers in one piece have no first token.
    limit(Quantity::E2e, TTFT_ROOM).unwrap_or_else(|| "p99 e2e < 10s".to_owned())
}

/// The next limit with a round number: 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8 or 10 times a power of ten.
fn nice(millis: f64) -> f64 {
    const ROUND: [f64; 11] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let power = 10_f64.powf(millis.max(1.0).log10().floor());
    let fits = |round: &&f64| **round * power >= millis - 1e-9;
    ROUND.iter().find(fits).unwrap_or(&10.0) * power
}

fn shown(millis: f64) -> String {
    if millis >= 1_000.0 {
        format!("{}s", brief(millis / 1e3))
    } else {
        format!("{}ms", brief(millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_round_and_have_room() {
        let check = |millis: f64, expected: &str| assert_eq!(shown(nice(millis)), expected);
        check(5.0 * 23.0, "120ms");
        check(2.0 * 9.5, "20ms");
        check(2.0 * 0.6, "1.2ms");
        check(5.0 * 240.0, "1.2s");
        check(1_000.0, "1s");
        check(0.2, "1ms");
    }

    #[test]
    fn the_budget_follows_the_rate_that_was_seen() {
        assert!((budget_min(Some(38.0)) - 11.0).abs() < 1e-9);
        assert!((budget_min(Some(1_000.0)) - 5.0).abs() < 1e-9);
        assert!((budget_min(Some(0.5)) - 60.0).abs() < 1e-9);
        assert!((budget_min(None) - 5.0).abs() < 1e-9);
    }
}
