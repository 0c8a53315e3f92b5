//! Decoding requests taken together, so that a step of a thousand of them costs as much as one.
//!
//! Every decode step gives each of them one token and one more token of context. So their sums need no
//! walk: a request is entered with its context relative to a clock of decode steps, and leaves with
//! what the clock has added. Used by drivers that ask only for first and last tokens; whoever wants
//! every token walks the requests one by one and gets the same steps.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a request brings when it enters and takes when it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DecoderEntry {
    /// Tokens in the cache.
    pub(super) computed: u32,
    /// Tokens still to be produced.
    pub(super) remaining: u32,
}

#[derive(Debug)]
pub(super) struct Decoders {
    clock: u64,
    count: u32,
    /// Sum of the contexts, each less the clock at its entry.
    context: i64,
    /// Requests by their relative context modulo the block size: who needs a block at the same time.
    residues: Vec<u32>,
    /// Requests by the clock at which they get their last token. Those that left stay until their turn
    /// comes and are then skipped.
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    /// Requests by relative context, the longest first; those that left are skipped here too.
    depths: BinaryHeap<(i64, usize)>,
    /// What each slot entered with, and when; `None` once it has left.
    entries: Vec<Option<(DecoderEntry, u64)>>,
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
            ends: BinaryHeap::new(),
            depths: BinaryHeap::new(),
            entries: Vec::new(),
        }
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
    pub(super) fn longest_after(&mut self) -> u32 {
        while let Some((depth, slot)) = self.depths.peek().copied() {
            let entry = self.entries[slot];
            if entry.is_some_and(|(entry, at)| relative(entry.computed, at) == depth) {
                let clock = i64::try_from(self.clock).unwrap_or(i64::MAX);
                return u32::try_from(depth + clock + 1).unwrap_or(0);
            }
            self.depths.pop();
        }
        0
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
    pub(super) fn enter(&mut self, slot: usize, entry: DecoderEntry) {
        let relative = relative(entry.computed, self.clock);
        self.count += 1;
        self.context += relative;
        let residue = self.residue(relative);
        self.residues[residue] += 1;
        self.depths.push((relative, slot));
        self.ends.push(Reverse((self.clock + u64::from(entry.remaining), slot)));
        if self.entries.len() <= slot {
            self.entries.resize(slot + 1, None);
        }
        self.entries[slot] = Some((entry, self.clock));
    }

    /// Removes a request, if it is here, and returns how many tokens it got.
    pub(super) fn leave(&mut self, slot: usize) -> Option<u32> {
        let (entry, entered) = self.entries.get_mut(slot)?.take()?;
        let relative = relative(entry.computed, entered);
        self.count -= 1;
        self.context -= relative;
        let residue = self.residue(relative);
        self.residues[residue] -= 1;
        u32::try_from(self.clock - entered).ok()
    }

    /// One decode step: every request gets a token.
    pub(super) fn advance(&mut self) {
        self.clock += 1;
    }

    /// A request that has just got its last token, and has not left yet.
    pub(super) fn next_ended(&mut self) -> Option<usize> {
        while let Some(Reverse((end, slot))) = self.ends.peek().copied() {
            if end > self.clock {
                return None;
            }
            self.ends.pop();
            let entry = self.entries[slot];
            if entry.is_some_and(|(entry, at)| at + u64::from(entry.remaining) == end) {
                return Some(slot);
            }
        }
        None
    }
}
