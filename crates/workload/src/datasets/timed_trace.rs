//! A trace of requests with times, lengths and shared blocks: one JSON object per line, or the columns of
//! Azure's public trace (`trace_table`).
//!
//! Each hash id stands for one block of tokens, always the same one, so that prompts share prefixes
//! as the recorded ones did. What of a prompt is longer than its blocks is its own.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;

use super::trace_table;
use crate::rows::FileRows;
use crate::session::{Piece, PieceName};
use crate::tables::token_count;
use crate::{DatasetContext, DatasetNote, Error, PlannedPrompt, Result, Source};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Options {
    pub path: PathBuf,
    /// Tokens of the block that one hash id stands for.
    pub chunk_hash_size: u32,
    /// Seconds that one unit of a timestamp lasts.
    pub sec_multiplier: f64,
    pub label_timestamp: String,
    pub label_input_length: String,
    pub label_output_length: String,
    pub label_hash_ids: String,
}

/// What the fields of a line are called where nobody says otherwise.
pub(super) const LABELS: [&str; 4] = ["timestamp", "input_length", "output_length", "hash_ids"];

impl Default for Options {
    fn default() -> Self {
        let [label_timestamp, label_input_length, label_output_length, label_hash_ids] =
            LABELS.map(str::to_owned);
        Self {
            path: PathBuf::new(),
            chunk_hash_size: 16,
            sec_multiplier: 1.0,
            label_timestamp,
            label_input_length,
            label_output_length,
            label_hash_ids,
        }
    }
}

