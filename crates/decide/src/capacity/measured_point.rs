//! One measured point, as it is stored and shown.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;
use tokometer_figures::define::Unit;
use tokometer_figures::{Quantity, Severity, Summary};

use crate::search::{Allowance, Point, PointOutcome, Stage, Use, needed};
use crate::slo::{self, Slo};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveAtPoint {
    /// As typed.
    pub objective: String,
    /// The value with its unit, such as `1.92 s`; `None` when there was none.
    pub shown: Option<String>,
    /// In the unit of the metric.
    pub value: Option<f64>,
    pub is_met: Option<bool>,
    /// Share of the allowance that was used: 1 is the limit.
    pub allowance: Option<Use>,
    /// Whether the sample is large enough for the percentile.
    pub is_supported: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPoint {
    /// As it was asked for: requests per second, or requests in flight.
    pub load: f64,
    /// The load that was sent, without fill and drain. Absent in findings of older versions.
    #[serde(default)]
    pub sent: Option<f64>,
    /// What it was measured for. The estimate comes from the points of its stage alone.
    pub stage: Stage,
    /// Over all objectives.
    pub fit: PointOutcome,
    /// Whether it had too few requests for its percentiles: it neither met nor missed them.
    #[serde(default)]
    pub is_short: bool,
    /// In the order typed.
    pub objectives: Vec<ObjectiveAtPoint>,
    /// Requests that ended with success, per second.
    pub requests_per_s: Option<f64>,
    /// Output tokens per second.
    pub tokens_per_s: Option<f64>,
    /// Median output tokens per second of one request.
    pub tokens_per_s_per_user: Option<f64>,
    /// Mean E2E in seconds; absent in findings of older versions.
    #[serde(default)]
    pub e2e_s: Option<f64>,
    pub requests: u64,
    /// Notes about a client at its limit.
    pub client_notes: Vec<String>,
    pub folder: String,
}

/// A load as it was asked for, and what was sent of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SentLoad {
    pub asked: f64,
    pub sent: f64,
}

impl MeasuredPoint {
    /// Output tokens per second; requests where nothing is generated.
    pub fn throughput(&self) -> Option<f64> {
        self.tokens_per_s.or(self.requests_per_s)
    }

    /// The load that was sent; what was asked for where that is unknown.
    pub fn sent(&self) -> f64 {
        self.sent.unwrap_or(self.load)
    }

    pub fn new(
        (load, stage, fit): (SentLoad, Stage, PointOutcome),
        slo: &Slo,
        summary: &Summary,
        allowance: &Allowance<'_>,
        folder: &Path,
    ) -> Self {
        let per_user = summary.distribution(Quantity::UserSpeed);
        let results = slo.results(summary);
        let uses = allowance.uses(summary);
        let spoiling = summary.notes.iter().filter(|note| note.severity == Severity::Invalid);
        Self {
            load: load.asked,
            sent: Some(load.sent),
            stage,
            fit,
            is_short: summary.counts.sent < needed(slo),
            objectives: slo
                .objectives
                .iter()
                .zip(results)
                .zip(uses)
                .map(|((objective, result), used)| judged(objective, &result, used))
                .collect(),
            requests_per_s: summary.figure(Quantity::Requests),
            tokens_per_s: summary.figure(Quantity::Output),
            e2e_s: summary.mean(Quantity::E2e).map(|ms| ms / 1e3),
            tokens_per_s_per_user: per_user
                .and_then(|spread| spread.percentile(50.0))
                .and_then(|entry| entry.value),
            requests: summary.counts.sent,
            client_notes: spoiling.map(|note| note.code.clone()).collect(),
            folder: folder.display().to_string(),
        }
    }

