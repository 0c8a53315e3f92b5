//! Consecutive ids of the vocabulary from a random one on, as text or as ids.
//!
//! SGLang's `random-ids` sends the decoded text as it comes; here the text is adjusted until it has
//! the asked length when it is encoded again.

use serde::Serialize;
use tokometer_base::seed::whole_between;
use tokometer_base::{Conventions, PromptContent};

use crate::compose::{Composer, MadeContent};
use crate::datasets::random::{self, Shapes};
use crate::{DatasetContext, Item, Ratio, Result, Source, WireForm};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Options {
    /// The prompt length in tokens, special tokens of the server included.
    pub input_len: u32,
    pub output_len: u32,
    /// The spread of both, by the conventions followed.
    pub range_ratio: Ratio,
}

impl Default for Options {
    fn default() -> Self {
        Self::by_conventions(Conventions::Sglang)
    }
}

impl Options {
    /// The defaults of the tool whose conventions are followed.
    pub fn by_conventions(conventions: Conventions) -> Self {
        let random::Options { input_len, output_len, range_ratio, .. } =
            random::Options::by_conventions(conventions);
        Self { input_len, output_len, range_ratio }
    }
}

pub(crate) struct RandomIds {
    context: DatasetContext,
    composer: Composer,
    shapes: Shapes,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<RandomIds> {
    let &Options { input_len, output_len, range_ratio } = options;
    let lengths =
        random::Options { input_len, output_len, range_ratio, ..random::Options::default() };
    Ok(RandomIds {
        shapes: Shapes::new("random-ids", &lengths, context)?,
        composer: Composer::new(std::sync::Arc::clone(&context.tokenizer)),
        context: context.clone(),
    })
}

impl Source for RandomIds {
    fn len(&self) -> u64 {
        self.context.count
    }

    fn item(&self, index: u64) -> Result<Item> {
        let shape = self.shapes.at(index, &self.context);
        let ordinary = self.composer.ordinary_ids()?;
        let mut generator = self.context.salt.stream("content").at(index);
        let offset = whole_between(&mut generator, 0, (ordinary.len() as u64).saturating_sub(1));
        let start = usize::try_from(offset).unwrap_or(0);
        let ids: Vec<u32> =
            ordinary.iter().copied().cycle().skip(start).take(shape.text as usize).collect();
        let (content, tokens) = match self.context.form {
            WireForm::TokenIds => (PromptContent::TokenIds(ids), shape.text),
            WireForm::Text | WireForm::Chat | WireForm::Sound => {
                let composed = self.composer.fitted(ids, shape.text)?;
                (PromptContent::Text(composed.text), composed.tokens)
            }
        };
        let made = MadeContent { content, tokens, asked: shape.text };
        Ok(made.item(index, self.shapes.specials(), shape.output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, open};

    #[test]
    fn ids_are_consecutive_and_texts_are_adjusted_to_the_requested_length() {
        let options =
            Options { input_len: 64, range_ratio: Ratio::both(1.0), ..Options::default() };
        let context = DatasetContext {
            conventions: Conventions::Sglang,
            form: WireForm::TokenIds,
            ..DatasetContext::for_test(1, 40)
        };
        let workload = open(&Spec::RandomIds(options.clone()), &context).unwrap();
        let PromptContent::TokenIds(ids) = workload.item(3).unwrap().prompt.content else {
            panic!("not ids");
        };
        assert_eq!(ids.len(), 64);
        assert!(ids.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 50_256));

        let context = DatasetContext { form: WireForm::Text, ..context };
        let workload = open(&Spec::RandomIds(options), &context).unwrap();
        let check = workload.check_lengths().unwrap();
        assert_eq!((check.checked, check.missed), (40, 0));
    }
}