impl Options {
    pub(super) fn labels(&self) -> [&str; 4] {
        [
            &self.label_timestamp,
            &self.label_input_length,
            &self.label_output_length,
            &self.label_hash_ids,
        ]
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct TraceLine {
    pub(crate) timestamp: f64,
    #[serde(default, deserialize_with = "whole")]
    pub(crate) input_length: u32,
    #[serde(deserialize_with = "whole")]
    pub(crate) output_length: u32,
    #[serde(default)]
    pub(crate) hash_ids: Vec<u64>,
}

fn whole<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<u32, D::Error> {
    let number = serde_json::Number::deserialize(from)?;
    token_count(&number.to_string()).map_err(serde::de::Error::custom)
}

/// The line of a trace whose fields have these names.
fn record(text: &str, labels: [&str; 4]) -> std::result::Result<TraceLine, String> {
    if labels == LABELS {
        return serde_json::from_str(text).map_err(|why| why.to_string());
    }
    let mut fields: serde_json::Map<_, _> =
        serde_json::from_str(text).map_err(|why| why.to_string())?;
    let named = LABELS
        .iter()
        .zip(labels)
        .filter_map(|(name, label)| fields.remove(label).map(|value| ((*name).to_owned(), value)));
    let named = serde_json::Value::Object(named.collect());
    serde_json::from_value(named).map_err(|why| why.to_string())
}

pub(crate) struct SortedTrace {
    pub(crate) records: Vec<TraceLine>,
    pub(crate) notes: Vec<DatasetNote>,
}

impl SortedTrace {
    /// Reads all lines, or the first `count` of them by time. Lines out of order are put in order,
    /// with a note.
    pub(crate) fn open(path: &Path, count: u64, labels: [&str; 4]) -> Result<Self> {
        let rows = FileRows::open(path)?;
        let malformed =
            |row, reason| Error::Malformed { path: path.to_owned(), line: rows.line(row), reason };
        let mut records: Vec<TraceLine> = Vec::with_capacity(rows.len());
        for row in 0..rows.len() {
            let record = record(&rows.text(row)?, labels).map_err(|why| malformed(row, why))?;
            if !record.timestamp.is_finite() || record.timestamp < 0.0 {
                return Err(malformed(row, format!("`{}` is not a time", record.timestamp)));
            }
            records.push(record);
        }
        Self::sorted(path, count, records, |row| rows.line(row))
    }

    /// A trace of these records; `line` is the line of a record in its file.
    pub(crate) fn sorted(
        path: &Path,
        count: u64,
        mut records: Vec<TraceLine>,
        line: impl Fn(usize) -> u64,
    ) -> Result<Self> {
        if records.is_empty() {
            return Err(Error::TooShort {
                path: path.to_owned(),
                reason: "it has no request".into(),
            });
        }
        let is_late = |at: &usize| records[at - 1].timestamp > records[*at].timestamp;
        let late: Vec<usize> = (1..records.len()).filter(is_late).collect();
        let mut notes = Vec::new();
        if let Some(first) = late.first() {
            let text = format!(
                "{} of {} requests in `{}` are earlier than the one before them (first on line {}): they are sent in order of time",
                late.len(),
                records.len(),
                path.display(),
                line(*first)
            );
            notes.push(DatasetNote::new("trace-order", text));
            records.sort_by(|left, right| left.timestamp.total_cmp(&right.timestamp));
        }
        let has = records.len() as u64;
        if count > has {
            let text = format!("`{}` has {has} requests, not {count}", path.display());
            notes.push(DatasetNote::new("few-rows", text));
        } else if count > 0 {
            records.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        }
        Ok(Self { records, notes })
    }

    /// The record for an index; beyond the end the trace is repeated, each time later by its length.
    pub(crate) fn at(&self, index: u64) -> (&TraceLine, f64) {
        let len = self.records.len() as u64;
        let record = &self.records[usize::try_from(index % len).unwrap_or(0)];
        let length = self.records.last().map_or(0.0, |last| last.timestamp);
        (record, record.timestamp + (index / len) as f64 * length)
    }
}

pub(crate) struct TimedTrace {
    options: Options,
    specials: u32,
    trace: SortedTrace,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<TimedTrace> {
    if options.chunk_hash_size == 0
        || options.sec_multiplier.is_nan()
        || options.sec_multiplier < 0.0
    {
        let reason = "block size and time multiplier must be above zero".to_owned();
        return Err(Error::Options { dataset: "timed_trace", reason });
    }
    Ok(TimedTrace {
        trace: match trace_table::open(&options.path, context.count, options.labels())? {
            Some(trace) => trace,
            None => SortedTrace::open(&options.path, context.count, options.labels())?,
        },
        options: options.clone(),
        specials: context.specials()?,
    })
}

impl TimedTrace {
    /// The blocks of a request, and behind them what is its own.
    fn pieces(&self, record: &TraceLine, index: u64) -> Vec<Piece> {
        let block = self.options.chunk_hash_size;
        let mut left = record.input_length.saturating_sub(self.specials).max(1);
        let blocks = record.hash_ids.iter().map(|id| (PieceName::Block(*id), block));
        let pieces = blocks.chain([(PieceName::Content(index), u32::MAX)]).map(|(name, most)| {
            let tokens = most.min(left);
            left -= tokens;
            Piece::Made { name, tokens }
        });
        pieces.filter(|piece| piece.tokens() > Some(0)).collect()
    }
}

impl Source for TimedTrace {
    fn len(&self) -> u64 {
        self.trace.records.len() as u64
    }

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let (record, _) = self.trace.at(index);
        let pieces = self.pieces(record, index);
        Ok(PlannedPrompt::of(pieces, self.specials, record.output_length))
    }

    fn due(&self, index: u64) -> Option<Nanos> {
        let (_, time) = self.trace.at(index);
        Some(Nanos::from_secs_f64(time * self.options.sec_multiplier))
    }

    fn notes(&self) -> Vec<DatasetNote> {
        self.trace.notes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, WireForm, Workload, open};
    use tokometer_base::PromptContent;

    fn workload(text: &str, form: WireForm) -> Result<Workload> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        std::fs::write(&path, text).unwrap();
        let context = DatasetContext { form, ..DatasetContext::for_test(1, 0) };
        open(
            &Spec::TimedTrace(Options { path, sec_multiplier: 0.5, ..Options::default() }),
            &context,
        )
    }

    const TRACE: &str = concat!(
        r#"{"timestamp": 2, "input_length": 40, "output_length": 5, "hash_ids": [1, 2]}"#,
        "\n",
        r#"{"timestamp": 1.5, "input_length": 20, "output_length": 6, "hash_ids": [1, 3]}"#,
        "\n",
    );

    #[test]
    fn times_are_kept_in_order_and_equal_ids_give_equal_blocks() {
        let workload = workload(TRACE, WireForm::TokenIds).unwrap();
        let [first, second] = [0, 1].map(|index| workload.item(index).unwrap());
        assert_eq!(first.due, Some(Nanos::from_millis(750)));
        assert_eq!(second.due, Some(Nanos::from_secs(1)));
        let [first, second] = [first, second].map(|item| match item.prompt.content {
            PromptContent::TokenIds(ids) => ids,
            other => panic!("{other:?}"),
        });
        assert_eq!((first.len(), second.len()), (20, 40));
        assert_eq!(first[..16], second[..16]);
        assert_ne!(first[16..20], second[16..20]);
        assert_eq!(workload.notes()[0].code, "trace-order");
        assert!(workload.notes()[0].text.contains("line 2"));
    }

    #[test]
    fn lengths_may_be_written_with_a_fraction_of_zero() {
        let line = |length: &str| {
            format!("{{\"timestamp\": 1.5, \"input_length\": {length}, \"output_length\": 6.0}}\n")
        };
        let item = workload(&line("20.0"), WireForm::Text).unwrap().item(0).unwrap();
        assert_eq!((item.prompt.prompt_tokens, item.prompt.output_tokens), (Some(20), Some(6)));
        for length in ["20.5", "-1", "5000000000"] {
            let error = workload(&line(length), WireForm::Text).err().unwrap().to_string();
            assert!(error.contains("is not a number of tokens"), "{error}");
        }
    }

    #[test]
    fn fields_may_have_other_names() {
        let line = r#"{"t": 3, "in": 40, "out": 5, "timestamp": "later"}"#;
        let table = "t,in,out\n3,40,5\n";
        for text in [line, table] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("trace");
            std::fs::write(&path, text).unwrap();
            let options = Options {
                path,
                label_timestamp: "t".to_owned(),
                label_input_length: "in".to_owned(),
                label_output_length: "out".to_owned(),
                ..Options::default()
            };
            let workload = open(&Spec::TimedTrace(options), &DatasetContext::for_test(1, 0));
            let item = workload.unwrap().item(0).unwrap();
            assert_eq!(
                (item.prompt.prompt_tokens, item.due),
                (Some(40), Some(Nanos::from_secs(3)))
            );
        }
    }

