//! Why a report could not be made or read.

use tokometer_figures::Family;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("unknown layout `{name}`\n  use one of {known}")]
    UnknownLayout { name: String, known: String },
    #[error("the summary has no figures by the definitions of {}, which this layout requires", .0.tool())]
    NoFigures(Family),
    #[error("cannot read a result file: {0}")]
    BadResult(String),
}
