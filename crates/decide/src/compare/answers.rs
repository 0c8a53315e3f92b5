//! Whether two sides answer alike: greedy answers to the same prompts, and shares of good answers.
//!
//! Speed that comes with other answers is no gain by itself. Greedy answers of one server differ from run to
//! run too, because sums depend on the batch; where A has several runs, that share is known.

use std::collections::BTreeMap;

use serde::Serialize;
use tokometer_figures::Summary;
use tokometer_record::{Phase, Timeline};

use super::comparison::ComparedFigure;
use super::difference::Conclusion;
use super::run::Run;

/// Standard errors between two shares that are taken as a change.
const ERRORS: f64 = 3.0;

/// Answers that differ beyond the share within A, from which on answers have changed.
const DIFFER: f64 = 0.05;

/// Hashes of the greedy answers of a run, by the hash of their prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GreedyAnswers(BTreeMap<u64, u64>);

impl GreedyAnswers {
    /// Adds a request. Of a prompt that was sent several times, the first answer counts.
    pub fn add(&mut self, timeline: &Timeline) {
        let is_measured = timeline.identity.phase == Phase::Measure && timeline.is_success();
        let hashes = timeline.requested.prompt_hash.zip(timeline.answer_hash);
        if let Some((prompt, answer)) = hashes.filter(|_| is_measured) {
            self.0.entry(prompt).or_insert(answer);
        }
    }

    fn against(&self, other: &Self) -> DifferingAnswers {
        let mut found = DifferingAnswers::default();
        for (prompt, answer) in &self.0 {
            if let Some(others) = other.0.get(prompt) {
                found.compared += 1;
                found.differ += u64::from(answer != others);
            }
        }
        found
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct DifferingAnswers {
    pub compared: u64,
    /// Of these, with different answers.
    pub differ: u64,
}

impl DifferingAnswers {
    /// `None` when nothing was compared.
    pub fn share(&self) -> Option<f64> {
        (self.compared > 0).then(|| self.differ as f64 / self.compared as f64)
    }

    fn plus(self, other: Self) -> Self {
        Self { compared: self.compared + other.compared, differ: self.differ + other.differ }
    }

    fn known(self) -> Option<Self> {
        (self.compared > 0).then_some(self)
    }
}

/// Good answers of a kind among those judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct GoodAnswers {
    /// Those as they should be.
    pub good: u64,
    pub judged: u64,
}

impl GoodAnswers {
    /// `None` when none was judged.
    pub fn share(&self) -> Option<f64> {
        (self.judged > 0).then(|| self.good as f64 / self.judged as f64)
    }
}

/// The kinds of good answers that a run may have: tool calls, documents, canaries, answers that are not
/// degenerate.
const KINDS: [&str; 4] = [
    "valid tool calls",
    "answers that fit the schema",
    "canaries as expected",
    "answers that are not degenerate",
];

/// The good answers of a run, in the order of [`KINDS`].
pub(super) fn good_answers(summary: &Summary) -> [GoodAnswers; 4] {
    let quality = summary.quality.unwrap_or_default();
    let calls = quality.tool_calls.unwrap_or_default();
    let canaries = summary.canaries.as_ref();
    let degenerate = quality.empty + quality.repeated + quality.wrong_script;
    let of = |good: u64, judged: u64| GoodAnswers { good, judged };
    [
        // Calls whose schema cannot be checked are neither good nor bad.
        of(calls.valid, calls.judged.saturating_sub(calls.unchecked)),
        quality.valid.map_or(GoodAnswers::default(), |valid| of(valid, quality.judged)),
        canaries.map_or(GoodAnswers::default(), |found| of(found.as_expected, found.sent)),
        of(quality.judged.saturating_sub(degenerate), quality.judged),
    ]
}

/// A share of good answers on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct QualityRow {
    pub what: &'static str,
    /// Of A's runs together.
    pub a: GoodAnswers,
    /// Of B's.
    pub b: GoodAnswers,
    /// Whether the shares differ by more than chance explains.
    pub has_moved: bool,
}

/// What the answers of two sides have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnswerComparison {
    /// Greedy answers of A against B. `None` without prompts that both answered at temperature 0.
    pub greedy: Option<DifferingAnswers>,
    /// The same between runs of A. `None` for a single run.
    pub within_a: Option<DifferingAnswers>,
    pub quality: Vec<QualityRow>,
}

