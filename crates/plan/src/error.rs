//! Why a plan cannot be read or used.

use tokometer_base::partial::Incomplete;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("cannot read the plan of the record: {0}")]
    Record(String),
    #[error("cannot use the plan: {0}")]
    Incomplete(#[from] Incomplete),
}
