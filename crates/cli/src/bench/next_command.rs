//! The command to type after a staircase: a search for capacity with objectives that fit the server.

use tokometer_figures::Quantity;
use tokometer_plan::Plan;
use tokometer_workload::Spec;
use tokometer_workload::datasets::{random_audio, random_rerank};

use super::SummarisedRun;
use crate::lower::{PROMPT_LEN, dataset_for};

/// Limits that people agree on, in milliseconds.
const LIMITS_MS: [u32; 16] =
    [10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];
/// An objective has this much room above what the server does at its knee.
const ROOM: f64 = 1.5;

/// What is sent, in words.
pub(crate) fn workload(plan: &Plan) -> String {
    match (&plan.workload, lengths(plan)) {
        (_, Some((input, _))) if is_pooling(plan) => format!("random prompts of {input} tokens"),
        (_, Some((input, output))) => {
            format!("random prompts of {input} tokens, {output} output tokens")
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

/// Tokens of random prompts and their answers.
fn lengths(plan: &Plan) -> Option<(u64, u64)> {
    match &plan.workload {
        Spec::Random(options) => {
            Some((u64::from(options.input_len), u64::from(options.output_len)))
        }
        _ => None,
    }
}

/// A search for capacity on the server of a run.
pub(super) fn capacity(run: &SummarisedRun) -> String {
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
    words.push("--budget 5m".to_owned());
    words.join(" ")
}

/// The flags for prompts like these, where they are not those of a bare address.
fn prompts(plan: &Plan) -> Vec<String> {
    let mut words = Vec::new();
    match lengths(plan) {
        Some((input, _)) if is_pooling(plan) && input != PROMPT_LEN.0 => {
            words.push(format!("--random-input-len {input}"));
        }
        Some((input, output)) if !is_pooling(plan) && (input, output) != PROMPT_LEN => {
            words.push(format!("--random-input-len {input} --random-output-len {output}"));
        }
        Some(_) => {}
        None => words.extend(generated(plan)),
    }
    if plan.prompts.batch_size > 1 {
        words.push(format!("--batch-size {}", plan.prompts.batch_size));
    }
    words
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
    let limit = |quantity: Quantity| {
        let found = run.summary.distribution(quantity)?;
        let millis = found.percentile(99.0)?.value.or(found.max)?;
        let name = quantity.label().to_lowercase();
        Some(format!("p99 {name} < {}", shown(nice(ROOM * millis))))
    };
    let both: Vec<String> =
        [Quantity::Ttft, Quantity::Tpot].into_iter().filter_map(limit).collect();
    if !both.is_empty() {
        return both.join(", ");
    }
    // Answers in one piece have no first token.
    limit(Quantity::E2e).unwrap_or_else(|| "p99 e2e < 10s".to_owned())
}

/// The next limit that people agree on.
fn nice(millis: f64) -> u32 {
    let fits = |limit: &&u32| f64::from(**limit) >= millis;
    LIMITS_MS.iter().find(fits).copied().unwrap_or(LIMITS_MS[LIMITS_MS.len() - 1])
}

fn shown(millis: u32) -> String {
    if millis >= 1_000 { format!("{}s", millis / 1_000) } else { format!("{millis}ms") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_round_and_have_room() {
        let check = |millis: f64, expected: &str| assert_eq!(shown(nice(ROOM * millis)), expected);
        check(12.0, "20ms");
        check(100.0, "150ms");
        check(700.0, "2s");
        check(1e9, "60s");
    }
}
