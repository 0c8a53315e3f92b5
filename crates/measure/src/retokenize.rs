//! Counts answers again from their text, after the run.
//!
//! The counts go into the record, so that a later report needs no tokenizer. The work is spread over
//! all cores: a run that is over disturbs nothing.

use std::collections::HashMap;
use std::num::NonZero;
use std::path::Path;

use tokometer_record::{RunReader, folder};
use tokometer_tokenize::Tokenizer;

/// Texts that are counted in one go: enough work for every core, little memory.
const BATCH: usize = 2_048;

/// Index and attempt of a request.
type Key = (u64, u32);

/// Counts every kept text of a run and writes the counts into its rows.
pub(crate) fn retokenize(folder: &Path, tokenizer: &dyn Tokenizer) -> Result<(), folder::Error> {
    let reader = RunReader::open(folder)?;
    let mut counts: HashMap<Key, u32> = HashMap::new();
    let mut batch: Vec<(Key, String)> = Vec::new();
    for timeline in reader.timelines()? {
        let key = (timeline.identity.index, timeline.identity.attempt);
        batch.extend(timeline.text.map(|text| (key, text)));
        if batch.len() >= BATCH {
            counts.extend(counted(&batch, tokenizer));
            batch.clear();
        }
    }
    counts.extend(counted(&batch, tokenizer));
    if counts.is_empty() {
        return Ok(());
    }
    reader.rewrite(|timeline| {
        let key = (timeline.identity.index, timeline.identity.attempt);
        timeline.retokenized_tokens = counts.get(&key).copied();
    })
}

/// Texts that the tokenizer cannot count have no count.
fn counted(batch: &[(Key, String)], tokenizer: &dyn Tokenizer) -> Vec<(Key, u32)> {
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    let count = |(key, text): &(Key, String)| {
        let tokens = tokenizer.count(text).ok()?;
        Some((*key, u32::try_from(tokens).ok()?))
    };
    let count_all = |part: &[(Key, String)]| part.iter().filter_map(count).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let parts = batch.chunks(batch.len().div_ceil(workers).max(1));
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || count_all(part))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}
