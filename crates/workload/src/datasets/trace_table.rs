//! A trace as a table of comma-separated values, in the columns of Azure's public LLM inference traces:
//! `TIMESTAMP,ContextTokens,GeneratedTokens`.
//!
//! Times are dates, which count from the earliest one, or numbers. A table has no shared blocks.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use tokometer_base::time::days_since_1970;

use super::timed_trace::{SortedTrace, TraceLine};
use crate::tables::{each_record, token_count};
use crate::{Error, Result, input};

/// The columns, and other names for them.
const COLUMNS: [(&str, [&str; 2]); 3] = [
    ("TIMESTAMP", ["timestamp", "arrived_at"]),
    ("ContextTokens", ["contexttokens", "input_length"]),
    ("GeneratedTokens", ["generatedtokens", "output_length"]),
];

/// The trace of a table; `None` for a file that is not one, such as JSON lines.
pub(super) fn open(path: &Path, count: u64) -> Result<Option<SortedTrace>> {
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

fn columns(header: &csv::StringRecord) -> std::result::Result<[usize; 3], String> {
    let mut found = [0; 3];
    for (column, (name, names)) in found.iter_mut().zip(COLUMNS) {
        let is_it = |field: &str| names.contains(&field.to_lowercase().as_str());
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

/// A time of a trace. The fraction stands apart: seconds since 1970 leave a double no room for the last digits.
#[derive(Debug, Clone, Copy)]
struct TraceTime {
    seconds: f64,
    fraction: f64,
}

/// Seconds of 1990 and later are dates, which count from the earliest one; smaller numbers are times of the
/// trace itself.
const FIRST_DATE: f64 = 631_152_000.0;

impl TraceTime {
    /// A number of seconds, or a date with a time of day and perhaps an offset.
    fn parse(text: &str) -> Option<Self> {
        if let Ok(number) = text.parse::<f64>() {
            let is_time = number.is_finite() && number >= 0.0;
            return is_time.then_some(Self { seconds: number.trunc(), fraction: number.fract() });
        }
        let (date, rest) = text.split_once([' ', 'T'])?;
        let (clock, offset) = match rest.rfind(['+', '-', 'Z']) {
            Some(at) => (&rest[..at], offset_seconds(&rest[at..])?),
            None => (rest, 0.0),
        };
        let [year, month, day] = parts(date, '-')?.map(|part| number(part, 9_999));
        let [hours, minutes, seconds] = parts(clock, ':')?;
        let (hours, minutes) = (number(hours, 23)?, number(minutes, 59)?);
        let seconds = seconds.parse().ok().filter(|it: &f64| (0.0..61.0).contains(it))?;
        let (month, day) = (month?, day?);
        let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
        let days = days_since_1970(i32::try_from(year?).ok()?, month, day);
        let minutes = days as f64 * 1_440.0 + f64::from(hours * 60 + minutes);
        is_date.then_some(Self {
            seconds: minutes * 60.0 + seconds.trunc() - offset,
            fraction: seconds.fract(),
        })
    }

    fn earlier(self, other: Self) -> Self {
        let is_later = (other.seconds, other.fraction) < (self.seconds, self.fraction);
        if is_later { other } else { self }
    }

    /// Seconds of the trace at this time.
    fn since(self, first: Option<Self>) -> f64 {
        match first.filter(|first| first.seconds >= FIRST_DATE) {
            Some(first) => (self.seconds - first.seconds) + (self.fraction - first.fraction),
            None => self.seconds + self.fraction,
        }
    }
}

fn parts(text: &str, separator: char) -> Option<[&str; 3]> {
    text.split(separator).collect::<Vec<_>>().try_into().ok()
}

fn number(text: &str, most: u32) -> Option<u32> {
    text.parse().ok().filter(|number| *number <= most)
}

/// `Z`, `+02:00` or `-0500` in seconds.
fn offset_seconds(text: &str) -> Option<f64> {
    if text == "Z" {
        return Some(0.0);
    }
    let digits = text[1..].replace(':', "");
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes = if minutes.is_empty() { 0 } else { number(minutes, 59)? };
    let size = f64::from(number(hours, 23)? * 3_600 + minutes * 60);
    Some(if text.starts_with('-') { -size } else { size })
}
