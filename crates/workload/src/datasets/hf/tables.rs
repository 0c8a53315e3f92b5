//! Tables as rows of JSON, whatever the format of their file.

use std::path::Path;

use serde_json::{Map, Value};

use super::Options;
use crate::rows::FileRows;
use crate::{Error, Result, input, tables};

/// The rows of a file; its name says the format.
pub(super) fn open(path: &Path, options: &Options) -> Result<FileRows> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => csv_rows(path),
        Some("parquet") => parquet_rows(path, options),
        _ => FileRows::open(path),
    }
}

fn csv_rows(path: &Path) -> Result<FileRows> {
    let file = input::open(path).map_err(Error::read(path))?;
    let mut rows = Vec::new();
    tables::each_record(
        path,
        file,
        |header| Ok(header.clone()),
        |header, record| {
            let fields = header.iter().zip(record.iter());
            let row: Map<String, Value> =
                fields.map(|(name, value)| (name.to_owned(), value.into())).collect();
            rows.push(Ok(Value::Object(row).to_string()));
            Ok(())
        },
    )?;
    FileRows::spooled(path, rows)
}

#[cfg(feature = "parquet")]
fn parquet_rows(path: &Path, options: &Options) -> Result<FileRows> {
    super::parquet::rows(path, options)
}

#[cfg(not(feature = "parquet"))]
fn parquet_rows(path: &Path, _options: &Options) -> Result<FileRows> {
    let reason = "this build does not read Parquet\n  try a JSON or CSV export, or build with `--features parquet`";
    Err(Error::Malformed { path: path.to_owned(), line: 1, reason: reason.to_owned() })
}
