//! What the text above a block says was requested.

use tokometer_compat::files::INPUT_SEQUENCES;
use tokometer_compat::model::{Field, Report};

/// Flags and settings that state the number of requests.
const REQUEST_NAMES: [&str; 5] =
    ["--num-prompts", "--num-prompt", "num_prompts", "num_prompt", "num-prompts"];

const RANDOM: &str = "random";

/// Programs whose dataset is not `random` unless it is named.
const WITHOUT_RANDOM: [&str; 3] = ["bench_serving", "benchmark_serving", "benchmark.serving"];

/// Flags and settings that state the length of prompts in tokens, with the dataset that each belongs to.
const LENGTH_NAMES: [(&str, Option<&str>); 8] = [
    ("--random-input-len", Some(RANDOM)),
    ("--random-input", Some(RANDOM)),
    ("--book-input-len", Some("book")),
    ("--sonnet-input-len", Some("sonnet")),
    ("--input-len", None),
    ("seq_length", None),
    ("input_len", None),
    ("random_input_len", Some(RANDOM)),
];

/// Parts of a command whose number of requests is not the one stated: groups, turns and rounds.
const OTHER_COUNTS: [&str; 5] =
    ["generated-shared-prefix", "--gsp-", "multi-turn", "--mooncake-num-rounds", "multi_turn"];

/// Parts of a command whose prompts hold more than the stated text.
const OTHER_LENGTHS: [&str; 7] =
    ["random-mm", "--image-", "multi-turn", "multi_turn", "--gsp-", "random-rerank", "--audio-"];

/// Requests asked for. A list is that of a sweep, whose blocks stand in its order.
pub(crate) fn requests(report: &Report) -> Option<f64> {
    if says_any(report, &OTHER_COUNTS) {
        return None;
    }
    let list = list(stated(report, &REQUEST_NAMES)?)?;
    match list.as_slice() {
        [single] => Some(*single),
        several => several.get(report.context.ordinal).copied(),
    }
}

/// Prompts that were processed, where requests hold several and the file counts both.
pub(crate) fn sequences(report: &Report) -> Option<f64> {
    stated(report, &[INPUT_SEQUENCES])?.parse().ok()
}

/// Mean prompt length asked for, as the shortest and the longest mean that so many prompts may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StatedLength {
    pub(crate) stated: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
}

/// Prompt length asked for, where a single one is stated that the named dataset uses.
pub(crate) fn prompt_tokens(report: &Report) -> Option<StatedLength> {
    if says_any(report, &OTHER_LENGTHS) {
        return None;
    }
    let dataset = stated(report, &["--dataset-name", "dataset_name"]);
    let is_used = |of: Option<&str>| match (of, dataset) {
        (Some(of), Some(dataset)) => dataset.starts_with(of),
        // These tools take conversations unless told otherwise.
        (Some(_), None) => !says_any(report, &WITHOUT_RANDOM),
        (None, _) => true,
    };
    let (text, of) = LENGTH_NAMES
        .into_iter()
        .filter(|(_, of)| is_used(*of))
        .find_map(|(name, of)| Some((stated(report, &[name])?, of)))?;
    let [length] = list(text)?[..] else { return None };
    let prefix = stated(report, &["--random-prefix-len"]).and_then(|text| text.parse().ok());
    let stated = length + prefix.unwrap_or(0.0);
    // SGLang draws lengths from the whole range below the stated one, so that their mean is half of it;
    // three standard deviations are allowed for few prompts.
    let spread = match (of, report.number(Field::Successful)) {
        (Some(RANDOM), Some(requests)) if requests > 0.0 => 0.87 / requests.sqrt(),
        _ => 0.0,
    };
    // Templates and other tokenizers may double a length.
    Some(StatedLength { stated, lowest: (0.5 - spread) * stated, highest: 2.0 * stated })
}

/// Whether the command above the block has one of these words in it.
fn says_any(report: &Report, words: &[&str]) -> bool {
    let command = report.context.command.as_deref().unwrap_or_default();
    words.iter().any(|word| command.contains(word))
}

/// Rate asked for, requests per second; `None` when infinite or unknown.
pub(crate) fn rate(report: &Report) -> Option<f64> {
    let rate = report.request_rate()?;
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

/// The text of the first of these names: in the settings next to the block, else in the command.
fn stated<'a>(report: &'a Report, names: &[&str]) -> Option<&'a str> {
    let context = &report.context;
    let setting = context
        .settings
        .iter()
        .find(|(name, _)| names.contains(&name.as_str()))
        .map(|(_, value)| value.as_str());
    setting.or_else(|| flag(context.command.as_deref()?, names))
}

