//! An opened dataset with what all datasets share: warm-up prompts and the check of lengths.

use tokometer_base::{Nanos, PromptContent};
use tokometer_tokenize::Reach;

use crate::batches::PromptBatches;
use crate::check::{self, LengthCheck};
use crate::conversations::{self, Conversations};
use crate::datasets::random;
use crate::mix::{Choice, Mix};
use crate::prompts::{PromptMaker, RealAnswers};
use crate::{
    Answers, DatasetContext, DatasetNote, Error, Item, PlannedPrompt, PlannedTurn, Result, Source,
    Spec, Turns, WireForm, ahead,
};

/// The prompt length of a warm-up whose dataset does not count tokens.
const UNCOUNTED_TOKENS: u32 = 32;

pub struct Workload {
    source: Box<dyn Source>,
    answers: Answers,
    maker: PromptMaker,
    /// Prompts made when the dataset was opened, from the first on; see [`ahead`].
    made: Vec<Item>,
}

pub fn open(spec: &Spec, context: &DatasetContext) -> Result<Workload> {
    let maker = PromptMaker::new(context);
    let source = match &context.turns {
        // A ranking groups its documents itself.
        None if context.batch_size > 1 && !matches!(spec, Spec::RandomRerank(_)) => {
            let (source, size) = (source(spec, context)?, context.batch_size);
            Box::new(PromptBatches { source, maker: PromptMaker::new(context), size })
        }
        None => match spec {
            Spec::SharedPrefix(options) if options.num_turns > 1 => {
                let source = source(spec, context)?;
                let sessions = source.len() / u64::from(options.num_turns);
                let levels = vec![(0..sessions).collect(); options.num_turns as usize];
                Box::new(Conversations::new(
                    source,
                    None,
                    levels,
                    Turns::exactly(options.num_turns),
                ))
            }
            _ => source(spec, context)?,
        },
        Some(turns) => Box::new(conversations(spec, context, turns)?),
    };
    let usual = if matches!(spec, Spec::Trace(_)) { Answers::Recorded } else { Answers::Live };
    let answers = context.answers.unwrap_or(usual);
    let mut workload = Workload { source, answers, maker, made: Vec::new() };
    if workload.asks_during_the_run()? && workload.len() <= ahead::MOST_PROMPTS {
        workload.made = ahead::items(workload.len(), &|index| workload.fresh_item(index, &[]))?;
    }
    Ok(workload)
}

/// Datasets whose prompts are chosen by index. Each has single prompts.
pub fn open_mix(specs: &[&Spec], choice: Choice, context: &DatasetContext) -> Result<Workload> {
    let single = |spec: &&Spec| {
        let source = source(spec, context)?;
        if source.sessions() < source.len() {
            let reason = "a class cannot have sessions of several turns as prompts of its own";
            return Err(Error::Options { dataset: spec.name(), reason: reason.to_owned() });
        }
        Ok(source)
    };
    let sources = specs.iter().map(single).collect::<Result<_>>()?;
    Ok(Workload {
        source: Box::new(Mix { sources, choice }),
        answers: context.answers.unwrap_or(Answers::Live),
        maker: PromptMaker::new(context),
        made: Vec::new(),
    })
}

