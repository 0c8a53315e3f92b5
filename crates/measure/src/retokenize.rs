//! Counts the tokens of response texts after the run.
//!
//! The counts are written to the record, so that a later report needs no tokenizer. All cores are
//! used: the run is over and is not disturbed.

use std::collections::HashMap;
use std::num::NonZero;

use tokometer_record::{Phase, RunReader, Timeline, folder};
use tokometer_tokenize::Tokenizer;

/// Texts per batch: enough work for every core, little memory.
const BATCH: usize = 2_048;

/// Phase, index and attempt of a request.
type RequestKey = (Phase, u64, u32);

fn key(timeline: &Timeline) -> RequestKey {
    let identity = &timeline.identity;
    (identity.phase, identity.index, identity.attempt)
}

/// Which texts are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedTexts {
    /// Every kept one.
    All,
    /// Those of responses without a token count in usage. Texts kept only for this are dropped.
    Uncounted(AfterCount),
}

/// What happens to a text after it was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterCount {
    Dropped,
    Kept,
}

/// Counts the kept texts of a run and writes the counts to its rows.
pub(crate) fn retokenize(
    reader: &mut RunReader,
    tokenizer: &dyn Tokenizer,
    texts: CountedTexts,
) -> Result<(), folder::Error> {
    let is_wanted = |timeline: &Timeline| {
        let told = timeline.usage.and_then(|usage| usage.completion_tokens).unwrap_or(0);
        texts == CountedTexts::All || told == 0
    };
    let mut counts: HashMap<RequestKey, u32> = HashMap::new();
    let mut batch: Vec<(RequestKey, String)> = Vec::new();
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
        if texts == CountedTexts::Uncounted(AfterCount::Dropped) {
            timeline.text = None;
        }
    })
}

/// A text that the tokenizer cannot encode has no count.
fn counted(batch: &[(RequestKey, String)], tokenizer: &dyn Tokenizer) -> Vec<(RequestKey, u32)> {
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    let count = |(key, text): &(RequestKey, String)| {
        let tokens = tokenizer.count(text).ok()?;
        Some((*key, u32::try_from(tokens).ok()?))
    };
    let count_all =
        |part: &[(RequestKey, String)]| part.iter().filter_map(count).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let parts = batch.chunks(batch.len().div_ceil(workers).max(1));
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || count_all(part))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}
