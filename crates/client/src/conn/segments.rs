//! Detects reads that merged several TCP segments.
//!
//! The kernel keeps one stamp per read, that of the last segment. An event that ends a read is
//! stamped exactly, however many segments it took. Only an event that was complete *before* the end
//! of the read can have arrived earlier than its stamp. When a read holds such events, the number of
//! segments decides. The kernel's counter is therefore read only then, not on every read.
//!
//! Every read takes at least one segment. So as many segments as reads since the last check means
//! that none was merged. Where the count is uncertain, the result is "merged": marking an exact stamp
//! as an upper bound is less harmful than the opposite.

use super::info::TransportInfo;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segments {
    reads: u32,
    bytes_read: u64,
    seen: u32,
}

impl Segments {
    pub fn read(&mut self, bytes: usize) {
        self.reads += 1;
        self.bytes_read += bytes as u64;
    }

    /// Whether a read since the last check merged segments, according to the kernel's counters. True
    /// without counters.
    pub fn merged(&mut self, info: Option<TransportInfo>) -> bool {
        let Some(info) = info else { return true };
        let new = info.data_segments_in.wrapping_sub(self.seen);
        // The end of a connection counts as one byte. More than that is unread data, whose segments
        // cannot be separated from those of the reads.
        let is_drained = info.bytes_received <= self.bytes_read + 1;
        let is_merged = new > self.reads;
        self.seen =
            if is_drained { info.data_segments_in } else { self.seen.wrapping_add(self.reads) };
        self.reads = 0;
        is_merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(data_segments_in: u32, bytes_received: u64) -> TransportInfo {
        TransportInfo { bytes_received, data_segments_in, ..TransportInfo::default() }
    }

    #[test]
    fn one_segment_per_read_is_exact_and_more_are_merged() {
        let mut segments = Segments::default();
        segments.read(100);
        segments.read(100);
        assert!(!segments.merged(Some(info(2, 200))));
        segments.read(200);
        assert!(segments.merged(Some(info(4, 400))));
        segments.read(100);
        assert!(!segments.merged(Some(info(5, 500))), "a merge is not held against later reads");
        segments.read(9);
        assert!(segments.merged(None), "unknown is not exact");
    }

    /// Data that arrives between the read and the check makes the check uncertain. It must not hide a
    /// merge in the next read.
    #[test]
    fn unread_segments_never_hide_a_later_merge() {
        let mut segments = Segments::default();
        segments.read(100);
        assert!(segments.merged(Some(info(3, 300))), "one or three segments: not certain");
        segments.read(200);
        assert!(segments.merged(Some(info(3, 300))), "two were read together");
        segments.read(50);
        assert!(!segments.merged(Some(info(4, 351))), "the connection's end is not data");
    }

    #[test]
    fn the_segment_counter_may_wrap() {
        let mut segments = Segments { seen: u32::MAX, ..Segments::default() };
        segments.read(1);
        assert!(!segments.merged(Some(info(0, 1))));
    }
}
