//! Requests in OpenAI's chat form, one JSON object per line, also as the `body` of a batch file's lines.
//!
//! `messages` are sent as they are, with parts, tool calls and names; what else a line holds (tools, say) goes into the body of its
//! request, except what the run itself decides: the model, streaming, and the answer length.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::value::RawValue;
use tokometer_base::{Message, Prompt, PromptContent};

use crate::conversation_rows::{is_more_than_text, messages};
use crate::rows::FileRows;
use crate::selection::{ChosenRows, RowReader, RowReading};
use crate::{DatasetContext, Result, RowOrder, WireForm};

/// The answer length of a line that names none.
const OUTPUT_LEN: u32 = 256;

/// Fields of a line that the run decides.
const OWN_FIELDS: [&str; 6] =
    ["messages", "model", "stream", "stream_options", "max_tokens", "max_completion_tokens"];

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Options {
    pub path: PathBuf,
    /// The answer length. `None` takes `max_tokens` of each line, or 256.
    pub output_len: Option<u32>,
}

pub(crate) struct OpenAiBodies {
    output_len: Option<u32>,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<ChosenRows> {
    // The tool that has this dataset sends the lines as they stand.
    let context = DatasetContext { row_order: RowOrder::AsInFile, ..context.clone() };
    let reader = OpenAiBodies { output_len: options.output_len };
    ChosenRows::open(FileRows::open(&options.path)?, reader, &context)
}

impl RowReader for OpenAiBodies {
    fn read(&self, row: &str, context: &DatasetContext) -> RowReading {
        let fields = fields(row)?;
        let list = fields.get("messages").ok_or("it has no `messages` with a role and text")?;
        let messages = messages(list)?;
        let length = |name: &str| serde_json::from_str::<u32>(fields.get(name)?.get()).ok();
        let of_line = length("max_tokens").or_else(|| length("max_completion_tokens"));
        let output_tokens = self.output_len.or(of_line).unwrap_or(OUTPUT_LEN);
        let extra: BTreeMap<&str, &RawValue> = fields
            .iter()
            .filter(|(name, _)| !OWN_FIELDS.contains(&name.as_str()))
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        let asked = match context.form {
            WireForm::Chat => PromptContent::Messages(messages),
            WireForm::Text | WireForm::TokenIds | WireForm::Sound => {
                match messages.iter().position(is_more_than_text) {
                    None => PromptContent::Text(joined(&messages)),
                    Some(index) => {
                        let why = "has parts or tool calls that a text route cannot carry; use a chat backend";
                        return Err(format!("message {} {why}", index + 1));
                    }
                }
            }
        };
        let prompt = Prompt {
            content: asked,
            output_tokens: Some(output_tokens),
            extra_body: serde_json::to_string(&extra).ok().filter(|_| !extra.is_empty()),
            ..Prompt::text("")
        };
        Ok(Some(prompt.into()))
    }
}

/// The fields of a row, or of the `body` in a line of a batch file.
fn fields(row: &str) -> std::result::Result<BTreeMap<String, &RawValue>, String> {
    let read = |text| serde_json::from_str::<BTreeMap<String, &RawValue>>(text);
    let fields = read(row).map_err(|error| error.to_string())?;
    match fields.get("body").filter(|_| !fields.contains_key("messages")) {
        Some(body) => read(body.get()).map_err(|_| "its `body` is not an object".to_owned()),
        None => Ok(fields),
    }
}

/// A conversation as plain text, for routes that know no messages.
pub(crate) fn joined(messages: &[Message]) -> String {
    messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, open};

    #[test]
    fn messages_are_kept_and_other_fields_travel_with_the_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests.jsonl");
        let lines = [
            r#"{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":"hello"}]}],"max_tokens":9,"tools":[{"type":"function"}],"stream":true}"#,
            r#"{"messages":[{"role":"user","content":"hi"}]}"#,
        ];
        std::fs::write(&path, lines.join("\n")).unwrap();
        let context = DatasetContext { form: WireForm::Chat, ..DatasetContext::for_test(1, 0) };
        let workload = open(&Spec::Openai(Options { path, output_len: None }), &context).unwrap();
        let prompt = workload.item(0).unwrap().prompt;
        let PromptContent::Messages(messages) = &prompt.content else { panic!("no messages") };
        assert_eq!(messages[1].content, "hello");
        assert_eq!((prompt.prompt_tokens, prompt.output_tokens), (Some(3), Some(9)));
        assert_eq!(prompt.extra_body.as_deref(), Some(r#"{"tools":[{"type":"function"}]}"#));
        assert_eq!(
            messages[1].verbatim.as_deref(),
            Some(r#"{"role":"user","content":[{"type":"text","text":"hello"}]}"#)
        );
        let second = workload.item(1).unwrap().prompt;
        assert_eq!((second.output_tokens, second.extra_body), (Some(256), None));
    }

    #[test]
    fn the_bodies_of_a_batch_file_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("batch.jsonl");
        let row = r#"{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":9,"top_p":0.5}}"#;
        std::fs::write(&path, row).unwrap();
        let context = DatasetContext { form: WireForm::Chat, ..DatasetContext::for_test(1, 0) };
        let workload = open(&Spec::Openai(Options { path, output_len: None }), &context).unwrap();
        let prompt = workload.item(0).unwrap().prompt;
        assert_eq!(prompt.output_tokens, Some(9));
        assert_eq!(prompt.extra_body.as_deref(), Some(r#"{"top_p":0.5}"#));
    }

    /// Tool calls were dropped without a word.
    #[test]
    fn a_text_route_refuses_what_it_cannot_carry() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests.jsonl");
        let row = r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[]}]}"#;
        std::fs::write(&path, row).unwrap();
        let context = DatasetContext::for_test(1, 0);
        let spec = Spec::Openai(Options { path, output_len: None });
        let error = open(&spec, &context).err().unwrap().to_string();
        assert!(error.contains("line 1: message 2 has parts or tool calls"), "{error}");
    }

    #[test]
    fn a_line_without_messages_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests.jsonl");
        std::fs::write(&path, "{\"prompt\":\"x\"}\n").unwrap();
        let context = DatasetContext::for_test(1, 0);
        let error =
            open(&Spec::Openai(Options { path, output_len: None }), &context).err().unwrap();
        assert!(error.to_string().contains("line 1: it has no `messages`"), "{error}");
    }
}
