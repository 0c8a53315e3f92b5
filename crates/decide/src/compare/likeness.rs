//! Are these runs alike enough to be compared at all?
//!
//! In: the facts of all runs. Out: the lines in which plans differ, and warnings, of which some make
//! the comparison meaningless. Targets may differ: they are what is compared. Names, seeds and places
//! of files do not matter.

use std::collections::BTreeMap;

use serde::Serialize;
use tokometer_metrics::Verdict;

use super::run::{Facts, Known, Run};

/// How bad a difference is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// What is being compared.
    Subject,
    /// It may explain a difference of the figures.
    Doubt,
    /// The figures answer different questions.
    Meaningless,
}

/// A line in which plans differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DifferingLine {
    /// Path of the field.
    pub field: String,
    /// Its values in A, joined.
    pub a: String,
    /// Its values in B.
    pub b: String,
    /// How bad that is.
    pub weight: Weight,
}

/// Something that a reader of the comparison must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// How bad it is.
    pub weight: Weight,
    /// What it is.
    pub text: String,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Likeness {
    /// Lines in which plans differ.
    pub lines: Vec<DifferingLine>,
    /// Warnings, worst first.
    pub warnings: Vec<Warning>,
}

/// Token counts per request may differ by this share without a word.
const COUNT_DOUBT: f64 = 0.02;
/// Beyond this share the work itself is another one.
const COUNT_MEANINGLESS: f64 = 0.1;
/// What stands for a field that a plan does not have.
const ABSENT: &str = "—";

