//! Errors of rules, objectives and comparisons.

use tokometer_base::units;
use tokometer_metrics::figure::{self, Figure};

/// Why a rule cannot be parsed, or a run cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing between two commas, or no text at all.
    #[error("an objective is empty\n  try `p99 ttft < 2s, goodput > 99%`")]
    EmptyObjective,
    /// No comparison.
    #[error("the objective `{0}` has no comparison\n  try `p99 ttft < 2s`")]
    NoComparison(String),
    /// Text that names no figure.
    #[error("cannot parse the objective `{text}`: {source}")]
    Figure {
        /// The objective as typed.
        text: String,
        /// Why.
        source: figure::Error,
    },
    /// A limit that cannot be parsed as this kind of quantity.
    #[error("cannot parse the limit of the objective `{text}`: {source}")]
    Limit {
        /// The objective as typed.
        text: String,
        /// Why.
        source: units::Error,
    },
    /// A rule of `--until` that cannot be parsed.
    #[error("cannot parse `{text}`: {why}")]
    Until {
        /// The rule as typed.
        text: String,
        /// Why.
        why: String,
    },
    /// A figure that is unknown during a run.
    #[error(
        "cannot end a run by {figure}: it is not the mean or a percentile of one value per request\n  use a mean or a percentile of TTFT, TPOT or E2E"
    )]
    CannotWait {
        /// The figure.
        figure: Figure,
    },
    /// A rule of `--fail-if` that cannot be parsed.
    #[error("cannot parse the rule `{text}`: {why}")]
    Rule {
        /// The rule as typed.
        text: String,
        /// Why.
        why: String,
    },
    /// A run without a successful request.
    #[error("cannot compare `{name}`: none of its requests succeeded")]
    NoSuccess {
        /// The run as the user named it.
        name: String,
    },
}
