//! Measurements of the client itself during a run.
//!
//! Filled by the run, judged by `metrics`. What a machine may not offer is an `Option`: without
//! pressure files the pressure is unknown, not zero.

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;

/// A coarse histogram of delays, with one bucket per power of two of nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DelayHistogram {
    /// `counts[i]` delays of at least 2^i and below 2^(i+1) nanoseconds; the first also holds zero.
    pub counts: Vec<u64>,
    /// Exact, unlike the quantiles.
    pub max: Nanos,
}

impl DelayHistogram {
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

    pub fn len(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// True before the first delay.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An upper bound of the delay at this quantile, `share` from 0 to 1. `None` when the histogram
    /// is empty.
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        let total = self.len();
        let mut below = 0_u64;
        for (slot, count) in (0_u32..).zip(&self.counts) {
            below = below.saturating_add(*count);
            if *count > 0 && below as f64 >= share * total as f64 {
                return Some(slot_end(slot).min(self.max));
            }
        }
        None
    }
}

/// The longest delay of a slot. A damaged record may have more slots than a delay has bits.
fn slot_end(slot: u32) -> Nanos {
    2_u64.checked_shl(slot).filter(|next| *next > 0).map_or(Nanos::MAX, |next| Nanos(next - 1))
}

/// A time in which a thread that had to run did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStall {
    /// When the thread should have run, on the record's clock.
    pub begin: Nanos,
    pub end: Nanos,
}

/// A step of the wall clock. Kernel timestamps of packets that lay unread at the time of the step may be
/// off by its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStep {
    /// When the clock had not been set yet, on the record's clock.
    pub begin: Nanos,
    /// When all packets of before the step had been read.
    pub end: Nanos,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WorkerHealth {
    /// Time between the kernel's stamp of a read and its return to the worker.
    pub kernel_to_user: DelayHistogram,
    /// Time this thread was runnable but not running.
    pub run_queue_delay: Option<Nanos>,
    pub cpu_time: Option<Nanos>,
    pub involuntary_switches: Option<u64>,
}

/// Measurements of the client over the measured phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Health {
    pub workers: Vec<WorkerHealth>,
    pub cpu_time: Option<Nanos>,
    /// Cores that this process may use.
    pub cores: Option<u32>,
    /// Time in which tasks of this machine waited for a CPU (`/proc/pressure/cpu`, `some`).
    pub cpu_pressure: Option<Nanos>,
    /// Time in which a control group throttled this process.
    pub throttled: Option<Nanos>,
    /// Time that the hypervisor took from this machine.
    pub stolen: Option<Nanos>,
    pub peak_memory_bytes: Option<u64>,
    /// Times the wall clock was set during the run.
    pub clock_steps: u32,
    /// When, as each worker noticed it. `None` in records of older versions.
    #[serde(default)]
    pub clock_step_times: Option<Vec<ClockStep>>,
    /// Lateness of a reference thread that sleeps until the same times as the pacer.
    pub pacing_control: DelayHistogram,
    /// Times in which that thread did not run, the longest ones. `None` in records of older versions.
    #[serde(default)]
    pub stalls: Option<Vec<ThreadStall>>,
    /// Delay from the end of one request to the first byte of the one that takes its slot (closed
    /// loop).
    pub refill_delay: DelayHistogram,
    /// Requests that waited because the maximum number in flight was reached.
    pub cap_waits: u64,
    /// Over all targets, preopened ones included.
    pub connections_opened: u64,
    pub connections_reused: u64,
    /// Kept connections that the server had closed when a request was sent.
    pub connections_reopened: u64,
    /// Answers that came compressed, though none was asked for.
    #[serde(default)]
    pub compressed_answers: u64,
    /// Sessions that ended because a turn does not fit into the server's context.
    #[serde(default)]
    pub overflows: u64,
    /// Open files that this process may have.
    pub descriptor_limit: Option<u64>,
    /// Local ports available for one destination.
    pub port_limit: Option<u32>,
    /// Whether the server runs on this host. `None` when the host's addresses are unknown.
    pub is_same_host: Option<bool>,
    /// Streams that were read lazily at some time.
    pub lazy_streams: u64,
    /// Optional request fields that the server refused and that were then removed.
    #[serde(default)]
    pub dropped_fields: Vec<String>,
    /// Longest time that the recorder waited for the disk, if that was noticeable.
    #[serde(default)]
    pub disk_wait: Option<Nanos>,
    /// Most rows that waited in memory meanwhile.
    #[serde(default)]
    pub rows_waiting_max: u64,
    /// Why the record could not be written to its end.
    #[serde(default)]
    pub write_failure: Option<String>,
    /// Attempts that ended and are missing from the record for that reason.
    #[serde(default)]
    pub rows_unwritten: u64,
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

    /// A histogram comes from `end.json`, which may be damaged: its last slots overflowed.
    #[test]
    fn the_longest_delay_and_a_damaged_histogram_have_quantiles_too() {
        let mut longest = DelayHistogram::default();
        longest.add(Nanos::MAX);
        assert_eq!(longest.quantile(0.5), Some(Nanos::MAX));
        let damaged = DelayHistogram { counts: vec![u64::MAX; 70], max: Nanos(9) };
        assert_eq!((damaged.len(), damaged.quantile(1.0)), (u64::MAX, Some(Nanos(1))));
        let late = DelayHistogram { counts: [vec![0; 69], vec![1]].concat(), max: Nanos(9) };
        assert_eq!(late.quantile(1.0), Some(Nanos(9)));
    }
}
