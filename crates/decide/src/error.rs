//! Errors of rules and objectives.

use tokometer_base::units;
use tokometer_figures::figure::{self, Figure};

/// Why a rule cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("an objective is empty\n  try `p99 ttft < 2s, goodput > 99%`")]
    EmptyObjective,
    #[error("the objective `{0}` has no comparison\n  try `p99 ttft < 2s`")]
    NoComparison(String),
    #[error("cannot parse the objective `{text}`: {source}")]
    Figure { text: String, source: figure::Error },
    /// A time limit without a unit: seconds and milliseconds are both common.
    #[error("the objective `{text}` has no unit\n  write `{text}s` or `{text}ms`")]
    NoUnit { text: String },
    #[error(
        "the objective `{text}` asks for more than 100 %\n  write a share of at most 100 %, such as `goodput > 99%`"
    )]
    NoShare { text: String },
    #[error("the objective `{text}` asks for {}\n  write `{turned}`", unwanted(turned))]
    WrongSide {
        text: String,
        /// With the other sign.
        turned: String,
    },
    #[error("cannot parse the limit of the objective `{text}`: {source}")]
    Limit { text: String, source: units::Error },
    #[error("cannot parse `{text}`: {why}")]
    Until { text: String, why: String },
    #[error(
        "cannot end a run by {figure}: it is not the mean or a percentile of one value per request\n  use a mean or a percentile of TTFT, TPOT or E2E"
    )]
    CannotWait { figure: Figure },
    #[error("cannot parse the rule `{text}`: {why}")]
    Rule { text: String, why: String },
}

/// What an objective asks for whose sign is the other one than here.
fn unwanted(turned: &str) -> &'static str {
    if turned.contains('<') { "slow responses" } else { "little throughput" }
}
