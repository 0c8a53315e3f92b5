//! Counts the tokens of single events.

use tokometer_record::{EventKind, Timeline};

use super::ResponseReading;
use crate::dialect::Counting;
use crate::scan::{Fields, Marks};
use crate::settings::UsageReports;

/// What usage that came unasked with events is worth. Some servers send it with every event (Gemini,
/// Perplexity): it then counts the tokens of each. Others send zeros, or the sum with every event, or count
/// their own chunks and correct that at the end.
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

/// Tokens that may be counted behind the last event with a choice: the one that ends the answer.
const END_TOKENS_MAX: u32 = 1;

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
                // Whether a count is that of one choice or of all differs between servers.
                (None, running) => {
                    let is_first = !fields.marks.has(Marks::FURTHER);
                    self.unasked_tokens(running.filter(|_| is_first), kind)?
                }
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

    /// Removes the counts of events where a later one, or the total, showed that unasked usage does not give
    /// them.
    pub(super) fn drop_unusable_counts(&self, timeline: &mut Timeline) {
        let total = timeline.usage.and_then(|usage| usage.completion_tokens);
        let ends = self.counted..=self.counted.saturating_add(END_TOKENS_MAX);
        let is_unusable = match self.unasked {
            UnaskedUsage::Unknown => false,
            UnaskedUsage::Running => !total.is_some_and(|total| ends.contains(&total)),
            UnaskedUsage::Unusable => true,
        };
        let is_affected = self.rules.counting == Counting::WhenReported
            && self.usage_reports != UsageReports::Continuous
            && is_unusable
            && self.counted > 0;
        if is_affected {
            for event in &mut timeline.events {
                *event = event.with_tokens(None);
            }
        }
    }
}
