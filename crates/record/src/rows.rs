//! What goes to disk together: sent attempts, ended ones and scrapes.

use tokometer_base::Nanos;

use crate::server::Scrape;
use crate::timeline::Timeline;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentAttempt {
    pub index: u64,
    pub attempt: u32,
    pub sent: Nanos,
}

/// Rows and scrapes that reach the disk together.
#[derive(Debug, Clone, Default)]
pub struct PendingRows {
    pub started: Vec<SentAttempt>,
    pub ended: Vec<Timeline>,
    pub scrapes: Vec<Scrape>,
}

impl PendingRows {
    pub fn is_empty(&self) -> bool {
        self.started.is_empty() && self.ended.is_empty() && self.scrapes.is_empty()
    }

    /// Memory that they take, about.
    pub fn bytes(&self) -> usize {
        let timeline = |timeline: &Timeline| timeline_bytes(timeline);
        let scrape =
            |scrape: &Scrape| scrape.values.keys().map(|key| key.len() + 16).sum::<usize>();
        self.started.len() * size_of::<SentAttempt>()
            + self.ended.iter().map(timeline).sum::<usize>()
            + self.scrapes.iter().map(scrape).sum::<usize>()
    }
}

/// Memory that a timeline takes, about.
pub fn timeline_bytes(timeline: &Timeline) -> usize {
    size_of::<Timeline>()
        + timeline.events.capacity() * size_of::<crate::Event>()
        + timeline.text.as_ref().map_or(0, String::len)
}
