//! Prompts that are made before the run, because making them sends requests to the measured server.
//!
//! A tokenizer on the server must not be used while the server is measured: its requests would add
//! load, and an overloaded server would not answer them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Item, Result};

/// More prompts than this are not kept in memory.
pub(crate) const MOST_PROMPTS: u64 = 20_000;

/// Requests in flight at one time.
const THREADS: u64 = 16;

/// The items of indexes below `count`, made on several threads.
pub(crate) fn items(
    count: u64,
    item_at: &(dyn Fn(u64) -> Result<Item> + Sync),
) -> Result<Vec<Item>> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut made = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return made;
            }
            let item = item_at(index);
            let is_failure = item.is_err();
            made.push(item);
            if is_failure {
                // The other threads can stop.
                next.store(count, Ordering::Relaxed);
            }
        }
    };
    let mut items = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS.min(count)).map(|_| scope.spawn(work)).collect();
        let made = threads.into_iter().filter_map(|thread| thread.join().ok()).flatten();
        made.collect::<Result<Vec<Item>>>()
    })?;
    items.sort_unstable_by_key(|item| item.index);
    Ok(items)
}
