//! What becomes of the events of a point once its figures are known.

use std::path::Path;

use crate::args::AddressArgs;
use crate::lower::Preset;
use crate::runs;
use crate::terminal::print_note;

/// Whether the events of a step or point stay as they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptEvents {
    /// In plain columns, which every program reads.
    Plain,
    /// In a fifth of the space: a search has many points, and few of them are looked at again.
    Packed,
}

impl KeptEvents {
    /// As the flags say, or a preset.
    pub(crate) fn asked(at: &AddressArgs, presets: &[Preset]) -> Self {
        let is_plain = at.keep_events || presets.iter().any(|preset| preset.at.keep_events);
        if is_plain { Self::Plain } else { Self::Packed }
    }

    /// Packs the events of the run in a folder, unless they are to stay. The run is whole either way, so
    /// that a failure is only remarked on.
    pub(crate) fn settle(self, folder: &Path) {
        if self == Self::Plain {
            return;
        }
        let Ok(reader) = runs::open(folder) else { return };
        if let Err(why) = reader.pack_events() {
            print_note(&format!("note: cannot pack the events of `{}`: {why}", folder.display()));
        }
    }
}
