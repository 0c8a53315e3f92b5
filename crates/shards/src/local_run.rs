//! What the leader and the other shards know of the run in their own process.

use crate::leases::LeaseChange;
use crate::message::{LatencyBins, ShardCounts, StopCause};

/// A run in progress, as the link to the leader sees it.
pub trait LocalRun: Send + Sync {
    fn counts(&self) -> ShardCounts;
    /// Latencies so far, for the display of shard 0.
    fn latencies(&self) -> LatencyBins {
        LatencyBins::default()
    }
    /// Send no more requests.
    fn stop(&self, cause: StopCause);
    /// Slots of a shared limit change.
    fn lease(&self, _change: LeaseChange) {}
    /// There is no leader any more.
    fn lose_leader(&self) {}
}
