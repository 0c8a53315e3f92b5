//! The history of a run's conversations.
//!
//! A turn's prompt has only the new message. Chat routes get all earlier messages, the server's
//! responses included. Other routes get one text that continues after the last response.

use std::collections::HashMap;

use tokometer_base::prompt::{Message, Prompt, PromptContent};
use tokometer_drive::PrepareError;

/// Separates a response from the next prompt in one text.
const JOINT: &str = "\n\n";

/// How a route accepts the history of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HistoryForm {
    Messages,
    Text,
}

#[derive(Debug)]
pub(crate) struct Conversations {
    form: HistoryForm,
    said: HashMap<u64, Vec<Message>>,
}

impl Conversations {
    pub(crate) fn new(form: HistoryForm) -> Self {
        Self { form, said: HashMap::new() }
    }

    /// The prompt of a turn with the history before it. Its length is known only to the server,
    /// except for a first turn.
    pub(crate) fn ask(&mut self, session: u64, prompt: Prompt) -> Result<Prompt, PrepareError> {
        let said = self.said.entry(session).or_default();
        let is_first = said.is_empty();
        match prompt.content {
            PromptContent::Text(content) => said.push(Message::new("user", content)),
            PromptContent::Messages(messages) => said.extend(messages),
            PromptContent::TokenIds(_) => {
                return Err("a conversation needs text prompts, not token ids".into());
            }
            PromptContent::Inputs(_) | PromptContent::Ranking { .. } | PromptContent::Sound(_) => {
                return Err("a conversation needs one text per turn".into());
            }
        }
        let content = match self.form {
            HistoryForm::Messages => PromptContent::Messages(said.clone()),
            HistoryForm::Text => PromptContent::Text(as_text(said)),
        };
        let prompt_tokens = prompt.prompt_tokens.filter(|_| is_first);
        Ok(Prompt { content, prompt_tokens, ..prompt })
    }

    pub(crate) fn answered(&mut self, session: u64, answer: &str) {
        if let Some(said) = self.said.get_mut(&session) {
            said.push(Message::new("assistant", answer));
        }
    }

    pub(crate) fn forget(&mut self, session: u64) {
        self.said.remove(&session);
    }
}

fn as_text(said: &[Message]) -> String {
    let mut text = String::new();
    for message in said {
        let is_question_after_answer = message.role != "assistant" && !text.is_empty();
        text.push_str(if is_question_after_answer { JOINT } else { "" });
        text.push_str(&message.content);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second_turn(form: HistoryForm) -> Prompt {
        let mut conversations = Conversations::new(form);
        let first = Prompt { prompt_tokens: Some(9), ..Prompt::text("Why?") };
        assert_eq!(conversations.ask(7, first).unwrap().prompt_tokens, Some(9));
        conversations.answered(7, " Because.");
        let second = Prompt { prompt_tokens: Some(4), ..Prompt::text("Really?") };
        conversations.ask(7, second).unwrap()
    }

    #[test]
    fn a_later_turn_carries_all_that_was_said() {
        let prompt = second_turn(HistoryForm::Messages);
        let PromptContent::Messages(messages) = prompt.content else { panic!("no messages") };
        let said: Vec<(&str, &str)> = messages
            .iter()
            .map(|message| (message.role.as_str(), message.content.as_str()))
            .collect();
        assert_eq!(said, [("user", "Why?"), ("assistant", " Because."), ("user", "Really?")]);
        assert_eq!(prompt.prompt_tokens, None, "only the server can count it");
        let prompt = second_turn(HistoryForm::Text);
        assert_eq!(prompt.content, PromptContent::Text("Why? Because.\n\nReally?".into()));
    }

    #[test]
    fn conversations_do_not_mix_and_are_forgotten() {
        let mut conversations = Conversations::new(HistoryForm::Text);
        conversations.ask(1, Prompt::text("a")).unwrap();
        let other = conversations.ask(2, Prompt::text("b")).unwrap();
        assert_eq!(other.content, PromptContent::Text("b".into()));
        conversations.forget(1);
        let again = conversations.ask(1, Prompt::text("c")).unwrap();
        assert_eq!(again.content, PromptContent::Text("c".into()));
    }

    #[test]
    fn token_ids_cannot_hold_a_conversation() {
        let prompt = Prompt { content: PromptContent::TokenIds(vec![1]), ..Prompt::text("") };
        let refused = Conversations::new(HistoryForm::Text).ask(1, prompt);
        assert!(refused.is_err());
    }
}
