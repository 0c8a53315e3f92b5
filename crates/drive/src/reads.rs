//! Chooses the streams that are read in batches (lazily).
//!
//! Reading many sockets once per interval costs half of the CPU time of waking for each event. With
//! kernel stamps it costs no precision, as long as no two events of a stream fall into one interval.
//! So a stream is read lazily only while its gaps are several times the interval, after its first
//! content, and not near its end: in a closed loop a late end leaves the server idle. It must also
//! save work: a check a thousand times a second costs more than waking for a few events.

use tokometer_base::Nanos;

/// How often lazily read streams are read.
pub(crate) const INTERVAL: Nanos = Nanos::from_millis(1);
/// A stream becomes lazy when its shortest recent gap is at least this many intervals,
const GAPS_TO_RELAX: u64 = 5;
/// and eager again below this many.
const GAPS_TO_RETURN: u64 = 3;
/// Gaps to observe before a stream may become lazy.
const GAPS_SEEN: u32 = 4;
/// Tokens before the requested length at which a stream is near its end.
const NEAR_END: u32 = 4;

/// Lazy reading starts at this many reads per second of a worker,
const DENSE_FROM: u64 = 8_000;
/// and stops below this many.
const DENSE_UNTIL: u64 = 4_000;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReadCounts {
    reads: u64,
    since: Nanos,
    is_dense: bool,
}

impl ReadCounts {
    pub(crate) fn read(&mut self) {
        self.reads += 1;
    }

    /// Updates the rate from the reads since the last call.
    pub(crate) fn look(&mut self, now: Nanos) {
        let elapsed = (now - self.since).0.max(1);
        let least = if self.is_dense { DENSE_UNTIL } else { DENSE_FROM };
        self.is_dense = self.reads.saturating_mul(1_000_000_000) / elapsed >= least;
        *self = Self { reads: 0, since: now, is_dense: self.is_dense };
    }

    pub(crate) fn is_dense(&self) -> bool {
        self.is_dense
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lane {
    #[default]
    Eager,
    Lazy,
}

/// Recent gaps of one stream.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pulse {
    last: Option<Nanos>,
    shortest: Nanos,
    gaps: u32,
    tokens: u32,
}

impl Pulse {
    /// Records a read with `contents` content events and `tokens` tokens.
    pub(crate) fn beat(&mut self, at: Nanos, contents: u32, tokens: u32) {
        self.tokens = self.tokens.saturating_add(tokens);
        let Some(last) = self.last.replace(at) else { return };
        // Two events in one read may have arrived at any distance, even together.
        let gap = if contents > 1 { Nanos::ZERO } else { at - last };
        self.gaps = self.gaps.saturating_add(1);
        // The shortest gap, with slow decay: one short gap must not make a stream eager for ever.
        let relaxed = self.shortest + Nanos((gap - self.shortest).0 / 8);
        self.shortest = if self.gaps == 1 { gap } else { gap.min(relaxed) };
    }

    /// The lane for the next read of a stream of `asked` tokens that is now in `lane`.
    pub(crate) fn lane(&self, lane: Lane, asked: Option<u32>) -> Lane {
        let is_near_end = asked.is_none_or(|asked| self.tokens + NEAR_END >= asked);
        let intervals = self.shortest.0 / INTERVAL.0;
        let least = if lane == Lane::Lazy { GAPS_TO_RETURN } else { GAPS_TO_RELAX };
        if is_near_end || self.gaps < GAPS_SEEN || intervals < least {
            Lane::Eager
        } else {
            Lane::Lazy
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulse(gaps_ms: &[u64]) -> Pulse {
        let mut pulse = Pulse::default();
        let mut at = Nanos::from_secs(1);
        pulse.beat(at, 1, 1);
        for gap in gaps_ms {
            at += Nanos::from_millis(*gap);
            pulse.beat(at, 1, 1);
        }
        pulse
    }

    #[test]
    fn only_slow_streams_far_from_their_end_are_read_lazily() {
        let check = |gaps: &[u64], asked, expected| {
            assert_eq!(pulse(gaps).lane(Lane::Eager, asked), expected, "{gaps:?} of {asked:?}");
        };
        check(&[20, 20, 20, 20], Some(100), Lane::Lazy);
        check(&[20, 20, 20], Some(100), Lane::Eager);
        check(&[20, 20, 20, 20], Some(9), Lane::Eager);
        check(&[20, 20, 20, 20], None, Lane::Eager);
        check(&[3, 3, 3, 3], Some(100), Lane::Eager);
        check(&[20, 20, 20, 2], Some(100), Lane::Eager);
    }

    #[test]
    fn only_a_worker_with_many_reads_reads_lazily() {
        let mut traffic = ReadCounts::default();
        let mut second = 0;
        let mut after = |reads| {
            (0..reads).for_each(|_| traffic.read());
            second += 1;
            traffic.look(Nanos::from_secs(second));
            traffic.is_dense()
        };
        assert!(!after(7_999));
        assert!(after(8_000));
        assert!(after(4_000), "it returns later than it left");
        assert!(!after(3_999));
    }

    #[test]
    fn lazy_reading_starts_and_stops_at_different_gaps() {
        let four_intervals = pulse(&[4, 4, 4, 4]);
        assert_eq!(four_intervals.lane(Lane::Eager, Some(100)), Lane::Eager);
        assert_eq!(four_intervals.lane(Lane::Lazy, Some(100)), Lane::Lazy);
        assert_eq!(pulse(&[2, 2, 2, 2]).lane(Lane::Lazy, Some(100)), Lane::Eager);
    }

    #[test]
    fn two_events_in_one_read_make_a_stream_eager_until_its_gaps_are_long() {
        let mut pulse = pulse(&[20, 20, 20, 20]);
        pulse.beat(Nanos::from_secs(2), 2, 2);
        assert_eq!(pulse.lane(Lane::Lazy, Some(100)), Lane::Eager);
        for beat in 1..=8 {
            pulse.beat(Nanos::from_secs(2) + Nanos::from_millis(20 * beat), 1, 1);
        }
        assert_eq!(pulse.lane(Lane::Eager, Some(100)), Lane::Lazy);
    }
}
