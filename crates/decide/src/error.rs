//! What cannot be decided, and why.

use tokometer_base::units;

/// Why a rule cannot be read, or a run not judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing between two commas, or no text at all.
    #[error("an objective is empty\n  try `p99 ttft < 2s, goodput > 99%`")]
    EmptyObjective,
    /// No comparison.
    #[error("the objective `{0}` has no comparison\n  try `p99 ttft < 2s`")]
    NoComparison(String),
    /// A word that is no metric.
    #[error("the objective `{text}` names `{name}`, which is no metric\n  one of: {known}")]
    UnknownMetric {
        /// The objective as typed.
        text: String,
        /// The word.
        name: String,
        /// The words that would do.
        known: String,
    },
    /// A word that is no statistic.
    #[error(
        "the objective `{text}` asks for `{name}`\n  use mean, median, max or a percentile such as p99"
    )]
    UnknownStatistic {
        /// The objective as typed.
        text: String,
        /// The word.
        name: String,
    },
    /// A limit that is no quantity of this kind.
    #[error("the objective `{text}` has a limit that cannot be read: {source}")]
    Limit {
        /// The objective as typed.
        text: String,
        /// Why.
        source: units::Error,
    },
    /// A rule that ends a run, which cannot be read.
    #[error("`{text}` is no rule: {why}")]
    Until {
        /// The rule as typed.
        text: String,
        /// Why.
        why: String,
    },
    /// A rule of a comparison that cannot be read.
    #[error("the rule `{text}` cannot be read: {why}")]
    Rule {
        /// The rule as typed.
        text: String,
        /// Why.
        why: String,
    },
    /// A run that has nothing to compare.
    #[error("cannot compare `{name}`: no request of it succeeded")]
    NoSuccess {
        /// The run as the user named it.
        name: String,
    },
}
