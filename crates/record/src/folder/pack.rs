//! Makes the record of an ended run smaller, without loss.

use super::{Error, Replacement, RunReader, names, read_json};
use crate::batches::Damages;
use crate::columns::{self, EventColumns};
use crate::run::{PACKED_SCHEMA, RunInfo};
use crate::timeline::Timeline;
use crate::writer::{timeline_bytes, write_json};

/// Memory of the rows of one batch, about: the head of a batch is large, so few batches make a small file.
const BATCH_BYTES: usize = 16 << 20;

impl RunReader {
    /// Packs the events of a run that has ended: every timeline reads as before, from a file of about a
    /// fifth of the size. A record that is damaged stays as it is, and the first damage is returned; one
    /// that is not complete stays as well.
    pub fn pack_events(&self) -> Result<(), Error> {
        if self.kept.is_some() || !self.folder.join(names::END).is_file() {
            return Ok(());
        }
        let mut file = Replacement::create(&self.folder.join(names::REQUESTS))?;
        let reader = Self { damages: Damages::default(), ..Self::open(&self.folder)? };
        let mut append = |rows: &mut Vec<Timeline>| -> Result<(), Error> {
            let batch = columns::encode_as(EventColumns::Packed, rows, self.info.origin)?;
            rows.clear();
            file.append(&batch)
        };
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for timeline in reader.timelines()? {
            bytes += timeline_bytes(&timeline);
            rows.push(timeline);
            if bytes >= BATCH_BYTES {
                append(&mut rows)?;
                bytes = 0;
            }
        }
        if !rows.is_empty() {
            append(&mut rows)?;
        }
        file.finish()?;
        if let Some(damage) = reader.take_damages().into_iter().next() {
            return Err(damage);
        }
        // Before the rows: an older program must refuse the folder instead of showing requests without
        // events.
        let plan = self.folder.join(names::PLAN);
        write_json(&plan, &RunInfo { schema: PACKED_SCHEMA, ..read_json(&plan)? })?;
        file.replace_original(&reader.damages)
    }
}
