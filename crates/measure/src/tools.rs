//! What a measurement gets from outside.

use std::sync::Arc;

use tokometer_base::Clock;

use crate::observer::Observer;
use crate::secrets::Credentials;
use crate::shard::Coordination;

/// Everything that a measurement gets from outside.
pub struct Tools {
    /// Not part of the plan, which is written to disk.
    pub secrets: Credentials,
    /// For waits outside the measured phase; the run has its own.
    pub clock: Arc<dyn Clock>,
    /// Receives progress and remarks.
    pub observer: Arc<dyn Observer>,
    /// Version of this program, for the record.
    pub version: String,
    /// The other processes of the run; `None` where this one makes all of it.
    pub shard: Option<Arc<dyn Coordination>>,
    /// The command that started this program, without secrets, for the record.
    pub command: String,
}
