//! Decoding requests taken together, so that a step of a thousand of them costs as much as one.
//!
//! Every decode step gives each of them one token and one more token of context. So their sums need no
//! walk: a request is entered with its context relative to a clock of decode steps, and leaves with
//! what the clock has added. Used by drivers that ask only for first and last tokens; whoever wants
//! every token walks the requests one by one and gets the same steps.

use std::collections::BTreeMap;

/// What a request brings when it enters and takes when it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// Tokens in the cache.
    pub(super) computed: u32,
    /// Tokens still to be produced.
    pub(super) remaining: u32,
}

/// All decoding requests of one engine.
#[derive(Debug)]
pub(super) struct Decoders {
    clock: u64,
    count: u32,
    /// Sum of the contexts, each less the clock at its entry.
    context: i64,
    /// Requests by their relative context modulo the block size: who needs a block at the same time.
    residues: Vec<u32>,
    /// Requests by the clock at which they get their last token.
    ends: BTreeMap<u64, Vec<usize>>,
    /// Requests by relative context, for the longest of them.
    depths: BTreeMap<i64, u32>,
}

fn relative(computed: u32, clock: u64) -> i64 {
    i64::from(computed) - i64::try_from(clock).unwrap_or(i64::MAX)
}

impl Decoders {
    pub(super) fn new(tokens_per_block: u32) -> Self {
        Self {
            clock: 0,
            count: 0,
            context: 0,
            residues: vec![0; tokens_per_block as usize],
            ends: BTreeMap::new(),
            depths: BTreeMap::new(),
        }
    }

    pub(super) fn clock(&self) -> u64 {
        self.clock
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Sum of the contexts that the next step looks at.
    pub(super) fn context(&self) -> u64 {
        let clock = i64::try_from(self.clock).unwrap_or(i64::MAX);
        u64::try_from(self.context + i64::from(self.count) * clock).unwrap_or(0)
    }

    /// The longest context after the next step.
    pub(super) fn longest_after(&self) -> u32 {
        let deepest = self.depths.last_key_value().map_or(0, |(depth, _)| *depth);
        let clock = i64::try_from(self.clock).unwrap_or(i64::MAX);
        u32::try_from(deepest + clock + 1).unwrap_or(0)
    }

    fn residue(&self, relative: i64) -> usize {
        let block = i64::try_from(self.residues.len()).unwrap_or(i64::MAX);
        usize::try_from(relative.rem_euclid(block)).unwrap_or(0)
    }

    /// Requests that need one more block for the next step.
    pub(super) fn blocks_needed(&self) -> u32 {
        let clock = i64::try_from(self.clock).unwrap_or(i64::MAX);
        self.residues[self.residue(-clock)]
    }

    /// Takes a request in.
    pub(super) fn enter(&mut self, slot: usize, entry: Entry) {
        let relative = relative(entry.computed, self.clock);
        self.count += 1;
        self.context += relative;
        let residue = self.residue(relative);
        self.residues[residue] += 1;
        *self.depths.entry(relative).or_default() += 1;
        self.ends.entry(self.clock + u64::from(entry.remaining)).or_default().push(slot);
    }

    /// Lets a request go that entered as `entry` when the clock stood at `entered`.
    pub(super) fn leave(&mut self, slot: usize, entry: Entry, entered: u64) {
        self.forget(relative(entry.computed, entered));
        let end = entered + u64::from(entry.remaining);
        if let Some(slots) = self.ends.get_mut(&end) {
            slots.retain(|other| *other != slot);
            if slots.is_empty() {
                let _empty = self.ends.remove(&end);
            }
        }
    }

    fn forget(&mut self, relative: i64) {
        self.count -= 1;
        self.context -= relative;
        let residue = self.residue(relative);
        self.residues[residue] -= 1;
        if let Some(depth) = self.depths.get_mut(&relative) {
            *depth -= 1;
            if *depth == 0 {
                let _empty = self.depths.remove(&relative);
            }
        }
    }

    /// One decode step: every request gets a token. Tells which of them got their last.
    pub(super) fn advance(&mut self) -> Vec<usize> {
        self.clock += 1;
        let is_due = self.ends.first_key_value().is_some_and(|(end, _)| *end <= self.clock);
        if is_due {
            self.ends.pop_first().map_or(Vec::new(), |(_, slots)| slots)
        } else {
            Vec::new()
        }
    }
}
