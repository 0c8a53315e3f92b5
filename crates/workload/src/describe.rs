//! A workload as a page: how many prompts, how long they are, what the first ones say.

use std::fmt::Write as _;
use std::io::Write;

use serde::Serialize;
use serde_json::value::RawValue;
use tokometer_base::{Message, PromptContent, Sound};

use crate::{DatasetNote, Error, Result, Workload};

/// Prompts whose lengths are counted for the histogram.
const COUNTED_PROMPTS: u64 = 10_000;

const SHOWN_CHARS: usize = 160;

const BAR_CHARS: usize = 40;

const BINS: u64 = 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Histogram {
    pub count: u64,
    pub total: u64,
    pub bins: Vec<Bin>,
}

/// The values from `low` to `high`, both included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bin {
    pub low: u64,
    pub high: u64,
    pub count: u64,
}

impl Histogram {
    /// The histogram of values. Without values it has no bins.
    pub fn of(values: &[u64]) -> Self {
        let (count, total) = (values.len() as u64, values.iter().sum());
        let (Some(low), Some(high)) = (values.iter().min(), values.iter().max()) else {
            return Self { count, total, bins: Vec::new() };
        };
        let width = (high - low + 1).div_ceil(BINS);
        let mut bins: Vec<Bin> = (0..(high - low + 1).div_ceil(width))
            .map(|bin| low + bin * width)
            .map(|low| Bin { low, high: (low + width - 1).min(*high), count: 0 })
            .collect();
        for value in values {
            let bin = usize::try_from((value - low) / width).unwrap_or(0);
            bins[bin].count += 1;
        }
        Self { count, total, bins }
    }

    /// The histogram as lines of text, one per bin. `title` says what is counted.
    pub fn lines(&self, title: &str) -> Vec<String> {
        if self.bins.is_empty() {
            return vec![format!("{title}: not counted")];
        }
        let mean = self.total as f64 / self.count as f64;
        let mut lines =
            vec![format!("{title}: {} values, mean {mean:.1}, total {}", self.count, self.total)];
        lines.extend(bars(&self.bins));
        lines
    }
}

/// A line with a bar for each bin.
pub(crate) fn bars(bins: &[Bin]) -> Vec<String> {
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(1);
    let digits = bins.last().map_or(1, |bin| bin.high.to_string().len());
    let count_digits = most.to_string().len();
    let bar = |Bin { low, high, count }: &Bin| {
        // A bin that is not empty shows at least one mark.
        let marks = (count * BAR_CHARS as u64).div_ceil(most);
        let bar = "#".repeat(usize::try_from(marks).unwrap_or(BAR_CHARS));
        let line = format!("  {low:>digits$} - {high:>digits$}  {count:>count_digits$}  {bar}");
        line.trim_end().to_owned()
    };
    bins.iter().map(bar).collect()
}

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
    use super::*;
    use crate::datasets::{custom, random};
    use crate::{DatasetContext, Ratio, RowOrder, Spec, open};

    fn context() -> DatasetContext {
        DatasetContext { row_order: RowOrder::AsInFile, ..DatasetContext::for_test(1, 30) }
    }

    #[test]
    fn a_histogram_shows_every_value_in_equal_bins() {
        let histogram = Histogram::of(&[5, 5, 6, 10, 24]);
        assert_eq!(
            histogram.lines("prompt tokens").join("\n"),
            "\
prompt tokens: 5 values, mean 10.0, total 50
   5 -  6  3  ########################################
   7 -  8  0
   9 - 10  1  ##############
  11 - 12  0
  13 - 14  0
  15 - 16  0
  17 - 18  0
  19 - 20  0
  21 - 22  0
  23 - 24  1  ##############"
        );
        assert_eq!(Histogram::of(&[7, 7]).bins, [Bin { low: 7, high: 7, count: 2 }]);
        assert_eq!(Histogram::of(&[]).lines("x"), ["x: not counted"]);
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
