//! A run compared with its plan in virtual time.

use std::collections::BTreeMap;

use serde_json::Value;
use tokometer_figures::Quantity;

/// Of latencies.
const PERCENTILES: [f64; 3] = [50.0, 90.0, 99.0];
const RATES: [&str; 2] = ["requests_per_s", "output_tokens_per_s"];

/// One figure: how far it is off, and what was said of it.
#[derive(Debug, Clone)]
pub(crate) struct Compared {
    pub(crate) off: f64,
    /// Whether the undisturbed value lies outside of the figure's own 95 % interval; true without one.
    pub(crate) is_beyond_interval: bool,
    pub(crate) verdict: String,
    pub(crate) effect: Option<f64>,
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) verdict: String,
    /// Codes of the notes that are more than remarks.
    pub(crate) notes: Vec<String>,
    pub(crate) figures: BTreeMap<String, Compared>,
    /// Share of the run that the hypervisor took.
    pub(crate) stolen: f64,
    /// Share of the run in which the control thread did not run.
    pub(crate) stalled: f64,
}

pub(crate) fn values(summary: &Value) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for key in Quantity::LATENCIES.map(Quantity::key) {
        let values = &summary["distributions"][key];
        found.extend(values["mean"].as_f64().map(|mean| (format!("{key}_mean"), mean)));
        if values["is_withheld"] == true {
            continue;
        }
        for entry in values["percentiles"].as_array().into_iter().flatten() {
            let percent = entry["percent"].as_f64().unwrap_or(0.0);
            if PERCENTILES.iter().any(|one| (one - percent).abs() < 1e-9) {
                let value = entry["value"].as_f64().unwrap_or(f64::INFINITY);
                found.insert(format!("{key}_p{percent}"), value);
            }
        }
    }
    for key in RATES {
        found.extend(summary["figures"][key].as_f64().map(|value| (key.to_owned(), value)));
    }
    found
}

/// The figure that is furthest off, in words.
pub(crate) fn worst<'a>(figures: impl Iterator<Item = (&'a String, &'a Compared)>) -> String {
    let worst = figures.max_by(|a, b| a.1.off.abs().total_cmp(&b.1.off.abs()));
    worst.map_or(String::new(), |(key, figure)| format!("{key} {:+.1} %", figure.off * 100.0))
}

fn interval(summary: &Value, metric: &str, statistic: &str) -> Option<(f64, f64)> {
    let values = &summary["distributions"][metric];
    let interval = match statistic.strip_prefix('p') {
        None => &values["mean_interval"],
        Some(percent) => values["percentiles"].as_array()?.iter().find(|entry| {
            entry["percent"].as_f64().map(|found| found.to_string()).as_deref() == Some(percent)
        })?,
    };
    Some((interval["low"].as_f64()?, interval["high"].as_f64()?))
}

impl Outcome {
    /// Compares a result (`summary` and `health`) with the virtual figures, after adding `offsets` by
    /// metric, which a calibration gives.
    pub(crate) fn of(
        result: &Value,
        expected: &BTreeMap<String, f64>,
        offsets: &BTreeMap<String, f64>,
    ) -> Self {
        let summary = &result["summary"];
        let mut figures = BTreeMap::new();
        for (key, value) in values(summary) {
            let Some(expected) = expected.get(&key) else { continue };
            let (metric, statistic) = key.rsplit_once('_').unwrap_or((&key, ""));
            let expected = expected + offsets.get(metric).copied().unwrap_or(0.0);
            let judged = &summary["figure_verdicts"][&key];
            let codes = judged["notes"].as_array().into_iter().flatten();
            let figure = Compared {
                off: value / expected - 1.0,
                is_beyond_interval: interval(summary, metric, statistic)
                    .is_none_or(|(low, high)| expected < low || expected > high),
                verdict: judged["verdict"].as_str().unwrap_or("none").to_owned(),
                effect: judged["effect"].as_f64(),
                notes: codes.filter_map(|code| code.as_str().map(str::to_owned)).collect(),
            };
            figures.insert(key, figure);
        }
        let notes = summary["notes"].as_array().into_iter().flatten();
        let notes = notes.filter(|note| note["severity"] != "remark");
        let seconds = summary["duration_s"].as_f64().unwrap_or(1.0).max(1e-9);
        let health = &result["health"];
        let cores = health["cores"].as_f64().unwrap_or(1.0);
        let stalls = health["stalls"].as_array().into_iter().flatten();
        let length = |stall: &Value| {
            stall["end"].as_f64().unwrap_or(0.0) - stall["begin"].as_f64().unwrap_or(0.0)
        };
        Self {
            verdict: summary["verdict"].as_str().unwrap_or("none").to_owned(),
            notes: notes.filter_map(|note| note["code"].as_str().map(str::to_owned)).collect(),
            figures,
            stolen: health["stolen"].as_f64().unwrap_or(0.0) / 1e9 / seconds / cores,
            stalled: stalls.map(length).sum::<f64>() / 1e9 / seconds,
        }
    }
}
