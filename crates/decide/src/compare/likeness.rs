//! Checks whether runs are similar enough to be compared.
//!
//! In: the facts of all runs, and the lines in which their plans differ, which the crate `plan` finds.
//! Out: these lines, and warnings, of which some make the comparison meaningless.

use serde::Serialize;
use tokometer_figures::Verdict;

use super::run::{Facts, Run};

/// The severity of a difference between the conditions of two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// It is what is being compared.
    Subject,
    /// It may explain a difference of the figures.
    #[serde(rename = "doubt")]
    Caution,
    /// The figures measure different things.
    Meaningless,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DifferingLine {
    /// Path of the field.
    pub field: String,
    /// Its values in A, joined.
    pub a: String,
    /// Its values in B, joined.
    pub b: String,
    pub weight: Weight,
}

impl DifferingLine {
    /// Stands for the value of a field that a plan does not have.
    pub const ABSENT: &'static str = "—";

    /// Its values as words of a sentence, A before B.
    pub fn words(&self) -> [&str; 2] {
        [&self.a, &self.b].map(|value| if value == Self::ABSENT { "not set" } else { value })
    }

    fn sentence(&self) -> String {
        let [a, b] = self.words();
        format!("the plans differ: {} is {a} in a and {b} in b", self.field)
    }
}

/// Something that a reader of the comparison must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Decides whether the comparison is refused.
    pub weight: Weight,
    /// One sentence for the user.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Likeness {
    pub lines: Vec<DifferingLine>,
    /// The most severe first.
    pub warnings: Vec<Warning>,
}

/// Token counts per request may differ by this share without a warning.
const COUNT_CAUTION: f64 = 0.02;
/// Beyond this share the workloads are different ones.
const COUNT_MEANINGLESS: f64 = 0.1;

/// Compares the facts of two sides whose plans differ in these lines.
pub(super) fn likeness(a: &[Run], b: &[Run], lines: Vec<DifferingLine>) -> Likeness {
    let mut warnings = Vec::new();
    let mut warn = |weight, text: String| warnings.push(Warning { weight, text });
    for line in lines.iter().filter(|line| line.weight != Weight::Subject) {
        warn(line.weight, line.sentence());
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
    compare_words("the definitions", Weight::Caution, |facts| Some(&facts.definitions));
    compare_words("the program versions", Weight::Caution, |facts| facts.version.as_deref());
    warnings.extend(differing_count("prompt tokens", a, b, |facts| facts.prompt_tokens));
    warnings.extend(differing_count("output tokens", a, b, |facts| facts.output_tokens));
    for run in a.iter().chain(b) {
        warnings.extend(own_doubts(run));
    }
    let is_simulated = |runs: &[Run]| runs.iter().any(|run| run.facts.is_simulated);
    if is_simulated(a) != is_simulated(b) {
        let text = "one side is simulated and the other is not".to_owned();
        warnings.push(Warning { weight: Weight::Caution, text });
    }
    warnings.sort_by_key(|warning| std::cmp::Reverse(warning.weight));
    Likeness { lines, warnings }
}

/// The distinct values of a side, in order.
fn words(runs: &[Run], word: fn(&Facts) -> Option<&str>) -> Vec<String> {
    let mut found: Vec<String> =
        runs.iter().filter_map(|run| word(&run.facts)).map(str::to_owned).collect();
    found.sort();
    found.dedup();
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
        counts.and_then(|counts| tokometer_figures::statistics::mean(&counts))
    };
    let (a, b) = (mean(a)?, mean(b)?);
    let apart = (b - a).abs() / a.max(f64::MIN_POSITIVE);
    let weight = match apart {
        _ if apart > COUNT_MEANINGLESS => Weight::Meaningless,
        _ if apart > COUNT_CAUTION => Weight::Caution,
        _ => return None,
    };
    Some(Warning { weight, text: format!("{what} per request differ: {a:.1} in a, {b:.1} in b") })
}

