//! Reasoning of which every event has all so far, as some servers send it in `reasoning_details`.

use tokometer_base::Fingerprint;

use crate::scan::{Fields, Marks, Text};

/// What came before, as its length and hash: a text of any length takes no memory. Only a part that is longer than
/// all before it is compared, so that a stream of pieces costs no more than its own length.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RepeatedReasoning {
    length: usize,
    hash: Fingerprint,
}

impl RepeatedReasoning {
    /// Removes what came before from a part that repeats it.
    pub(super) fn shorten(&mut self, fields: &mut Fields<'_>) {
        if fields.marks.has(Marks::FURTHER) {
            return;
        }
        let Some(Text::Owned(part)) = &mut fields.reasoning_parts else { return };
        if self.is_repeated_in(part) {
            let _repeated = part.drain(..self.length);
        }
        self.length += part.len();
        self.hash = self.hash.with_part(part.as_bytes());
    }

    fn is_repeated_in(&self, part: &str) -> bool {
        let is_longer = self.length > 0 && part.len() > self.length;
        is_longer
            && part.is_char_boundary(self.length)
            && Fingerprint::default().with_part(&part.as_bytes()[..self.length]) == self.hash
    }
}
