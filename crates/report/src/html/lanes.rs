//! Swim lanes: the life of each request on one line.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tokometer_base::Nanos;
use tokometer_figures::rows::Fate;
use tokometer_figures::sessions::{Sessions, TurnStart};
use tokometer_record::Timeline;

/// More lanes than this cannot be distinguished even when zoomed, and make the file large.
const LANES_MAX: usize = 20_000;

/// Five points of a request in seconds since the run began, and whether it failed.
#[derive(Debug, Clone, Copy)]
struct RequestLane {
    index: u64,
    points: [f64; 5],
    has_failed: bool,
}

/// Seconds since the run began, and the kind of time between.
type Part = (f64, f64, u8);

/// Lanes of a run, thinned evenly when there are too many.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Vec<RequestLane>,
    seen: u64,
    stride: u64,
}

impl Lanes {
    pub(super) fn add(&mut self, timeline: &Timeline, origin: Nanos) {
        self.seen += 1;
        let stride = self.stride.max(1);
        if !timeline.identity.index.is_multiple_of(stride) {
            return;
        }
        self.lanes.push(lane(timeline, origin));
        if self.lanes.len() > LANES_MAX {
            self.stride = stride * 2;
            let stride = self.stride;
            self.lanes.retain(|lane| lane.index.is_multiple_of(stride));
        }
    }

    pub(super) fn remark(&self) -> String {
        match self.stride {
            0 | 1 => format!("All {} requests.", self.seen),
            stride => format!("One in {stride} of {} requests.", self.seen),
        }
    }

    /// Lanes by their start, and the requests' numbers.
    pub(super) fn into_json(mut self) -> (Value, Value) {
        self.lanes.sort_by(|a, b| a.points[0].total_cmp(&b.points[0]).then(a.index.cmp(&b.index)));
        let round = |seconds: f64| (seconds * 1e5).round() / 1e5;
        let rows: Vec<Value> = self
            .lanes
            .iter()
            .map(|lane| {
                let points = lane.points.map(round);
                let mark = f64::from(u8::from(lane.has_failed));
                json!(points.into_iter().chain([mark]).collect::<Vec<_>>())
            })
            .collect();
        let names: Vec<u64> = self.lanes.iter().map(|lane| lane.index).collect();
        (json!(rows), json!(names))
    }
}

/// A lane per session and sub-agent, by their first request: from when, until when, and which part of its
/// time that is (0 tools, 1 client, 2 model, 3 a failed request).
pub(super) fn of_sessions(sessions: &Sessions, origin: Nanos) -> Value {
    let stride = sessions.turns().count() as u64 / LANES_MAX as u64 + 1;
    let mut lanes: BTreeMap<(u64, Option<&str>), Vec<Part>> = BTreeMap::new();
    let mut numbers = BTreeSet::new();
    for (turn, TurnStart { ready, due }) in sessions.turns() {
        numbers.insert(turn.session);
        if !(numbers.len() as u64 - 1).is_multiple_of(stride) {
            continue;
        }
        let last = if turn.fate == Fate::Failed { 3 } else { 2 };
        let parts = [(ready, due, 0), (due, turn.start, 1), (turn.start, turn.end, last)];
        let seconds = |at: Nanos| (at.signed_since(origin) as f64 / 1e4).round() / 1e5;
        let lane = lanes.entry((turn.session, turn.agent.as_deref())).or_default();
        lane.extend(parts.map(|(from, to, part)| (seconds(from), seconds(to), part)));
    }
    let mut lanes: Vec<_> = lanes.into_iter().collect();
    lanes.sort_by(|a, b| a.1[0].0.total_cmp(&b.1[0].0).then(a.0.cmp(&b.0)));
    let name = |(session, agent): (u64, Option<&str>)| {
        agent.map_or_else(|| session.to_string(), |agent| format!("{session}, agent {agent}"))
    };
    let remark = match stride {
        1 => format!("All {} sessions.", numbers.len()),
        stride => format!("One in {stride} of {} sessions.", numbers.len()),
    };
    json!({
        "remark": remark,
        "names": lanes.iter().map(|(of, _)| name(*of)).collect::<Vec<_>>(),
        "parts": lanes.into_iter().map(|(_, parts)| parts).collect::<Vec<_>>(),
    })
}

fn lane(timeline: &Timeline, origin: Nanos) -> RequestLane {
    let times = &timeline.times;
    let begin = times.intended.unwrap_or(times.admitted).min(times.admitted);
    let connect = times.connect_begin.unwrap_or(times.admitted).max(times.admitted);
    let sent = times.first_byte_sent.unwrap_or(connect).max(connect);
    let end = timeline.last_content().map(|event| event.at).or(times.end).unwrap_or(sent).max(sent);
    let first = timeline.first_content().map_or(end, |event| event.at).max(sent);
    let seconds = |at: Nanos| (at - origin).as_secs_f64();
    RequestLane {
        index: timeline.identity.index,
        points: [begin, connect, sent, first, end].map(seconds),
        has_failed: !timeline.is_success(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokometer_record::{AttemptId, Phase, RequestedLengths};

    /// The page said "Every 2th of 20001 requests."
    #[test]
    fn the_remark_says_which_share_of_the_requests_is_drawn() {
        let remark = |requests: u64| {
            let mut lanes = Lanes::default();
            for index in 0..requests {
                let identity = AttemptId::new(index, Phase::Measure);
                lanes.add(
                    &Timeline::new(identity, RequestedLengths::default(), Nanos::ZERO),
                    Nanos::ZERO,
                );
            }
            lanes.remark()
        };
        assert_eq!(remark(3), "All 3 requests.");
        assert_eq!(remark(20_001), "One in 2 of 20001 requests.");
    }
}
