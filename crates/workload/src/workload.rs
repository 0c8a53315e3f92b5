//! An opened dataset with what all datasets share: warm-up prompts and the check of lengths.

use tokometer_base::{Nanos, PromptContent};
use tokometer_tokenize::{Reach, Specials};

use crate::batches::PromptBatches;
use crate::check::{self, LengthCheck};
use crate::conversations::ConversationSource;
use crate::{
    Composer, DatasetContext, DatasetNote, Error, Item, PlannedTurn, Result, Source, Spec,
    WireForm, ahead,
};

/// The prompt length of a warm-up whose dataset does not count tokens.
const UNCOUNTED_TOKENS: u32 = 32;

pub struct Workload {
    source: Box<dyn Source>,
    context: DatasetContext,
    composer: Composer,
    /// Prompts made when the dataset was opened, from the first on; see [`ahead`].
    made: Vec<Item>,
}

pub fn open(spec: &Spec, context: &DatasetContext) -> Result<Workload> {
    let composer = Composer::new(std::sync::Arc::clone(&context.tokenizer));
    let source = match &context.turns {
        // A ranking groups its documents itself.
        None if context.batch_size > 1 && !matches!(spec, Spec::RandomRerank(_)) => {
            Box::new(PromptBatches { source: source(spec, context)?, size: context.batch_size })
        }
        None => source(spec, context)?,
        Some(turns) => Box::new(ConversationSource::open(spec, context, turns)?),
    };
    let mut workload = Workload { source, context: context.clone(), composer, made: Vec::new() };
    if workload.asks_during_the_run()? && workload.len() <= ahead::MOST_PROMPTS {
        workload.made = ahead::items(workload.len(), &|index| workload.fresh_item(index))?;
    }
    Ok(workload)
}

/// Datasets that share their code have names of their own in messages.
fn source(spec: &Spec, context: &DatasetContext) -> Result<Box<dyn Source>> {
    spec.source(context).map_err(|error| match error {
        Error::NoFile(_) => Error::NoFile(spec.name()),
        Error::Options { reason, .. } => Error::Options { dataset: spec.name(), reason },
        other => other,
    })
}

impl Workload {
    pub fn len(&self) -> u64 {
        self.source.len()
    }

    pub fn is_empty(&self) -> bool {
        self.source.is_empty()
    }

    /// The turns of a session; see [`Source::session`].
    pub fn session(&self, number: u64) -> Vec<PlannedTurn> {
        self.source.session(number)
    }

    /// Whether prompts would be made by asking a server, which is the one that is measured.
    fn asks_during_the_run(&self) -> Result<bool> {
        let tokenizer = &self.context.tokenizer;
        Ok(tokenizer.reach() == Reach::Remote
            && (self.source.asks_tokenizer()
                || self.context.form == WireForm::TokenIds
                || tokenizer.words()?.is_none()))
    }

    pub fn item(&self, index: u64) -> Result<Item> {
        let made = usize::try_from(index).ok().and_then(|index| self.made.get(index));
        made.map_or_else(|| self.fresh_item(index), |item| Ok(item.clone()))
    }

    pub fn due(&self, index: u64) -> Option<Nanos> {
        self.source.due(index)
    }

    fn fresh_item(&self, index: u64) -> Result<Item> {
        let mut item = self.source.item(index)?;
        if let (WireForm::TokenIds, PromptContent::Text(text)) =
            (self.context.form, &item.prompt.content)
        {
            let ids = self.context.tokenizer.encode(text, Specials::Skip)?;
            item.prompt.content = PromptContent::TokenIds(ids);
        }
        Ok(item)
    }

    /// A warm-up prompt: the shape of the run's prompt at `index`, with content of its own, so that
    /// the run does not find its prefixes in the server's cache.
    pub fn warmup_item(&self, index: u64) -> Result<Item> {
        let mut item = self.item(index % self.len().max(1))?;
        let mut generator = self.context.salt.stream("warm-up").at(index);
        let tokens = item.prompt.prompt_tokens;
        match &mut item.prompt.content {
            PromptContent::TokenIds(ids) => {
                let length = u32::try_from(ids.len()).unwrap_or(u32::MAX);
                *ids = self.composer.ids(length, &mut generator)?;
            }
            PromptContent::Text(text) => {
                let specials = self.context.specials()?;
                let length = tokens.map_or(UNCOUNTED_TOKENS, |all| all.saturating_sub(specials));
                *text = self.composer.text(length, &mut generator)?.text;
            }
            PromptContent::Inputs(texts) => {
                let inputs = u32::try_from(texts.len()).unwrap_or(u32::MAX).max(1);
                let each = tokens.map_or(UNCOUNTED_TOKENS, |all| all / inputs);
                let length = each.saturating_sub(self.context.specials()?).max(1);
                for text in texts {
                    *text = self.composer.text(length, &mut generator)?.text;
                }
            }
            // The query is that of the run; a server that keeps it has it from the first request on.
            PromptContent::Ranking { documents, .. } => {
                for text in documents {
                    let length = self.context.tokenizer.count(text)?;
                    let length = u32::try_from(length).unwrap_or(u32::MAX);
                    *text = self.composer.text(length, &mut generator)?.text;
                }
            }
            // Transcription models have no prefixes to find.
            PromptContent::Sound(_) => {}
            PromptContent::Messages(messages) => {
                let length = tokens.unwrap_or(UNCOUNTED_TOKENS);
                if let Some(last) = messages.pop() {
                    messages.clear();
                    let content = self.composer.text(length, &mut generator)?.text;
                    messages.push(tokometer_base::Message::new(last.role, content));
                }
            }
        }
        Ok(Item { index, due: None, after: None, ..item })
    }

    pub fn notes(&self) -> Vec<DatasetNote> {
        let mut notes = self.source.notes();
        let is_late = self.made.is_empty() && self.asks_during_the_run().unwrap_or(false);
        if is_late {
            let text = "there are too many prompts to prepare before the run, so the server gets \
                        `/tokenize` requests during it; set a local tokenizer with `--tokenizer`";
            notes.push(DatasetNote::new("late-prompts", text.to_owned()));
        }
        notes
    }

    /// Whether [`Workload::check_lengths`] can find anything. Prompts made of words that were
    /// proved for their vocabulary before are right, and counting them would load it.
    pub fn needs_length_check(&self) -> bool {
        !self.context.tokenizer.has_tested_words()
    }

    /// Counts the tokens of a sample of prompts with the tokenizer and compares with what was asked.
    pub fn check_lengths(&self) -> Result<LengthCheck> {
        check::sample(&*self.source, &self.context)
    }
}
