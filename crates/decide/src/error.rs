//! Errors of rules and objectives.

use tokometer_base::units;
use tokometer_figures::figure::{self, Figure};

/// Why a rule cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing between two commas, or an empty text.
    #[error("an objective is empty\n  try `p99 ttft < 2s, goodput > 99%`")]
    EmptyObjective,
    /// An objective without `<` or `>`.
    #[error("the objective `{0}` has no comparison\n  try `p99 ttft < 2s`")]
    NoComparison(String),
    /// Text that does not name a figure.
    #[error("cannot parse the objective `{text}`: {source}")]
    Figure {
        /// As typed.
        text: String,
        /// Names the known figures.
        source: figure::Error,
    },
    /// A time limit without a unit: seconds and milliseconds are both common.
    #[error("the objective `{text}` has no unit\n  write `{text}s` or `{text}ms`")]
    NoUnit {
        /// As typed.
        text: String,
    },
    /// A share above 1.
    #[error(
        "the objective `{text}` asks for more than 100 %\n  write a share of at most 100 %, such as `goodput > 99%`"
    )]
    NoShare {
        /// As typed.
        text: String,
    },
    /// A least latency, or a most throughput.
    #[error("the objective `{text}` asks for {}\n  write `{turned}`", unwanted(turned))]
    WrongSide {
        /// As typed.
        text: String,
        /// With the other sign.
        turned: String,
    },
    /// A limit that cannot be parsed as this quantity.
    #[error("cannot parse the limit of the objective `{text}`: {source}")]
    Limit {
        /// As typed.
        text: String,
        /// Names the expected unit.
        source: units::Error,
    },
    /// A rule of `--until` that cannot be parsed.
    #[error("cannot parse `{text}`: {why}")]
    Until {
        /// As typed.
        text: String,
        /// Completes the message.
        why: String,
    },
    /// A figure that is unknown during a run.
    #[error(
        "cannot end a run by {figure}: it is not the mean or a percentile of one value per request\n  use a mean or a percentile of TTFT, TPOT or E2E"
    )]
    CannotWait {
        /// As parsed.
        figure: Figure,
    },
    /// A rule of `--fail-if` that cannot be parsed.
    #[error("cannot parse the rule `{text}`: {why}")]
    Rule {
        /// As typed.
        text: String,
        /// Completes the message.
        why: String,
    },
}

/// What an objective asks for whose sign is the other one than here.
fn unwanted(turned: &str) -> &'static str {
    if turned.contains('<') { "slow responses" } else { "little throughput" }
}