/// How much a difference in a field of the plan matters; `None`: not at all.
fn weight_of(field: &str) -> Option<Weight> {
    const IGNORED: [&str; 8] =
        ["name", "seed", "content", "output", "metrics", "sweep", "sections", "interleave"];
    const MEANINGLESS: [&str; 8] = [
        "workload",
        "load.request_rate",
        "load.burstiness",
        "load.max_concurrency",
        "load.ramp",
        "load.timing",
        "prompts.tokenizer",
        "request.ignore_eos",
    ];
    let is_below = |root: &str| {
        field.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if IGNORED.iter().any(|root| is_below(root)) {
        None
    } else if is_below("targets") {
        Some(Weight::Subject)
    } else if MEANINGLESS.iter().any(|root| is_below(root)) {
        Some(Weight::Meaningless)
    } else {
        Some(Weight::Doubt)
    }
}

/// Compares the facts of two sides.
pub(super) fn likeness(a: &[Run], b: &[Run]) -> Likeness {
    let lines = differing_lines(a, b);
    let mut warnings = Vec::new();
    let mut warn = |weight, text: String| warnings.push(Warning { weight, text });
    for line in lines.iter().filter(|line| line.weight != Weight::Subject) {
        warn(
            line.weight,
            format!("the plans differ: {} is {} in a and {} in b", line.field, line.a, line.b),
        );
    }
    let mut compare_words = |what: &str, weight, word: fn(&Facts) -> Option<&str>| {
        let (of_a, of_b) = (words(a, word), words(b, word));
        if !of_a.is_empty() && !of_b.is_empty() && of_a != of_b {
            warn(
                weight,
                format!("{what} differ: {} in a, {} in b", of_a.join(", "), of_b.join(", ")),
            );
        }
    };
    compare_words("the datasets", Weight::Meaningless, |facts| facts.dataset.as_deref());
    compare_words("the tokenizers", Weight::Meaningless, |facts| facts.tokenizer.as_deref());
    compare_words("the definitions", Weight::Doubt, |facts| Some(&facts.definitions));
    compare_words("the program versions", Weight::Doubt, |facts| facts.version.as_deref());
    warnings.extend(differing_count("prompt tokens", a, b, |facts| facts.prompt_tokens));
    warnings.extend(differing_count("answer tokens", a, b, |facts| facts.output_tokens));
    for run in a.iter().chain(b) {
        warnings.extend(own_doubts(run));
    }
    let is_simulated = |runs: &[Run]| runs.iter().any(|run| run.facts.is_simulated);
    if is_simulated(a) != is_simulated(b) {
        let text = "one side is simulated and the other is not".to_owned();
        warnings.push(Warning { weight: Weight::Doubt, text });
    }
    warnings.sort_by_key(|warning| std::cmp::Reverse(warning.weight));
    Likeness { lines, warnings }
}

/// The different words of a side, in order.
fn words(runs: &[Run], word: fn(&Facts) -> Option<&str>) -> Vec<String> {
    let mut found: Vec<String> =
        runs.iter().filter_map(|run| word(&run.facts)).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    found
}

fn differing_lines(a: &[Run], b: &[Run]) -> Vec<DifferingLine> {
    let (of_a, of_b) = (values(a), values(b));
    let is_whole = a.iter().chain(b).all(|run| run.facts.known == Known::Wholly);
    let mut fields: Vec<&String> = of_a.keys().chain(of_b.keys()).collect();
    fields.sort();
    fields.dedup();
    let line = |field: &String| {
        let weight = weight_of(field)?;
        let (a, b) = (of_a.get(field), of_b.get(field));
        // A report shows only some lines of its plan: a line that it omits is not known to differ.
        if !is_whole && (a.is_none() || b.is_none()) {
            return None;
        }
        let shown = |values: Option<&Vec<String>>| {
            values.map_or(ABSENT.to_owned(), |values| values.join(" or "))
        };
        let (shown_a, shown_b) = (shown(a), shown(b));
        let is_mixed = a.is_some_and(|values| values.len() > 1) && weight != Weight::Subject;
        (shown_a != shown_b || is_mixed).then(|| DifferingLine {
            field: field.clone(),
            a: shown_a,
            b: shown_b,
            weight,
        })
    };
    fields.into_iter().filter_map(line).collect()
}

/// All values of each field on one side; a field that some runs lack has [`ABSENT`] among them.
fn values(runs: &[Run]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for field in runs.iter().flat_map(|run| run.facts.plan.keys()) {
        if found.contains_key(field) {
            continue;
        }
        let value = |run: &Run| run.facts.plan.get(field).map_or(ABSENT, String::as_str).to_owned();
        let mut values: Vec<String> = runs.iter().map(value).collect();
        values.sort();
        values.dedup();
        found.insert(field.clone(), values);
    }
    found
}

fn differing_count(
    what: &str,
    a: &[Run],
    b: &[Run],
    count: fn(&Facts) -> Option<f64>,
) -> Option<Warning> {
    let mean = |runs: &[Run]| {
        let counts: Option<Vec<f64>> = runs.iter().map(|run| count(&run.facts)).collect();
        counts.and_then(|counts| tokometer_metrics::statistics::mean(&counts))
    };
    let (a, b) = (mean(a)?, mean(b)?);
    let apart = (b - a).abs() / a.max(f64::MIN_POSITIVE);
    let weight = match apart {
        _ if apart > COUNT_MEANINGLESS => Weight::Meaningless,
        _ if apart > COUNT_DOUBT => Weight::Doubt,
        _ => return None,
    };
    Some(Warning { weight, text: format!("{what} per request differ: {a:.1} in a, {b:.1} in b") })
}

fn own_doubts(run: &Run) -> Vec<Warning> {
    let facts = &run.facts;
    let doubt =
        |text: String| Warning { weight: Weight::Doubt, text: format!("{}: {text}", run.name) };
    let mut found = Vec::new();
    if facts.verdict == Some(Verdict::Invalid) {
        found.push(doubt("the run is INVALID".to_owned()));
    }
    if facts.is_partial {
        found.push(doubt("the run ended early".to_owned()));
    }
    if facts.failed > 0 {
        let all = facts.failed + facts.succeeded;
        found.push(doubt(format!("{} of {all} requests failed", facts.failed)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(lines: &[(&str, &str)]) -> Run {
        let plan =
            lines.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned())).collect();
        let facts = Facts {
            plan,
            known: Known::Wholly,
            prompt_tokens: Some(100.0),
            succeeded: 10,
            ..Facts::default()
        };
        Run { name: "r".to_owned(), facts, ..Run::default() }
    }

    fn shown(found: &Likeness) -> Vec<String> {
        found
            .warnings
            .iter()
            .map(|warning| format!("{:?}: {}", warning.weight, warning.text))
            .collect()
    }

    #[test]
    fn targets_may_differ_and_names_do_not_matter() {
        let a = run(&[("targets.0.address", "x"), ("name", "one"), ("seed", "1")]);
        let b = run(&[("targets.0.address", "y"), ("name", "two"), ("seed", "2")]);
        let found = likeness(&[a], &[b]);
        assert_eq!(shown(&found), [""; 0]);
        assert_eq!(found.lines.len(), 1);
        assert_eq!(found.lines[0].weight, Weight::Subject);
    }

    #[test]
    fn another_load_is_meaningless_and_another_warm_up_is_a_doubt() {
        let a = run(&[("load.request_rate", "5"), ("phases.warmups", "0")]);
        let b = run(&[("load.request_rate", "6")]);
        assert_eq!(
            shown(&likeness(&[a], &[b])),
            [
                "Meaningless: the plans differ: load.request_rate is 5 in a and 6 in b",
                "Doubt: the plans differ: phases.warmups is 0 in a and — in b",
            ]
        );
    }

    #[test]
    fn runs_of_one_side_that_differ_are_named_too() {
        let (one, other) =
            (run(&[("load.max_concurrency", "4")]), run(&[("load.max_concurrency", "8")]));
        let found = likeness(&[one.clone(), other.clone()], &[one, other]);
        assert_eq!(
            shown(&found),
            ["Meaningless: the plans differ: load.max_concurrency is 4 or 8 in a and 4 or 8 in b"]
        );
    }

    #[test]
    fn what_a_report_leaves_out_is_not_known_to_differ() {
        let mut a = run(&[("load.request_rate", "5"), ("phases.warmups", "0")]);
        a.facts.known = Known::Partly;
        let b = run(&[("load.request_rate", "5")]);
        assert_eq!(shown(&likeness(&[a], &[b])), [""; 0]);
    }

    #[test]
    fn token_counts_failures_and_doubtful_runs_are_named() {
        let (a, mut b) = (run(&[]), run(&[]));
        b.facts = Facts {
            prompt_tokens: Some(120.0),
            failed: 3,
            verdict: Some(Verdict::Invalid),
            tokenizer: Some("other".to_owned()),
            ..b.facts
        };
        assert_eq!(
            shown(&likeness(&[a], &[b])),
            [
                "Meaningless: prompt tokens per request differ: 100.0 in a, 120.0 in b",
                "Doubt: r: the run is INVALID",
                "Doubt: r: 3 of 13 requests failed",
            ]
        );
    }
}
