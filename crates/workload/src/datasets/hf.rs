//! A dataset of the hub, or local files in the formats that the hub holds.
//!
//! JSON, JSON lines and CSV are read; Parquet too when the program is built with it. The column that
//! asks is found by its name: a conversation first, then the names that datasets commonly use.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokometer_base::{Prompt, PromptContent};
use tokometer_tokenize::hub::Kind;

use crate::rows::Rows;
use crate::selection::{Counts, Draft, Reading, RowReader, Selection};
use crate::template::{Habit, Template};
use crate::{Context, Error, Result};

/// Columns that hold a conversation.
const CONVERSATIONS: [&str; 3] = ["conversations", "conversation", "messages"];

/// Columns that hold a question, best first.
const QUESTIONS: [&str; 9] =
    ["prompt", "question", "instruction", "problem", "query", "input", "text", "turns", "content"];

/// Columns that hold an answer, best first.
const ANSWERS: [&str; 6] =
    ["output", "answer", "response", "completion", "solution", "canonical_solution"];

/// The answer length of a row that has no answer.
const OUTPUT_LEN: u32 = 128;

/// File name endings that can be read.
const FORMATS: &[&str] = if cfg!(feature = "parquet") {
    &["jsonl", "json", "csv", "parquet"]
} else {
    &["jsonl", "json", "csv"]
};

/// The options of `hf`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// A file, a folder, or an id on the hub such as `org/name`.
    pub path: String,
    /// The subset: files in a folder of this name, or named after it.
    pub subset: Option<String>,
    /// The split: files named after it.
    pub split: Option<String>,
    /// The column that asks. `None` finds it by name.
    pub text_column: Option<String>,
    /// The answer length. `None` takes the length of the row's answer, or 128.
    pub output_len: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        let path = String::new();
        Self { path, subset: None, split: None, text_column: None, output_len: None }
    }
}

/// Reads rows.
pub(crate) struct Hf {
    options: Options,
    context: Context,
    template: Option<Template>,
}

pub(crate) fn open(options: &Options, context: &Context) -> Result<Selection<Hf>> {
    if options.path.is_empty() {
        return Err(Error::NoFile("hf"));
    }
    let file = locate(options, context)?;
    let template = Template::open(context, Habit::VllmApplies)?;
    let reader = Hf { options: options.clone(), context: context.clone(), template };
    Selection::open(table(&file)?, reader, context)
}

/// The local file to read, fetched from the hub if need be.
fn locate(options: &Options, context: &Context) -> Result<PathBuf> {
    let path = Path::new(&options.path);
    if path.is_file() {
        return Ok(path.to_owned());
    }
    let too_short = |reason: String| Error::TooShort { path: path.to_owned(), reason };
    if path.is_dir() {
        let names = files_below(path)?;
        let name = best(&names, options)
            .ok_or_else(|| too_short(format!("it has no file in one of {}", FORMATS.join(", "))))?;
        return Ok(path.join(name));
    }
    if path.extension().is_some_and(|extension| FORMATS.iter().any(|format| extension == *format)) {
        // A file name that does not exist is a mistake, not an id on the hub.
        return Err(Error::read(path)(std::io::ErrorKind::NotFound.into()));
    }
    let repository = context.hub.repository(&options.path, Kind::Dataset);
    let names = repository.files()?;
    let name = best(&names, options).ok_or_else(|| {
        too_short(format!("the hub has no file of it in one of {}", FORMATS.join(", ")))
    })?;
    Ok(repository.file(name)?)
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
    names.sort();
    Ok(names)
}

/// The first file of the wanted subset and split. Without a wish for a split, training data is
/// preferred, because it is the largest part.
fn best<'a>(names: &'a [String], options: &Options) -> Option<&'a str> {
    let has = |name: &str, part: Option<&str>| part.is_none_or(|part| name.contains(part));
    let format = |name: &str| {
        FORMATS.iter().position(|format| {
            Path::new(name).extension().is_some_and(|extension| extension == *format)
        })
    };
    // Descriptions of a dataset are JSON too, but no data.
    let is_data = |name: &str| !name.contains("dataset_info") && !name.starts_with('.');
    let rank = |name: &str| {
        let is_first_choice = name.contains(options.split.as_deref().unwrap_or("train"));
        (u8::from(!is_first_choice), format(name))
    };
    names
        .iter()
        .map(String::as_str)
        .filter(|name| format(name).is_some() && is_data(name))
        .filter(|name| has(name, options.subset.as_deref()) && has(name, options.split.as_deref()))
        .min_by_key(|name| rank(name))
}

fn table(path: &Path) -> Result<Rows> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => csv_rows(path),
        Some("parquet") => parquet_rows(path),
        _ => Rows::open(path),
    }
}

fn csv_rows(path: &Path) -> Result<Rows> {
    let malformed = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        Error::Malformed { path: path.to_owned(), line, reason: error.to_string() }
    };
    let file = std::fs::File::open(path).map_err(Error::read(path))?;
    let mut reader = csv::Reader::from_reader(file);
    let header = reader.headers().map_err(malformed)?.clone();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(malformed)?;
        let fields = header.iter().zip(record.iter());
        let row: Map<String, Value> =
            fields.map(|(name, value)| (name.to_owned(), value.into())).collect();
        rows.push(Value::Object(row).to_string());
    }
    Ok(Rows::Memory { path: path.to_owned(), rows })
}

#[cfg(feature = "parquet")]
fn parquet_rows(path: &Path) -> Result<Rows> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let malformed = |error: parquet::errors::ParquetError| Error::Malformed {
        path: path.to_owned(),
        line: 1,
        reason: error.to_string(),
    };
    let file = std::fs::File::open(path).map_err(Error::read(path))?;
    let reader = SerializedFileReader::new(file).map_err(malformed)?;
    let rows = reader
        .get_row_iter(None)
        .map_err(malformed)?
        .map(|row| row.map(|row| row.to_json_value().to_string()).map_err(malformed))
        .collect::<Result<Vec<_>>>()?;
    Ok(Rows::Memory { path: path.to_owned(), rows })
}

