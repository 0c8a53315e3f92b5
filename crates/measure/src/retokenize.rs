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

/// Whether all texts were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountingEnd {
    Done,
    /// By the user. No text has a count then: figures of some answers would look like those of all.
    Stopped,
}

/// Counts the kept texts of a run and writes the counts to its rows, unless it is stopped.
pub(crate) fn retokenize(
    reader: &mut RunReader,
    tokenizer: &dyn Tokenizer,
    texts: CountedTexts,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<CountingEnd, folder::Error> {
    let is_wanted = |timeline: &Timeline| {
        let told = timeline.usage.and_then(|usage| usage.completion_tokens).unwrap_or(0);
        // Canaries are compared, not counted.
        !is_canary(timeline) && (texts == CountedTexts::All || told == 0)
    };
    let mut counts: HashMap<RequestKey, u32> = HashMap::new();
    let mut batch: Vec<(RequestKey, String)> = Vec::new();
    for timeline in reader.timelines()?.filter(is_wanted) {
        let key = key(&timeline);
        batch.extend(timeline.text.map(|text| (key, text)));
        if batch.len() >= BATCH {
            counts.extend(counted(&batch, tokenizer, is_stopped));
            batch.clear();
        }
        if is_stopped() {
            break;
        }
    }
    counts.extend(counted(&batch, tokenizer, is_stopped));
    let counting = if is_stopped() { CountingEnd::Stopped } else { CountingEnd::Done };
    if counts.is_empty() && counting == CountingEnd::Done {
        return Ok(counting);
    }
    if counting == CountingEnd::Stopped {
        counts.clear();
    }
    reader.rewrite(|timeline| {
        timeline.retokenized_tokens = counts.get(&key(timeline)).copied();
        if texts == CountedTexts::Uncounted(AfterCount::Dropped) && !is_canary(timeline) {
            timeline.text = None;
        }
    })?;
    Ok(counting)
}

fn is_canary(timeline: &Timeline) -> bool {
    timeline.identity.phase == Phase::Canary
}

/// A text that the tokenizer cannot encode has no count.
fn counted(
    batch: &[(RequestKey, String)],
    tokenizer: &dyn Tokenizer,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Vec<(RequestKey, u32)> {
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    let count = |(key, text): &(RequestKey, String)| {
        if is_stopped() {
            return None;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokometer_base::Nanos;
    use tokometer_record::{
        AttemptId, Health, Outcome, RequestedLengths, RunEnd, RunInfo, RunWriter, Stop,
    };
    use tokometer_tokenize::{BuiltIn, Encoding};

    fn recorded(folder: &std::path::Path) -> RunReader {
        let info =
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/run/info.json"));
        let info: RunInfo = serde_json::from_str(info).unwrap();
        let mut writer = RunWriter::create(folder, &info).unwrap();
        for index in 0..3 {
            let identity = AttemptId::new(index, Phase::Measure);
            let mut row = Timeline::new(identity, RequestedLengths::default(), Nanos::ZERO);
            row.outcome = Outcome::Success;
            row.text = Some("two words".to_owned());
            writer.push(row).unwrap();
        }
        let end = RunEnd {
            stop: Stop::Complete,
            measure_begin: Nanos::ZERO,
            measure_end: Nanos::ZERO,
            abandoned: 0,
            never_sent: 0,
            health: Health::default(),
        };
        writer.finish(&end).unwrap();
        RunReader::open(folder).unwrap()
    }

    /// Only the third signal ended the counting, and with it the program.
    #[test]
    fn a_stopped_counting_leaves_no_count_and_no_text() {
        let folder = tempfile::tempdir().unwrap();
        let texts = CountedTexts::Uncounted(AfterCount::Dropped);
        let tokenizer = BuiltIn::new(Encoding::Cl100k);
        let check = |name: &str, is_stopped: bool, counting: CountingEnd, tokens: Option<u32>| {
            let mut reader = recorded(&folder.path().join(name));
            let counted = retokenize(&mut reader, &tokenizer, texts, &|| is_stopped).unwrap();
            assert_eq!(counted, counting);
            let rows: Vec<Timeline> = reader.timelines().unwrap().collect();
            assert_eq!(rows.len(), 3);
            assert!(rows.iter().all(|row| row.retokenized_tokens == tokens && row.text.is_none()));
        };
        check("whole", false, CountingEnd::Done, Some(2));
        check("stopped", true, CountingEnd::Stopped, None);
    }
}
