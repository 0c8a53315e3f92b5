//! Rules such as `ttft p99 worse by 5%`, which make a comparison fail.
//!
//! A rule is violated only if the data show it: the interval excludes zero on the worse side and the
//! estimate is at least the share named. It is kept only if the data show that too: the interval
//! excludes a loss of that share. Everything between is no pass: these data cannot tell.

use serde::Serialize;
use tokometer_base::units;
use tokometer_figures::Figure;

use super::comparison::{ComparedFigure, Comparison};
use super::difference::Conclusion;
use super::failures::Failures;
use super::figures::is_comparable;
use crate::Error;

/// What a rule about the share of failed requests is called.
const FAILURES: &str = "failures";

/// A loss that must not happen from A to B.
#[derive(Debug, Clone, PartialEq)]
pub struct FailRule {
    /// As typed.
    pub text: String,
    /// The mean or a percentile of a latency, or a throughput; `None`: the share of requests that fail.
    pub figure: Option<Figure>,
    /// The loss that violates the rule, as a share of A; of failures, by how much their share may exceed
    /// that of A.
    pub share: f64,
}

/// Only [`RuleOutcome::Broken`] fails the comparison, and only [`RuleOutcome::Kept`] passes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleOutcome {
    /// B is worse by at least the share.
    Broken,
    /// The interval excludes a loss of the share.
    Kept,
    /// The data show neither.
    Unproven,
    /// The figure, or its interval, is unknown on a side.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleResult {
    /// As typed.
    pub rule: String,
    pub outcome: RuleOutcome,
    /// Further runs per side, or pairs, that would detect such a loss four times in five; only where
    /// these data cannot tell. `None` also beyond what anybody would measure.
    pub more_units: Option<usize>,
    /// Finds the row of the rule; `None`: it is about failures.
    #[serde(skip)]
    pub figure: Option<Figure>,
}

impl FailRule {
    /// Parses a figure, `worse`, and optionally `by` a share.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let lower = text.to_lowercase();
        let words: Vec<&str> = lower.split_whitespace().collect();
        let refused = |why: String| Error::Rule { text: text.to_owned(), why };
        let at = words.iter().position(|word| *word == "worse");
        let at = at.ok_or_else(|| refused("the word `worse` is missing".to_owned()))?;
        let figure = match words[..at] {
            [FAILURES] => None,
            _ => Some(comparable(&words[..at].join(" ")).map_err(refused)?),
        };
        let share = match &words[at + 1..] {
            [] => Ok(0.0),
            ["by", share @ ..] if !share.is_empty() => {
                let typed = share.concat();
                let share = units::parse_share(&typed).map_err(|why| refused(why.to_string()))?;
                if share >= 1.0 && !typed.ends_with('%') {
                    let why = format!("`{typed}` would be a loss of everything: write `{typed}%`");
                    return Err(refused(why));
                }
                Ok(share)
            }
            rest => Err(refused(format!("`{}` is not a share", rest.join(" ")))),
        }?;
        Ok(Self { text: text.to_owned(), figure, share })
    }

    /// The result of the rule for a comparison. A rule without a share minds every loss that is not
    /// negligible. No rule is kept by a B that fails too many of its requests.
    pub fn judge(&self, comparison: &Comparison) -> RuleResult {
        let failures = comparison.failures;
        let minded = if self.share > 0.0 { self.share } else { comparison.equivalence.0 };
        let row = |figure| comparison.rows.iter().find(|row| row.figure == figure);
        let (outcome, more_units) = match (self.figure.map(row), failures) {
            (_, Some(found)) if found.are_too_many() => (RuleOutcome::Broken, None),
            (None, Some(found)) if found.are_more_in_b() && found.b - found.a >= self.share => {
                (RuleOutcome::Broken, None)
            }
            (None, Some(found)) if found.high < minded => (RuleOutcome::Kept, None),
            (None, Some(_)) => (RuleOutcome::Unproven, None),
            (None | Some(None), _) => (RuleOutcome::Unknown, None),
            (Some(Some(row)), _) => self.judge_row(row, failures, minded),
        };
        RuleResult { rule: self.text.clone(), outcome, more_units, figure: self.figure }
    }

    fn judge_row(
        &self,
        row: &ComparedFigure,
        failures: Option<Failures>,
        minded: f64,
    ) -> (RuleOutcome, Option<usize>) {
        let fails_more = failures.is_some_and(|found| found.are_more_in_b());
        let is_comparable = failures.is_none_or(|found| !found.differ());
        match (row.difference, row.conclusion) {
            // A percentile among the failed requests of one side.
            (None, Some(Conclusion::Worse)) => (RuleOutcome::Broken, None),
            (None, Some(Conclusion::Better)) => (RuleOutcome::Kept, None),
            (None, Some(_)) => (RuleOutcome::Unproven, None),
            (None, None) => (RuleOutcome::Unknown, None),
            (Some(found), concluded)
                if found.is_worse_by(self.share) && concluded == Some(found.conclusion) =>
            {
                (RuleOutcome::Broken, None)
            }
            (Some(found), _) if found.largest_loss() < minded && !fails_more => {
                (RuleOutcome::Kept, None)
            }
            (Some(found), _) => {
                // At least one more: these did not tell.
                let more = |needed: usize| {
                    needed.saturating_sub(found.units).max(1) * found.pairs_per_unit
                };
                let needed = found.values_needed(minded).filter(|_| is_comparable);
                (RuleOutcome::Unproven, needed.map(more))
            }
        }
    }
}

