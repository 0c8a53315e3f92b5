//! Counts the tokens of single events.

use tokometer_record::{EventKind, Timeline};

use super::ResponseReading;
use crate::dialect::Counting;
use crate::scan::Fields;
use crate::settings::UsageReports;

/// What usage that came unasked with events is worth. Some servers send it with every event (Gemini,
/// Perplexity): it then counts the tokens of each. Others send zeros, or the sum with every event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum UnaskedUsage {
    /// No content yet.
    #[default]
    Unknown,
    /// Every content event so far had usage that had grown.
    Running,
    /// A content event had none, or one that had not grown.
    Unusable,
}

impl ResponseReading {
    /// Tokens in the event; `None` where nothing reports them.
    pub(super) fn tokens(&mut self, fields: &Fields<'_>, kind: EventKind) -> Option<u32> {
        if !kind.has_choice() {
            return None;
        }
        let running = fields.usage.and_then(|usage| usage.completion_tokens);
        let tokens = match self.rules.counting {
            Counting::OnePerEvent => 1,
            Counting::RunningCount => running?.saturating_sub(self.counted),
            Counting::WhenReported => match (fields.token_ids, running) {
                (Some(ids), _) => ids,
                (None, Some(running)) if self.usage_reports == UsageReports::Continuous => {
                    running.saturating_sub(self.counted)
                }
                (None, running) => self.unasked_tokens(running, kind)?,
            },
        };
        self.counted = self.counted.saturating_add(tokens);
        Some(tokens)
    }

    /// Tokens of an event by usage that was not asked for.
    fn unasked_tokens(&mut self, running: Option<u32>, kind: EventKind) -> Option<u32> {
        let grown = running.map(|running| running.saturating_sub(self.counted));
        if kind.is_generated() {
            let is_running = self.unasked != UnaskedUsage::Unusable && grown > Some(0);
            self.unasked = if is_running { UnaskedUsage::Running } else { UnaskedUsage::Unusable };
        }
        grown.filter(|_| self.unasked != UnaskedUsage::Unusable)
    }

    /// Removes the counts of events where a later one showed that unasked usage does not give them.
    pub(super) fn drop_unusable_counts(&self, timeline: &mut Timeline) {
        let is_affected = self.rules.counting == Counting::WhenReported
            && self.usage_reports != UsageReports::Continuous
            && self.unasked == UnaskedUsage::Unusable
            && self.counted > 0;
        if is_affected {
            for event in &mut timeline.events {
                *event = event.with_tokens(None);
            }
        }
    }
}
