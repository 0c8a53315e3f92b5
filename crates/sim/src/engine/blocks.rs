//! The paged cache: how many blocks are free, and which finished ones can serve again.
//!
//! Blocks are counted, not addressed, except those that the prefix cache knows by the hash of
//! everything up to their end. A known block that no request uses stays until its memory is needed;
//! the one unused for longest goes first. Counts add up at all times: free + unused but known + held
//! = total.

use std::collections::{BTreeMap, HashMap};

use crate::profile::{Kv, PrefixCache};

/// A block that the prefix cache knows.
#[derive(Debug)]
struct CachedBlock {
    users: u32,
    /// When its last user left; orders the blocks that may be evicted.
    left_at: u64,
}

#[derive(Debug)]
pub(crate) struct BlockPool {
    tokens_per_block: u32,
    /// `None` when memory never runs out.
    total: Option<u32>,
    is_caching: bool,
    held: u32,
    known: HashMap<u64, CachedBlock>,
    idle: BTreeMap<u64, u64>,
    departures: u64,
}

impl BlockPool {
    pub(crate) fn new(kv: Option<&Kv>) -> Self {
        let total = kv.map(|kv| {
            let blocks = kv.tokens / u64::from(kv.block_tokens);
            u32::try_from(blocks).unwrap_or(u32::MAX)
        });
        Self {
            tokens_per_block: kv.map_or(16, |kv| kv.block_tokens),
            total,
            is_caching: kv.is_some_and(|kv| kv.prefix_cache == PrefixCache::Lru),
            held: 0,
            known: HashMap::new(),
            idle: BTreeMap::new(),
            departures: 0,
        }
    }

    /// Blocks that `tokens` tokens occupy.
    pub(crate) fn covering(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.tokens_per_block)
    }

    pub(crate) fn tokens_per_block(&self) -> u32 {
        self.tokens_per_block
    }

    pub(crate) fn total(&self) -> Option<u32> {
        self.total
    }

    /// Blocks that running requests hold; a block shared by two counts once.
    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    pub(crate) fn is_caching(&self) -> bool {
        self.is_caching
    }

    /// Whether `count` blocks could be taken.
    pub(crate) fn has_room(&self, count: u32) -> bool {
        self.total.is_none_or(|total| count <= total - self.held)
    }

    /// Takes `count` fresh blocks, evicting unused cached ones. `false`, and nothing taken,
    /// when there are not enough.
    pub(crate) fn take(&mut self, count: u32) -> bool {
        let Some(total) = self.total else {
            self.held += count;
            return true;
        };
        let available = total - self.held;
        if count > available {
            return false;
        }
        let idle = u32::try_from(self.idle.len()).unwrap_or(u32::MAX);
        let evicted = count.saturating_sub(available - idle);
        for _ in 0..evicted {
            let (_, hash) = self.idle.pop_first().expect("idle blocks were counted just above");
            self.known.remove(&hash);
        }
        self.held += count;
        true
    }

    /// How many of the leading `hashes` are known; the caller becomes a user of each.
    pub(crate) fn join(&mut self, hashes: &[u64]) -> u32 {
        let mut joined = 0;
        for hash in hashes {
            let Some(block) = self.known.get_mut(hash) else { break };
            if block.users == 0 {
                self.idle.remove(&block.left_at);
                self.held += 1;
            }
            block.users += 1;
            joined += 1;
        }
        joined
    }

    /// Makes a held block known. `false` when another block already has that hash: the caller keeps
    /// its own copy, unshared.
    pub(crate) fn offer(&mut self, hash: u64) -> bool {
        if !self.is_caching || self.known.contains_key(&hash) {
            return false;
        }
        self.known.insert(hash, CachedBlock { users: 1, left_at: 0 });
        true
    }

    /// Gives back `held` blocks, of which `shared` are known ones.
    pub(crate) fn give_back(&mut self, held: u32, shared: &[u64]) {
        let shared_count = u32::try_from(shared.len()).unwrap_or(u32::MAX);
        self.held -= held - shared_count;
        // The end of a prompt is less likely to come again than its beginning, so it leaves first.
        for hash in shared.iter().rev() {
            let block = self.known.get_mut(hash).expect("a used block is never evicted");
            block.users -= 1;
            if block.users == 0 {
                self.departures += 1;
                block.left_at = self.departures;
                self.idle.insert(self.departures, *hash);
                self.held -= 1;
            }
        }
    }

    /// Evicts every known block without a user, and returns how many.
    pub(crate) fn forget(&mut self) -> usize {
        let count = self.idle.len();
        while let Some((_, hash)) = self.idle.pop_first() {
            self.known.remove(&hash);
        }
        count
    }

    /// Panics when the counts do not add up.
    pub(crate) fn audit(&self) {
        if let Some(total) = self.total {
            let idle = u32::try_from(self.idle.len()).unwrap_or(u32::MAX);
            assert!(self.held + idle <= total, "{} held and {idle} idle of {total}", self.held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(blocks: u64) -> BlockPool {
        let kv = Kv { tokens: blocks * 16, block_tokens: 16, prefix_cache: PrefixCache::Lru };
        BlockPool::new(Some(&kv))
    }

    #[test]
    fn known_blocks_serve_again_and_the_tail_of_the_oldest_goes_first() {
        let mut blocks = pool(4);
        assert!(blocks.take(3));
        assert!([1, 2, 3].into_iter().all(|hash| blocks.offer(hash)));
        blocks.give_back(3, &[1, 2, 3]);
        assert_eq!((blocks.held(), blocks.join(&[1, 2, 9])), (0, 2));
        blocks.give_back(2, &[1, 2]);
        // One block is free and three are idle: taking three evicts 3, then 2, and leaves 1.
        assert!(blocks.take(3));
        assert_eq!(blocks.join(&[1, 2, 3]), 1);
        assert!(!blocks.take(1));
        blocks.audit();
    }

    #[test]
    fn a_block_shared_by_two_is_held_once() {
        let mut blocks = pool(4);
        assert!(blocks.take(1) && blocks.offer(7));
        assert_eq!((blocks.join(&[7]), blocks.held()), (1, 1));
        blocks.give_back(1, &[7]);
        assert_eq!(blocks.held(), 1);
        blocks.give_back(1, &[7]);
        assert_eq!((blocks.held(), blocks.forget()), (0, 1));
        assert_eq!(blocks.join(&[7]), 0);
    }

    #[test]
    fn a_second_copy_of_a_block_stays_private() {
        let mut blocks = pool(4);
        assert!(blocks.take(2) && blocks.offer(7) && !blocks.offer(7));
        blocks.give_back(1, &[]);
        blocks.give_back(1, &[7]);
        assert_eq!(blocks.held(), 0);
        blocks.audit();
    }
}
