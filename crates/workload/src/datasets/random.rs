//! Random words in exact lengths, optionally behind a common prefix.
//!
//! Lengths follow the chosen conventions around the asked one and come from the seed; words come from
//! the salt. SGLang fills its random prompts with ShareGPT texts: with a `content_path` the same is
//! done here, cut or repeated to the drawn length.

use std::path::PathBuf;

use serde::Serialize;
use tokometer_base::seed::{unit_float, whole_between};
use tokometer_base::{Conventions, PromptContent};
use tokometer_tokenize::Specials;

use crate::compose::{Composed, Composer};
use crate::datasets::sharegpt;
use crate::lengths::Span;
use crate::session::{Given, Piece, PieceName};
use crate::{DatasetContext, DatasetNote, Error, PlannedPrompt, Ratio, Result, Source, WireForm};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Options {
    /// The prompt length in tokens, special tokens of the server included and the prefix not.
    pub input_len: u32,
    pub output_len: u32,
    /// The spread of both, by the conventions followed.
    pub range_ratio: Ratio,
    /// Tokens that all prompts share, before their own.
    pub prefix_len: u32,
    /// The share of prompts that begin with one common text.
    pub cache_hit_fraction: f64,
    /// The share of such a prompt that is common.
    pub cache_ratio: f64,
    /// A ShareGPT file whose texts fill the prompts. `None` fills them with random words.
    pub content_path: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self::by_conventions(Conventions::Vllm)
    }
}

impl Options {
    pub const fn by_conventions(conventions: Conventions) -> Self {
        let output_len = match conventions {
            Conventions::Vllm => 128,
            Conventions::Sglang => 1_024,
        };
        let range_ratio = Ratio::both(0.0);
        Self::of_lengths([1_024, output_len], range_ratio)
    }

