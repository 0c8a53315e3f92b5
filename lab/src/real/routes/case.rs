//! What a case is: one command against one server, and what it must show.

/// What a server serves. The servers of a suite start in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ServedModel {
    /// Generates text, and calls tools.
    Text,
    /// Generates text after a part that a parser takes for reasoning.
    Reasoning,
    Embedder,
    /// Sorts texts into three classes.
    Classifier,
    /// Scores pairs of a query and a document.
    CrossEncoder,
    Vision,
    Audio,
}

impl ServedModel {
    /// In scripts, file names and tables.
    pub(super) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    pub(super) fn folder(self) -> String {
        match self {
            Self::Reasoning | Self::Embedder => Self::Text.name(),
            other => other.name(),
        }
    }
}

/// How our token counts relate to the server's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenRule {
    /// Input and output are equal.
    Equal,
    /// Only the output is: the usage of a transcription counts the audio, the counter the text.
    Output,
    /// The usage repeats the query for each document, the engine reads it once.
    QueryOnce,
    /// Nothing is compared: the answer has no usage, or there are several runs.
    Shown,
}

/// What the answers must contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerRule {
    Succeed,
    /// … and every answer fits the schema, or is a valid call of the named tool.
    Fit,
    /// … and calls of tools are counted. A model of random weights may not finish one.
    Call,
    /// … and reasoning arrives before the answer.
    Reason,
    /// The server does not have the route: nothing succeeds, and the exit code is 3 or 7.
    Refused,
}

#[derive(Debug, Clone)]
pub(super) struct RouteCase {
    pub(super) name: String,
    pub(super) on: ServedModel,
    /// Words behind `tokometer` before the address.
    pub(super) command: &'static str,
    /// Flags without the target. `{models}` is the folder of the models.
    pub(super) words: Vec<String>,
    pub(super) tokens: TokenRule,
    pub(super) answers: AnswerRule,
}
