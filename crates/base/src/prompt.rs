//! A prompt and its parameters, independent of any wire format.

use serde::{Deserialize, Serialize};

/// One message of a conversation.
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
    /// A role and a text, and nothing else.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into(), verbatim: None }
    }
}

/// The form in which a prompt is held. A dialect says which forms it can send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptContent {
    /// Plain text.
    Text(String),
    /// Token ids, for servers that take them: the length is then exact by construction.
    TokenIds(Vec<u32>),
    /// A conversation, for chat routes.
    Messages(Vec<Message>),
    /// Several texts in one request, for routes that answer with vectors or classes.
    Inputs(Vec<String>),
    /// Documents that are compared with a query, for rerank and score routes.
    Ranking {
        /// What they are compared with.
        query: String,
        /// Each gets a score.
        documents: Vec<String>,
    },
}

impl PromptContent {
    /// Inputs that a route without generation answers one by one.
    pub fn items(&self) -> u32 {
        let items = match self {
            Self::Text(_) | Self::TokenIds(_) | Self::Messages(_) => 1,
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
    /// The model may end early.
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
    /// What is sent.
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