    pub fn failed(load: f64, stage: Stage, folder: &Path) -> Self {
        Self {
            load,
            sent: None,
            stage,
            fit: PointOutcome::Failed,
            is_short: false,
            objectives: Vec::new(),
            requests_per_s: None,
            tokens_per_s: None,
            tokens_per_s_per_user: None,
            e2e_s: None,
            requests: 0,
            client_notes: Vec::new(),
            folder: folder.display().to_string(),
        }
    }

    /// The part of it that the search uses.
    pub fn point(&self) -> Point {
        Point {
            load: self.load,
            sent: self.sent(),
            stage: self.stage,
            fit: self.fit,
            is_short: self.is_short,
            requests: self.requests,
            uses: self.objectives.iter().map(|one| one.allowance).collect(),
        }
    }

    /// The objective nearest to its limit, or furthest beyond it.
    pub fn worst(&self) -> Option<&ObjectiveAtPoint> {
        let used = |one: &ObjectiveAtPoint| one.allowance.map_or(f64::INFINITY, |one| one.used);
        self.objectives.iter().max_by(|a, b| used(a).total_cmp(&used(b)))
    }
}

fn judged(
    objective: &slo::Objective,
    result: &slo::ObjectiveResult,
    allowance: Option<Use>,
) -> ObjectiveAtPoint {
    let shown = match result.value {
        None if result.is_met == Some(false) => Some("∞".to_owned()),
        None => None,
        Some(value) if objective.figure.unit() == Unit::Millis => {
            Some(Nanos::from_millis_f64(value).to_string())
        }
        Some(value) if objective.figure.unit() == Unit::Share => {
            Some(format!("{:.2}%", value * 100.0))
        }
        Some(value) => Some(format!("{value:.1}")),
    };
    ObjectiveAtPoint {
        objective: result.text.trim().to_owned(),
        shown,
        value: result.value,
        is_met: result.is_met,
        // JSON has no infinity.
        allowance: allowance.map(|one| Use { used: one.used.min(1e6), ..one }),
        is_supported: result.is_supported,
    }
}

impl ObjectiveAtPoint {
    /// The objective with its value inserted: `p99 ttft 1.92 s < 2s`, or `p99 ttft 2.10 s, not < 2s`.
    pub fn words(&self) -> String {
        let value = self.shown.as_deref().unwrap_or("unknown");
        match self.objective.find(['<', '>']) {
            Some(at) => {
                let (_, limit) = self.objective.split_at(at);
                let relation = if self.is_met == Some(false) { ", not" } else { "" };
                format!("{}{relation} {limit}", self.name_and_value())
            }
            None => format!("{}: {value}", self.objective),
        }
    }

    /// `p99 ttft 1.92 s`.
    pub fn name_and_value(&self) -> String {
        let value = self.shown.as_deref().unwrap_or("unknown");
        let name = self.objective.split(['<', '>']).next().unwrap_or_default();
        format!("{} {value}", name.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stands_where_a_reader_expects_it() {
        let slo = Slo::parse("p99 ttft < 2s, goodput > 99%").unwrap();
        let result = |at: usize, value, is_met: bool| slo::ObjectiveResult {
            text: slo.objectives[at].text.clone(),
            value,
            limit: 1.0,
            is_met: Some(is_met),
            use_of_limit: None,
            is_supported: true,
            low: None,
            high: None,
            no_interval: None,
            outcome: slo::ObjectiveOutcome::CannotTell,
        };
        let check = |at: usize, (value, is_met), expected: &str| {
            let endless = Use { used: f64::INFINITY, variance: 0.0, allowed: None };
            let found = judged(&slo.objectives[at], &result(at, value, is_met), Some(endless));
            assert_eq!(found.words(), expected);
            assert!(serde_json::to_value(&found).unwrap()["allowance"]["used"].is_number());
        };
        check(0, (Some(1_920.0), true), "p99 ttft 1.92 s < 2s");
        check(0, (None, false), "p99 ttft ∞, not < 2s");
        check(1, (Some(0.9876), false), "goodput 98.76%, not > 99%");
    }
}
