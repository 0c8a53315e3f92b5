//! A Mooncake trace: requests with times in milliseconds and ids of shared blocks.
//!
//! By SGLang's rules a block is its id followed by the same short word 128 times, so that equal ids
//! give equal text; times count from the first request. Rounds of one request are sent together,
//! with a stand-in for the answers between them.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;
use tokometer_base::{Message, Nanos, Prompt, PromptContent};

use crate::datasets::openai::joined;
use crate::datasets::timed_trace::{self, SortedTrace, TraceLine};
use crate::{DatasetContext, DatasetNote, Error, PlannedPrompt, Result, Source, WireForm};

/// Words behind each block's id.
const BLOCK_WORDS: usize = 128;

/// What is asked behind the blocks.
const REQUEST: &str = "Write a long report about what was said above.";

/// Stands for an answer between two rounds.
const STAND_IN: &str = "I see.";

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Options {
    pub path: PathBuf,
    /// Stretches the times: 2 sends half as many requests per second.
    pub slowdown_factor: f64,
    pub num_rounds: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { path: PathBuf::new(), slowdown_factor: 1.0, num_rounds: 1 }
    }
}

pub(crate) struct Mooncake {
    options: Options,
    context: DatasetContext,
    trace: SortedTrace,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<Mooncake> {
    let is_slowdown = options.slowdown_factor.is_finite() && options.slowdown_factor > 0.0;
    if !is_slowdown || options.num_rounds == 0 {
        let reason =
            "the slowdown factor must be greater than zero, and the number of rounds at least 1"
                .to_owned();
        return Err(Error::Options { dataset: "mooncake", reason });
    }
    let lines = context.count.div_ceil(u64::from(options.num_rounds));
    let mut trace = SortedTrace::open(&options.path, lines, timed_trace::LABELS)?;
    // Its prompts are made of blocks: without any, all of them would be one short sentence.
    if trace.records.iter().all(|record| record.hash_ids.is_empty()) {
        let reason = "no request has `hash_ids`, of which the prompts are made\n  try `--dataset-name timed_trace`";
        return Err(Error::TooShort { path: options.path.clone(), reason: reason.to_owned() });
    }
    let text = "as in SGLang, `input_length` is not used: a prompt has the length of its blocks' text\n  use \
                `--trace FILE` for the recorded lengths";
    trace.notes.push(DatasetNote::new("own-lengths", text));
    Ok(Mooncake { options: options.clone(), context: context.clone(), trace })
}

impl Mooncake {
    fn question(&self, record: &TraceLine) -> String {
        // One number in front keeps a repeated run apart; within a run prefixes stay shared.
        let mut text = format!("{:08x}", self.context.salt.stream("prefix").draw(0) >> 32);
        for id in &record.hash_ids {
            let _ = write!(text, " {id}");
            text.push_str(&" hi".repeat(BLOCK_WORDS));
        }
        text.push('\n');
        text.push_str(REQUEST);
        text
    }

    fn messages(&self, record: &TraceLine, round: u64) -> Vec<Message> {
        let message = |role: &str, content: &str| Message::new(role, content);
        let mut messages = vec![message("user", &self.question(record))];
        for _ in 0..round {
            messages.push(message("assistant", STAND_IN));
            messages.push(message("user", REQUEST));
        }
        messages
    }
}

impl Source for Mooncake {
    fn len(&self) -> u64 {
        self.trace.records.len() as u64 * u64::from(self.options.num_rounds)
    }

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let rounds = u64::from(self.options.num_rounds);
        let (record, _) = self.trace.at(index / rounds);
        let messages = self.messages(record, index % rounds);
        let content = match self.context.form {
            WireForm::Chat => PromptContent::Messages(messages),
            WireForm::Text | WireForm::TokenIds | WireForm::Sound => {
                PromptContent::Text(joined(&messages))
            }
        };
        let prompt = Prompt {
            prompt_tokens: Some(self.context.tokens_of(&content)?),
            content,
            output_tokens: Some(record.output_length),
            ..Prompt::text("")
        };
        Ok(PlannedPrompt::given(prompt, None))
    }

    fn due(&self, index: u64) -> Option<Nanos> {
        let (_, time) = self.trace.at(index / u64::from(self.options.num_rounds));
        let first = self.trace.records.first().map_or(0.0, |record| record.timestamp);
        Some(Nanos::from_millis_f64((time - first) * self.options.slowdown_factor))
    }

    fn notes(&self) -> Vec<DatasetNote> {
        self.trace.notes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Item, Spec, open};

    /// All prompts were the same short sentence, whatever their lengths in the file.
    #[test]
    fn a_trace_without_blocks_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        std::fs::write(&path, r#"{"timestamp":1000,"input_length":900,"output_length":5}"#)
            .unwrap();
        let options = Options { path, ..Options::default() };
        let context = DatasetContext::for_test(1, 0);
        let error = open(&Spec::Mooncake(options), &context).err().unwrap().to_string();
        assert!(error.contains("`hash_ids`") && error.contains("timed_trace"), "{error}");
    }

    #[test]
    fn times_count_from_the_first_request_and_rounds_go_together() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        let lines = [
            r#"{"timestamp":1000,"input_length":9,"output_length":5,"hash_ids":[7,8]}"#,
            r#"{"timestamp":3000,"input_length":9,"output_length":6,"hash_ids":[7]}"#,
        ];
        std::fs::write(&path, lines.join("\n")).unwrap();
        let context = DatasetContext { form: WireForm::Chat, ..DatasetContext::for_test(1, 0) };
        let options = Options { path, slowdown_factor: 2.0, num_rounds: 2 };
        let workload = open(&Spec::Mooncake(options), &context).unwrap();
        assert_eq!(workload.len(), 4);
        let items: Vec<Item> = (0..4).map(|index| workload.item(index).unwrap()).collect();
        let dues: Vec<_> = items.iter().map(|item| item.due.unwrap().0 / 1_000_000).collect();
        assert_eq!(dues, [0, 0, 4_000, 4_000]);
        let sizes: Vec<_> = items
            .iter()
            .map(|item| match &item.prompt.content {
                PromptContent::Messages(messages) => messages.len(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(sizes, [1, 3, 1, 3]);
        assert!(items[0].prompt.prompt_tokens > items[2].prompt.prompt_tokens);
    }
}
