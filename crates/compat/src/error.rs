//! Why a report could not be made or read.

use tokometer_figures::Family;

/// What failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No layout has this name.
    #[error("unknown layout `{name}`\n  use one of {known}")]
    UnknownLayout {
        /// The name as given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The summary holds no figures by the layout's definitions.
    #[error("the summary has no figures by the definitions of {}, which this layout requires", .0.tool())]
    NoFigures(Family),
    /// A result file is not what it should be.
    #[error("cannot read a result file: {0}")]
    BadResult(String),
}
