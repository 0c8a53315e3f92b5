//! A dataset of the hub, or local files in the formats that the hub holds.
//!
//! Parquet, JSON, JSON lines and CSV are read, all files of a split together. The prompt column
//! is found by its name: a conversation first, then the names that datasets commonly use.

mod files;
#[cfg(feature = "parquet")]
mod parquet;

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};
use tokometer_base::Prompt;

use crate::selection::{ChosenRows, Draft, RowReader, TokenCounts, Tolerance};
use crate::template::{ChatTemplate, Habit};
use crate::{DatasetContext, Error, Result};

const CONVERSATIONS: [&str; 3] = ["conversations", "conversation", "messages"];

/// Columns that hold a question, best first.
const QUESTIONS: [&str; 9] =
    ["prompt", "question", "instruction", "problem", "query", "input", "text", "turns", "content"];

/// Columns that hold an answer, best first.
const ANSWERS: [&str; 6] =
    ["output", "answer", "response", "completion", "solution", "canonical_solution"];

/// The answer length of a row that has no answer.
const OUTPUT_LEN: u32 = 128;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Options {
    /// A file, a folder, or an id on the hub such as `org/name`.
    pub path: PathBuf,
    /// The subset: files in a folder of this name, or named after it.
    pub subset: Option<String>,
    /// The split: all files named after it. `None` takes training data, else the first files.
    pub split: Option<String>,
    /// The column with the prompt. `None`: found by name.
    pub text_column: Option<String>,
    /// The answer length. `None` takes the length of the row's answer, or 128.
    pub output_len: Option<u32>,
}

pub(crate) struct Hf {
    options: Options,
    template: Option<ChatTemplate>,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<ChosenRows> {
    if options.path.as_os_str().is_empty() {
        return Err(Error::NoFile("hf"));
    }
    let found = files::find(options, context)?;
    let template = ChatTemplate::open(context, Habit::VllmApplies)?;
    let reader = Hf { options: options.clone(), template };
    Ok(ChosenRows::open(found.rows, reader, context)?.with_notes(found.notes))
}

/// Columns that may be needed; the others of a table are not read.
#[cfg(feature = "parquet")]
fn is_wanted(options: &Options, column: &str) -> bool {
    match &options.text_column {
        Some(text) => text == column,
        None => [&CONVERSATIONS[..], &QUESTIONS, &ANSWERS].concat().contains(&column),
    }
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
    fn read(&self, row: &str, _: &DatasetContext) -> std::result::Result<Option<Draft>, String> {
        let fields: Map<String, Value> =
            serde_json::from_str(row).map_err(|error| error.to_string())?;
        let Some((question, answer)) = self.question(&fields) else {
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            let reason = format!("no text column for the prompt among {}", names.join(", "));
            return Err(reason);
        };
        let text = ChatTemplate::applied(self.template.as_ref(), question)?;
        Ok(Some(Draft { answer, ..Prompt::text(text).into() }))
    }

    fn measure(&self, draft: &Draft, context: &DatasetContext) -> Result<Option<TokenCounts>> {
        let prompt = context.tokens_of(&draft.prompt.content)?;
        let of_answer = match (&draft.answer, self.options.output_len) {
            (Some(answer), None) => context.tokenizer.count(answer)?,
            _ => 0,
        };
        let of_answer = u32::try_from(of_answer).ok().filter(|tokens| *tokens > 0);
        let output = self.options.output_len.or(of_answer).unwrap_or(OUTPUT_LEN);
        Ok(Some(TokenCounts { prompt: Some(prompt), output: Some(output) }))
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance::Skip
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RowOrder, Spec, Workload, open};
    use tokometer_base::PromptContent;

    fn workload(path: &std::path::Path, options: Options) -> Result<Workload> {
        let context =
            DatasetContext { row_order: RowOrder::AsInFile, ..DatasetContext::for_test(1, 0) };
        open(&Spec::Hf(Options { path: path.to_owned(), ..options }), &context)
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
    fn all_files_of_a_split_are_read_and_those_of_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, prompt: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{{\"prompt\":\"{prompt}\"}}\n")).unwrap();
        };
        write("main/train-00000-of-00002.jsonl", "a");
        write("main/train-00001-of-00002.jsonl", "b");
        write("main/test-00000-of-00001.jsonl", "c");
        write("other/train-00000-of-00001.jsonl", "d");
        write("main/latest.jsonl", "e");
        let texts = |subset: Option<&str>, split: Option<&str>| {
            let (subset, split) = (subset.map(str::to_owned), split.map(str::to_owned));
            let workload =
                workload(folder.path(), Options { subset, split, ..Options::default() }).unwrap();
            (0..workload.len())
                .map(|index| match workload.item(index).unwrap().prompt.content {
                    PromptContent::Text(text) => text,
                    other => panic!("{other:?}"),
                })
                .collect::<String>()
        };
        assert_eq!(texts(None, None), "ab");
        assert_eq!(texts(Some("main"), Some("test")), "c");
        assert_eq!(texts(Some("other"), None), "d");
    }

    #[test]
    fn a_dataset_in_the_hub_s_cache_needs_no_hub() {
        let folder = tempfile::tempdir().unwrap();
        let repo = folder.path().join("datasets--org--name");
        let snapshot = repo.join("snapshots/abc/data");
        std::fs::create_dir_all(&snapshot).unwrap();
        std::fs::create_dir_all(repo.join("refs")).unwrap();
        std::fs::write(repo.join("refs/main"), "abc").unwrap();
        std::fs::write(snapshot.join("train-00000.jsonl"), "{\"prompt\":\"a\"}\n").unwrap();
        std::fs::write(snapshot.join("train-00001.jsonl"), "{\"prompt\":\"b\"}\n").unwrap();
        let mut context = DatasetContext::for_test(1, 0);
        context.hub.cache = Some(folder.path().to_owned());
        context.hub.traffic = tokometer_tokenize::hub::NetworkUse::CacheOnly;
        let spec = |path: &str| Spec::Hf(Options { path: path.into(), ..Options::default() });
        assert_eq!(open(&spec("org/name"), &context).unwrap().len(), 2);
        let refused = open(&spec("org/missing"), &context).err().unwrap().to_string();
        assert!(refused.contains("`org/missing`") && refused.contains("offline"), "{refused}");
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
