//! A workload as a page: how many prompts, how long they are, what the first ones say.

use std::fmt::Write as _;
use std::io::Write;

use serde::Serialize;
use serde_json::value::RawValue;
use tokometer_base::{Message, PromptContent, Sound};

use crate::{DatasetNote, Error, Histogram, Result, Workload};

/// Prompts whose lengths are counted for the histogram.
const COUNTED_PROMPTS: u64 = 10_000;

const SHOWN_CHARS: usize = 160;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Description {
    pub count: u64,
    /// Prompts whose lengths were counted: the first ones.
    pub counted: u64,
    pub inputs: Histogram,
    pub outputs: Histogram,
    pub first: Vec<String>,
    pub notes: Vec<DatasetNote>,
}

impl Description {
    pub fn to_text(&self) -> String {
        let mut text = format!("{} prompts\n", self.count);
        if self.counted < self.count {
            let _ = writeln!(text, "(lengths of the first {})", self.counted);
        }
        for line in self.inputs.lines("prompt tokens") {
            let _ = writeln!(text, "{line}");
        }
        for line in self.outputs.lines("answer tokens") {
            let _ = writeln!(text, "{line}");
        }
        for (index, prompt) in self.first.iter().enumerate() {
            let _ = writeln!(text, "prompt {index}: {prompt}");
        }
        for DatasetNote { code, text: note } in &self.notes {
            let _ = writeln!(text, "note[{code}]: {note}");
        }
        text
    }
}

fn beginning(content: &PromptContent) -> String {
    let text = match content {
        PromptContent::Text(text) => text.clone(),
        PromptContent::TokenIds(ids) => {
            ids.iter().take(SHOWN_CHARS).map(u32::to_string).collect::<Vec<_>>().join(" ")
        }
        PromptContent::Messages(messages) => {
            let parts =
                messages.iter().map(|message| format!("{}: {}", message.role, message.content));
            parts.collect::<Vec<_>>().join(" | ")
        }
        PromptContent::Inputs(texts) => texts.join(" | "),
        PromptContent::Ranking { query, documents } => {
            format!("query: {query} | {}", documents.join(" | "))
        }
        PromptContent::Sound(sound) => describe_sound(sound),
    };
    let line: String =
        text.chars().take(SHOWN_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN_CHARS).is_some() { line + "…" } else { line }
}

fn describe_sound(sound: &Sound) -> String {
    let length = sound.length.map_or("of unknown length".to_owned(), |length| length.to_string());
    format!("audio: {}, {} bytes, {length}", sound.media_type, sound.bytes.len())
}

/// A line of an export, which `custom` reads back.
#[derive(Serialize)]
struct ExportRow<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<Exported<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    documents: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_body: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_seconds: Option<f64>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Exported<'a> {
    Text(&'a str),
    TokenIds(&'a [u32]),
    Messages(Vec<ExportedMessage<'a>>),
    Texts(&'a [String]),
}

#[derive(Serialize)]
#[serde(untagged)]
enum ExportedMessage<'a> {
    Plain(&'a Message),
    Verbatim(Box<RawValue>),
}

impl<'a> ExportedMessage<'a> {
    fn of(message: &'a Message) -> Self {
        raw(message.verbatim.as_deref()).map_or(Self::Plain(message), Self::Verbatim)
    }
}

fn raw(json: Option<&str>) -> Option<Box<RawValue>> {
    RawValue::from_string(json?.to_owned()).ok()
}

impl Workload {
    /// Describes the workload, with the beginnings of its first `shown` prompts.
    pub fn describe(&self, shown: u64) -> Result<Description> {
        let counted = self.len().min(COUNTED_PROMPTS);
        let (mut inputs, mut outputs, mut first) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..counted {
            let prompt = self.item(index)?.prompt;
            inputs.extend(prompt.prompt_tokens.map(u64::from));
            outputs.extend(prompt.output_tokens.map(u64::from));
            if index < shown {
                first.push(beginning(&prompt.content));
            }
        }
        Ok(Description {
            count: self.len(),
            counted,
            inputs: Histogram::of(&inputs),
            outputs: Histogram::of(&outputs),
            first,
            notes: self.notes(),
        })
    }

    /// Writes all prompts as JSON lines that `custom` reads back. The inner error is the writer's.
    pub fn export(&self, out: &mut dyn Write) -> Result<std::io::Result<()>> {
        for index in 0..self.len() {
            let item = self.item(index)?;
            let (query, documents) = match &item.prompt.content {
                PromptContent::Ranking { query, documents } => {
                    (Some(query.as_str()), Some(documents.as_slice()))
                }
                _ => (None, None),
            };
            let line = ExportRow {
                prompt: match &item.prompt.content {
                    PromptContent::Text(text) => Some(Exported::Text(text)),
                    PromptContent::TokenIds(ids) => Some(Exported::TokenIds(ids)),
                    PromptContent::Messages(messages) => {
                        Some(Exported::Messages(messages.iter().map(ExportedMessage::of).collect()))
                    }
                    PromptContent::Inputs(texts) => Some(Exported::Texts(texts)),
                    PromptContent::Ranking { .. } => None,
                    PromptContent::Sound(_) => {
                        let reason = "audio clips cannot be exported; name their files in the rows of `custom_audio`";
                        return Err(Error::Options { dataset: "audio", reason: reason.to_owned() });
                    }
                },
                query,
                documents,
                extra_body: raw(item.prompt.extra_body.as_deref()),
                prompt_tokens: item.prompt.prompt_tokens,
                output_tokens: item.prompt.output_tokens,
                class: item.class.as_deref(),
                due_seconds: item.due.map(tokometer_base::Nanos::as_secs_f64),
            };
            let written = serde_json::to_writer(&mut *out, &line)
                .map_err(std::io::Error::from)
                .and_then(|()| out.write_all(b"\n"));
            if written.is_err() {
                return Ok(written);
            }
        }
        Ok(out.flush())
    }
}

#[cfg(test)]
mod tests {
    use crate::datasets::{custom, random};
    use crate::{DatasetContext, Ratio, RowOrder, Spec, open};

    fn context() -> DatasetContext {
        DatasetContext { row_order: RowOrder::AsInFile, ..DatasetContext::for_test(1, 30) }
    }

    #[test]
    fn an_export_is_read_back_by_custom() {
        let options = random::Options {
            input_len: 20,
            range_ratio: Ratio::both(0.5),
            ..random::Options::default()
        };
        let original = open(&Spec::Random(options), &context()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("export.jsonl");
        let mut file = std::fs::File::create(&path).unwrap();
        original.export(&mut file).unwrap().unwrap();
        let options = custom::Options { path, output_len: None, ..custom::Options::default() };
        let again = open(&Spec::Custom(options), &context()).unwrap();
        assert_eq!(again.len(), 30);
        for index in 0..30 {
            assert_eq!(original.item(index).unwrap().prompt, again.item(index).unwrap().prompt);
        }
    }

    #[test]
    fn a_description_has_counts_lengths_and_the_first_prompts() {
        let options = random::Options { input_len: 50, ..random::Options::default() };
        let description = open(&Spec::Random(options), &context()).unwrap().describe(2).unwrap();
        let text = description.to_text();
        assert!(
            text.starts_with("30 prompts\nprompt tokens: 30 values, mean 50.0, total 1500\n"),
            "{text}"
        );
        assert_eq!(description.first.len(), 2);
        assert!(description.first[0].ends_with('…'));
    }
}
