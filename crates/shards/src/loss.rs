//! Why a follower has no leader any more.

use std::fmt;

/// What ended the part of a follower in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The connection broke, or the leader says nothing.
    Connection(String),
    /// The leader is there and does not take this shard.
    Refused(String),
    /// The leader goes on without this shard, or has ended.
    Over(String),
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(why) => write!(f, "there is no leader any more: {why}"),
            Self::Refused(why) => write!(f, "shard 0 refused this shard: {why}"),
            Self::Over(why) => f.write_str(why),
        }
    }
}
