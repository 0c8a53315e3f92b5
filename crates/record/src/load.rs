//! The load that a run was asked for.

use serde::{Deserialize, Deserializer, Serialize};
use tokometer_base::Nanos;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedLoad {
    /// Requests per second; `None` is an infinite rate.
    pub request_rate: Option<f64>,
    /// Shape of the gaps between arrivals; 1 is a Poisson process, infinite is even spacing. JSON has
    /// no infinite number and holds `null` for it.
    #[serde(deserialize_with = "infinite_if_null")]
    pub burstiness: f64,
    /// Most requests in flight; `None` is no limit.
    pub max_concurrency: Option<u32>,
    /// Most sessions in progress; `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sessions: Option<u32>,
    pub planned_requests: Option<u64>,
    /// Requested duration, when time ends the run.
    pub duration: Option<Nanos>,
    /// Whether arrival times come from a trace or from conversations.
    #[serde(default)]
    pub is_traced: bool,
    /// The ramp's name, first and last rate.
    #[serde(default)]
    pub ramp: Option<(String, f64, f64)>,
}

fn infinite_if_null<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run with `--burstiness inf` could not be read again.
    #[test]
    fn every_number_of_the_load_survives_the_file() {
        for burstiness in [f64::INFINITY, 1.0, 0.1, 1e-300, f64::MAX] {
            let load = RecordedLoad {
                request_rate: Some(1.0 / 3.0),
                burstiness,
                max_concurrency: Some(u32::MAX),
                max_sessions: Some(3),
                planned_requests: Some(u64::MAX),
                duration: Some(Nanos::MAX),
                is_traced: true,
                ramp: Some(("linear".to_owned(), 1e-9, 1e9)),
            };
            let text = serde_json::to_string(&load).unwrap();
            assert_eq!(serde_json::from_str::<RecordedLoad>(&text).unwrap(), load, "{text}");
        }
    }
}
