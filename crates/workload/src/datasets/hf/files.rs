//! The files that a hub dataset consists of: a file, a folder, the hub's cache, the hub.
//!
//! In: the options. Out: the rows of all files of one split of one subset, in the order of their
//! names. From the hub itself no more files are fetched than the run needs.

use std::path::Path;

use serde_json::{Map, Value};
use tokometer_tokenize::hub::{RepoKind, Repository};

use super::Options;
use crate::rows::FileRows;
use crate::{DatasetContext, DatasetNote, Error, Result, input, tables};

/// File name endings that can be read, best first.
const FORMATS: &[&str] = if cfg!(feature = "parquet") {
    &["jsonl", "json", "csv", "parquet"]
} else {
    &["jsonl", "json", "csv"]
};

pub(super) struct DatasetRows {
    pub(super) rows: FileRows,
    pub(super) notes: Vec<DatasetNote>,
}

pub(super) fn find(options: &Options, context: &DatasetContext) -> Result<DatasetRows> {
    let path = options.path.as_path();
    if path.is_file() {
        return Ok(DatasetRows { rows: table(path, options)?, notes: Vec::new() });
    }
    let formats = FORMATS.join(", ");
    let too_short = |reason: String| Error::TooShort { path: path.to_owned(), reason };
    if path.is_dir() {
        let names = wanted(&files_below(path)?, options);
        if names.is_empty() {
            return Err(too_short(format!("it has no {} in one of {formats}", asked(options))));
        }
        let paths = names.iter().map(|name| path.join(name));
        let parts = paths.map(|path| table(&path, options)).collect::<Result<Vec<_>>>()?;
        return Ok(DatasetRows { rows: FileRows::join(path.to_owned(), parts), notes: Vec::new() });
    }
    if FORMATS.iter().any(|format| path.extension().is_some_and(|extension| extension == *format)) {
        // A file name that does not exist is a mistake, not an id on the hub.
        return Err(Error::read(path)(std::io::ErrorKind::NotFound.into()));
    }
    let id = options.path.to_string_lossy();
    let repository = context.hub.repository(&id, RepoKind::Dataset);
    let names = wanted(&repository.files()?, options);
    if names.is_empty() {
        return Err(too_short(format!(
            "the hub has no {} of it in one of {formats}",
            asked(options)
        )));
    }
    fetch(&repository, &names, options, context)
}

/// Fetches files until they have as many rows as prompts are wanted.
fn fetch(
    repository: &Repository<'_>,
    names: &[String],
    options: &Options,
    context: &DatasetContext,
) -> Result<DatasetRows> {
    let enough = usize::try_from(context.count).ok().filter(|count| *count > 0);
    let (mut parts, mut rows) = (Vec::new(), 0);
    for name in names {
        let part = table(&repository.file(name)?, options)?;
        rows += part.len();
        parts.push(part);
        if enough.is_some_and(|enough| rows >= enough) {
            break;
        }
    }
    let mut notes = Vec::new();
    if parts.len() < names.len() {
        let text = format!(
            "`{}` has {} files; {} of them hold enough rows and were read",
            options.path.display(),
            names.len(),
            parts.len()
        );
        notes.push(DatasetNote::new("some-files", text));
    }
    Ok(DatasetRows { rows: FileRows::join(options.path.clone(), parts), notes })
}

fn asked(options: &Options) -> String {
    let part = |name: &str, value: &Option<String>| {
        value.as_ref().map(|value| format!(" of the {name} `{value}`")).unwrap_or_default()
    };
    format!("file{}{}", part("split", &options.split), part("subset", &options.subset))
}

fn files_below(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::read(folder))? {
        let entry = entry.map_err(Error::read(folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            let inner = files_below(&entry.path())?;
            names.extend(inner.into_iter().map(|file| format!("{name}/{file}")));
        } else {
            names.push(name);
        }
    }
    Ok(names)
}

/// The files of the wanted subset and split: those that lie beside the best one and belong to it.
/// Without a requested split, training data is preferred, because it is the largest part.
fn wanted(names: &[String], options: &Options) -> Vec<String> {
    // Descriptions of a dataset are JSON too, but no data.
    let is_data = |name: &&str| {
        format_of(name).is_some() && !name.contains("dataset_info") && !name.starts_with('.')
    };
    let has = |name: &&str, part: Option<&str>| part.is_none_or(|part| has_word(name, part));
    let mut fitting: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(is_data)
        .filter(|name| has(name, options.subset.as_deref()) && has(name, options.split.as_deref()))
        .collect();
    fitting.sort_unstable();
    let split = options.split.as_deref().unwrap_or("train");
    let Some(best) = fitting.iter().min_by_key(|name| (!has_word(name, split), format_of(name)))
    else {
        return Vec::new();
    };
    let is_of_split = has_word(best, split);
    let belongs = |name: &&&str| {
        let is_beside = Path::new(name).parent() == Path::new(best).parent();
        let is_kin = if is_of_split { has_word(name, split) } else { stem(name) == stem(best) };
        is_beside && is_kin && format_of(name) == format_of(best)
    };
    fitting.iter().filter(belongs).map(|name| (*name).to_owned()).collect()
}

fn format_of(name: &str) -> Option<usize> {
    let extension = Path::new(name).extension()?;
    FORMATS.iter().position(|format| extension == *format)
}

/// A name without its numbers: what the parts of one table have in common.
fn stem(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

/// Whether a word stands in a name, between its ends, blanks, dashes, dots and slashes.
fn has_word(name: &str, word: &str) -> bool {
    let is_edge = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_alphanumeric());
    name.match_indices(word).any(|(at, _)| {
        is_edge(name[..at].chars().next_back()) && is_edge(name[at + word.len()..].chars().next())
    })
}

/// The rows of a file; its name says the format.
fn table(path: &Path, options: &Options) -> Result<FileRows> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_one_table_belong_together() {
        let check = |names: &[&str], expected: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(wanted(&names, &Options::default()), expected);
        };
        check(&["part-1.jsonl", "part-0.jsonl"], &["part-0.jsonl", "part-1.jsonl"]);
        check(&["test.csv", "validation.csv"], &["test.csv"]);
        check(&["README.md", "dataset_infos.json"], &[]);
        check(
            &["data/train/0000.json", "data/train/0001.json"],
            &["data/train/0000.json", "data/train/0001.json"],
        );
        check(&["train.csv", "train.jsonl"], &["train.jsonl"]);
    }

    #[test]
    fn a_split_is_a_whole_word() {
        let check = |name: &str, word: &str, expected| {
            assert_eq!(has_word(name, word), expected, "{name} {word}");
        };
        check("test-00000-of-00001.parquet", "test", true);
        check("latest.jsonl", "test", false);
        check("wikitext-2-raw-v1/train.parquet", "wikitext-2-raw-v1", true);
        check("data/train_sft-00000.parquet", "train", true);
    }
}
