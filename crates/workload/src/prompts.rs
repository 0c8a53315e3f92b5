//! The one place where pieces become a prompt: text, messages or token ids.
//!
//! Made text continues the made text before it, so that a piece has the same tokens in every prompt
//! that begins alike. Behind text that was given or really answered it starts anew.

use std::sync::Arc;

use tokometer_base::{Message, Prompt, PromptContent};
use tokometer_tokenize::Specials;

use crate::compose::Composer;
use crate::session::{Piece, PieceName};
use crate::source::PlannedPrompt;
use crate::{DatasetContext, Error, Item, Result, WireForm};

/// Separates a response from the next question in one text.
const JOINT: &str = "\n\n";

/// Answers of a session so far, by turn, where a prompt repeats the real ones.
pub type RealAnswers = [Option<String>];

pub(crate) struct PromptMaker {
    pub(crate) context: DatasetContext,
    pub(crate) composer: Composer,
}

/// A prompt as far as it is made.
#[derive(Default)]
struct Said {
    messages: Vec<Message>,
    ids: Vec<u32>,
    /// Whether the last message can be continued.
    is_open: bool,
    /// Whether it ends with made text.
    is_made: bool,
    /// Whether it repeats a real answer, so that only the server knows its length.
    is_real: bool,
    tokens: u32,
    /// `None` with a part whose length nobody asked for.
    asked: Option<u32>,
}

impl Said {
    fn continues(&self, role: &str) -> bool {
        self.is_open && self.messages.last().is_some_and(|last| last.role == role)
    }

    fn add(&mut self, role: &str, text: String) {
        match self.messages.last_mut().filter(|last| self.is_open && last.role == role) {
            Some(last) => last.content.push_str(&text),
            None => self.messages.push(Message::new(role, text)),
        }
        (self.is_open, self.is_made) = (true, false);
    }

    fn count(&mut self, tokens: u32, asked: Option<u32>) {
        self.tokens = self.tokens.saturating_add(tokens);
        self.asked = self.asked.zip(asked).map(|(sum, more)| sum.saturating_add(more));
    }

    /// All messages as one text.
    fn text(self) -> String {
        let mut text = String::new();
        for message in self.messages {
            let is_question = message.role != "assistant" && !text.is_empty();
            text.push_str(if is_question { JOINT } else { "" });
            text.push_str(&message.content);
        }
        text
    }
}

impl PromptMaker {
    pub(crate) fn new(context: &DatasetContext) -> Self {
        let composer = Composer::new(Arc::clone(&context.tokenizer));
        Self { composer, context: context.clone() }
    }

    /// The prompt of these pieces. An answer that is not among `answers` is made.
    pub(crate) fn item(
        &self,
        index: u64,
        planned: PlannedPrompt,
        answers: &RealAnswers,
    ) -> Result<Item> {
        let PlannedPrompt { mut pieces, specials, position, class, .. } = planned;
        let PlannedPrompt { output_tokens, extra_body, headers, .. } = planned;
        let finished = match (pieces.pop(), pieces.is_empty()) {
            (Some(Piece::Given(given)), true) => {
                let content = self.whole(given.content)?;
                Finished { content, tokens: given.tokens, asked: given.asked }
            }
            (last, _) => {
                pieces.extend(last);
                let session = position.map_or(index, |position| position.session);
                self.joined(pieces, session, answers)?
            }
        };
        let Finished { content, tokens, asked } = finished;
        let with_specials = |tokens: u32| tokens.saturating_add(specials);
        let prompt_tokens = tokens.map(with_specials);
        let prompt = Prompt { content, prompt_tokens, output_tokens, extra_body, headers };
        let asked_tokens = asked.map(with_specials);
        Ok(Item { index, prompt, asked_tokens, due: None, after: position, class })
    }

    /// Content that a dataset has as it is sent.
    fn whole(&self, content: PromptContent) -> Result<PromptContent> {
        Ok(match (self.context.form, content) {
            (WireForm::TokenIds, PromptContent::Text(text)) => {
                PromptContent::TokenIds(self.context.tokenizer.encode(&text, Specials::Skip)?)
            }
            (_, content) => content,
        })
    }

