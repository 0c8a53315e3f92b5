//! Conversations of a ShareGPT file: the first message asks, the length of the second is asked for.
//!
//! The file (a JSON array of hundreds of megabytes, usually) is passed over once to find its entries;
//! only those that are tried are read. Both tools' filters are known; what differs is the conventions followed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokometer_base::{Conventions, Prompt, PromptContent};
use tokometer_tokenize::{Specials, Tokenizer};

use crate::rows::FileRows;
use crate::selection::{ChosenRows, Draft, RowReader, TokenCounts, Tolerance};
use crate::template::{ChatTemplate, Habit};
use crate::{DatasetContext, DatasetNote, Error, Result, WireForm, order};

/// What SGLang keeps at the end of a prompt when it adds a suffix.
const ASSISTANT: &str = "Assistant:";

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Options {
    pub path: PathBuf,
    /// The answer length. `None` takes the length of the answer in the file.
    pub output_len: Option<u32>,
    /// The longest prompt with its answer, by SGLang's rules. `None` is no limit.
    pub context_len: Option<u32>,
    /// Text behind every prompt, by SGLang's rules.
    pub prompt_suffix: String,
}

#[derive(Debug, Clone, Copy)]
struct LengthLimits {
    prompt_min: u32,
    output_min: u32,
    prompt_max: u32,
    total_max: u32,
}

impl LengthLimits {
    const fn of(conventions: Conventions, context_len: Option<u32>) -> Self {
        match conventions {
            Conventions::Vllm => {
                Self { prompt_min: 4, output_min: 4, prompt_max: 1_024, total_max: 2_048 }
            }
            Conventions::Sglang => {
                let total_max = match context_len {
                    Some(length) => length,
                    None => u32::MAX,
                };
                Self { prompt_min: 2, output_min: 2, prompt_max: total_max, total_max }
            }
        }
    }
}

pub(crate) struct ShareGpt {
    options: Options,
    limits: LengthLimits,
    template: Option<ChatTemplate>,
    /// Whether a conversation had a system message before its first exchange.
    has_system: AtomicBool,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<ChosenRows> {
    let reader = ShareGpt::new(options.clone(), context)?;
    ChosenRows::open(FileRows::open(&options.path)?, reader, context)
}

impl ShareGpt {
    pub(crate) fn new(options: Options, context: &DatasetContext) -> Result<Self> {
        if options.output_len.is_some_and(|length| length < 4)
            && context.conventions == Conventions::Sglang
        {
            let reason = "the answer length must be at least 4".to_owned();
            return Err(Error::Options { dataset: "sharegpt", reason });
        }
        let limits = LengthLimits::of(context.conventions, options.context_len);
        let template = ChatTemplate::open(context, Habit::Raw)?;
        let has_system = AtomicBool::new(false);
        Ok(Self { options, limits, template, has_system })
    }

    fn with_suffix(&self, text: String) -> String {
        let suffix = &self.options.prompt_suffix;
        if suffix.is_empty() {
            return text;
        }
        let body = text.strip_suffix(ASSISTANT).unwrap_or(&text);
        format!("{body}{suffix}{ASSISTANT}")
    }
}

/// An entry. Text is owned, because it may be escaped.
#[derive(Deserialize)]
struct Entry {
    #[serde(alias = "conversation")]
    conversations: Option<Vec<Turn>>,
    /// The name of other datasets for the same.
    messages: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Turn {
    #[serde(alias = "content")]
    value: String,
    #[serde(default)]
    from: Value,
    #[serde(default)]
    role: Value,
}

impl Turn {
    fn is_system(&self) -> bool {
        [&self.from, &self.role].into_iter().any(|who| who == "system")
    }
}

impl RowReader for ShareGpt {
    fn read(&self, row: &str, _: &DatasetContext) -> std::result::Result<Option<Draft>, String> {
        if !row.trim_start().starts_with('{') {
            let reason =
                "it is not a JSON object; a file is one array of objects, or has one per line";
            return Err(reason.into());
        }
        let entry: Entry = serde_json::from_str(row).map_err(|error| error.to_string())?;
        let Some(conversations) = entry.conversations else {
            let reason = match entry.messages {
                Some(_) => "it has `messages` instead of `conversations`; use the dataset `openai`",
                None => "it has no `conversations`",
            };
            return Err(reason.into());
        };
        if conversations.first().is_some_and(Turn::is_system) {
            self.has_system.store(true, Ordering::Relaxed);
        }
        let turns = conversations.into_iter().skip_while(Turn::is_system);
        let mut turns = turns.map(|turn| turn.value);
        let (Some(prompt), Some(answer)) = (turns.next(), turns.next()) else {
            return Ok(None);
        };
        let text = ChatTemplate::applied(self.template.as_ref(), self.with_suffix(prompt))?;
        let prompt = Prompt { output_tokens: self.options.output_len, ..Prompt::text(text) };
        Ok(Some(Draft { answer: Some(answer), ..prompt.into() }))
    }

