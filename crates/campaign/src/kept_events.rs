//! What becomes of the events of a point once its figures are known.

use crate::event::{Observer, note};
use crate::executor::RunRecord;

/// Whether the events of a step or point stay as they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptEvents {
    /// In plain columns, which every program reads.
    Plain,
    /// In a fifth of the space: a search has many points, and few of them are looked at again.
    Packed,
}

impl KeptEvents {
    /// Packs the events of a run, unless they are to stay. The run is whole either way, so that a failure is
    /// only remarked on.
    pub(crate) fn settle(self, record: &RunRecord, observer: &mut dyn Observer) {
        if self == Self::Plain {
            return;
        }
        if let Err(why) = record.reader.pack_events() {
            let folder = record.reader.folder().display();
            note(observer, format!("note: cannot pack the events of `{folder}`: {why}"));
        }
    }
}
