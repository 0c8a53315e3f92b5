//! Rules such as `ttft p99 worse by 5%`, which make a comparison fail.
//!
//! A rule is violated only if the data show it: the interval excludes zero on the worse side and the
//! estimate is at least the share named. A rule that these data could not show to be violated passes,
//! and is reported as such.

use serde::Serialize;
use tokometer_base::units;
use tokometer_metrics::Figure;

use super::comparison::ComparedFigure;
use super::figures::is_comparable;
use crate::Error;

/// A loss that must not happen from A to B.
#[derive(Debug, Clone, PartialEq)]
pub struct FailRule {
    /// As typed.
    pub text: String,
    /// The mean or a percentile of a latency, or a throughput.
    pub figure: Figure,
    /// The loss that violates the rule, as a share of A.
    pub share: f64,
}

/// Only [`RuleOutcome::Broken`] fails the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleOutcome {
    /// B is worse by at least the share.
    Broken,
    /// B is not, and the data could have shown it.
    Kept,
    /// B does not look worse, but these data could not have shown it.
    Unproven,
    /// The figure, or its interval, is unknown on a side.
    Unknown,
}

/// A rule with its result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleResult {
    /// As typed.
    pub rule: String,
    /// Of this comparison.
    pub outcome: RuleOutcome,
    /// Finds the row of the rule.
    #[serde(skip)]
    pub figure: Figure,
}

impl FailRule {
    /// Parses a figure, `worse`, and optionally `by` a share.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let lower = text.to_lowercase();
        let words: Vec<&str> = lower.split_whitespace().collect();
        let refused = |why: String| Error::Rule { text: text.to_owned(), why };
        let at = words.iter().position(|word| *word == "worse");
        let at = at.ok_or_else(|| refused("the word `worse` is missing".to_owned()))?;
        let figure =
            Figure::parse(&words[..at].join(" ")).map_err(|why| refused(why.to_string()))?;
        if !is_comparable(figure) {
            return Err(refused(format!(
                "cannot compare runs by {figure}\n  use the mean or a percentile of TTFT, TPOT, ITL or E2E, or the request, output or total throughput"
            )));
        }
        let share = match &words[at + 1..] {
            [] => Ok(0.0),
            ["by", share @ ..] if !share.is_empty() => {
                units::parse_share(&share.concat()).map_err(|why| refused(why.to_string()))
            }
            rest => Err(refused(format!("`{}` is not a share", rest.join(" ")))),
        }?;
        Ok(Self { text: text.to_owned(), figure, share })
    }

    /// The result of the rule for these rows.
    pub fn judge(&self, rows: &[ComparedFigure]) -> RuleResult {
        let row = rows.iter().find(|row| row.figure == self.figure);
        let outcome = match row.and_then(|row| row.difference) {
            None => RuleOutcome::Unknown,
            Some(difference) if difference.is_worse_by(self.share) => RuleOutcome::Broken,
            Some(difference) if difference.detectable > self.share.max(f64::EPSILON) => {
                // Without a share any loss is a violation, and none can be excluded.
                if self.share > 0.0 { RuleOutcome::Unproven } else { RuleOutcome::Kept }
            }
            Some(_) => RuleOutcome::Kept,
        };
        RuleResult { rule: self.text.clone(), outcome, figure: self.figure }
    }
}

#[cfg(test)]
mod tests {
    use super::super::difference::{self, Basis};
    use super::*;

    #[test]
    fn rules_are_read_as_people_write_them() {
        let check = |text: &str, key: &str, share: f64| {
            let rule = FailRule::parse(text).unwrap();
            assert_eq!(rule.figure.key(), key, "{text}");
            assert!((rule.share - share).abs() < 1e-9, "{text}");
        };
        check("ttft p99 worse by 5%", "ttft_ms_p99", 0.05);
        check("P99 TTFT worse by 5 %", "ttft_ms_p99", 0.05);
        check("throughput worse", "output_tokens_per_s", 0.0);
        check("p99.9_ttft_ms worse by 10%", "ttft_ms_p99.9", 0.1);
        check("req/s worse by 1%", "requests_per_s", 0.01);
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
    }

    #[test]
    fn a_rule_is_broken_only_by_what_the_data_show() {
        let rule = FailRule::parse("ttft worse by 5%").unwrap();
        let check = |a: &[f64], b: &[f64], expected: RuleOutcome| {
            let difference = difference::unpaired(a, b, Basis::Runs, rule.figure.better());
            let rows = [ComparedFigure { figure: rule.figure, a: a[0], b: b[0], difference }];
            assert_eq!(rule.judge(&rows).outcome, expected, "{a:?} {b:?}");
        };
        check(&[100.0, 101.0, 99.0], &[110.0, 111.0, 109.0], RuleOutcome::Broken);
        check(&[100.0, 101.0, 99.0], &[103.0, 104.0, 102.0], RuleOutcome::Kept);
        check(&[100.0, 130.0, 70.0], &[110.0, 140.0, 80.0], RuleOutcome::Unproven);
        check(&[100.0], &[110.0], RuleOutcome::Unknown);
        assert_eq!(rule.judge(&[]).outcome, RuleOutcome::Unknown);
    }
}
