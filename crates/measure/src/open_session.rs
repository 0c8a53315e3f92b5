//! A session in progress: which of its turns wait for which others.

use tokometer_base::Nanos;
use tokometer_workload::PlannedTurn;

pub(crate) struct OpenSession {
    turns: Vec<WaitingTurn>,
    unended: usize,
    /// The real answers so far, by turn, where later prompts repeat them.
    pub(crate) answers: Vec<Option<String>>,
}

struct WaitingTurn {
    plan: PlannedTurn,
    /// Turns that it waits for and that have not ended.
    left: usize,
    /// The latest end so far among those that have.
    last_end: Nanos,
}

/// A turn that waits for no other any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReadyTurn {
    pub(crate) index: u64,
    /// When its delay is over. `None`: when there is a slot.
    pub(crate) due: Option<Nanos>,
}

impl OpenSession {
    /// The session, and the indexes of the turns that wait for none.
    pub(crate) fn begin(turns: Vec<PlannedTurn>) -> (Self, Vec<u64>) {
        let roots = turns.iter().filter(|turn| turn.waits_for.is_empty());
        let roots = roots.map(|turn| turn.index).collect();
        let waiting = |plan: PlannedTurn| WaitingTurn {
            left: plan.waits_for.len(),
            plan,
            last_end: Nanos::ZERO,
        };
        let turns: Vec<_> = turns.into_iter().map(waiting).collect();
        (Self { unended: turns.len(), turns, answers: Vec::new() }, roots)
    }

    /// The turns that waited for this one alone. Ends may be reported in any order, so that the
    /// latest one counts, not the last to arrive.
    pub(crate) fn ended(&mut self, turn: u32, at: Nanos) -> Vec<ReadyTurn> {
        self.unended = self.unended.saturating_sub(1);
        let waiting = self.turns.iter_mut().filter(|later| later.plan.waits_for.contains(&turn));
        let ready = waiting.filter_map(|later| {
            later.left = later.left.saturating_sub(1);
            later.last_end = later.last_end.max(at);
            let due = later.plan.delay.map(|delay| later.last_end + delay);
            (later.left == 0).then_some(ReadyTurn { index: later.plan.index, due })
        });
        ready.collect()
    }

    /// Keeps an answer for later prompts.
    pub(crate) fn keep(&mut self, turn: u32, answer: &str) {
        let at = turn as usize;
        self.answers.resize(self.answers.len().max(at + 1), None);
        self.answers[at] = Some(answer.to_owned());
    }

    pub(crate) fn len(&self) -> usize {
        self.turns.len()
    }

    pub(crate) fn planned(&self, turn: u32) -> Option<&PlannedTurn> {
        self.turns.get(turn as usize).map(|turn| &turn.plan)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.unended == 0
    }

    /// Turns that wait for others and will not be made if the session ends now.
    pub(crate) fn unsent(&self) -> u64 {
        self.turns.iter().filter(|turn| turn.left > 0).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(index: u64, waits_for: &[u32]) -> PlannedTurn {
        let (waits_for, delay) = (waits_for.to_vec(), Some(Nanos(5)));
        PlannedTurn { index, waits_for, delay, ..PlannedTurn::default() }
    }

    /// Two sub-agents after the first turn; the last turn joins them.
    #[test]
    fn a_turn_is_due_a_delay_after_the_latest_end_that_it_waits_for() {
        let turns = vec![turn(0, &[]), turn(7, &[0]), turn(8, &[0]), turn(9, &[1, 2])];
        let (mut open, roots) = OpenSession::begin(turns);
        assert_eq!((roots, open.unsent()), (vec![0], 3));
        let due = |at| Some(Nanos(at));
        let both = [7, 8].map(|index| ReadyTurn { index, due: due(105) });
        assert_eq!(open.ended(0, Nanos(100)), both);
        // The one that ended later is reported first.
        assert_eq!(open.ended(2, Nanos(300)), []);
        assert_eq!(open.unsent(), 1);
        assert_eq!(open.ended(1, Nanos(200)), [ReadyTurn { index: 9, due: due(305) }]);
        assert!(!open.is_over());
        assert_eq!(open.ended(3, Nanos(400)), []);
        assert!(open.is_over());
    }

    #[test]
    fn every_turn_without_a_predecessor_begins_with_the_session() {
        let (open, roots) = OpenSession::begin(vec![turn(3, &[]), turn(4, &[]), turn(5, &[0, 1])]);
        assert_eq!((roots, open.unsent()), (vec![3, 4], 1));
    }
}
