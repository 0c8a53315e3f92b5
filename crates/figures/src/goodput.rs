//! Goodput: requests that meet the objectives.
//!
//! A request is good when it succeeded and meets every objective; limits are inclusive. The share is
//! relative to all planned requests, because a request that failed or was never sent was not served
//! well either. A request that its user cancelled is in neither.

use serde::{Deserialize, Serialize};

use crate::blocks::{BlockContent, TimeBlocks};
use crate::interval::{self, BlockPart, ConfidenceInterval};
use crate::quantity::Quantity;
use crate::rows::{Fate, Latencies, RequestRow};

/// Limits per request in milliseconds. An absent limit is met by everything.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Objectives {
    pub ttft_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    pub e2el_ms: Option<f64>,
}

impl Objectives {
    pub fn is_empty(&self) -> bool {
        self.limits().next().is_none()
    }

    /// The limits that are set, in the order in which SGLang's help lists them.
    pub fn limits(&self) -> impl Iterator<Item = (Quantity, f64)> {
        let all = [
            (Quantity::Ttft, self.ttft_ms),
            (Quantity::Tpot, self.tpot_ms),
            (Quantity::E2e, self.e2el_ms),
        ];
        all.into_iter().filter_map(|(quantity, limit)| Some((quantity, limit?)))
    }

    /// Whether a request counts as good.
    pub(crate) fn are_met(self, row: &RequestRow) -> bool {
        row.fate == Fate::Succeeded
            && row.latencies().is_some_and(|latencies| self.are_met_by(latencies))
    }

    pub fn are_met_by(&self, latencies: Latencies) -> bool {
        let is_met = |limit: Option<f64>, value: f64| limit.is_none_or(|limit| value <= limit);
        is_met(self.ttft_ms, latencies.ttft_ms)
            && is_met(self.tpot_ms, latencies.tpot_ms)
            && is_met(self.e2el_ms, latencies.e2el_ms)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    pub objectives: Objectives,
    pub good: u64,
    /// Share of all planned requests that were not cancelled, from 0 to 1.
    pub share: Option<f64>,
    pub requests_per_s: Option<f64>,
}

impl Goodput {
    /// Of its share.
    pub(crate) fn interval(self, rows: &[RequestRow], planned: u64) -> ConfidenceInterval {
        let mut blocks = TimeBlocks::<GoodRequests>::default();
        for row in rows.iter().filter(|row| row.fate != Fate::Cancelled) {
            let block = blocks.at(row.start);
            block.all += 1.0;
            block.good += if self.objectives.are_met(row) { 1.0 } else { 0.0 };
        }
        let part = |block: &GoodRequests| BlockPart { amount: block.good, weight: block.all };
        let parts: Vec<BlockPart> = blocks.contents().map(part).collect();
        self.share.map_or_else(ConfidenceInterval::default, |share| {
            interval::share(&parts, share, planned as f64)
        })
    }
}

/// Requests of a block of time.
#[derive(Debug, Default)]
struct GoodRequests {
    good: f64,
    all: f64,
}

impl BlockContent for GoodRequests {
    fn join(&mut self, other: &Self) {
        self.good += other.good;
        self.all += other.all;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive_and_absent_ones_are_met() {
        let latencies = Latencies { ttft_ms: 100.0, tpot_ms: 20.0, e2el_ms: 900.0 };
        let check =
            |ttft_ms: Option<f64>, tpot_ms: Option<f64>, e2el_ms: Option<f64>, good: bool| {
                let objectives = Objectives { ttft_ms, tpot_ms, e2el_ms };
                assert_eq!(objectives.are_met_by(latencies), good, "{objectives:?}");
            };
        check(None, None, None, true);
        check(Some(100.0), Some(20.0), Some(900.0), true);
        check(Some(99.9), None, None, false);
        check(None, Some(19.9), None, false);
        check(None, None, Some(899.9), false);
    }
}
