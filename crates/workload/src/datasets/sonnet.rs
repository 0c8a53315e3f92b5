//! Lines of poems behind a common beginning: prompts of about a given length that share a prefix.
//!
//! The poems (Shakespeare's sonnets, in the public domain) are carried in the binary. The first
//! lines are the same in every prompt; the others are drawn by the salt, and drawn again as long as
//! the prompt is longer than asked.

use std::path::PathBuf;

use serde::Serialize;
use tokometer_base::seed::{Generator, whole_between};
use tokometer_base::units::nearest_count;
use tokometer_base::{Prompt, PromptContent};

use crate::template::{ChatTemplate, Habit};
use crate::{DatasetContext, Error, PlannedPrompt, Result, Source, input};

const SONNETS: &str = include_str!("../../assets/sonnets.txt");

/// What is asked about the lines.
const REQUEST: &str = "Repeat as many of the following lines of verse as you can:\n";

/// How often lines are drawn again before some of them are left out.
const TRIES: u32 = 8;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Options {
    /// A text of one's own, a verse per line. `None` takes the sonnets.
    pub path: Option<PathBuf>,
    pub input_len: u32,
    pub output_len: u32,
    pub prefix_len: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { path: None, input_len: 550, output_len: 150, prefix_len: 200 }
    }
}

pub(crate) struct Sonnet {
    options: Options,
    context: DatasetContext,
    template: Option<ChatTemplate>,
    lines: Vec<String>,
    /// Mean tokens of a line.
    mean: f64,
    line_count: usize,
    prefix_lines: usize,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<Sonnet> {
    let text = match &options.path {
        None => SONNETS.to_owned(),
        Some(path) => input::read_text(path).map_err(Error::read(path))?,
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
        mean: 0.0,
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
        self.mean = mean;
        self.line_count = lines_in(input_len);
        // Without a single line, every prompt would be the request alone.
        if let Some(path) = self.options.path.clone().filter(|_| self.line_count == 0) {
            let reason = format!(
                "a line has {mean:.0} tokens on average, more than fit into prompts of {input_len}: the request itself \
                 takes {base}\n  try shorter lines, or a larger `--sonnet-input-len`"
            );
            return Err(Error::TooShort { path, reason });
        }
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

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let mut generator = self.context.salt.stream("content").at(index);
        let (mut line_count, mut tries) = (self.line_count, 0);
        let (content, tokens) = loop {
            let content = self.content(&self.draw(line_count, &mut generator))?;
            let tokens = self.context.tokens_of(&content)?;
            let excess = tokens.saturating_sub(self.options.input_len);
            if excess == 0 || line_count == 0 {
                break (content, tokens);
            }
            tries += 1;
            if tries % TRIES == 0 {
                // The mean lacks line ends: with very short lines far too many were planned.
                let too_many = nearest_count(f64::from(excess) / (2.0 * self.mean));
                let fewer = usize::try_from(too_many).unwrap_or(usize::MAX).max(1);
                line_count = line_count.saturating_sub(fewer);
            }
        };
        let prompt = Prompt {
            content,
            prompt_tokens: Some(tokens),
            output_tokens: Some(self.options.output_len),
            ..Prompt::text("")
        };
        Ok(PlannedPrompt::given(prompt, None))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{Spec, open};
    use tokometer_base::Seed;
    use tokometer_tokenize::{BuiltIn, Encoding, SafeWords, Specials, Tokenizer};

    #[test]
    fn prompts_share_their_first_lines_and_are_no_longer_than_asked() {
        let context = DatasetContext::for_test(1, 20);
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

    /// Counts what it is asked to tokenize.
    struct Counted {
        inner: BuiltIn,
        calls: AtomicUsize,
    }

    impl Tokenizer for Counted {
        fn name(&self) -> &str {
            self.inner.name()
        }
        fn vocab_size(&self) -> Option<u32> {
            self.inner.vocab_size()
        }
        fn special_ids(&self) -> Vec<u32> {
            self.inner.special_ids()
        }
        fn added_specials(&self) -> tokometer_tokenize::Result<u32> {
            self.inner.added_specials()
        }
        fn words(&self) -> tokometer_tokenize::Result<Option<Arc<SafeWords>>> {
            self.inner.words()
        }
        fn encode(&self, text: &str, specials: Specials) -> tokometer_tokenize::Result<Vec<u32>> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.inner.encode(text, specials)
        }
        fn decode(&self, ids: &[u32]) -> tokometer_tokenize::Result<String> {
            self.inner.decode(ids)
        }
    }

    /// A file of one two-letter line needed thousands of tokenizations per prompt: its mean length
    /// counts no line ends, so twice as many lines were planned as fit.
    #[test]
    fn a_file_of_very_short_lines_needs_few_draws() {
        let folder = tempfile::tempdir().unwrap();
        let check = |text: &str, input_len: u32, calls_max: usize| {
            let path = folder.path().join("lines.txt");
            std::fs::write(&path, text).unwrap();
            for encoding in [Encoding::R50k, Encoding::Cl100k] {
                let calls = AtomicUsize::new(0);
                let tokenizer = Arc::new(Counted { inner: BuiltIn::new(encoding), calls });
                let context = DatasetContext::new(tokenizer.clone(), Seed(1), 3);
                let path = (!text.is_empty()).then(|| path.clone());
                let prefix_len = input_len / 3;
                let options = Options { path, input_len, prefix_len, ..Options::default() };
                let sonnet = super::open(&options, &context).unwrap();
                for index in 0..3 {
                    tokenizer.calls.store(0, Ordering::Relaxed);
                    let prompt = sonnet.prompt(index).unwrap();
                    let calls = tokenizer.calls.load(Ordering::Relaxed);
                    assert!(calls <= calls_max, "{text:?}: {calls} calls");
                    let tokens = prompt.tokens().unwrap();
                    assert!((input_len / 2..=input_len).contains(&tokens), "{text:?}: {tokens}");
                }
            }
        };
        check("", 550, 400);
        check("Sh", 180, 40);
        check("a\nbb\nThe\n.\nx y z\n", 150, 400);
        check("a.\n!\n'\n)\nthe end of a longer line of verse\n", 150, 400);
        check("\tq\n  {\n}\n\u{e9}\u{f6}\n", 150, 400);
    }

    #[test]
    fn there_are_a_few_hundred_lines_of_verse_and_no_line_is_very_long() {
        let lines: Vec<_> = SONNETS.lines().filter(|line| !line.is_empty()).collect();
        assert!(lines.len() >= 300, "{} lines", lines.len());
        assert!(lines.iter().all(|line| (20..70).contains(&line.len())));
    }

    /// Every prompt was the request alone, whatever length was asked for.
    #[test]
    fn lines_that_are_longer_than_a_prompt_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("line.txt");
        std::fs::write(&path, "word ".repeat(2_000)).unwrap();
        let options =
            Options { path: Some(path), input_len: 400, prefix_len: 100, ..Options::default() };
        let error = open(&Spec::Sonnet(options), &DatasetContext::for_test(1, 3))
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("more than fit into prompts of 400: the request itself takes "),
            "{error}"
        );
    }

    #[test]
    fn a_length_below_the_request_itself_is_refused() {
        let context = DatasetContext::for_test(1, 20);
        let options = Options { input_len: 5, prefix_len: 2, ..Options::default() };
        let error = open(&Spec::Sonnet(options), &context).err().unwrap();
        assert!(error.to_string().contains("too short"), "{error}");
    }
}