    /// Prompts and answers of these lengths, without a common prefix.
    pub(crate) const fn of_lengths([input_len, output_len]: [u32; 2], range_ratio: Ratio) -> Self {
        Self {
            input_len,
            output_len,
            range_ratio,
            prefix_len: 0,
            cache_hit_fraction: 0.0,
            cache_ratio: 0.0,
            content_path: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestShape {
    /// Tokens of the prompt's own text, special tokens not counted.
    text: u32,
    output: u32,
}

#[derive(Debug, Clone, Copy)]
struct Shapes {
    text: Span,
    output: Span,
    specials: u32,
    conventions: Conventions,
}

impl Shapes {
    fn new(options: &Options, context: &DatasetContext) -> Result<Self> {
        let ratio = options.range_ratio;
        if let Some(reason) = ratio.fault(context.conventions) {
            return Err(Error::Options { dataset: "random", reason });
        }
        let specials = context.specials()?;
        // vLLM draws around the length without special tokens; SGLang takes them off what it drew.
        let around = match context.conventions {
            Conventions::Vllm => options.input_len.saturating_sub(specials),
            Conventions::Sglang => options.input_len,
        };
        Ok(Self {
            text: Span::around(around, ratio.input, context.conventions),
            output: Span::around(options.output_len, ratio.output, context.conventions),
            specials,
            conventions: context.conventions,
        })
    }

    fn at(&self, index: u64, context: &DatasetContext) -> RequestShape {
        let mut generator = context.seed.stream("lengths").at(index);
        let drawn = self.text.draw(&mut generator);
        let text = match self.conventions {
            Conventions::Vllm => drawn,
            Conventions::Sglang => drawn.saturating_sub(self.specials).max(1),
        };
        RequestShape { text, output: self.output.draw(&mut generator) }
    }
}

pub(crate) struct Random {
    options: Options,
    context: DatasetContext,
    composer: Composer,
    shapes: Shapes,
    filling: Filling,
}

pub(crate) enum Filling {
    Words,
    /// Texts of conversations, cut or repeated.
    Texts(sharegpt::FirstMessages),
    /// Consecutive ids of the vocabulary from a random one on.
    ConsecutiveIds,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<Random> {
    let shares = [options.cache_hit_fraction, options.cache_ratio];
    if !shares.iter().all(|share| (0.0..=1.0).contains(share)) {
        let reason = "`--random-cache-hit-fraction` and `--random-cache-ratio` are from 0 to 1";
        return Err(Error::Options { dataset: "random", reason: reason.to_owned() });
    }
    let filling = match options.content_path.as_deref() {
        Some(path) => Filling::Texts(sharegpt::FirstMessages::open(path, context)?),
        None => Filling::Words,
    };
    filled(options, context, filling)
}

pub(crate) fn filled(
    options: &Options,
    context: &DatasetContext,
    filling: Filling,
) -> Result<Random> {
    Ok(Random {
        options: options.clone(),
        context: context.clone(),
        composer: Composer::new(std::sync::Arc::clone(&context.tokenizer)),
        shapes: Shapes::new(options, context)?,
        filling,
    })
}

impl Random {
    /// How much of a prompt is the text that warm prompts have in common; all but the last token at
    /// most.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a u32")]
    fn cached_tokens(&self, index: u64, tokens: u32) -> u32 {
        let drawn = unit_float(&mut self.context.seed.stream("warm prompts").at(index));
        let is_warm = drawn < self.options.cache_hit_fraction;
        let cached = (f64::from(tokens) * self.options.cache_ratio) as u32;
        if is_warm { cached.min(tokens.saturating_sub(1)) } else { 0 }
    }

    /// What a prompt has of its own, `tokens` long, behind `begun` tokens that others have too.
    fn own(&self, index: u64, tokens: u32, begun: u32) -> Result<Piece> {
        let (ids, start) = match &self.filling {
            Filling::Words => return Ok(Piece::Made { name: PieceName::Content(index), tokens }),
            Filling::Texts(texts) => {
                (&self.context.tokenizer.encode(&texts.text(index)?, Specials::Skip)?[..], 0)
            }
            Filling::ConsecutiveIds => {
                let mut generator = self.context.salt.stream("content").at(index);
                let ordinary = self.composer.ordinary_ids()?;
                let last = (ordinary.len() as u64).saturating_sub(1);
                (ordinary, usize::try_from(whole_between(&mut generator, 0, last)).unwrap_or(0))
            }
        };
        let ids = ids.iter().copied().cycle().skip(start).take(tokens as usize).collect();
        let asked = Some(tokens);
        if self.context.form == WireForm::TokenIds {
            let content = PromptContent::TokenIds(ids);
            return Ok(Piece::Given(Box::new(Given { content, tokens: asked, asked })));
        }
        let Composed { mut text, tokens } = self.composer.fitted(ids, tokens)?;
        if begun > 0 && !text.starts_with(' ') {
            text.insert(0, ' ');
        }
        let content = PromptContent::Text(text);
        Ok(Piece::Given(Box::new(Given { content, tokens: Some(tokens), asked })))
    }
}

impl Source for Random {
    fn len(&self) -> u64 {
        self.context.count
    }

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let shape = self.shapes.at(index, &self.context);
        let tokens = self.options.prefix_len;
        let prefix = Piece::Made { name: PieceName::Prefix(0), tokens };
        let tokens = self.cached_tokens(index, shape.text);
        let cached = Piece::Made { name: PieceName::Prefix(1), tokens };
        let begun = self.options.prefix_len + tokens;
        let own = self.own(index, shape.text - tokens, begun)?;
        let pieces = [prefix, cached, own].into_iter();
        let pieces = pieces.filter(|piece| piece.tokens() > Some(0)).collect();
        Ok(PlannedPrompt::of(pieces, self.shapes.specials, shape.output))
    }

    fn asks_tokenizer(&self) -> bool {
        !matches!(self.filling, Filling::Words)
    }

    fn notes(&self) -> Vec<DatasetNote> {
        let (asked, specials) = (self.options.input_len, self.shapes.specials);
        let text = format!(
            "prompts of {asked} tokens become {}: the server adds {specials} special tokens to at least one of text",
            specials + 1
        );
        if asked <= specials { vec![DatasetNote::new("short-prompts", text)] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Item, Spec, open};
    use tokometer_base::Seed;

    fn context() -> DatasetContext {
        DatasetContext::for_test(7, 50)
    }

    fn text(item: &Item) -> &str {
        match &item.prompt.content {
            PromptContent::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_asked_share_of_prompts_begins_with_the_asked_share_of_one_text() {
        let options = Options { cache_hit_fraction: 0.4, cache_ratio: 0.5, ..Options::default() };
        let context = DatasetContext { count: 500, ..context() };
        let workload = open(&Spec::Random(options), &context).unwrap();
        let cached = |index| {
            let pieces = workload.planned(index).unwrap().pieces;
            let is_warm =
                |piece: &&Piece| matches!(piece, Piece::Made { name: PieceName::Prefix(1), .. });
            pieces.iter().find(is_warm).and_then(Piece::tokens)
        };
        let warm: Vec<u32> = (0..500).filter_map(cached).collect();
        assert!((150..250).contains(&warm.len()), "{}", warm.len());
        let check = workload.check_lengths().unwrap();
        assert_eq!(check.missed, 0);
        let all: u32 = (0..500).map(|at| workload.planned(at).unwrap().tokens().unwrap()).sum();
        let share = f64::from(warm.iter().sum::<u32>()) / f64::from(all);
        assert!((0.16..0.24).contains(&share), "{share}");
        let error = super::open(&Options { cache_ratio: 1.5, ..Options::default() }, &context);
        assert!(error.err().unwrap().to_string().contains("--random-cache-ratio"));
    }

    #[test]
    fn every_prompt_has_exactly_the_asked_tokens() {
        let check = |options: Options, conventions| {
            let context = DatasetContext { conventions, ..context() };
            let workload = open(&Spec::Random(options), &context).unwrap();
            for index in 0..workload.len() {
                let item = workload.item(index).unwrap();
                let counted = context.tokenizer.count(text(&item)).unwrap();
                assert_eq!(Some(u32::try_from(counted).unwrap()), item.asked_tokens);
                assert_eq!(item.asked_tokens, item.prompt.prompt_tokens);
            }
            assert_eq!(workload.check_lengths().unwrap().missed, 0);
        };
        let options = Options { input_len: 100, ..Options::default() };
        check(options.clone(), Conventions::Vllm);
        check(Options { prefix_len: 30, ..options.clone() }, Conventions::Vllm);
        check(Options { range_ratio: Ratio::both(0.5), ..options.clone() }, Conventions::Sglang);
        check(Options { input_len: 1, ..options }, Conventions::Vllm);
    }

    #[test]
    fn lengths_come_from_the_seed_and_words_from_the_salt() {
        let options = Options { range_ratio: Ratio::both(0.5), ..Options::default() };
        let spec = Spec::Random(options);
        let first = open(&spec, &context()).unwrap();
        let again = open(&spec, &DatasetContext { salt: Seed(8), ..context() }).unwrap();
        for index in [0, 3, 49, 1_000] {
            let (left, right) = (first.item(index).unwrap(), again.item(index).unwrap());
            assert_eq!(left.asked_tokens, right.asked_tokens);
            assert_eq!(left.prompt.output_tokens, right.prompt.output_tokens);
            assert_ne!(text(&left), text(&right));
            assert_eq!(left, first.item(index).unwrap());
        }
    }

    #[test]
    fn prompts_share_the_prefix_and_nothing_else() {
        let spec = Spec::Random(Options { prefix_len: 20, input_len: 20, ..Options::default() });
        let workload = open(&spec, &context()).unwrap();
        let items = [workload.item(0).unwrap(), workload.item(1).unwrap()];
        let [left, right] =
            [text(&items[0]), text(&items[1])].map(|t| t.split(' ').collect::<Vec<_>>());
        assert_eq!(left[..20], right[..20]);
        assert_ne!(left[20..], right[20..]);
        assert_eq!(items[0].asked_tokens, Some(40));
    }

    #[test]
    fn token_ids_are_ordinary_ones_and_as_many_as_asked() {
        let context = DatasetContext { form: WireForm::TokenIds, ..context() };
        let workload = open(&Spec::Random(Options::default()), &context).unwrap();
        let PromptContent::TokenIds(ids) = workload.item(0).unwrap().prompt.content else {
            panic!("not ids");
        };
        assert_eq!(ids.len(), 1_024);
        assert!(ids.iter().all(|id| *id < 50_256));
    }

    #[test]
    fn warm_ups_have_the_shapes_of_the_run_and_words_of_their_own() {
        let workload = open(&Spec::Random(Options::default()), &context()).unwrap();
        let (warm, measured) = (workload.warmup_item(0).unwrap(), workload.item(0).unwrap());
        assert_eq!(warm.prompt.prompt_tokens, measured.prompt.prompt_tokens);
        assert_eq!(context().tokenizer.count(text(&warm)).unwrap(), 1_024);
        assert_ne!(text(&warm), text(&measured));
    }

    #[test]
    fn a_ratio_outside_of_the_tools_rule_is_refused() {
        let options = Options { range_ratio: Ratio::both(1.0), ..Options::default() };
        let error = open(&Spec::Random(options), &context()).err().unwrap();
        assert_eq!(
            error.to_string(),
            "cannot make the dataset `random`: the range ratio `1` must be at least 0 and below 1"
        );
    }
}