    fn joined(&self, pieces: Vec<Piece>, session: u64, answers: &RealAnswers) -> Result<Finished> {
        let has_roles = |piece: &Piece| match piece {
            Piece::Made { .. } | Piece::Text(_) => false,
            Piece::Answer(_) | Piece::Messages(_) => true,
            Piece::Given(given) => matches!(given.content, PromptContent::Messages(_)),
        };
        let is_chat = self.context.form == WireForm::Chat && pieces.iter().any(has_roles);
        let mut said = Said { asked: Some(0), ..Said::default() };
        for piece in pieces {
            self.say(&mut said, piece, session, answers)?;
        }
        let Said { tokens, asked, is_real, .. } = said;
        let content = match self.context.form {
            WireForm::TokenIds => PromptContent::TokenIds(said.ids),
            _ if is_chat => PromptContent::Messages(said.messages),
            _ => PromptContent::Text(said.text()),
        };
        let tokens = match asked {
            _ if is_real => None,
            Some(_) => Some(tokens),
            None => {
                Some(self.context.tokens_of(&content)?.saturating_sub(self.context.specials()?))
            }
        };
        Ok(Finished { content, tokens, asked: asked.filter(|_| !is_real) })
    }

    fn say(
        &self,
        said: &mut Said,
        piece: Piece,
        session: u64,
        answers: &RealAnswers,
    ) -> Result<()> {
        let content = match piece {
            Piece::Made { name, tokens } => return self.make(said, "user", name, tokens),
            Piece::Answer(of) => {
                if let Some(Some(text)) = answers.get(of.turn as usize) {
                    said.is_real = true;
                    return self.put(said, "assistant", text.clone());
                }
                let is_chat = self.context.form == WireForm::Chat;
                let role = if is_chat { "assistant" } else { "user" };
                return self.make(said, role, of.name(session), of.tokens);
            }
            Piece::Text(text) => PromptContent::Text(text.into()),
            Piece::Messages(messages) => PromptContent::Messages(messages),
            Piece::Given(given) => {
                said.count(given.tokens.unwrap_or(0), given.asked);
                return self.give(said, given.content);
            }
        };
        said.asked = None;
        self.give(said, content)
    }

    fn give(&self, said: &mut Said, content: PromptContent) -> Result<()> {
        match content {
            PromptContent::Text(text) => self.put(said, "user", text),
            PromptContent::Messages(messages) if self.context.form == WireForm::TokenIds => {
                messages.into_iter().try_for_each(|it| self.put(said, "user", it.content))
            }
            PromptContent::Messages(messages) => {
                said.messages.extend(messages);
                said.is_open = false;
                Ok(())
            }
            PromptContent::TokenIds(ids) if self.context.form == WireForm::TokenIds => {
                said.ids.extend(ids);
                Ok(())
            }
            _ => Err(Error::Turns { reason: "a conversation needs one text per turn" }),
        }
    }

    /// Puts text behind what was said.
    fn put(&self, said: &mut Said, role: &str, text: String) -> Result<()> {
        if self.context.form == WireForm::TokenIds {
            said.ids.extend(self.context.tokenizer.encode(&text, Specials::Skip)?);
        } else {
            said.add(role, text);
        }
        Ok(())
    }

    fn make(&self, said: &mut Said, role: &str, name: PieceName, tokens: u32) -> Result<()> {
        let (stream, number) = name.source();
        let mut generator = self.context.salt.stream(stream).at(number);
        if self.context.form == WireForm::TokenIds {
            said.ids.extend(self.composer.ids(tokens, &mut generator)?);
            said.count(tokens, Some(tokens));
            return Ok(());
        }
        let made = if said.is_made && said.continues(role) {
            self.composer.continuation(tokens, &mut generator)?
        } else {
            self.composer.text(tokens, &mut generator)?
        };
        said.count(made.tokens, Some(tokens));
        said.add(role, made.text);
        said.is_made = true;
        Ok(())
    }
}

/// A prompt's content, special tokens not counted.
struct Finished {
    content: PromptContent,
    tokens: Option<u32>,
    asked: Option<u32>,
}
