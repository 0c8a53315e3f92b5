//! Counts answers again from their text, after the run.
//!
//! The counts go into the record, so that a later report needs no tokenizer. The work is spread over
//! all cores: a run that is over disturbs nothing.

use std::collections::HashMap;
use std::num::NonZero;
use std::path::Path;

use tokometer_record::{Phase, RunReader, Timeline, folder};
use tokometer_tokenize::Tokenizer;

/// Texts that are counted in one go: enough work for every core, little memory.
const BATCH: usize = 2_048;

/// Phase, index and attempt of a request.
type Key = (Phase, u64, u32);

fn key(timeline: &Timeline) -> Key {
    let identity = &timeline.identity;
    (identity.phase, identity.index, identity.attempt)
}

/// Which texts are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    /// Every kept one.
    All,
    /// Those of answers whose usage has no count. Texts that were kept for this alone are dropped.
    Uncounted(AfterCount),
}

/// What becomes of a text that has been counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterCount {
    Dropped,
    Kept,
}

/// Counts kept texts of a run and writes the counts into its rows.
pub(crate) fn retokenize(
    folder: &Path,
    tokenizer: &dyn Tokenizer,
    texts: Texts,
) -> Result<(), folder::Error> {
    let is_wanted = |timeline: &Timeline| {
        let told = timeline.usage.and_then(|usage| usage.completion_tokens).unwrap_or(0);
        texts == Texts::All || told == 0
    };
    let reader = RunReader::open(folder)?;
    let mut counts: HashMap<Key, u32> = HashMap::new();
    let mut batch: Vec<(Key, String)> = Vec::new();
    for timeline in reader.timelines()?.filter(is_wanted) {
        let key = key(&timeline);
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
        timeline.retokenized_tokens = counts.get(&key(timeline)).copied();
        if texts == Texts::Uncounted(AfterCount::Dropped) {
            timeline.text = None;
        }
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