impl AnswerComparison {
    /// `None` where nothing can be said.
    pub fn of(a: &[Run], b: &[Run]) -> Option<Self> {
        let none = DifferingAnswers::default;
        let pairs = a.iter().zip(b).map(|(a, b)| a.answers.against(&b.answers));
        let greedy = pairs.fold(none(), DifferingAnswers::plus).known();
        let own = a.windows(2).map(|two| two[0].answers.against(&two[1].answers));
        let within_a = own.fold(none(), DifferingAnswers::plus).known();
        let rows = KINDS.into_iter().enumerate().filter_map(|(kind, what)| {
            let sum = |runs: &[Run]| {
                runs.iter().map(|run| run.facts.good_answers[kind]).fold(
                    GoodAnswers::default(),
                    |sum, one| GoodAnswers {
                        good: sum.good + one.good,
                        judged: sum.judged + one.judged,
                    },
                )
            };
            let (a, b) = (sum(a), sum(b));
            let is_known = a.judged > 0 && b.judged > 0;
            is_known.then(|| QualityRow { what, a, b, has_moved: has_moved(a, b) })
        });
        let found = Self { greedy, within_a, quality: rows.collect() };
        (found.greedy.is_some() || !found.quality.is_empty()).then_some(found)
    }

    /// Whether greedy answers differ by more than they do between runs of A.
    fn differs(&self) -> bool {
        let share = |found: Option<DifferingAnswers>| found.and_then(|found| found.share());
        share(self.greedy).is_some_and(|found| found - share(self.within_a).unwrap_or(0.0) > DIFFER)
    }

    /// What changed in the answers while speed did. `None` where either stayed.
    pub fn warning(&self, rows: &[ComparedFigure]) -> Option<String> {
        let is_moved = |row: &ComparedFigure| {
            matches!(row.conclusion, Some(Conclusion::Better | Conclusion::Worse))
        };
        let has_speed_moved = rows.iter().any(is_moved);
        let mut changes = Vec::new();
        if self.differs() {
            let share = self.greedy.and_then(|found| found.share()).unwrap_or(0.0);
            changes.push(format!("{:.1} % of greedy answers differ", 100.0 * share));
        }
        for row in self.quality.iter().filter(|row| row.has_moved) {
            let percent =
                |good: GoodAnswers| format!("{:.1} %", 100.0 * good.share().unwrap_or(0.0));
            changes.push(format!("{}: {} became {}", row.what, percent(row.a), percent(row.b)));
        }
        (has_speed_moved && !changes.is_empty()).then(|| {
            format!(
                "the answers changed with the speed ({}): judge the answers before taking the difference in speed as a gain",
                changes.join("; ")
            )
        })
    }
}

/// Whether two shares differ by more than their standard errors allow.
fn has_moved(a: GoodAnswers, b: GoodAnswers) -> bool {
    let (of_a, of_b) = (a.judged as f64, b.judged as f64);
    let (Some(share_a), Some(share_b)) = (a.share(), b.share()) else { return false };
    // One more of each kind keeps a share of 0 or 1 from having no error.
    let both = ((a.good + b.good) as f64 + 1.0) / (of_a + of_b + 2.0);
    let error = (both * (1.0 - both) * (1.0 / of_a + 1.0 / of_b)).sqrt();
    (share_a - share_b).abs() > ERRORS * error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(answers: &[(u64, u64)], calls: (u64, u64)) -> Run {
        let mut run = Run::default();
        run.answers.0 = answers.iter().copied().collect();
        run.facts.good_answers[0] = GoodAnswers { good: calls.0, judged: calls.1 };
        run
    }

    #[test]
    fn answers_to_the_same_prompts_are_compared_and_others_are_not() {
        let a = [run(&[(1, 10), (2, 20), (3, 30)], (0, 0))];
        let b = [run(&[(1, 10), (2, 21), (4, 40)], (0, 0))];
        let found = AnswerComparison::of(&a, &b).unwrap();
        assert_eq!(found.greedy, Some(DifferingAnswers { compared: 2, differ: 1 }));
        assert_eq!(found.within_a, None);
        assert_eq!(AnswerComparison::of(&[run(&[], (0, 0))], &b), None);
    }

    #[test]
    fn differences_between_runs_of_a_are_expected_between_the_sides_too() {
        let same = || run(&[(1, 10), (2, 20)], (0, 0));
        let other = || run(&[(1, 11), (2, 20)], (0, 0));
        let found = AnswerComparison::of(&[same(), other()], &[other(), same()]).unwrap();
        assert_eq!(found.within_a, Some(DifferingAnswers { compared: 2, differ: 1 }));
        assert!(!found.differs());
        assert!(AnswerComparison::of(&[same(), same()], &[other(), same()]).unwrap().differs());
    }

    #[test]
    fn a_share_moves_when_chance_cannot_explain_it() {
        let of = |good, judged| GoodAnswers { good, judged };
        assert!(has_moved(of(98, 100), of(70, 100)));
        assert!(!has_moved(of(98, 100), of(96, 100)));
        assert!(!has_moved(of(1, 1), of(0, 1)));
        assert!(has_moved(of(1_000, 1_000), of(950, 1_000)));
        assert!(!has_moved(of(10, 10), of(10, 10)));
    }
}