/// The prompts of a dataset as turns of conversations.
fn conversations(spec: &Spec, context: &DatasetContext, turns: &Turns) -> Result<Conversations> {
    let refused = |reason: String| Error::Options { dataset: spec.name(), reason };
    let Turns { least, most, later_input_len, global_ratio, conversation_ratio, .. } = *turns;
    if least == 0 || least > most {
        return Err(refused(format!(
            "conversations cannot have from {least} to {most} turns: the minimum must be at least 1 and not above the maximum"
        )));
    }
    let is_made = matches!(spec, Spec::Random(options) if options.content_path.is_none());
    if turns.are_alone() && !is_made {
        return Err(refused("only `random` supports shared shares of turns".into()));
    }
    if global_ratio.min(conversation_ratio) < 0.0 || global_ratio + conversation_ratio > 1.0 {
        return Err(refused("the shares of turns that are shared add up to more than 1".into()));
    }
    if context.count == 0 {
        return Err(refused("the number of conversations is unknown; set `--num-prompts`".into()));
    }
    let levels = conversations::levels(context.count, turns, context.seed);
    let total: usize = levels.iter().map(Vec::len).sum();
    let context = DatasetContext { count: total as u64, turns: None, ..context.clone() };
    let later = match (later_input_len, spec) {
        (None, _) => None,
        (Some(input_len), Spec::Random(options)) => {
            let options = random::Options { input_len, ..options.clone() };
            Some(source(&Spec::Random(options), &context)?)
        }
        (Some(_), _) => {
            let reason = "only `random` supports a different length for later turns";
            return Err(refused(reason.into()));
        }
    };
    Ok(Conversations::new(source(spec, &context)?, later, levels, *turns))
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

    /// Whether prompts follow answers.
    pub fn has_turns(&self) -> bool {
        self.sessions() < self.len()
    }

    /// Which answers its later turns repeat.
    pub fn answers(&self) -> Answers {
        self.answers
    }

    pub fn sessions(&self) -> u64 {
        self.source.sessions()
    }

    /// The pieces of the prompt at `index`, with the length of each, before any text is made.
    pub fn planned(&self, index: u64) -> Result<PlannedPrompt> {
        self.source.prompt(index)
    }

    /// The turns of a session; see [`Source::session`].
    pub fn session(&self, number: u64) -> Vec<PlannedTurn> {
        self.source.session(number)
    }

    /// Whether prompts would be made by asking a server, which is the one that is measured.
    fn asks_during_the_run(&self) -> Result<bool> {
        let tokenizer = &self.maker.context.tokenizer;
        Ok(tokenizer.reach() == Reach::Remote
            && (self.source.asks_tokenizer()
                || self.maker.context.form == WireForm::TokenIds
                || tokenizer.words()?.is_none()))
    }

    pub fn item(&self, index: u64) -> Result<Item> {
        let made = usize::try_from(index).ok().and_then(|index| self.made.get(index));
        made.map_or_else(|| self.fresh_item(index, &[]), |item| Ok(item.clone()))
    }

    /// The prompt at `index` with the real answers of its session so far.
    pub fn item_after(&self, index: u64, answers: &RealAnswers) -> Result<Item> {
        if answers.is_empty() { self.item(index) } else { self.fresh_item(index, answers) }
    }

    pub fn due(&self, index: u64) -> Option<Nanos> {
        self.source.due(index)
    }

    fn fresh_item(&self, index: u64, answers: &RealAnswers) -> Result<Item> {
        let item = self.maker.item(index, self.source.prompt(index)?, answers)?;
        Ok(Item { due: self.source.due(index), ..item })
    }

    /// A warm-up prompt: the shape of the run's prompt at `index`, with content of its own, so that
    /// the run does not find its prefixes in the server's cache.
    pub fn warmup_item(&self, index: u64) -> Result<Item> {
        let mut item = self.item(index % self.len().max(1))?;
        let mut generator = self.maker.context.salt.stream("warm-up").at(index);
        let tokens = item.prompt.prompt_tokens;
        match &mut item.prompt.content {
            PromptContent::TokenIds(ids) => {
                let length = u32::try_from(ids.len()).unwrap_or(u32::MAX);
                *ids = self.maker.composer.ids(length, &mut generator)?;
            }
            PromptContent::Text(text) => {
                let specials = self.maker.context.specials()?;
                let length = tokens.map_or(UNCOUNTED_TOKENS, |all| all.saturating_sub(specials));
                *text = self.maker.composer.text(length, &mut generator)?.text;
            }
            PromptContent::Inputs(texts) => {
                let inputs = u32::try_from(texts.len()).unwrap_or(u32::MAX).max(1);
                let each = tokens.map_or(UNCOUNTED_TOKENS, |all| all / inputs);
                let length = each.saturating_sub(self.maker.context.specials()?).max(1);
                for text in texts {
                    *text = self.maker.composer.text(length, &mut generator)?.text;
                }
            }
            // The query is that of the run; a server that keeps it has it from the first request on.
            PromptContent::Ranking { documents, .. } => {
                for text in documents {
                    let length = self.maker.context.tokenizer.count(text)?;
                    let length = u32::try_from(length).unwrap_or(u32::MAX);
                    *text = self.maker.composer.text(length, &mut generator)?.text;
                }
            }
            // Transcription models have no prefixes to find.
            PromptContent::Sound(_) => {}
            PromptContent::Messages(messages) => {
                let length = tokens.unwrap_or(UNCOUNTED_TOKENS);
                if let Some(last) = messages.pop() {
                    messages.clear();
                    let content = self.maker.composer.text(length, &mut generator)?.text;
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
        !self.maker.context.tokenizer.has_tested_words()
    }

    /// Counts the tokens of a sample of prompts with the tokenizer and compares with what was asked.
    pub fn check_lengths(&self) -> Result<LengthCheck> {
        check::sample(self.len(), &|index| self.item(index), &self.maker.context)
    }
}