    fn measure(&self, draft: &Draft, context: &DatasetContext) -> Result<Option<TokenCounts>> {
        let (PromptContent::Text(text), Some(answer)) = (&draft.prompt.content, &draft.answer)
        else {
            return Ok(None);
        };
        let LengthLimits { prompt_min, output_min, prompt_max, total_max } = self.limits;
        let specials = match context.form {
            WireForm::Text => Specials::Add,
            WireForm::Chat | WireForm::TokenIds | WireForm::Sound => Specials::Skip,
        };
        let Some(prompt) = count_within(&*context.tokenizer, text, specials, prompt_max)? else {
            return Ok(None);
        };
        let room = total_max.saturating_sub(prompt);
        let output = match self.options.output_len {
            Some(length) => Some(length).filter(|length| *length <= room),
            None => count_within(&*context.tokenizer, answer, Specials::Skip, room)?
                .filter(|length| *length >= output_min),
        };
        let is_kept = prompt >= prompt_min && output.is_some();
        Ok(is_kept.then_some(TokenCounts { prompt: Some(prompt), output }))
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance::Skip
    }

    fn notes(&self) -> Vec<DatasetNote> {
        let text = "conversations begin with a system message, which is left out; vLLM and SGLang send it as \
                    the prompt";
        let has_system = self.has_system.load(Ordering::Relaxed);
        has_system.then(|| DatasetNote::new("system-turns", text.to_owned())).into_iter().collect()
    }
}

/// The tokens of a text, or `None` when they are more than `most`. A text that is far too long is
/// judged by its beginning, because counting costs more than reading.
fn count_within(
    tokenizer: &dyn Tokenizer,
    text: &str,
    specials: Specials,
    most: u32,
) -> Result<Option<u32>> {
    /// Common texts have fewer bytes per token than this.
    const BYTES_PER_TOKEN: usize = 6;
    /// Tokens that cutting the text may add.
    const SLACK: usize = 8;
    let limit = usize::try_from(most).unwrap_or(usize::MAX);
    let beginning = limit.saturating_mul(BYTES_PER_TOKEN);
    if text.len() > beginning.saturating_mul(2) {
        let end = text.floor_char_boundary(beginning);
        if tokenizer.count(&text[..end])? > limit.saturating_add(SLACK) {
            return Ok(None);
        }
    }
    let count = tokenizer.encode(text, specials)?.len();
    Ok(u32::try_from(count).ok().filter(|count| *count <= most))
}

/// The first messages of a file's conversations, for datasets that only need text.
pub(crate) struct FirstMessages {
    rows: FileRows,
    order: Vec<usize>,
}

impl FirstMessages {
    pub(crate) fn open(path: &Path, context: &DatasetContext) -> Result<Self> {
        let rows = FileRows::open(path)?;
        if rows.len() == 0 {
            let reason = "it has no conversation".to_owned();
            return Err(Error::TooShort { path: path.to_owned(), reason });
        }
        // The salt orders them: what text fills a prompt is content, not shape.
        let order = order::shuffled(rows.len(), context.salt, "texts");
        let texts = Self { rows, order };
        let _first = texts.text(0)?;
        Ok(texts)
    }