    #[test]
    fn text_has_the_recorded_lengths_too() {
        let check = workload(TRACE, WireForm::Text).unwrap().check_lengths().unwrap();
        assert_eq!((check.checked, check.missed), (2, 0));
    }

    /// The files of 2023 and of 2024 write their times differently.
    #[test]
    fn azure_s_public_trace_is_read_with_its_times() {
        let check = |times: [&str; 3], expected: [u64; 3]| {
            let [a, b, c] = times;
            let text = format!(
                "TIMESTAMP,ContextTokens,GeneratedTokens\n{a},48,10\n{b},31,8\n{c},11,27\n"
            );
            let workload = workload(&text, WireForm::TokenIds).unwrap();
            let items = [0, 1, 2].map(|index| workload.item(index).unwrap());
            // The multiplier of these tests is a half.
            assert_eq!(
                items.clone().map(|item| (item.due.unwrap().0 + 250) / 500),
                expected,
                "{times:?}"
            );
            let lengths = items.map(|item| (item.prompt.prompt_tokens, item.prompt.output_tokens));
            assert_eq!(lengths[0], (Some(48), Some(10)), "{times:?}");
            assert_eq!(lengths[2], (Some(11), Some(27)), "{times:?}");
        };
        check(
            [
                "2023-11-16 18:17:03.9799600",
                "2023-11-16 18:17:04.0319600",
                "2023-11-17 00:00:00.0000000",
            ],
            [0, 52_000, 20_576_020_040],
        );
        check(
            [
                "2024-02-28 23:59:59.009930+00:00",
                "2024-02-29T00:00:00Z",
                "2024-03-01 01:00:00+01:00",
            ],
            [0, 990_070, 86_400_990_070],
        );
        check(["0", "1.5", "3"], [0, 1_500_000, 3_000_000]);
    }

    /// A table in which one length is missing has all of them with a fraction of zero.
    #[test]
    fn lengths_of_a_table_may_have_a_fraction_of_zero_too() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n0,600.0,10.0\n";
        let item = workload(text, WireForm::Text).unwrap().item(0).unwrap();
        assert_eq!((item.prompt.prompt_tokens, item.prompt.output_tokens), (Some(600), Some(10)));
    }

    #[test]
    fn a_table_that_is_no_trace_is_named() {
        let refusal = |text: &str| workload(text, WireForm::Text).err().unwrap().to_string();
        let head = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
        let error = refusal("Timestamp,Model,Request tokens,Response tokens\n5,GPT-4,1,2\n");
        assert!(error.contains("`ContextTokens`") && error.contains("burstgpt"), "{error}");
        assert!(refusal(&format!("{head}soon,1,2\n")).contains("line 2: `soon` is not a time"));
        assert!(refusal(&format!("{head}1,many,2\n")).contains("line 2: `many` is not a number"));
        for time in ["inf", "NaN", "1e999", "inf-01-01 00:00:00", "2024-01-01 00:00:00+01inf"] {
            let expected = format!("line 2: `{time}` is not a time");
            let error = refusal(&format!("{head}{time},1,2\n"));
            assert!(error.contains(&expected), "{error}");
        }
        for tokens in ["1.5", "inf", "-1", "1.0.0", "5000000000", ""] {
            let expected = format!("line 2: `{tokens}` is not a number of tokens");
            let error = refusal(&format!("{head}0,{tokens},2\n"));
            assert!(error.contains(&expected), "{error}");
        }
        assert!(refusal(head).contains("it has no request"));
        assert!(refusal("just words\n").contains("neither a JSON array"));
    }

    #[test]
    fn a_line_that_is_no_request_is_named() {
        let error = workload("{\"timestamp\":1}\n", WireForm::Text).err().unwrap().to_string();
        assert!(error.contains("line 1: missing field `output_length`"), "{error}");
        let error =
            workload("{\"timestamp\":-1,\"output_length\":1}\n", WireForm::Text).err().unwrap();
        assert!(error.to_string().contains("`-1` is not a time"), "{error}");
    }
}
