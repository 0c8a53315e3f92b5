//! Prompts of the user's own file, one JSON object per line.
//!
//! vLLM's form is `prompt` with an optional `output_tokens`; SGLang's is `conversations`, read like
//! ShareGPT. The export of a dataset is in vLLM's form, with its due times and classes beside.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokometer_base::{Conventions, Prompt, PromptContent};

use crate::conversation_rows::messages;
use crate::datasets::sharegpt::{self, ShareGpt};
use crate::rows::FileRows;
use crate::selection::{ChosenRows, Draft, RowReader};
use crate::template::{ChatTemplate, Habit};
use crate::{DatasetContext, DatasetNote, Result};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Options {
    pub path: PathBuf,
    /// The answer length. `None` takes `output_tokens` of each line.
    pub output_len: Option<u32>,
    /// The longest prompt with its answer, by SGLang's rules. `None` is no limit.
    pub context_len: Option<u32>,
    /// Text behind every prompt, by SGLang's rules.
    pub prompt_suffix: String,
}

impl Default for Options {
    fn default() -> Self {
        Self::by_conventions(Conventions::Vllm)
    }
}

impl Options {
    /// The defaults of the tool whose conventions are followed: SGLang's takes the length of the answers in the file.
    pub const fn by_conventions(conventions: Conventions) -> Self {
        let output_len = match conventions {
            Conventions::Vllm => Some(256),
            Conventions::Sglang => None,
        };
        Self { path: PathBuf::new(), output_len, context_len: None, prompt_suffix: String::new() }
    }
}

pub(crate) struct Lines {
    output_len: Option<u32>,
    template: Option<ChatTemplate>,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<ChosenRows> {
    let rows = FileRows::open(&options.path)?;
    let notes = unused_lengths(&rows, options, context)?;
    let chosen = match context.conventions {
        Conventions::Vllm => {
            let template = ChatTemplate::open(context, Habit::VllmApplies)?;
            ChosenRows::open(rows, Lines { output_len: options.output_len, template }, context)?
        }
        Conventions::Sglang => {
            let like_sharegpt = sharegpt::Options {
                output_len: options.output_len,
                context_len: options.context_len,
                prompt_suffix: options.prompt_suffix.clone(),
                path: options.path.clone(),
            };
            ChosenRows::open(rows, ShareGpt::new(like_sharegpt, context)?, context)?
        }
    };
    Ok(chosen.with_notes(notes))
}

/// A note where the rows have answer lengths that are not used, as with vLLM's default. The first row
/// stands for all.
fn unused_lengths(
    rows: &FileRows,
    options: &Options,
    context: &DatasetContext,
) -> Result<Vec<DatasetNote>> {
    let Some(used) = options.output_len.filter(|_| context.conventions == Conventions::Vllm) else {
        return Ok(Vec::new());
    };
    if rows.len() == 0 {
        return Ok(Vec::new());
    }
    let row = serde_json::from_str::<CustomRow>(&rows.text(0)?).ok();
    let own = row.and_then(|row| row.output_tokens).filter(|own| *own != used);
    let note = |own: u32| {
        let text = format!(
            "rows have `output_tokens` ({own} in the first), but {used} are asked for; \
             `--custom-output-len -1` uses the rows' own"
        );
        DatasetNote::new("unused-lengths", text)
    };
    Ok(own.map(note).into_iter().collect())
}

/// A line in vLLM's form, or of an export.
#[derive(Deserialize)]
struct CustomRow {
    prompt: Option<Box<RawValue>>,
    query: Option<String>,
    documents: Option<Vec<String>>,
    output_tokens: Option<u32>,
    class: Option<String>,
    extra_body: Option<Box<RawValue>>,
}

/// What a `prompt` may be besides a conversation.
#[derive(Deserialize)]
#[serde(untagged)]
enum PromptValue {
    Text(String),
    TokenIds(Vec<u32>),
    Texts(Vec<String>),
}

impl CustomRow {
    fn content(&self) -> std::result::Result<PromptContent, String> {
        let Some(prompt) = &self.prompt else {
            return match (&self.query, &self.documents) {
                (Some(query), Some(documents)) if !documents.is_empty() => {
                    let (query, documents) = (query.clone(), documents.clone());
                    Ok(PromptContent::Ranking { query, documents })
                }
                (Some(_), _) => Err("it has a `query` without `documents`".to_owned()),
                _ => Err("it has no `prompt`".to_owned()),
            };
        };
        match serde_json::from_str(prompt.get()) {
            Ok(PromptValue::Text(text)) => Ok(PromptContent::Text(text)),
            Ok(PromptValue::TokenIds(ids)) => Ok(PromptContent::TokenIds(ids)),
            Ok(PromptValue::Texts(texts)) => Ok(PromptContent::Inputs(texts)),
            Err(_) => messages(prompt).map(PromptContent::Messages),
        }
    }

