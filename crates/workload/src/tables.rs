//! Tables of comma-separated values.

use std::io::Read;
use std::path::Path;

use csv::{Position, StringRecord};

use crate::{Error, Result, input};

/// Calls `row` for each record with what `columns` found in the header. What either refuses is said of
/// the line.
pub(crate) fn each_record<C>(
    path: &Path,
    from: impl Read,
    columns: impl FnOnce(&StringRecord) -> std::result::Result<C, String>,
    mut row: impl FnMut(&C, &StringRecord) -> std::result::Result<(), String>,
) -> Result<()> {
    let malformed = |line, reason| Error::Malformed { path: path.to_owned(), line, reason };
    let broken = |error: csv::Error| {
        let reason = match error.kind() {
            csv::ErrorKind::Utf8 { .. } => format!("it is not text in UTF-8\n  {}", input::CONVERT),
            _ => error.to_string(),
        };
        malformed(error.position().map_or(1, Position::line), reason)
    };
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(from);
    let columns = columns(reader.headers().map_err(broken)?).map_err(|why| malformed(1, why))?;
    for record in reader.records() {
        let record = record.map_err(broken)?;
        let line = record.position().map_or(0, Position::line);
        row(&columns, &record).map_err(|why| malformed(line, why))?;
    }
    Ok(())
}

/// A number of tokens, also as tables with gaps write it: `600.0`. The error says that it is none.
pub(crate) fn token_count(text: &str) -> std::result::Result<u32, String> {
    let whole = text.trim().parse().ok().filter(|it: &f64| it.fract() == 0.0 && *it >= 0.0);
    whole
        .and_then(|whole| u32::try_from(tokometer_base::units::nearest_count(whole)).ok())
        .ok_or_else(|| format!("`{text}` is not a number of tokens"))
}
