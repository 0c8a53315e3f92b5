//! Small records for tests.

use tokometer_base::{Conventions, Nanos, Seed, WallNanos};
use tokometer_record::{
    AttemptId, Event, EventKind, Health, Outcome, Phase, RecordedLoad, RequestedLengths, RunEnd,
    RunInfo, RunState, Stop, TargetInfo, Timeline, Usage,
};

use crate::rows::RequestRow;

pub fn load(request_rate: Option<f64>, planned: u64) -> RecordedLoad {
    RecordedLoad {
        request_rate,
        burstiness: 1.0,
        max_concurrency: None,
        max_sessions: None,
        planned_requests: Some(planned),
        duration: None,
        is_traced: false,
        stages: Vec::new(),
    }
}

pub fn row(index: u64, start: Nanos, end: Nanos) -> RequestRow {
    RequestRow::between(index, start, end)
}

pub fn info(load: RecordedLoad) -> RunInfo {
    RunInfo {
        schema: 1,
        version: "test".into(),
        name: "test".into(),
        started: WallNanos(0),
        origin: Nanos::ZERO,
        seed: Seed(0),
        salt: 0,
        family: Conventions::Vllm,
        targets: vec![TargetInfo {
            base_url: "http://host:8000".into(),
            endpoint: "/v1/completions".into(),
            backend: "vllm".into(),
            model: "model".into(),
            is_simulated: false,
            server: None,
            addresses: Vec::new(),
            proxy: None,
        }],
        load,
        classes: Vec::new(),
        dataset: "random".into(),
        tokenizer: None,
        plan: serde_json::Value::Null,
        environment: serde_json::Value::Null,
        remarks: Vec::new(),
        sharding: None,
    }
}

pub fn ended(begin: Nanos, end: Nanos) -> RunState {
    RunState::Ended(Box::new(RunEnd {
        stop: Stop::Complete,
        measure_begin: begin,
        measure_end: end,
        abandoned: 0,
        never_sent: 0,
        health: Health::default(),
    }))
}

/// A measured request sent at `start` ms whose events arrive at the given ms, each in its own read.
pub fn answer(index: u64, start: u64, events: &[(u64, EventKind)]) -> Timeline {
    let sent = Nanos::from_millis(start);
    let mut timeline =
        Timeline::new(AttemptId::new(index, Phase::Measure), RequestedLengths::default(), sent);
    timeline.times.first_byte_sent = Some(sent);
    for (read, (at, kind)) in (0..).zip(events) {
        timeline.push(Event::new(Nanos::from_millis(*at), read, *kind));
    }
    timeline.times.end = timeline.events.last().map(|event| event.at);
    timeline.reads = u32::try_from(events.len()).unwrap_or(u32::MAX);
    timeline.status = Some(200);
    timeline.outcome = Outcome::Success;
    timeline
}

pub fn usage(prompt_tokens: u32, completion_tokens: u32) -> Usage {
    Usage {
        prompt_tokens: Some(prompt_tokens),
        completion_tokens: Some(completion_tokens),
        ..Usage::default()
    }
}
