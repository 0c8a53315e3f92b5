//! A prompt and its parameters, independent of any wire format.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Fingerprint, Nanos, Script};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant` or another role that the server knows.
    pub role: String,
    /// The message's text; that of its parts, one after the other, where it has parts.
    pub content: String,
    /// The message as a JSON object, where it has more than a role and a text: parts, tool calls, a
    /// name. It is sent as it is.
    #[serde(skip)]
    pub verbatim: Option<String>,
}

impl Message {
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into(), verbatim: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sound {
    /// Such as `audio/wav`.
    pub media_type: String,
    /// The file. Shared, because prompts are copied.
    #[serde(skip)]
    pub bytes: Arc<[u8]>,
    /// How long it plays. `None` where the file does not say.
    pub length: Option<Nanos>,
}

/// The form in which a prompt is held. A dialect says which forms it can send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptContent {
    Text(String),
    /// Token ids, for servers that take them: the length is then exact by construction.
    TokenIds(Vec<u32>),
    Messages(Vec<Message>),
    /// Several texts in one request, for routes that answer with vectors or classes.
    Inputs(Vec<String>),
    /// Documents that are compared with a query, for rerank and score routes.
    Ranking {
        query: String,
        documents: Vec<String>,
    },
    Sound(Sound),
}

impl PromptContent {
    /// The script that an answer is expected in: that of the text, or of the last message.
    pub fn script(&self) -> Option<Script> {
        match self {
            Self::Text(text) => Script::dominant(text),
            Self::Messages(messages) => Script::dominant(&messages.last()?.content),
            _ => None,
        }
    }

    /// Equal for equal content, in any run.
    pub fn fingerprint(&self) -> u64 {
        let start = Fingerprint::default();
        let add = |sum: Fingerprint, text: &String| sum.with(text.as_bytes());
        let sum = match self {
            Self::Text(text) => start.with(b"text").with(text.as_bytes()),
            Self::TokenIds(ids) => {
                let ids: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
                start.with(b"ids").with(&ids)
            }
            Self::Messages(messages) => messages.iter().fold(start, |sum, message| {
                let content = message.verbatim.as_ref().unwrap_or(&message.content);
                sum.with(message.role.as_bytes()).with(content.as_bytes())
            }),
            Self::Inputs(texts) => texts.iter().fold(start.with(b"texts"), add),
            Self::Ranking { query, documents } => {
                documents.iter().fold(start.with(query.as_bytes()), add)
            }
            Self::Sound(sound) => start.with(b"sound").with(&sound.bytes),
        };
        sum.value()
    }

    /// Inputs that a route without generation answers one by one.
    pub fn items(&self) -> u32 {
        let items = match self {
            Self::Text(_) | Self::TokenIds(_) | Self::Messages(_) | Self::Sound(_) => 1,
            Self::Inputs(texts) => texts.len(),
            Self::Ranking { documents, .. } => documents.len(),
        };
        u32::try_from(items).unwrap_or(u32::MAX)
    }
}

/// Whether generation continues past the end-of-sequence token, up to the requested length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IgnoreEos {
    #[default]
    Off,
    /// Continue, because the workload implies it. The field is removed when a server refuses it.
    Implied,
    /// Continue, because the user requested it. A refusal is then a failure.
    Asked,
}

/// One prompt and what is expected of its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    pub content: PromptContent,
    /// Tokens of the prompt as the workload counted them, special tokens that the server adds
    /// included and a chat template not. `None` when no tokenizer was at hand.
    pub prompt_tokens: Option<u32>,
    /// The answer length asked for. `None` leaves it to the server.
    pub output_tokens: Option<u32>,
    /// A JSON object, as text, merged into this request's body: the tools of a dataset row, say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_body: Option<String>,
    /// Headers of this request alone, such as a routing key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
}

impl Prompt {
    /// A plain text prompt without a counted length.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: PromptContent::Text(text.into()),
            prompt_tokens: None,
            output_tokens: None,
            extra_body: None,
            headers: Vec::new(),
        }
    }
}