/// The value of a flag, which may be written with `_` for `-` and have its value in quotes.
fn flag<'a>(command: &'a str, names: &[&str]) -> Option<&'a str> {
    let is_named = |word: &str| names.contains(&word.replace('_', "-").as_str());
    let mut words = command.split_whitespace();
    while let Some(word) = words.next() {
        let found = match word.split_once('=') {
            Some((name, value)) if is_named(name) => Some(value),
            None if is_named(word) => Some(words.next()?),
            _ => None,
        };
        if let Some(value) = found {
            return Some(value.trim_matches(['"', '\'']));
        }
    }
    None
}

/// `8`, `1, 2, 4` or `1,2,...,4096`: a doubling if the second term is twice the first, else equal
/// steps. `None` for anything else.
fn list(text: &str) -> Option<Vec<f64>> {
    const LONGEST: usize = 100_000;
    let mut numbers: Vec<f64> = Vec::new();
    let mut is_open = false;
    for term in text.split(',').map(str::trim) {
        if term == "..." {
            is_open = true;
            continue;
        }
        let next: f64 = term.parse().ok()?;
        if std::mem::take(&mut is_open) {
            let [.., before, last] = numbers[..] else { return None };
            let is_doubling = (last - 2.0 * before).abs() < 1e-9;
            let step = |value: f64| if is_doubling { value * 2.0 } else { value + last - before };
            let mut value = step(last);
            while value > last && value < next && numbers.len() < LONGEST {
                numbers.push(value);
                value = step(value);
            }
        }
        numbers.push(next);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_a_sweep_are_written_out() {
        let check = |text: &str, expected: Option<&[f64]>| {
            assert_eq!(list(text).as_deref(), expected, "{text}");
        };
        check("512", Some(&[512.0]));
        check("1, 2, 4", Some(&[1.0, 2.0, 4.0]));
        check("1,2,...,16", Some(&[1.0, 2.0, 4.0, 8.0, 16.0]));
        check("10,15,...,25", Some(&[10.0, 15.0, 20.0, 25.0]));
        check("...,5", None);
        check("all", None);
    }

    fn of(command: &str, requests: u64, prompt_tokens: u64) -> Report {
        let mut report = Report::default();
        report.context.command = Some(command.to_owned());
        report.set_count(Field::Successful, requests);
        report.set_count(Field::InputTokens, requests * prompt_tokens);
        report
    }

    /// Lengths that SGLang draws from a range, prefixes, and flags of another dataset were told that the
    /// command line was not the one of the block.
    #[test]
    fn a_stated_length_is_one_that_the_dataset_uses() {
        let check = |command: &str, counted: u64, expected: Option<bool>| {
            let length = prompt_tokens(&of(command, 100, counted));
            let fits = length.map(|it| (it.lowest..=it.highest).contains(&(counted as f64)));
            assert_eq!(fits, expected, "{command}");
        };
        let sglang = "python -m sglang.bench_serving --dataset-name random --random-input-len 1024";
        check(sglang, 506, Some(true));
        check(sglang, 300, Some(false));
        check("python -m sglang.bench_serving --random-input-len 1024", 220, None);
        check("vllm bench serve --random-input-len 1024", 220, Some(false));
        check("vllm bench serve --dataset-name sharegpt --random-input-len 1024", 220, None);
        check("vllm bench serve --random-input-len 128 --random-prefix-len 896", 1_024, Some(true));
        check("vllm bench serve --dataset-name random-mm --random-input-len 64", 2_000, None);
        check("x --dataset-name book --book-input-len 10000", 80, Some(false));
    }

    /// Groups, turns and rounds make another number of requests than `--num-prompts`.
    #[test]
    fn a_stated_number_of_prompts_is_one_of_requests() {
        let check = |command: &str| requests(&of(command, 100, 1));
        assert_eq!(check("sglang.bench_serving --num-prompts 1000"), Some(1_000.0));
        for flags in
            ["--dataset-name generated-shared-prefix", "--multi-turn", "--gsp-num-groups 8"]
        {
            assert_eq!(
                check(&format!("bench_serving --num-prompts 1000 {flags}")),
                None,
                "{flags}"
            );
        }
    }

    #[test]
    fn flags_are_found_in_both_spellings() {
        let check = |command: &str| flag(command, &REQUEST_NAMES).map(str::to_owned);
        assert_eq!(check("x --num-prompts 8 --y").as_deref(), Some("8"));
        assert_eq!(check("x --num-prompt=1,2").as_deref(), Some("1,2"));
        assert_eq!(check("x --num_prompts \"8\"").as_deref(), Some("8"));
        assert_eq!(check("x --num-prompts"), None);
    }
}
