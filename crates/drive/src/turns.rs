//! Conversations: turns that have ended, on their way to the thread that makes the next ones.
//!
//! A turn cannot be made before the answer it follows is known, so it is not prepared ahead like
//! other requests. Workers post the end of each turn here and wake the preparer, which asks its
//! source for the turn that follows. Touched once per request, and only by conversations.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokometer_base::Nanos;
use tokometer_record::{Identity, Outcome, Timeline};

use crate::item::Item;
use crate::platform::Wake;

/// A turn of a conversation that is over.
#[derive(Debug, Clone)]
pub struct TurnEnd {
    /// Which turn of which conversation.
    pub identity: Identity,
    /// The answer's text; `None` when there is no whole answer, or its text was not kept.
    pub answer: Option<String>,
    /// When the answer ended; for a turn that was never sent, the time it was dismissed.
    pub at: Nanos,
}

/// The turn that follows another.
#[derive(Debug, Clone)]
pub struct FollowUp {
    /// Its request.
    pub item: Item,
    /// The pause after the answer before it.
    pub think: Nanos,
}

/// When a conversation counts against the limit of requests in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Places {
    /// Only while a turn of it is in flight.
    #[default]
    PerTurn,
    /// From its first turn to its last, pauses included. SGLang's client does so.
    PerConversation,
}

/// Ended turns that wait for the preparer.
#[derive(Debug, Default)]
pub(crate) struct EndedTurns {
    ended: Mutex<Vec<TurnEnd>>,
    preparer: OnceLock<Arc<dyn Wake>>,
}

impl EndedTurns {
    /// Names the thread that is woken for every ended turn.
    pub(crate) fn wake(&self, preparer: Arc<dyn Wake>) {
        self.preparer.get_or_init(|| preparer);
    }

    /// Notes that a request is over for good, if it belongs to a conversation.
    pub(crate) fn post(&self, timeline: &Timeline, now: Nanos) {
        if timeline.identity.session.is_none() {
            return;
        }
        let is_answered = timeline.outcome == Outcome::Success && timeline.times.end.is_some();
        let end = TurnEnd {
            identity: timeline.identity.clone(),
            answer: timeline.text.clone().filter(|_| is_answered),
            at: timeline.times.end.unwrap_or(now),
        };
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(end);
        if let Some(preparer) = self.preparer.get() {
            preparer.wake();
        }
    }

    /// Everything posted since the last call.
    pub(crate) fn take(&self) -> Vec<TurnEnd> {
        std::mem::take(&mut self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
