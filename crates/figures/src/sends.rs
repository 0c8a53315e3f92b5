//! Which requests were sent late: one definition for the note `late-sends` and for live displays.

use std::fmt;

use tokometer_base::Nanos;
use tokometer_record::Timeline;

use crate::measure;

/// A request sent more than this after its intended time was late.
pub const LATE: Nanos = Nanos::from_millis(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sends {
    /// Requests with an intended time that were sent.
    pub judged: u64,
    pub late: u64,
    pub worst: Nanos,
}

impl Sends {
    /// Adds one attempt of a measured request, however it ended.
    pub fn add(&mut self, timeline: &Timeline, cap: Option<u32>) {
        if let Some(lateness) = lateness(timeline, cap) {
            self.add_lateness(lateness);
        }
    }

    pub(crate) fn add_lateness(&mut self, lateness: Nanos) {
        self.judged += 1;
        self.late += u64::from(lateness > LATE);
        self.worst = self.worst.max(lateness);
    }

    /// The same with those of another process.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            judged: self.judged.saturating_add(other.judged),
            late: self.late.saturating_add(other.late),
            worst: self.worst.max(other.worst),
        }
    }
}

impl fmt::Display for Sends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { judged, late, worst } = self;
        let limit = LATE.as_millis_f64();
        write!(f, "{late} of {judged} requests were sent more than {limit} ms late (worst {worst})")
    }
}

/// How long after its intended time a request was sent. Behind a cap on the requests in flight the wait at the
/// gate is part of the load, else it is lateness of the client. `None` for one that was never sent, and for a
/// retry, which keeps the intended time of the first attempt: the server caused its wait.
pub(crate) fn lateness(timeline: &Timeline, cap: Option<u32>) -> Option<Nanos> {
    if timeline.identity.attempt > 0 || timeline.times.first_byte_sent.is_none() {
        return None;
    }
    let after_gate = measure::send_lateness(timeline)?;
    let at_gate = match (cap, timeline.times.intended) {
        (None, Some(intended)) => timeline.times.admitted - intended,
        _ => Nanos::ZERO,
    };
    Some(at_gate + Nanos::from_secs_f64(after_gate / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// Sent at 1,000 ms, admitted and due some ms before.
    fn sent(admitted: u64, intended: u64, attempt: u32) -> Timeline {
        let mut timeline = testing::answer(0, 1_000, &[]);
        timeline.times.admitted = Nanos::from_millis(admitted);
        timeline.times.intended = Some(Nanos::from_millis(intended));
        timeline.identity.attempt = attempt;
        timeline
    }

    #[test]
    fn a_wait_for_the_cap_or_for_another_attempt_is_not_lateness() {
        let check = |timeline: Timeline, cap: Option<u32>, expected: u64| {
            let mut sends = Sends::default();
            sends.add(&timeline, cap);
            assert_eq!(sends.late, expected);
        };
        check(sent(999, 998, 0), None, 0);
        check(sent(999, 900, 0), None, 1);
        check(sent(999, 900, 0), Some(9), 0);
        check(sent(990, 990, 0), Some(9), 1);
        check(sent(999, 900, 1), None, 0);
        let mut connecting = sent(990, 990, 0);
        connecting.times.connect_begin = Some(Nanos::from_millis(991));
        connecting.times.connect_end = Some(Nanos::from_millis(999));
        check(connecting, None, 0);
    }

    /// llama.cpp's server closes its connections after responses, with a delay.
    #[test]
    fn what_passed_after_a_send_into_a_dead_connection_is_not_lateness() {
        let lateness = |lost: u64| {
            let mut timeline = sent(900, 900, 0);
            timeline.times.lost_send = Some(Nanos::from_millis(lost));
            timeline.times.connect_begin = Some(Nanos::from_millis(990));
            timeline.times.connect_end = Some(Nanos::from_millis(999));
            measure::send_lateness(&timeline).map(|nanos| nanos / 1e6)
        };
        assert_eq!(lateness(901), Some(1.0));
        assert_eq!(lateness(950), Some(50.0), "the first sending itself was late");
    }

    #[test]
    fn the_sentence_names_the_limit() {
        let mut sends = Sends::default();
        sends.add(&sent(990, 990, 0), None);
        assert_eq!(
            sends.to_string(),
            "1 of 1 requests were sent more than 5 ms late (worst 10.0 ms)"
        );
    }
}
