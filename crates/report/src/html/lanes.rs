//! Swim lanes: the life of each request on one line.

use serde_json::{Value, json};
use tokometer_base::Nanos;
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