#[cfg(not(feature = "parquet"))]
fn parquet_rows(path: &Path) -> Result<Rows> {
    let reason = "this build does not read Parquet\n  try a JSON or CSV export, or build with `--features parquet`";
    Err(Error::Malformed { path: path.to_owned(), line: 1, reason: reason.to_owned() })
}

impl Hf {
    fn question(&self, fields: &Map<String, Value>) -> Option<(String, Option<String>)> {
        if let Some(column) = &self.options.text_column {
            return Some((first_text(fields.get(column)?)?, None));
        }
        let talk = CONVERSATIONS.iter().find_map(|column| fields.get(*column)?.as_array());
        if let Some(turns) = talk {
            let mut texts = turns
                .iter()
                .filter(|turn| turn.get("role").and_then(Value::as_str) != Some("system"))
                .filter_map(turn_text);
            return Some((texts.next()?, texts.next()));
        }
        let column = |names: &[&str]| names.iter().find_map(|name| first_text(fields.get(*name)?));
        Some((column(&QUESTIONS)?, column(&ANSWERS)))
    }
}

/// The text of a turn, under either of its two names.
fn turn_text(turn: &Value) -> Option<String> {
    let value = turn.get("content").or_else(|| turn.get("value")).unwrap_or(turn);
    value.as_str().map(str::to_owned)
}

/// Text, or the first text of a list.
fn first_text(value: &Value) -> Option<String> {
    let text = value.as_str().or_else(|| value.as_array()?.first()?.as_str())?;
    (!text.trim().is_empty()).then(|| text.to_owned())
}

impl RowReader for Hf {
    fn read(&self, row: &str) -> Reading {
        let fields: Map<String, Value> = match serde_json::from_str(row) {
            Ok(fields) => fields,
            Err(error) => return Reading::Broken(error.to_string()),
        };
        let Some((question, answer)) = self.question(&fields) else {
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            let reason = format!("no column of text that asks among {}", names.join(", "));
            return Reading::Broken(reason);
        };
        let text = match self.template.as_ref().map(|template| template.apply_to_text(&question)) {
            None => question,
            Some(Ok(templated)) => templated,
            Some(Err(error)) => return Reading::Broken(error.to_string()),
        };
        let prompt = Prompt { content: PromptContent::Text(text), ..Prompt::text("") };
        Reading::Draft(Draft { prompt, answer, class: None })
    }

    fn measure(&self, draft: &Draft) -> Result<Option<Counts>> {
        let prompt = self.context.tokens_of(&draft.prompt.content)?;
        let of_answer = match (&draft.answer, self.options.output_len) {
            (Some(answer), None) => self.context.tokenizer.count(answer)?,
            _ => 0,
        };
        let of_answer = u32::try_from(of_answer).ok().filter(|tokens| *tokens > 0);
        let output = self.options.output_len.or(of_answer).unwrap_or(OUTPUT_LEN);
        Ok(Some(Counts { prompt: Some(prompt), output: Some(output) }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{RowOrder, Spec, Workload, open};
    use tokometer_base::Seed;
    use tokometer_tokenize::{BuiltIn, Encoding};

    fn workload(path: &Path, options: Options) -> Result<Workload> {
        let tokenizer = Arc::new(BuiltIn::new(Encoding::R50k));
        let context =
            Context { row_order: RowOrder::AsInFile, ..Context::new(tokenizer, Seed(1), 0) };
        let path = path.display().to_string();
        open(&Spec::Hf(Options { path, ..options }), &context)
    }

    #[test]
    fn questions_and_answers_are_found_in_every_format() {
        let check = |name: &str, text: &str, expected: (&str, u32)| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("data")).unwrap();
            std::fs::write(folder.path().join("data").join(name), text).unwrap();
            std::fs::write(folder.path().join("dataset_infos.json"), "{}").unwrap();
            let prompt =
                workload(folder.path(), Options::default()).unwrap().item(0).unwrap().prompt;
            assert_eq!(prompt.content, PromptContent::Text(expected.0.into()), "{name}");
            assert_eq!(prompt.output_tokens, Some(expected.1), "{name}");
        };
        check("train.csv", "id,question,answer\n1,\"how, now\",brown cow\n", ("how, now", 2));
        check("train.jsonl", "{\"turns\":[\"first\",\"second\"]}\n", ("first", 128));
        check("x.json", "[{\"instruction\":\"do\",\"output\":\"done\"}]", ("do", 1));
        let talk = r#"[{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"one two"}]}]"#;
        check("train.json", talk, ("u", 2));
    }

    #[test]
    fn a_split_and_a_column_can_be_chosen() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("train.jsonl"), "{\"prompt\":\"a\"}\n").unwrap();
        std::fs::write(folder.path().join("test.jsonl"), "{\"prompt\":\"b\",\"title\":\"c\"}\n")
            .unwrap();
        let options = Options {
            split: Some("test".into()),
            text_column: Some("title".into()),
            ..Options::default()
        };
        let item = workload(folder.path(), options).unwrap().item(0).unwrap();
        assert_eq!(item.prompt.content, PromptContent::Text("c".into()));
    }

    #[test]
    fn a_table_without_text_names_its_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers.csv");
        std::fs::write(&path, "a,b\n1,2\n").unwrap();
        let error = workload(&path, Options::default()).err().unwrap().to_string();
        assert!(error.contains("none of its 1 entries can be used"), "{error}");
    }
}
