//! Spec-Bench: questions by category, one JSON object per line with `category` and `turns`.
//!
//! The first turn is the prompt, as in vLLM's tool.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokometer_base::Prompt;

use crate::rows::FileRows;
use crate::selection::{ChosenRows, Draft, RowReader};
use crate::{DatasetContext, Result};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Options {
    pub path: PathBuf,
    pub output_len: u32,
    /// Questions of this category only. `None` takes all.
    pub category: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { path: PathBuf::new(), output_len: 256, category: None }
    }
}

pub(crate) struct Questions {
    options: Options,
}

#[derive(Deserialize)]
struct Question {
    category: Option<String>,
    turns: Vec<String>,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<ChosenRows> {
    let reader = Questions { options: options.clone() };
    ChosenRows::open(FileRows::open(&options.path)?, reader, context)
}

impl RowReader for Questions {
    fn read(&self, row: &str, _: &DatasetContext) -> std::result::Result<Option<Draft>, String> {
        let question: Question = serde_json::from_str(row).map_err(|why| why.to_string())?;
        if self.options.category.is_some() && self.options.category != question.category {
            return Ok(None);
        }
        let first = question.turns.into_iter().next().ok_or("its `turns` are empty")?;
        let prompt = Prompt { output_tokens: Some(self.options.output_len), ..Prompt::text(first) };
        Ok(Some(Draft { class: question.category, ..prompt.into() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RowOrder, Spec, open};
    use tokometer_base::PromptContent;

    #[test]
    fn the_first_turns_of_a_category_are_the_prompts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("question.jsonl");
        let rows = [
            r#"{"question_id":1,"category":"math","turns":["one two","later"]}"#,
            r#"{"question_id":2,"category":"rag","turns":["three"]}"#,
        ];
        std::fs::write(&path, rows.join("\n")).unwrap();
        let context =
            DatasetContext { row_order: RowOrder::AsInFile, ..DatasetContext::for_test(1, 0) };
        let options = Options { path, ..Options::default() };
        let all = open(&Spec::SpecBench(options.clone()), &context).unwrap();
        let first = all.item(0).unwrap();
        assert_eq!((all.len(), first.class.as_deref()), (2, Some("math")));
        assert_eq!(first.prompt.content, PromptContent::Text("one two".to_owned()));
        assert_eq!((first.prompt.prompt_tokens, first.prompt.output_tokens), (Some(2), Some(256)));
        let category = Some("rag".to_owned());
        let some = open(&Spec::SpecBench(Options { category, ..options }), &context).unwrap();
        assert_eq!(some.len(), 1);
    }
}
