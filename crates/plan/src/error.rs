//! Why a plan cannot be read or used.

use tokometer_base::partial::Incomplete;

/// Why a plan cannot be read or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The plan of a record cannot be read.
    #[error("cannot read the plan of the record: {0}")]
    Record(String),
    /// A field that every plan needs has no value.
    #[error("cannot use the plan: {0}")]
    Incomplete(#[from] Incomplete),
}