    fn extra_body(&self) -> std::result::Result<Option<String>, String> {
        let Some(extra) = &self.extra_body else { return Ok(None) };
        if !extra.get().starts_with('{') {
            return Err("its `extra_body` is not an object".to_owned());
        }
        Ok(Some(extra.get().to_owned()))
    }
}

impl RowReader for Lines {
    fn read(&self, row: &str, _: &DatasetContext) -> std::result::Result<Option<Draft>, String> {
        let line: CustomRow = serde_json::from_str(row).map_err(|error| error.to_string())?;
        let (content, extra_body) = (line.content()?, line.extra_body()?);
        // Where nothing is generated, no length is asked for.
        let is_generated =
            !matches!(content, PromptContent::Inputs(_) | PromptContent::Ranking { .. });
        let content = match content {
            PromptContent::Text(text) => {
                PromptContent::Text(ChatTemplate::applied(self.template.as_ref(), text)?)
            }
            other => other,
        };
        let output_tokens = self.output_len.or(line.output_tokens).filter(|_| is_generated);
        if output_tokens.is_none() && is_generated {
            return Err("it has no `output_tokens`, and no answer length was given".into());
        }
        let prompt = Prompt { content, output_tokens, extra_body, ..Prompt::text("") };
        Ok(Some(Draft { class: line.class, ..prompt.into() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RowOrder, Spec, Workload, open};

    fn workload(
        text: &str,
        count: u64,
        adjust: impl FnOnce(&mut DatasetContext, &mut Options),
    ) -> Result<Workload> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prompts.jsonl");
        std::fs::write(&path, text).unwrap();
        let mut context = DatasetContext::for_test(1, count);
        let mut options = Options { path, ..Options::default() };
        adjust(&mut context, &mut options);
        open(&Spec::Custom(options), &context)
    }

    const TWO: &str = "{\"prompt\":\"one two\",\"output_tokens\":5}\n{\"prompt\":\"three\",\"output_tokens\":6}\n";

    #[test]
    fn prompts_come_in_the_order_of_the_file_when_asked() {
        let workload = workload(TWO, 0, |context, options| {
            context.row_order = RowOrder::AsInFile;
            options.output_len = None;
        });
        let workload = workload.unwrap();
        assert!(workload.notes().is_empty(), "the rows' own lengths are used");
        assert_eq!(workload.len(), 2);
        let prompt = workload.item(0).unwrap().prompt;
        assert_eq!(prompt.content, PromptContent::Text("one two".into()));
        assert_eq!((prompt.prompt_tokens, prompt.output_tokens), (Some(2), Some(5)));
    }

    #[test]
    fn rows_are_repeated_by_vllms_rules_and_not_otherwise() {
        let repeated = workload(TWO, 5, |_, _| {}).unwrap();
        assert_eq!(repeated.len(), 5);
        let codes: Vec<_> = repeated.notes().iter().map(|note| note.code).collect();
        assert_eq!(codes, ["few-rows", "unused-lengths"]);
        assert_eq!(repeated.item(4).unwrap().prompt.output_tokens, Some(256));
        let fewer =
            workload(TWO, 5, |context, _| context.oversample = crate::Oversample::Never).unwrap();
        assert_eq!(fewer.len(), 2);
    }

    #[test]
    fn a_line_that_cannot_be_used_is_named() {
        let check = |text: &str, expected: &str| {
            let error = workload(text, 0, |_, options| options.output_len = None).err().unwrap();
            assert!(error.to_string().contains(expected), "{error}");
        };
        check("", "it is empty");
        check("hello\n", "line 1: it is neither a JSON array nor JSON lines");
        check(
            "{\"prompt\":\"a\",\"output_tokens\":1}\n{\"text\":\"b\"}\n",
            "line 2: it has no `prompt`",
        );
        check("{\"prompt\":\"a\"}\n", "line 1: it has no `output_tokens`");
        check("{\"prompt\":\"a\",\n", "line 1: EOF while parsing");
    }

    #[test]
    fn a_row_may_hold_several_texts_a_ranking_or_a_body_of_its_own() {
        let rows = concat!(
            r#"{"prompt":["one","two words"]}"#,
            "\n",
            r#"{"query":"q","documents":["one","two words"]}"#,
            "\n",
            r#"{"prompt":[{"role":"user","name":"ann","content":"hi"}],"output_tokens":3,"extra_body":{"tools":[{"b":1,"a":2}]}}"#,
            "\n",
        );
        let workload = workload(rows, 0, |context, options| {
            context.row_order = RowOrder::AsInFile;
            options.output_len = None;
        });
        let workload = workload.unwrap();
        let texts = || vec!["one".to_owned(), "two words".to_owned()];
        let first = workload.item(0).unwrap().prompt;
        assert_eq!(first.content, PromptContent::Inputs(texts()));
        assert_eq!((first.prompt_tokens, first.output_tokens), (Some(3), None));
        let second = workload.item(1).unwrap().prompt;
        let ranking = PromptContent::Ranking { query: "q".to_owned(), documents: texts() };
        assert_eq!((second.content, second.prompt_tokens), (ranking, Some(5)));
        let third = workload.item(2).unwrap().prompt;
        assert_eq!(third.extra_body.as_deref(), Some(r#"{"tools":[{"b":1,"a":2}]}"#));
        let PromptContent::Messages(messages) = third.content else { panic!("no messages") };
        assert!(messages[0].verbatim.as_deref().unwrap().contains("ann"));
        let mut export = Vec::new();
        workload.export(&mut export).unwrap().unwrap();
        assert_eq!(
            String::from_utf8(export).unwrap().lines().nth(2).unwrap(),
            r#"{"prompt":[{"role":"user","name":"ann","content":"hi"}],"extra_body":{"tools":[{"b":1,"a":2}]},"prompt_tokens":1,"output_tokens":3}"#
        );
    }

    #[test]
    fn bad_rows_are_refused_or_skipped_as_the_user_wants() {
        let rows = "{\"prompt\":\"a\"}\n{\"prompt\":[{\"role\":\"user\",\"content\":[{\"kind\":\"pic\"}]}]}\n";
        let error = workload(rows, 0, |_, _| {}).err().unwrap().to_string();
        assert!(error.contains("line 2: message 1: part 1: it has no `type`"), "{error}");
        let kept = workload(rows, 0, |context, _| context.bad_rows = crate::BadRows::Skip).unwrap();
        assert_eq!((kept.len(), kept.notes()[0].code), (1, "skipped-rows"));
    }

    #[test]
    fn sglangs_form_is_read_like_sharegpt_and_bad_lines_are_skipped() {
        let text = "{\"conversations\":[{\"content\":\"how are you\"},{\"content\":\"very well\"}]}\nnonsense\n";
        let workload = workload(text, 0, |context, options| {
            context.conventions = Conventions::Sglang;
            options.output_len = None;
            options.prompt_suffix = " Be brief.".into();
        });
        let workload = workload.unwrap();
        assert_eq!(workload.len(), 1);
        let prompt = workload.item(0).unwrap().prompt;
        assert_eq!(prompt.output_tokens, Some(2));
        assert_eq!(prompt.content, PromptContent::Text("how are you Be brief.Assistant:".into()));
        assert_eq!(workload.notes()[0].code, "skipped-rows");
    }
}