    /// The text for prompt `index`: rows that cannot be read give way to the next.
    pub(crate) fn text(&self, index: u64) -> Result<String> {
        let start = usize::try_from(index % self.order.len() as u64).unwrap_or(0);
        for row in self.order.iter().cycle().skip(start).take(self.order.len()) {
            let entry = serde_json::from_str::<Entry>(&self.rows.text(*row)?).ok();
            let turns = entry.and_then(|entry| entry.conversations);
            let first = turns.and_then(|turns| turns.into_iter().find(|turn| !turn.is_system()));
            if let Some(turn) = first.filter(|turn| !turn.value.trim().is_empty()) {
                return Ok(turn.value);
            }
        }
        let reason = "it has no conversation with text".to_owned();
        Err(Error::TooShort { path: self.rows.path().to_owned(), reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, Workload, open};

    fn entry(prompt: &str, answer: &str) -> String {
        serde_json::json!({"id": "x", "conversations": [
            {"from": "human", "value": prompt}, {"from": "gpt", "value": answer}
        ]})
        .to_string()
    }

    fn workload(
        entries: &[String],
        conventions: Conventions,
        options: Options,
    ) -> Result<Workload> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conversations.json");
        std::fs::write(&path, format!("[{}]", entries.join(",\n"))).unwrap();
        let context = DatasetContext { conventions, ..DatasetContext::for_test(1, 0) };
        open(&Spec::Sharegpt(Options { path, ..options }), &context)
    }

    fn lengths(workload: &Workload) -> Vec<(u32, u32)> {
        let shape = |index| {
            let prompt = workload.item(index).unwrap().prompt;
            (prompt.prompt_tokens.unwrap(), prompt.output_tokens.unwrap())
        };
        let mut all: Vec<_> = (0..workload.len()).map(shape).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn each_tool_keeps_its_own_lengths() {
        let words = |count: usize| vec!["word"; count].join(" ");
        let entries: Vec<String> =
            [(1, 10), (3, 3), (10, 20), (1_024, 1_024), (1_024, 1_025), (1_025, 5), (9_000, 5)]
                .map(|(prompt, answer)| entry(&words(prompt), &words(answer)))
                .to_vec();
        let check = |conventions, options, expected: &[(u32, u32)]| {
            assert_eq!(lengths(&workload(&entries, conventions, options).unwrap()), expected);
        };
        check(Conventions::Vllm, Options::default(), &[(10, 20), (1_024, 1_024)]);
        let override_ = Options { output_len: Some(7), ..Options::default() };
        check(Conventions::Vllm, override_, &[(10, 7), (1_024, 7), (1_024, 7)]);
        let context_len = Options { context_len: Some(1_030), ..Options::default() };
        check(Conventions::Sglang, context_len, &[(3, 3), (10, 20), (1_025, 5)]);
    }

    #[test]
    fn broken_entries_are_left_out_counted_and_shown() {
        let entries = [
            entry("how are you today", "very well, thank you"),
            r#"{"id":"no conversations"}"#.into(),
            r#"{"conversations":[{"from":"human"}]}"#.into(),
            r#"{"conversations":[{"value":"alone"}]}"#.into(),
        ];
        let workload = workload(&entries, Conventions::Vllm, Options::default()).unwrap();
        let notes = workload.notes();
        assert_eq!(notes[0].code, "skipped-rows");
        assert!(notes[0].text.contains("2 of 4 entries"), "{notes:?}");
        assert!(notes[0].text.contains("line 2: it has no `conversations`"), "{notes:?}");
    }

    #[test]
    fn a_file_without_any_usable_entry_is_too_short() {
        let error =
            workload(&[entry("hi", "ho")], Conventions::Vllm, Options::default()).err().unwrap();
        assert!(error.to_string().contains("none of its 1 entries can be used"), "{error}");
        assert!(workload(&[], Conventions::Vllm, Options::default()).is_err());
    }

    /// The system message was sent as the prompt, and the question's length asked for as the answer's.
    #[test]
    fn a_system_message_is_left_out_with_a_note() {
        for who in ["from", "role"] {
            let turn = |role: &str, text: &str| serde_json::json!({who: role, "value": text});
            let turns = [
                turn("system", "be brief"),
                turn("human", "one two three four"),
                turn("gpt", "a b c d e"),
            ];
            let entries = [serde_json::json!({"conversations": turns}).to_string()];
            let workload = workload(&entries, Conventions::Vllm, Options::default()).unwrap();
            assert_eq!(lengths(&workload), [(4, 5)], "{who}");
            assert_eq!(workload.notes()[0].code, "system-turns");
        }
    }

    #[test]
    fn the_reason_is_said_when_no_entry_can_be_read() {
        let check = |entry: &str, expected: &str| {
            let entries = [entry.to_owned()];
            let error = workload(&entries, Conventions::Vllm, Options::default()).err().unwrap();
            assert!(error.to_string().contains(expected), "{error}");
        };
        check("{}", "line 1: it has no `conversations`");
        check(r#"{"messages":[]}"#, "line 1: it has `messages` instead of `conversations`");
        check(r#"[{"value":"a"}]"#, "line 1: it is not a JSON object");
    }

    #[test]
    fn a_suffix_goes_before_the_assistants_mark() {
        let options = Options { prompt_suffix: " Be brief.".into(), ..Options::default() };
        let entries = [entry("What is up? Assistant:", "not much at all")];
        let item = workload(&entries, Conventions::Sglang, options).unwrap().item(0).unwrap();
        let expected = PromptContent::Text("What is up?  Be brief.Assistant:".into());
        assert_eq!(item.prompt.content, expected);
    }
}
