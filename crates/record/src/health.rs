//! What the client did to itself while it measured.
//!
//! Filled by the run, judged by `metrics`. Every field that a machine may not offer is an `Option`:
//! a kernel without pressure files has unknown pressure, not none.

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;

/// A coarse histogram of delays: counts per power of two of nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DelayHistogram {
    /// `counts[i]` delays of at least 2^i and below 2^(i+1) nanoseconds; the first also holds zero.
    pub counts: Vec<u64>,
    /// The largest delay.
    pub max: Nanos,
}

impl DelayHistogram {
    /// Adds one delay.
    pub fn add(&mut self, delay: Nanos) {
        let slot = usize::try_from(delay.0.max(1).ilog2()).unwrap_or(63);
        if self.counts.len() <= slot {
            self.counts.resize(slot + 1, 0);
        }
        self.counts[slot] += 1;
        self.max = self.max.max(delay);
    }

    /// Adds all delays of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.max = self.max.max(other.max);
    }

    /// Number of delays.
    pub fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Whether no delay was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An upper bound of the delay below which `share` of all lie. `None` when there are none.
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        let total = self.len();
        let mut below = 0;
        for (slot, count) in self.counts.iter().enumerate() {
            below += count;
            if *count > 0 && below as f64 >= share * total as f64 {
                return Some(Nanos((2_u64 << slot) - 1).min(self.max));
            }
        }
        None
    }
}

/// One worker thread's account.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WorkerHealth {
    /// Time between the kernel's stamp of a read and our return from it.
    pub kernel_to_user: DelayHistogram,
    /// Time this thread was ready to run and was not running.
    pub run_queue_delay: Option<Nanos>,
    /// CPU time it used.
    pub cpu_time: Option<Nanos>,
    /// Times it was taken off the CPU against its will.
    pub involuntary_switches: Option<u64>,
}

/// The client's account of itself over the measured phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Health {
    /// Per worker thread.
    pub workers: Vec<WorkerHealth>,
    /// CPU time of the whole process.
    pub cpu_time: Option<Nanos>,
    /// Cores this process may use.
    pub cores: Option<u32>,
    /// Time the machine's tasks waited for CPU (`/proc/pressure/cpu`, some).
    pub cpu_pressure: Option<Nanos>,
    /// Time a control group stopped us from running.
    pub throttled: Option<Nanos>,
    /// Time a hypervisor kept from this machine.
    pub stolen: Option<Nanos>,
    /// Peak resident memory.
    pub peak_memory_bytes: Option<u64>,
    /// Steps of the wall clock seen during the run.
    pub clock_steps: u32,
    /// Lateness of a bare timer thread at the same pace, as a control for the pacer.
    pub pacing_control: DelayHistogram,
    /// Delay from the end of one request to the first byte of the next in its slot (closed loop).
    pub refill_delay: DelayHistogram,
    /// Requests that had to wait because the cap on requests in flight was reached.
    pub cap_waits: u64,
    /// Connections opened, reused and found dead.
    pub connections_opened: u64,
    /// Requests that found a kept connection.
    pub connections_reused: u64,
    /// Kept connections that were dead when used.
    pub connections_reopened: u64,
    /// Descriptors this process may open.
    pub descriptor_limit: Option<u64>,
    /// Local ports available for one destination.
    pub port_limit: Option<u32>,
    /// Whether the server runs on this host.
    pub is_same_host: Option<bool>,
    /// Streams that were harvested lazily at some time.
    pub lazy_streams: u64,
    /// Optional request fields that the server refused and that were then left out.
    #[serde(default)]
    pub dropped_fields: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_upper_bounds_of_their_power_of_two() {
        let mut delays = DelayHistogram::default();
        assert_eq!(delays.quantile(0.5), None);
        for delay in [0, 100, 100, 5_000] {
            delays.add(Nanos(delay));
        }
        assert_eq!(delays.quantile(0.5), Some(Nanos(127)));
        assert_eq!(delays.quantile(1.0), Some(Nanos(5_000)));
        let mut twice = delays.clone();
        twice.merge(&delays);
        assert_eq!((twice.len(), twice.max), (8, Nanos(5_000)));
    }
}
