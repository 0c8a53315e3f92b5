//! What the text above a block says was requested.

use crate::model::{Field, Report};

/// Flags and settings that state the number of requests.
const REQUEST_NAMES: [&str; 5] =
    ["--num-prompts", "--num-prompt", "num_prompts", "num_prompt", "num-prompts"];

/// Flags and settings that state the length of prompts in tokens.
const LENGTH_NAMES: [&str; 7] = [
    "--random-input-len",
    "--random-input",
    "--book-input-len",
    "--sonnet-input-len",
    "--input-len",
    "seq_length",
    "input_len",
];

/// Requests asked for. A list is that of a sweep, whose blocks stand in its order.
pub(super) fn requests(report: &Report) -> Option<f64> {
    let list = list(stated(report, &REQUEST_NAMES)?)?;
    match list.as_slice() {
        [single] => Some(*single),
        several => several.get(report.context.ordinal).copied(),
    }
}

/// Prompt length asked for, where a single one is stated.
pub(super) fn prompt_tokens(report: &Report) -> Option<f64> {
    let list = list(stated(report, &LENGTH_NAMES)?)?;
    (list.len() == 1).then(|| list[0])
}

/// Rate asked for, requests per second; `None` when infinite or unknown.
pub(super) fn rate(report: &Report) -> Option<f64> {
    let printed = report.words(Field::TrafficRate).and_then(|words| words.parse().ok());
    let rate: f64 = printed.or_else(|| report.number(Field::RateConfigured))?;
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

fn flag<'a>(command: &'a str, names: &[&str]) -> Option<&'a str> {
    let mut words = command.split_whitespace();
    while let Some(word) = words.next() {
        if names.contains(&word) {
            return words.next();
        }
        if let Some((name, value)) = word.split_once('=')
            && names.contains(&name)
        {
            return Some(value);
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

    #[test]
    fn flags_are_found_in_both_spellings() {
        let check = |command: &str| flag(command, &REQUEST_NAMES).map(str::to_owned);
        assert_eq!(check("x --num-prompts 8 --y").as_deref(), Some("8"));
        assert_eq!(check("x --num-prompt=1,2").as_deref(), Some("1,2"));
        assert_eq!(check("x --num-prompts"), None);
    }
}
