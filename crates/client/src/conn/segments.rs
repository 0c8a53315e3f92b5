//! Did a read merge segments?
//!
//! The kernel keeps one stamp per read, that of the last segment. An event that ends a read is
//! stamped exactly, however many segments it took. Only what was complete *before* the read's end
//! can have arrived earlier than the stamp says: when a read held several such things, the count of
//! segments decides. The kernel's count is therefore asked for only then, not on every read.
//!
//! Every read takes at least one segment, so as many segments as reads since the last look means that
//! none was merged. Where the count is not certain, the answer is "merged": a stamp called an upper
//! bound without need is a smaller fault than an exact one that is not.

use super::info::TransportInfo;

/// The account of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segments {
    reads: u32,
    bytes_read: u64,
    seen: u32,
}

impl Segments {
    /// Notes a read that returned `bytes` from the wire.
    pub fn read(&mut self, bytes: usize) {
        self.reads += 1;
        self.bytes_read += bytes as u64;
    }

    /// Whether a read since the last look merged segments, by the kernel's account of now. Without
    /// an account the answer is yes.
    pub fn merged(&mut self, info: Option<TransportInfo>) -> bool {
        let Some(info) = info else { return true };
        let new = info.data_segments_in.wrapping_sub(self.seen);
        // A connection's end counts as one byte. More than that is data not yet read, whose segments
        // cannot be told from those of the reads.
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

    /// Data that arrived after the read and before the look makes the look uncertain, and must not
    /// hide a merge of the next read.
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
    fn the_kernels_count_may_wrap() {
        let mut segments = Segments { seen: u32::MAX, ..Segments::default() };
        segments.read(1);
        assert!(!segments.merged(Some(info(0, 1))));
    }
}
