//! Sessions: passes ended turns to the thread that prepares the next ones.
//!
//! A turn cannot be prepared before the previous response is known, so it is not prepared ahead like
//! other requests. Workers post the end of each turn here and wake the preparer, which gets the next
//! turns from its source. Used once per request, and only by sessions.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokometer_base::Nanos;
use tokometer_record::{Outcome, Timeline};

use crate::config::RunConfig;
use crate::item::TurnEnd;
use crate::platform::Wake;

/// Ended turns that wait for the preparer.
#[derive(Debug, Default)]
pub(crate) struct EndedTurns {
    /// Whether single requests are posted too, for a closed loop of sessions.
    takes_single: bool,
    ended: Mutex<Vec<TurnEnd>>,
    preparer: OnceLock<Arc<dyn Wake>>,
}

impl EndedTurns {
    pub(crate) fn new(config: &RunConfig) -> Self {
        Self { takes_single: config.has_closed_stages(), ..Self::default() }
    }

    /// Sets the thread that is woken for every ended turn.
    pub(crate) fn wake(&self, preparer: Arc<dyn Wake>) {
        self.preparer.get_or_init(|| preparer);
    }

    /// Posts the final end of a request, if it belongs to a session or stands for one.
    pub(crate) fn post(&self, timeline: &Timeline, now: Nanos) {
        if timeline.identity.session.is_none() && !self.takes_single {
            return;
        }
        // A user who has cancelled goes on with what had come of the answer.
        let goes_on = matches!(timeline.outcome, Outcome::Success | Outcome::Cancelled)
            && timeline.times.end.is_some();
        let end = TurnEnd {
            identity: timeline.identity.clone(),
            answer: timeline
                .answer
                .as_ref()
                .or(timeline.text.as_ref())
                .cloned()
                .filter(|_| goes_on),
            at: timeline.times.end.unwrap_or(now),
        };
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(end);
        if let Some(preparer) = self.preparer.get() {
            preparer.wake();
        }
    }

    pub(crate) fn take(&self) -> Vec<TurnEnd> {
        std::mem::take(&mut self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use tokometer_record::{AttemptId, Phase, RequestedLengths};

    use super::*;

    #[test]
    fn a_conversation_goes_on_with_the_answer_and_not_with_its_reasoning() {
        let mut timeline = Timeline::new(
            AttemptId { session: Some(7), ..AttemptId::new(0, Phase::Measure) },
            RequestedLengths::default(),
            Nanos::ZERO,
        );
        timeline.outcome = Outcome::Success;
        timeline.times.end = Some(Nanos(9));
        timeline.text = Some("a thought, then yes".to_owned());
        let turns = EndedTurns::default();
        turns.post(&timeline, Nanos(9));
        timeline.answer = Some("yes".to_owned());
        turns.post(&timeline, Nanos(9));
        let answers: Vec<_> = turns.take().into_iter().map(|end| end.answer.unwrap()).collect();
        assert_eq!(answers, ["a thought, then yes", "yes"]);
    }
}