/// A figure by which runs can be compared, or why there is none.
fn comparable(words: &str) -> Result<Figure, String> {
    let figure = Figure::parse(words).map_err(|why| why.to_string())?;
    if !is_comparable(figure) {
        return Err(format!(
            "cannot compare runs by {figure}\n  use the mean or a percentile of TTFT, TPOT, ITL or E2E, the request, output or total throughput, or `failures`"
        ));
    }
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::super::comparison::Criteria;
    use super::super::run::{Facts, Run};
    use super::*;

    #[test]
    fn rules_are_read_as_people_write_them() {
        let check = |text: &str, key: &str, share: f64| {
            let rule = FailRule::parse(text).unwrap();
            let found = rule.figure.map_or(FAILURES.to_owned(), Figure::key);
            assert_eq!(found, key, "{text}");
            assert!((rule.share - share).abs() < 1e-9, "{text}");
        };
        check("ttft p99 worse by 5%", "ttft_ms_p99", 0.05);
        check("P99 TTFT worse by 5 %", "ttft_ms_p99", 0.05);
        check("throughput worse", "output_tokens_per_s", 0.0);
        check("p99.9_ttft_ms worse by 10%", "ttft_ms_p99.9", 0.1);
        check("req/s worse by 1%", "requests_per_s", 0.01);
        check("failures worse by 1%", FAILURES, 0.01);
        check("failures worse", FAILURES, 0.0);
    }

    #[test]
    fn a_rule_that_makes_no_sense_says_why() {
        let check = |text: &str, expected: &str| {
            let refusal = FailRule::parse(text).unwrap_err().to_string();
            assert!(refusal.contains(expected), "{refusal}");
        };
        check("ttft p99 > 5%", "the word `worse` is missing");
        check("speed worse by 5%", "`speed` is not a metric");
        check("max ttft worse by 5%", "cannot compare runs by max TTFT");
        check("goodput worse by 5%", "cannot compare runs by Goodput");
        check("ttft worse by much", "cannot parse the rule");
        check("ttft worse than 5%", "`than 5%` is not a share");
        check("mean e2e worse by 5", "`5` may mean 5 % or 5 times: write `5%`");
        check("mean e2e worse by 1", "a loss of everything");
    }

    fn judged(rule: &str, a: &[f64], b: &[f64]) -> RuleResult {
        after_failures(rule, (a, 0), (b, 0))
    }

    /// Runs with these values, of which so many of a thousand requests failed.
    fn after_failures(rule: &str, a: (&[f64], u64), b: (&[f64], u64)) -> RuleResult {
        let rule = FailRule::parse(rule).unwrap();
        let side = |(values, failed): (&[f64], u64)| -> Vec<Run> {
            let run = |value: &f64| {
                let values = rule.figure.into_iter().map(|figure| (figure, *value)).collect();
                let facts = Facts { succeeded: 1_000 - failed, failed, ..Facts::default() };
                Run { values, facts, ..Run::default() }
            };
            values.iter().map(run).collect()
        };
        let figures: Vec<Figure> = rule.figure.into_iter().collect();
        let found = Comparison::of_runs(&side(a), &side(b), Criteria::of(&figures), Vec::new());
        rule.judge(&found)
    }

    #[test]
    fn a_rule_is_broken_or_kept_only_by_what_the_data_show() {
        let check = |a: &[f64], b: &[f64], expected: RuleOutcome| {
            assert_eq!(judged("ttft worse by 5%", a, b).outcome, expected, "{a:?} {b:?}");
        };
        check(&[100.0, 101.0, 99.0], &[110.0, 111.0, 109.0], RuleOutcome::Broken);
        check(&[100.0, 100.5, 99.5], &[103.0, 103.5, 102.5], RuleOutcome::Kept);
        // Its interval ends at 5.3 %: neither side of the limit is shown.
        check(&[100.0, 101.0, 99.0], &[103.0, 104.0, 102.0], RuleOutcome::Unproven);
        check(&[100.0, 130.0, 70.0], &[110.0, 140.0, 80.0], RuleOutcome::Unproven);
        // Equal means with a wide scatter were reported as a pass.
        check(&[100.0, 130.0, 70.0], &[100.0, 130.0, 70.0], RuleOutcome::Unproven);
        check(&[100.0], &[110.0], RuleOutcome::Unknown);
        check(&[100.0], &[], RuleOutcome::Unknown);
    }

    /// A server that fails requests at once serves the others faster: the gate passed.
    #[test]
    fn a_side_that_fails_more_keeps_no_rule_by_its_survivors() {
        let (a, quicker) = ([100.0, 101.0, 99.0], [60.0, 61.0, 59.0]);
        let check = |rule: &str, failed: (u64, u64), expected: RuleOutcome| {
            let found = after_failures(rule, (&a, failed.0), (&quicker, failed.1));
            assert_eq!((found.outcome, found.more_units), (expected, None), "{rule} {failed:?}");
        };
        check("ttft worse by 5%", (0, 0), RuleOutcome::Kept);
        check("ttft worse by 5%", (3, 4), RuleOutcome::Kept);
        check("ttft worse by 5%", (0, 20), RuleOutcome::Unproven);
        check("ttft worse by 5%", (0, 500), RuleOutcome::Broken);
        check("ttft worse by 5%", (500, 500), RuleOutcome::Broken);
        check("ttft worse by 5%", (500, 0), RuleOutcome::Kept);
        // The other way round, A's survivors had a server with little to do.
        check("throughput worse by 5%", (20, 0), RuleOutcome::Unproven);
        check("failures worse by 1%", (0, 20), RuleOutcome::Broken);
        check("failures worse", (0, 20), RuleOutcome::Broken);
        check("failures worse by 3%", (0, 20), RuleOutcome::Kept);
        check("failures worse", (3, 4), RuleOutcome::Kept);
        check("failures worse by 0.1%", (3, 4), RuleOutcome::Unproven);
        check("failures worse by 1%", (500, 0), RuleOutcome::Kept);
    }

    /// Such a rule was "not in every run".
    #[test]
    fn a_percentile_among_failed_requests_is_worse_than_any_other() {
        let infinite = [f64::INFINITY; 3];
        let finite = [100.0, 101.0, 99.0];
        let check = |a: (&[f64], u64), b: (&[f64], u64), expected: RuleOutcome| {
            let found = after_failures("p99 ttft worse by 5%", a, b);
            assert_eq!(found.outcome, expected, "{a:?} {b:?}");
        };
        check((&finite, 0), (&infinite, 20), RuleOutcome::Broken);
        check((&infinite, 20), (&finite, 0), RuleOutcome::Kept);
        check((&infinite, 20), (&infinite, 21), RuleOutcome::Unproven);
    }

    /// A loss of 0.8 % that the data show, within the margin of 1 %: a rule about 0.5 % was reported as
    /// "cannot tell".
    #[test]
    fn a_rule_about_less_than_the_negligible_is_broken_by_what_the_data_show() {
        let check = |rule: &str, b: &[f64], expected: RuleOutcome| {
            let a = [100.0, 100.02, 99.98];
            assert_eq!(judged(rule, &a, b).outcome, expected, "{rule} {b:?}");
        };
        let slower = [100.8, 100.82, 100.78];
        check("ttft worse by 0.5%", &slower, RuleOutcome::Broken);
        check("ttft worse", &slower, RuleOutcome::Kept);
        check("ttft worse by 2%", &slower, RuleOutcome::Kept);
        check("ttft worse by 0.5%", &[99.2, 99.22, 99.18], RuleOutcome::Kept);
        check("throughput worse by 0.5%", &[99.2, 99.22, 99.18], RuleOutcome::Broken);
        check("throughput worse by 0.5%", &slower, RuleOutcome::Kept);
    }

    #[test]
    fn a_rule_without_a_share_minds_what_is_not_negligible() {
        let check = |b: &[f64], expected: RuleOutcome| {
            let a = [100.0, 100.1, 99.9];
            assert_eq!(judged("ttft worse", &a, b).outcome, expected, "{b:?}");
        };
        check(&[100.2, 100.3, 100.1], RuleOutcome::Kept);
        check(&[102.0, 102.1, 101.9], RuleOutcome::Broken);
        check(&[100.0, 103.0, 97.0], RuleOutcome::Unproven);
    }

    #[test]
    fn what_cannot_be_told_says_how_many_more_runs_would_tell() {
        let few = judged("ttft worse by 5%", &[100.0, 104.0, 96.0], &[101.0, 105.0, 97.0]);
        assert_eq!(few.outcome, RuleOutcome::Unproven);
        assert!((8..=11).contains(&few.more_units.unwrap()), "{few:?}");
        // These would detect 5 %, and yet did not tell: at least one more is needed.
        let close = judged("ttft worse by 5%", &[100.0, 101.0, 99.0], &[103.0, 104.0, 102.0]);
        assert_eq!((close.outcome, close.more_units), (RuleOutcome::Unproven, Some(1)));
        let hopeless = judged("ttft worse by 0.01%", &[100.0, 104.0, 96.0], &[101.0, 105.0, 97.0]);
        assert_eq!((hopeless.outcome, hopeless.more_units), (RuleOutcome::Unproven, None));
    }
}
