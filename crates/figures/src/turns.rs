//! How long the next turns of conversations waited to be sent.

use std::collections::BTreeMap;

use tokometer_base::Nanos;
use tokometer_record::Timeline;

#[derive(Debug, Clone, Copy)]
struct Turn {
    /// Where there is a pause after the answer before it.
    due: Option<Nanos>,
    admitted: Nanos,
    end: Option<Nanos>,
}

/// The measured turns, by conversation and number.
#[derive(Debug, Default)]
pub(crate) struct TurnWaits(BTreeMap<(u64, u32), Turn>);

impl TurnWaits {
    /// Adds an attempt, in any order.
    pub(crate) fn push(&mut self, timeline: &Timeline) {
        let (identity, times) = (&timeline.identity, &timeline.times);
        let Some(session) = identity.session else { return };
        let one = Turn { due: times.intended, admitted: times.admitted, end: times.end };
        let turn = self.0.entry((session, identity.turn)).or_insert(one);
        turn.admitted = turn.admitted.min(one.admitted);
        turn.end = turn.end.max(one.end);
    }

    /// The mean wait of turns after the first, in nanoseconds: from the end of the answer before them, and the
    /// pause, until the gate let them pass. `None` without such turns.
    pub(crate) fn mean(self) -> Option<f64> {
        let wait = |(&(session, number), turn): (&(u64, u32), &Turn)| {
            let before = self.0.get(&(session, number.checked_sub(1)?))?;
            Some((turn.admitted - turn.due.or(before.end)?).0 as f64)
        };
        let waits: Vec<f64> = self.0.iter().filter_map(wait).collect();
        crate::statistics::mean(&waits)
    }
}

#[cfg(test)]
mod tests {
    use tokometer_record::{AttemptId, Phase, RequestedLengths};

    use super::*;

    /// A turn that is admitted at one time and answered at another, in milliseconds.
    fn turn((session, number): (u64, u32), [admitted, end]: [u64; 2]) -> Timeline {
        let [admitted, end] = [admitted, end].map(Nanos::from_millis);
        let first = AttemptId::new(0, Phase::Measure);
        let identity = AttemptId { session: Some(session), turn: number, ..first };
        let mut timeline = Timeline::new(identity, RequestedLengths::default(), admitted);
        timeline.times.end = Some(end);
        timeline
    }

    fn mean_ms(turns: &[Timeline]) -> Option<f64> {
        let mut waits = TurnWaits::default();
        for turn in turns {
            waits.push(turn);
        }
        waits.mean().map(|nanos| nanos / 1e6)
    }

    #[test]
    fn a_turn_waits_from_the_end_of_the_answer_before_it_or_from_the_end_of_its_pause() {
        let second = turn((7, 1), [4_100, 4_200]);
        assert_eq!(mean_ms(&[second.clone(), turn((7, 0), [0, 100])]), Some(4_000.0));
        let mut paused = turn((7, 2), [5_300, 5_400]);
        paused.times.intended = Some(Nanos::from_millis(5_200));
        assert_eq!(mean_ms(&[turn((7, 0), [0, 100]), second, paused]), Some(2_050.0));
    }

    #[test]
    fn single_requests_and_first_turns_wait_for_no_answer() {
        assert_eq!(mean_ms(&[turn((7, 0), [0, 100]), turn((8, 0), [500, 600])]), None);
        let mut single = turn((7, 1), [500, 600]);
        single.identity.session = None;
        assert_eq!(mean_ms(&[turn((7, 0), [0, 100]), single]), None);
    }
}
