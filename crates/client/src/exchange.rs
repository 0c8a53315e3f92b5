//! One request's answer: from bytes with stamps to a filled timeline.

use tokometer_base::Nanos;
use tokometer_record::Timeline;

use crate::dialect::Dialect;
use crate::settings::Settings;

/// When a read's bytes arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadStamp {
    /// Stamp of the last segment in the read.
    pub at: Nanos,
    /// Whether earlier segments were merged into it, so that `at` is only an upper bound.
    pub is_upper_bound: bool,
}

/// Whether the answer's text is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepText {
    /// Only its arrival is.
    No,
    /// It goes into the timeline.
    Yes,
}

/// Where an answer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are due.
    More,
    /// The answer is over and the timeline's outcome is set.
    Done {
        /// Whether the connection can carry another request.
        keep_alive: bool,
        /// Bytes of the last read that lie behind this answer.
        unread: usize,
    },
}

/// Reads one answer at a time; kept and reset between requests so that its buffers stay.
#[derive(Debug)]
pub struct Exchange {
    keep_text: KeepText,
}

impl Exchange {
    /// A reader of answers of this dialect.
    pub fn new(_dialect: &Dialect, _settings: &Settings, keep_text: KeepText) -> Self {
        Self { keep_text }
    }

    /// Ready for the next answer.
    pub fn reset(&mut self) {}

    /// Takes the bytes of one read, exactly as the socket gave them.
    pub fn on_read(
        &mut self,
        _bytes: &[u8],
        _stamp: ReadStamp,
        _timeline: &mut Timeline,
    ) -> Progress {
        let _keep = self.keep_text;
        Progress::More
    }

    /// The server closed the connection.
    pub fn on_eof(&mut self, _at: Nanos, _timeline: &mut Timeline) -> Progress {
        Progress::Done { keep_alive: false, unread: 0 }
    }

    /// The body of a refusal so far, up to 4 KiB of it.
    pub fn refusal_body(&self) -> &[u8] {
        &[]
    }
}
