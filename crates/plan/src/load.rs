//! When requests are sent, how many, and when a run ends.

use serde::{Deserialize, Serialize};
use tokometer_base::units::nearest_count;
use tokometer_base::{Cancellation, Conventions, Nanos, Seed};
use tokometer_decide::capacity::LoadKind;
use tokometer_record as record;
use tokometer_schedule::{
    self as schedule, Arrivals, First, Length, Offsets, Pace, SendLimit, Stage, StageLoad,
};

use crate::values::Rate;

tokometer_base::partial! {
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Load / PartialLoad {
        pub request_rate: Rate,
        /// Shape of the gaps between requests.
        pub burstiness: Rate,
        /// Most requests in flight; absent: no limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub max_concurrency: Option<u32> = None,
        /// One after the other, instead of `request_rate`. Empty: one rate, or none.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub stages: Vec<Stage> = Vec::new(),
        /// Requests to send; zero takes every row of a dataset. Absent: until `duration_s` is over.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub num_prompts: Option<u64> = None,
        /// No request is begun after this many seconds; absent: no such limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub duration_s: Option<f64> = None,
        /// The run ends once a figure is known well enough; absent: no such rule.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub until: Option<Until> as Option<PartialUntil>,
        /// Sessions in progress, the pauses between their turns included; absent: any number.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub max_sessions: Option<u32> = None,
        /// The requests that their user cancels; absent: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cancel: Option<Cancellation> = None,
        pub overload: Overload = Overload::default(),
        pub timing: Timing,
    }
}

impl Load {
    pub fn arrivals(&self, conventions: Conventions) -> Arrivals {
        if self.timing == Timing::Trace {
            return Arrivals::Traced;
        }
        let stages = match &self.stages[..] {
            [] if self.request_rate.is_infinite() => return Arrivals::AtOnce,
            [] => vec![Stage::whole_run(StageLoad::Flat { rate: self.request_rate.0 })],
            stages => stages.to_vec(),
        };
        let burstiness = Some(self.burstiness.0).filter(|shape| shape.is_finite());
        let first = match conventions {
            Conventions::Vllm => First::Waits,
            Conventions::Sglang => First::Immediate,
        };
        Arrivals::Paced(Pace { stages, burstiness, first })
    }

    /// Most sessions in progress. In SGLang's client a conversation keeps its slot from its first turn to its
    /// last.
    pub fn most_sessions(&self, conventions: Conventions) -> Option<u32> {
        let of_slots = self.max_concurrency.filter(|_| conventions == Conventions::Sglang);
        self.max_sessions.or(of_slots)
    }

    /// The same at another load: a rate, or a number of requests in flight or of sessions in progress
    /// without a rate.
    #[must_use]
    pub fn at(&self, kind: LoadKind, load: f64) -> Self {
        let mut at = Self { stages: Vec::new(), ..self.clone() };
        match kind {
            LoadKind::RequestRate => at.request_rate = Rate(load),
            LoadKind::Sessions => {
                at.request_rate = Rate(f64::INFINITY);
                // A session begins when another one has ended, not at a time of its own.
                at.timing = Timing::Rate;
                at.max_sessions = Some(u32::try_from(nearest_count(load)).unwrap_or(u32::MAX));
            }
            LoadKind::Concurrency => {
                at.request_rate = Rate(f64::INFINITY);
                at.max_concurrency = Some(u32::try_from(nearest_count(load)).unwrap_or(u32::MAX));
            }
        }
        at
    }

    /// Whether stages with lengths of their own say when the run ends.
    pub fn has_own_end(&self) -> bool {
        self.stages.iter().any(|stage| stage.length != Length::Run)
    }

    /// The times of a run of so many requests.
    pub fn offsets(
        &self,
        prompts: Option<u64>,
        conventions: Conventions,
        seed: Seed,
    ) -> Result<Offsets, schedule::Error> {
        let duration = self.duration_s.map(Nanos::from_secs_f64);
        let extent = SendLimit { count: prompts, duration };
        Offsets::new(&self.arrivals(conventions), extent, seed)
    }

    /// The load as a record states it; `prompts` is how many there are to send.
    pub fn asked(
        &self,
        prompts: u64,
        conventions: Conventions,
        seed: Seed,
    ) -> record::RecordedLoad {
        let count = self.num_prompts.map(|_| prompts);
        let offsets =
            self.offsets(count, conventions, seed).ok().filter(|_| !self.stages.is_empty());
        let stages = offsets.iter().flat_map(Offsets::spans).map(|span| {
            let rates = match span.stage.load {
                StageLoad::Flat { rate } => Some((rate, rate)),
                StageLoad::Linear { from, to } | StageLoad::Exponential { from, to } => {
                    Some((from, to))
                }
                StageLoad::Sessions { .. } => None,
            };
            record::RecordedStage {
                text: span.stage.to_string(),
                begin: span.begin,
                end: span.end,
                rates,
                sessions: match span.stage.load {
                    StageLoad::Sessions { count } => Some(count),
                    _ => None,
                },
            }
        });
        record::RecordedLoad {
            request_rate: Some(self.request_rate.0).filter(|rate| rate.is_finite()),
            burstiness: self.burstiness.0,
            max_concurrency: self.max_concurrency,
            max_sessions: self.max_sessions,
            planned_requests: self.num_prompts.map(|_| prompts),
            duration: self.duration_s.map(Nanos::from_secs_f64),
            is_traced: self.timing == Timing::Trace,
            stages: stages.collect(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    Rate,
    Trace,
}

/// The shortest run that ends by a goal of precision, in seconds.
const UNTIL_AT_LEAST_S: f64 = 5.0;

tokometer_base::partial! {
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Until / PartialUntil {
        pub rule: tokometer_decide::sequential::PrecisionGoal,
        pub min_s: f64 = UNTIL_AT_LEAST_S,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overload {
    /// The run goes on: its figures then depend on its length, and a note says so.
    #[default]
    Continue,
    Stop,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_varies_the_rate_or_the_requests_in_flight() {
        let load = Load {
            request_rate: Rate(2.0),
            burstiness: Rate(1.0),
            max_concurrency: Some(3),
            stages: Vec::new(),
            num_prompts: None,
            duration_s: None,
            until: None,
            max_sessions: None,
            cancel: None,
            overload: Overload::Continue,
            timing: Timing::Rate,
        };
        let at = |kind, value| {
            let at = load.at(kind, value);
            (at.request_rate.0, at.max_concurrency)
        };
        assert_eq!(at(LoadKind::RequestRate, 7.5), (7.5, Some(3)));
        assert_eq!(at(LoadKind::Concurrency, 8.0), (f64::INFINITY, Some(8)));
    }
}
