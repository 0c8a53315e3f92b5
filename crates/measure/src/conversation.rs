//! What was said so far in the conversations of a run.
//!
//! A turn's prompt holds only what is new. Chat routes get the messages before it, the server's own
//! answers among them; other routes get one text that goes on where the last answer ended.

use std::collections::HashMap;

use tokometer_base::prompt::{Message, Prompt, PromptContent};
use tokometer_drive::PrepareError;

/// Between an answer and the next question in one text.
const JOINT: &str = "\n\n";

/// How a route takes a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    /// As a list of messages.
    Messages,
    /// As one text.
    Text,
}

/// Conversations under way.
#[derive(Debug)]
pub(crate) struct Conversations {
    telling: Telling,
    said: HashMap<u64, Vec<Message>>,
}

impl Conversations {
    /// None yet.
    pub(crate) fn new(telling: Telling) -> Self {
        Self { telling, said: HashMap::new() }
    }

    /// The prompt of a turn with everything said before it. How long that is only the server can
    /// tell, except for a first turn.
    pub(crate) fn ask(&mut self, session: u64, prompt: Prompt) -> Result<Prompt, PrepareError> {
        let said = self.said.entry(session).or_default();
        let is_first = said.is_empty();
        match prompt.content {
            PromptContent::Text(content) => said.push(Message { role: "user".into(), content }),
            PromptContent::Messages(messages) => said.extend(messages),
            PromptContent::TokenIds(_) => {
                return Err("a conversation needs text prompts, not token ids".into());
            }
        }
        let content = match self.telling {
            Telling::Messages => PromptContent::Messages(said.clone()),
            Telling::Text => PromptContent::Text(as_text(said)),
        };
        let prompt_tokens = prompt.prompt_tokens.filter(|_| is_first);
        Ok(Prompt { content, prompt_tokens, ..prompt })
    }

    /// Notes what the server answered.
    pub(crate) fn answered(&mut self, session: u64, answer: &str) {
        if let Some(said) = self.said.get_mut(&session) {
            said.push(Message { role: "assistant".into(), content: answer.to_owned() });
        }
    }

    /// Forgets a conversation that is over.
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

    fn second_turn(telling: Telling) -> Prompt {
        let mut conversations = Conversations::new(telling);
        let first = Prompt { prompt_tokens: Some(9), ..Prompt::text("Why?") };
        assert_eq!(conversations.ask(7, first).unwrap().prompt_tokens, Some(9));
        conversations.answered(7, " Because.");
        let second = Prompt { prompt_tokens: Some(4), ..Prompt::text("Really?") };
        conversations.ask(7, second).unwrap()
    }

    #[test]
    fn a_later_turn_carries_all_that_was_said() {
        let prompt = second_turn(Telling::Messages);
        let PromptContent::Messages(messages) = prompt.content else { panic!("no messages") };
        let said: Vec<(&str, &str)> = messages
            .iter()
            .map(|message| (message.role.as_str(), message.content.as_str()))
            .collect();
        assert_eq!(said, [("user", "Why?"), ("assistant", " Because."), ("user", "Really?")]);
        assert_eq!(prompt.prompt_tokens, None, "only the server can count it");
        let prompt = second_turn(Telling::Text);
        assert_eq!(prompt.content, PromptContent::Text("Why? Because.\n\nReally?".into()));
    }

    #[test]
    fn conversations_do_not_mix_and_are_forgotten() {
        let mut conversations = Conversations::new(Telling::Text);
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
        let refused = Conversations::new(Telling::Text).ask(1, prompt);
        assert!(refused.is_err());
    }
}
