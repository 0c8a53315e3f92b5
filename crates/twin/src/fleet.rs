//! A fleet computed in parts that share nothing.
//!
//! Where requests go to replicas one after the other, without a cap and without conversations, no
//! replica's work depends on another's: each thread drives its own replicas, and their figures add up.
//! Routers that look at loads, and caps that couple the replicas, need one driver for all.

use tokometer_schedule::Pace;

use crate::Error;
use crate::parallel::in_parallel;
use crate::router::Routing;
use crate::sender::FleetShare;
use crate::virtual_time::{KeptDetail, Prediction, VirtualSetup, run};

/// Runs a fleet, in parts on several threads where that changes nothing.
pub(crate) fn in_shares(setup: VirtualSetup<'_>, threads: usize) -> Result<Vec<Prediction>, Error> {
    let workload = setup.workload;
    let is_divisible = setup.keep == KeptDetail::Figures
        && setup.routing == Routing::RoundRobin
        && workload.max_concurrency.is_none()
        && !workload.arrivals.pace().is_some_and(Pace::has_closed_stages)
        && !workload.asks.has_sessions()
        && setup.client == crate::OldClient::default();
    let parts = if is_divisible { threads.clamp(1, setup.replicas) } else { 1 };
    if parts == 1 {
        return Ok(vec![run(setup)?]);
    }
    let shares: Vec<VirtualSetup<'_>> = (0..parts)
        .map(|part| {
            let first = setup.replicas * part / parts;
            let end = setup.replicas * (part + 1) / parts;
            let share = FleetShare {
                first: first as u64,
                count: (end - first) as u64,
                of: setup.replicas as u64,
            };
            VirtualSetup { replicas: end - first, share, ..setup }
        })
        .collect();
    in_parallel(&shares, parts, |share| run(*share)).into_iter().collect()
}
