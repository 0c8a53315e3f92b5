//! A trace as a table of comma-separated values, in the columns of Azure's public LLM inference traces:
//! `TIMESTAMP,ContextTokens,GeneratedTokens`.
//!
//! Times are dates, which count from the earliest one, or numbers. A table has no shared blocks.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use super::timed_trace::{SortedTrace, TraceLine};
use crate::tables::{each_record, token_count};
use crate::trace_time::TraceTime;
use crate::{Error, Result, input};

/// The columns, and other names for them.
const COLUMNS: [(&str, [&str; 2]); 3] = [
    ("TIMESTAMP", ["timestamp", "arrived_at"]),
    ("ContextTokens", ["contexttokens", "input_length"]),
    ("GeneratedTokens", ["generatedtokens", "output_length"]),
];

/// The trace of a table; `None` for a file that is not one, such as JSON lines.
pub(super) fn open(path: &Path, count: u64, labels: [&str; 4]) -> Result<Option<SortedTrace>> {
    let file = input::open(path).map_err(Error::read(path))?;
    let mut reader = BufReader::new(file);
    let start = reader.fill_buf().map_err(Error::read(path))?;
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let first_line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_json = first_line.trim_ascii_start().first().is_none_or(|byte| b"[{".contains(byte));
    if is_json || !first_line.contains(&b',') {
        return Ok(None);
    }
    let (mut records, mut times, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    let columns = |header: &csv::StringRecord| columns(header, labels);
    each_record(path, reader, columns, |[time, input, output], record| {
        let cell = |at: &usize| record.get(*at).unwrap_or_default().trim();
        let parsed = TraceTime::parse(cell(time));
        times.push(parsed.ok_or_else(|| format!("`{}` is not a time", cell(time)))?);
        records.push(TraceLine {
            timestamp: 0.0,
            input_length: token_count(cell(input))?,
            output_length: token_count(cell(output))?,
            hash_ids: Vec::new(),
        });
        lines.push(record.position().map_or(0, csv::Position::line));
        Ok(())
    })?;
    let first = times.iter().copied().reduce(TraceTime::earlier);
    for (record, time) in records.iter_mut().zip(times) {
        record.timestamp = time.since(first);
    }
    SortedTrace::sorted(path, count, records, |row| lines[row]).map(Some)
}

fn columns(
    header: &csv::StringRecord,
    labels: [&str; 4],
) -> std::result::Result<[usize; 3], String> {
    let mut found = [0; 3];
    for ((column, (name, names)), label) in found.iter_mut().zip(COLUMNS).zip(labels) {
        let is_it = |field: &str| field == label || names.contains(&field.to_lowercase().as_str());
        *column = header.iter().position(|field| is_it(field.trim_start_matches('\u{feff}').trim())).ok_or_else(|| {
            let others = header.iter().collect::<Vec<_>>().join(", ");
            format!(
                "there is no column `{name}` among {others}\n  a trace has the columns TIMESTAMP, ContextTokens, \
                 GeneratedTokens; for a BurstGPT file try `--dataset-name burstgpt`"
            )
        })?;
    }
    Ok(found)
}
