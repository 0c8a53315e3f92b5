//! The kind of route that requests use, as far as definitions depend on it.

use tokometer_base::Backend;
use tokometer_base::backend::Protocol;
use tokometer_record::TargetInfo;

/// The kind of route, as far as definitions depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Plain completions, and routes that are read in the same way.
    Completions,
    Chat,
    Responses,
    /// SGLang's `/generate`, whose events repeat the text and count its tokens.
    Native,
    /// Routes that answer with vectors, scores or classes.
    Pooling,
}

impl Route {
    pub fn of(target: &TargetInfo) -> Self {
        if target.backend().is_some_and(Backend::is_pooling) {
            return Self::Pooling;
        }
        let is_responses = |backend: &Backend| backend.protocol() == Protocol::Responses;
        if target.backend().is_some_and(is_responses) {
            return Self::Responses;
        }
        let path = target.endpoint.split('?').next().unwrap_or_default().trim_end_matches('/');
        if path.ends_with("/chat/completions") || target.backend().is_some_and(Backend::is_chat) {
            Self::Chat
        } else if path.ends_with("/generate") {
            Self::Native
        } else {
            Self::Completions
        }
    }
}