fn own_doubts(run: &Run) -> Vec<Warning> {
    let facts = &run.facts;
    let doubt =
        |text: String| Warning { weight: Weight::Caution, text: format!("{}: {text}", run.name) };
    let mut found = Vec::new();
    if facts.verdict == Some(Verdict::Invalid) {
        let why = facts.disturbance.as_ref().map_or(String::new(), |why| format!(": {why}"));
        found.push(doubt(format!("the run is INVALID{why}")));
    }
    if let Some(why) = &facts.unreadable_plan {
        found.push(doubt(format!("its settings are not compared: {why}")));
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

    fn run() -> Run {
        let facts = Facts { prompt_tokens: Some(100.0), succeeded: 10, ..Facts::default() };
        Run { name: "r".to_owned(), facts, ..Run::default() }
    }

    fn line(field: &str, values: [&str; 2], weight: Weight) -> DifferingLine {
        let [a, b] = values.map(str::to_owned);
        DifferingLine { field: field.to_owned(), a, b, weight }
    }

    fn shown(found: &Likeness) -> Vec<String> {
        found
            .warnings
            .iter()
            .map(|warning| format!("{:?}: {}", warning.weight, warning.text))
            .collect()
    }

    #[test]
    fn what_is_compared_is_no_warning_and_the_worst_difference_comes_first() {
        let lines = vec![
            line("phases.warmups", ["0", DifferingLine::ABSENT], Weight::Caution),
            line("load.request_rate", ["5", "6"], Weight::Meaningless),
            line("targets.0.address", ["x", "y"], Weight::Subject),
        ];
        let found = likeness(&[run()], &[run()], lines);
        assert_eq!(
            shown(&found),
            [
                "Meaningless: the plans differ: load.request_rate is 5 in a and 6 in b",
                "Caution: the plans differ: phases.warmups is 0 in a and not set in b",
            ]
        );
        assert_eq!(found.lines.len(), 3);
    }

    #[test]
    fn token_counts_failures_and_suspect_runs_are_named() {
        let (a, mut b) = (run(), run());
        b.facts = Facts {
            prompt_tokens: Some(120.0),
            failed: 3,
            verdict: Some(Verdict::Invalid),
            disturbance: Some("5 stalls".to_owned()),
            tokenizer: Some("other".to_owned()),
            unreadable_plan: Some("unknown key `x`".to_owned()),
            ..b.facts
        };
        assert_eq!(
            shown(&likeness(&[a], &[b], Vec::new())),
            [
                "Meaningless: prompt tokens per request differ: 100.0 in a, 120.0 in b",
                "Caution: r: the run is INVALID: 5 stalls",
                "Caution: r: its settings are not compared: unknown key `x`",
                "Caution: r: 3 of 13 requests failed",
            ]
        );
    }

    #[test]
    fn other_work_is_meaningless_and_other_conditions_are_a_caution() {
        let check = |change: fn(&mut Facts), expected: &[&str]| {
            let (mut a, mut b) = (run(), run());
            for side in [&mut a, &mut b] {
                side.facts.dataset = Some("random".to_owned());
                side.facts.tokenizer = Some("own".to_owned());
            }
            change(&mut b.facts);
            assert_eq!(shown(&likeness(&[a], &[b], Vec::new())), expected);
        };
        check(|_| {}, &[]);
        check(
            |facts| facts.dataset = Some("sharegpt".to_owned()),
            &["Meaningless: the datasets differ: random in a, sharegpt in b"],
        );
        check(
            |facts| facts.tokenizer = Some("other".to_owned()),
            &["Meaningless: the tokenizers differ: own in a, other in b"],
        );
        check(
            |facts| facts.prompt_tokens = Some(103.0),
            &["Caution: prompt tokens per request differ: 100.0 in a, 103.0 in b"],
        );
        check(|facts| facts.prompt_tokens = Some(101.0), &[]);
        check(|facts| facts.is_partial = true, &["Caution: r: the run ended early"]);
        check(
            |facts| facts.is_simulated = true,
            &["Caution: one side is simulated and the other is not"],
        );
    }
}
