//! Lines of poems behind a common beginning: prompts of about a given length that share a prefix.
//!
//! The poems (Shakespeare's sonnets, in the public domain) are carried in the binary. The first
//! lines are the same in every prompt; the others are drawn by the salt, and drawn again as long as
//! the prompt is longer than asked.

use std::path::PathBuf;

use serde::Serialize;
use tokometer_base::seed::{Generator, whole_between};
use tokometer_base::{Prompt, PromptContent};

use crate::template::{ChatTemplate, Habit};
use crate::{DatasetContext, Error, Item, Result, Source};

/// The poems.
const SONNETS: &str = include_str!("../../assets/sonnets.txt");

/// What is asked about the lines.
const REQUEST: &str = "Repeat as many of the following lines of verse as you can:\n";

/// How often lines are drawn again before one of them is left out.
const TRIES: u32 = 8;

/// The options of `sonnet`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Options {
    /// A text of one's own, a verse per line. `None` takes the sonnets.
    pub path: Option<PathBuf>,
    /// The longest prompt.
    pub input_len: u32,
    /// The answer length.
    pub output_len: u32,
    /// The part of the prompt that all prompts share.
    pub prefix_len: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { path: None, input_len: 550, output_len: 150, prefix_len: 200 }
    }
}

/// The opened dataset.
pub(crate) struct Sonnet {
    options: Options,
    context: DatasetContext,
    template: Option<ChatTemplate>,
    lines: Vec<String>,
    line_count: usize,
    prefix_lines: usize,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<Sonnet> {
    let text = match &options.path {
        None => SONNETS.to_owned(),
        Some(path) => std::fs::read_to_string(path).map_err(Error::read(path))?,
    };
    let lines: Vec<String> =
        text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    if lines.is_empty() {
        return Err(Error::Empty(options.path.clone().unwrap_or_default()));
    }
    let template = ChatTemplate::open(context, Habit::VllmApplies)?;
    let mut sonnet = Sonnet {
        options: options.clone(),
        context: context.clone(),
        template,
        lines,
        line_count: 0,
        prefix_lines: 0,
    };
    sonnet.plan()?;
    Ok(sonnet)
}

impl Sonnet {
    /// How many lines fit, by their mean length.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "line counts are small and not negative"
    )]
    fn plan(&mut self) -> Result<()> {
        let Options { input_len, prefix_len, .. } = self.options;
        let all = self.context.tokenizer.count(&self.lines.join("\n"))?;
        let mean = all as f64 / self.lines.len() as f64;
        let base = self.context.tokens_of(&self.content(&[])?)?;
        if input_len <= base || prefix_len > input_len {
            let reason = format!(
                "prompts of {input_len} tokens with {prefix_len} shared ones are too short: the request alone has {base}"
            );
            return Err(Error::Options { dataset: "sonnet", reason });
        }
        let lines_in =
            |tokens: u32| (f64::from(tokens.saturating_sub(base)) / mean).round() as usize;
        self.line_count = lines_in(input_len);
        self.prefix_lines = lines_in(prefix_len).min(self.lines.len());
        Ok(())
    }

    fn content(&self, lines: &[&str]) -> Result<PromptContent> {
        let text = format!("{REQUEST}{}", lines.join("\n"));
        Ok(PromptContent::Text(match &self.template {
            Some(template) => template.apply_to_text(&text)?,
            None => text,
        }))
    }

    fn draw(&self, line_count: usize, generator: &mut Generator) -> Vec<&str> {
        let fixed = self.prefix_lines.min(line_count);
        let last = self.lines.len() as u64 - 1;
        let any = |_| {
            let at = whole_between(generator, 0, last);
            self.lines[usize::try_from(at).unwrap_or(0)].as_str()
        };
        let shared = self.lines.iter().take(fixed).map(String::as_str);
        let drawn: Vec<&str> = (fixed..line_count).map(any).collect();
        shared.chain(drawn).collect()
    }
}

impl Source for Sonnet {
    fn len(&self) -> u64 {
        self.context.count
    }

    fn item(&self, index: u64) -> Result<Item> {
        let mut generator = self.context.salt.stream("content").at(index);
        let (mut line_count, mut tries) = (self.line_count, 0);
        let (content, tokens) = loop {
            let content = self.content(&self.draw(line_count, &mut generator))?;
            let tokens = self.context.tokens_of(&content)?;
            if tokens <= self.options.input_len || line_count == 0 {
                break (content, tokens);
            }
            tries += 1;
            if tries % TRIES == 0 {
                line_count -= 1;
            }
        };
        let prompt = Prompt {
            content,
            prompt_tokens: Some(tokens),
            output_tokens: Some(self.options.output_len),
            ..Prompt::text("")
        };
        Ok(Item::new(index, prompt))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Spec, open};
    use tokometer_base::Seed;
    use tokometer_tokenize::{BuiltIn, Encoding};

    #[test]
    fn prompts_share_their_first_lines_and_are_no_longer_than_asked() {
        let context = DatasetContext::new(Arc::new(BuiltIn::new(Encoding::R50k)), Seed(1), 20);
        let workload = open(&Spec::Sonnet(Options::default()), &context).unwrap();
        let texts: Vec<String> = (0..20)
            .map(|index| {
                let prompt = workload.item(index).unwrap().prompt;
                assert!((450..=550).contains(&prompt.prompt_tokens.unwrap()), "{prompt:?}");
                match prompt.content {
                    PromptContent::Text(text) => text,
                    other => panic!("{other:?}"),
                }
            })
            .collect();
        let shared: Vec<_> = texts[0].lines().take(8).collect();
        assert!(texts.iter().all(|text| text.lines().take(8).eq(shared.iter().copied())));
        assert_ne!(texts[0], texts[1]);
    }

    #[test]
    fn there_are_a_few_hundred_lines_of_verse_and_no_line_is_very_long() {
        let lines: Vec<_> = SONNETS.lines().filter(|line| !line.is_empty()).collect();
        assert!(lines.len() >= 300, "{} lines", lines.len());
        assert!(lines.iter().all(|line| (20..70).contains(&line.len())));
    }

    #[test]
    fn a_length_below_the_request_itself_is_refused() {
        let context = DatasetContext::new(Arc::new(BuiltIn::new(Encoding::R50k)), Seed(1), 20);
        let options = Options { input_len: 5, prefix_len: 2, ..Options::default() };
        let error = open(&Spec::Sonnet(options), &context).err().unwrap();
        assert!(error.to_string().contains("too short"), "{error}");
    }
}
