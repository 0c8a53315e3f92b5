//! What a dataset needs to know beside its own options.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokometer_base::{Conventions, PromptContent, Seed};
use tokometer_tokenize::{Specials, Tokenizer, hub};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireForm {
    /// As plain text, to which the server adds its special tokens.
    #[default]
    Text,
    /// As a chat message: the server applies its template, whose tokens are counted apart.
    Chat,
    /// As token ids, to which the server adds nothing.
    TokenIds,
    Sound,
}

/// Whether the tokenizer's chat template is applied here, for datasets and tools that do so.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Templating {
    /// As the tool whose conventions are followed does: vLLM applies it to `custom`, `sonnet` and `hf` sent as text,
    /// SGLang only when asked.
    #[default]
    ByTool,
    Skip,
    /// For every dataset that can, sent as text.
    Apply,
}

/// What to do when a file has fewer usable rows than prompts are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Oversample {
    /// As the tool whose conventions are followed does: vLLM repeats rows, SGLang sends fewer.
    #[default]
    ByTool,
    Never,
}

/// What to do with a row of a file that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadRows {
    /// As the dataset's tool does: conversation files skip them, the others refuse the file.
    #[default]
    ByDataset,
    /// Leave them out, with a remark.
    Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowOrder {
    #[default]
    Shuffled,
    AsInFile,
}

tokometer_base::partial! {
    #[derive(Debug, Clone, Copy, PartialEq, Serialize)]
    pub struct Turns / PartialTurns {
        pub least: u32,
        pub most: u32,
        /// Milliseconds between an answer and the next question.
        pub think_ms: f64 = 0.0,
        /// Prompt length of later turns, for `random`; absent: as in the first.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub later_input_len: Option<u32> = None,
        /// The share of a turn that all turns have in common. With it, turns do not repeat others.
        #[serde(skip_serializing_if = "is_zero")]
        pub global_ratio: f64 = 0.0,
        /// The share that the turns of one conversation have in common.
        #[serde(skip_serializing_if = "is_zero")]
        pub conversation_ratio: f64 = 0.0,
    }
}

impl Turns {
    /// Conversations of so many turns, without pauses.
    pub(crate) const fn exactly(turns: u32) -> Self {
        Self {
            least: turns,
            most: turns,
            think_ms: 0.0,
            later_input_len: None,
            global_ratio: 0.0,
            conversation_ratio: 0.0,
        }
    }

    /// Whether turns share prefixes instead of repeating what was said.
    pub(crate) fn are_alone(&self) -> bool {
        self.global_ratio > 0.0 || self.conversation_ratio > 0.0
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(share: &f64) -> bool {
    *share <= 0.0
}

/// The answers that later turns of a session repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// Recorded ones, or made text of the recorded or planned length.
    Recorded,
    /// Those that the server gave.
    Live,
}

#[derive(Clone)]
pub struct DatasetContext {
    pub tokenizer: Arc<dyn Tokenizer>,
    /// The root of lengths and of the choice of rows.
    pub seed: Seed,
    /// The root of generated content. Fresh for every run unless the user named a seed.
    pub salt: Seed,
    pub conventions: Conventions,
    pub form: WireForm,
    /// The number of prompts, or of conversations. 0 means every row of a file.
    pub count: u64,
    /// Makes conversations of the prompts. `None` leaves each alone.
    pub turns: Option<Turns>,
    /// `None`: recorded for a trace, live for made conversations.
    pub answers: Option<Answers>,
    pub row_order: RowOrder,
    pub oversample: Oversample,
    pub bad_rows: BadRows,
    /// Prompts in one request, for routes that answer each of them.
    pub batch_size: u32,
    pub templating: Templating,
    /// A JSON object of further values for the chat template.
    pub template_values: Option<serde_json::Map<String, serde_json::Value>>,
    pub hub: hub::HubAccess,
}

impl DatasetContext {
    /// A context for plain text by vLLM's conventions, with defaults for everything else.
    pub fn new(tokenizer: Arc<dyn Tokenizer>, seed: Seed, count: u64) -> Self {
        Self {
            tokenizer,
            seed,
            salt: seed,
            conventions: Conventions::default(),
            form: WireForm::default(),
            count,
            turns: None,
            answers: None,
            row_order: RowOrder::default(),
            oversample: Oversample::default(),
            bad_rows: BadRows::default(),
            batch_size: 1,
            templating: Templating::default(),
            template_values: None,
            hub: hub::HubAccess::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn for_test(seed: u64, count: u64) -> Self {
        use tokometer_tokenize::{BuiltIn, Encoding};
        Self::new(Arc::new(BuiltIn::new(Encoding::R50k)), Seed(seed), count)
    }

    /// The special tokens that the server adds to a prompt in this form. A chat template's own are
    /// counted apart, and token ids are sent as they are.
    pub fn specials(&self) -> crate::Result<u32> {
        match self.form {
            WireForm::Text => Ok(self.tokenizer.added_specials()?),
            WireForm::Chat | WireForm::TokenIds | WireForm::Sound => Ok(0),
        }
    }

    /// The tokens of a prompt as the server will count them, chat templates apart.
    pub(crate) fn tokens_of(&self, prompt: &PromptContent) -> crate::Result<u32> {
        let specials = match self.form {
            WireForm::Text => Specials::Add,
            WireForm::Chat | WireForm::TokenIds | WireForm::Sound => Specials::Skip,
        };
        let count = |text: &String| Ok(self.tokenizer.encode(text, specials)?.len());
        let tokens = match prompt {
            PromptContent::Text(text) => count(text)?,
            PromptContent::Inputs(texts) => {
                texts.iter().map(count).sum::<crate::Result<usize>>()?
            }
            PromptContent::Ranking { query, documents } => {
                let of_documents = documents.iter().map(count).sum::<crate::Result<usize>>()?;
                count(query)? * documents.len() + of_documents
            }
            PromptContent::TokenIds(ids) => ids.len(),
            // Only the server knows how many tokens audio becomes.
            PromptContent::Sound(_) => 0,
            PromptContent::Messages(messages) => {
                let counts = messages.iter().map(|message| self.tokenizer.count(&message.content));
                counts.sum::<std::result::Result<usize, _>>()?
            }
        };
        Ok(u32::try_from(tokens).unwrap_or(u32::MAX))
    }
}
