//! Prompts that are made before the run, because making them sends requests to the measured server.
//!
//! A tokenizer on the server must not be used while the server is measured: its requests would add
//! load, and an overloaded server would not answer them.

use rayon::prelude::*;

use crate::{Error, Item, Result};

/// More prompts than this are not kept in memory.
pub(crate) const MOST_PROMPTS: u64 = 20_000;

/// Requests in flight at one time: the threads wait for the server, so they may be more than the cores.
const THREADS: usize = 16;

/// The items of indexes below `count`, made on several threads.
pub(crate) fn items(
    count: u64,
    item_at: &(dyn Fn(u64) -> Result<Item> + Sync),
) -> Result<Vec<Item>> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build();
    let pool = pool.map_err(|why| Error::Threads { reason: why.to_string() })?;
    pool.install(|| (0..count).into_par_iter().map(item_at).collect())
}
