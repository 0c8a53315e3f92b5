//! The throughput of a closed loop while all of its slots are taken.

use tokometer_base::Nanos;
use tokometer_record::{Phase, Timeline};

/// Fewest mean response times between the start and the last send: less is one moment.
const LEAST_STAYS: f64 = 0.5;

/// What was completed per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throughput {
    pub requests_per_s: f64,
    pub output_tokens_per_s: f64,
}

#[derive(Debug, Clone, Copy)]
struct Completed {
    begin: f64,
    end: f64,
    tokens: f64,
}

impl Completed {
    /// The share of its time in flight that lies between these times.
    fn share(&self, begin: f64, end: f64) -> f64 {
        let inside = self.end.min(end) - self.begin.max(begin);
        inside.max(0.0) / (self.end - self.begin)
    }
}

/// The successful requests of a run.
#[derive(Debug, Clone, Default)]
pub struct FullSlots(Vec<Completed>);

impl FullSlots {
    pub fn add(&mut self, timeline: &Timeline) {
        let times = &timeline.times;
        let begin = times.first_byte_sent.unwrap_or(times.admitted);
        let end = times.end.filter(|end| *end > begin);
        let is_measured = timeline.identity.phase == Phase::Measure && timeline.is_success();
        if let Some(end) = end.filter(|_| is_measured) {
            let [begin, end] = [begin, end].map(Nanos::as_secs_f64);
            let tokens = timeline.output_tokens().map_or(0.0, |(tokens, _)| f64::from(tokens));
            self.0.push(Completed { begin, end, tokens });
        }
    }

    /// From a mean response time after the first send, when the first requests have given way to others,
    /// to the last send. Requests that are partly within it count in part. `None` where the run is too
    /// short.
    pub fn throughput(&self) -> Option<Throughput> {
        let begins = || self.0.iter().map(|one| one.begin);
        let first = begins().min_by(f64::total_cmp)?;
        let end = begins().max_by(f64::total_cmp)?;
        let stay = self.0.iter().map(|one| one.end - one.begin).sum::<f64>() / self.0.len() as f64;
        let begin = first + stay;
        let seconds = end - begin;
        if seconds < LEAST_STAYS * stay {
            return None;
        }
        let shares = || self.0.iter().map(|one| (one.share(begin, end), one.tokens));
        Some(Throughput {
            requests_per_s: shares().map(|(share, _)| share).sum::<f64>() / seconds,
            output_tokens_per_s: shares().map(|(share, tokens)| share * tokens).sum::<f64>()
                / seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many slots, each with back-to-back requests of one second and ten tokens that begin before
    /// `length`.
    fn closed_loop(slots: u32, length: f64) -> FullSlots {
        let mut full = FullSlots::default();
        for slot in 0..slots {
            // The slots do not run in lock-step.
            let mut begin = (f64::from(slot) + 0.5) / f64::from(slots) - 1.0;
            while begin < length {
                let from = begin.max(0.0);
                full.0.push(Completed { begin: from, end: begin + 1.0, tokens: 10.0 });
                begin += 1.0;
            }
        }
        full
    }

    #[test]
    fn filling_and_draining_do_not_count() {
        for (slots, length) in [(1, 8.0), (4, 3.0), (64, 2.0)] {
            let found = closed_loop(slots, length).throughput().unwrap();
            let error = found.requests_per_s / f64::from(slots) - 1.0;
            assert!(error.abs() < 0.03, "{slots}: {found:?}");
            assert!((found.output_tokens_per_s / found.requests_per_s - 10.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_run_of_one_wave_has_none() {
        assert_eq!(closed_loop(4, 0.9).throughput(), None);
        assert_eq!(FullSlots::default().throughput(), None);
    }
}
