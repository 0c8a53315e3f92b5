//! How long requests in flight have received nothing.
//!
//! In: the run's counters, a few times a second, and the time. Out: the silence once it is long enough
//! to be worth a word. A server that accepts requests and sends no token otherwise looks like a slow one.

use tokometer_base::Nanos;
use tokometer_base::units::counted;
use tokometer_drive::{Live, LiveCounts};

/// A silence that is worth showing: longer than most prefills.
const LONG: Nanos = Nanos::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// Content events and ended requests at the last change, and when that was.
    last: Option<((u64, u64), Nanos)>,
}

impl Silence {
    /// The time since the last content or end of a request. `None` while it is short, and while
    /// nothing is in flight.
    pub(crate) fn span(&mut self, counts: &LiveCounts, now: Nanos) -> Option<Nanos> {
        let heard = (counts.tokens, counts.ended());
        let is_waiting = counts.in_flight() > 0;
        let since = match self.last {
            Some((before, since)) if before == heard && is_waiting => since,
            _ => now,
        };
        self.last = Some((heard, since));
        Some(now - since).filter(|span| *span >= LONG)
    }
}

/// What a leader says before all shards are ready.
pub(crate) fn waiting_for_shards(live: &Live) -> Option<String> {
    match live.awaited() {
        0 => None,
        many => Some(format!("waiting for {}", counted(many, "other shard"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_the_last_content_while_something_is_in_flight() {
        let mut silence = Silence::default();
        let mut span = |seconds: u64, sent: u64, succeeded: u64, tokens: u64| {
            let counts = LiveCounts { sent, succeeded, tokens, ..LiveCounts::default() };
            silence.span(&counts, Nanos::from_secs(seconds)).map(Nanos::whole_seconds)
        };
        // Nothing is in flight, then four requests are.
        assert_eq!([span(0, 0, 0, 0), span(60, 0, 0, 0)], [None, None]);
        assert_eq!([span(61, 4, 0, 0), span(64, 4, 0, 0)], [None, None]);
        assert_eq!([span(70, 4, 0, 0), span(71, 5, 0, 0)], [Some(10), Some(11)]);
        // A token, then the end of a request.
        assert_eq!([span(72, 5, 0, 1), span(78, 5, 0, 1)], [None, Some(6)]);
        assert_eq!([span(79, 5, 1, 1), span(84, 5, 1, 1)], [None, Some(5)]);
        // All have ended.
        assert_eq!([span(90, 5, 5, 1), span(99, 5, 5, 1)], [None, None]);
    }
}
