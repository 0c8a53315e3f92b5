//! The load that a run was asked for.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
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
    /// Empty for one rate, or none.
    #[serde(default)]
    pub stages: Vec<RecordedStage>,
}

/// A stretch of the load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RecordedStage {
    /// As it is typed, such as `30s@5..50/s`.
    pub text: String,
    /// After the start of the measured phase.
    pub begin: Nanos,
    /// `None`: the end of the run.
    #[serde(default)]
    pub end: Option<Nanos>,
    /// First and last rate, in requests or sessions per second.
    #[serde(default)]
    pub rates: Option<(f64, f64)>,
    /// Sessions in progress, in a closed loop.
    #[serde(default)]
    pub sessions: Option<u32>,
}

/// A ramp over the whole run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedRamp {
    /// As vLLM's client calls it.
    pub shape: &'static str,
    pub from: f64,
    pub to: f64,
}

impl RecordedLoad {
    /// The ramp, where the load is nothing else.
    pub fn ramp(&self) -> Option<RecordedRamp> {
        let [RecordedStage { text, rates: Some((from, to)), .. }] = &self.stages[..] else {
            return None;
        };
        let shape = if text.ends_with("exponential") { "exponential" } else { "linear" };
        (text.starts_with("run@") && from < to).then_some(RecordedRamp {
            shape,
            from: *from,
            to: *to,
        })
    }
}

/// Puts the ramp of an older record's load as a stage.
pub(crate) fn put_stages(run: &mut Value) {
    let Some(load) = run.get_mut("load").and_then(Value::as_object_mut) else { return };
    let ramp = load.remove("ramp").map(serde_json::from_value::<(String, f64, f64)>);
    if let Some(Ok((shape, from, to))) = ramp {
        let stage = json!({ "text": format!("run@{from}..{to}/s {shape}"), "begin": 0, "rates": [from, to] });
        load.insert("stages".to_owned(), json!([stage]));
    }
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
                stages: vec![RecordedStage {
                    text: "run@1..2/s".to_owned(),
                    end: Some(Nanos::MAX),
                    rates: Some((1e-9, 1e9)),
                    sessions: Some(u32::MAX),
                    ..RecordedStage::default()
                }],
            };
            let text = serde_json::to_string(&load).unwrap();
            assert_eq!(serde_json::from_str::<RecordedLoad>(&text).unwrap(), load, "{text}");
        }
    }

    #[test]
    fn a_ramp_of_an_older_record_is_a_stage_as_long_as_the_run() {
        let load = |ramp: &str| -> RecordedLoad {
            let text = format!(
                r#"{{"load":{{"request_rate":null,"burstiness":1,"max_concurrency":null,"planned_requests":9,"duration":null,"ramp":{ramp}}}}}"#
            );
            let mut run: Value = serde_json::from_str(&text).unwrap();
            put_stages(&mut run);
            serde_json::from_value(run["load"].take()).unwrap()
        };
        let ramp = load(r#"["exponential",1.0,20.0]"#);
        assert_eq!(ramp.stages[0].text, "run@1..20/s exponential");
        let expected = RecordedRamp { shape: "exponential", from: 1.0, to: 20.0 };
        assert_eq!(ramp.ramp(), Some(expected));
        assert_eq!(load("null").stages, []);
    }
}
