//! A few prefixes, each with many endings: a workload with prefix-cache hits.

use crate::session::{Piece, PieceName};
use crate::{DatasetContext, DatasetNote, Error, PlannedPrompt, Result, Source, order};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Options {
    /// Tokens that the prompts of one prefix share.
    pub prefix_len: u32,
    /// Tokens of each prompt's own, special tokens of the server included.
    pub suffix_len: u32,
    pub num_prefixes: u32,
    pub output_len: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { prefix_len: 256, suffix_len: 256, num_prefixes: 10, output_len: 128 }
    }
}

pub(crate) struct PrefixRepetition {
    options: Options,
    context: DatasetContext,
    specials: u32,
    prefixes: Vec<usize>,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<PrefixRepetition> {
    let prefixes = u64::from(options.num_prefixes.max(1));
    if context.count < prefixes {
        let reason = format!("{} prompts are fewer than {prefixes} prefixes", context.count);
        return Err(Error::Options { dataset: "prefix_repetition", reason });
    }
    // Every prefix has the same number of prompts: what is left over is not sent.
    let count = usize::try_from(context.count / prefixes * prefixes).unwrap_or(usize::MAX);
    let shuffled = order::shuffled(count, context.seed, "rows");
    let number = usize::try_from(prefixes).unwrap_or(1);
    Ok(PrefixRepetition {
        options: options.clone(),
        specials: context.specials()?,
        context: context.clone(),
        prefixes: shuffled.into_iter().map(|index| index % number).collect(),
    })
}

impl Source for PrefixRepetition {
    fn len(&self) -> u64 {
        self.prefixes.len() as u64
    }

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let Options { prefix_len, suffix_len, output_len, .. } = self.options;
        let row = usize::try_from(index % self.len()).unwrap_or(0);
        let shared = PieceName::Prefix(self.prefixes[row] as u64);
        let own_tokens = suffix_len.saturating_sub(self.specials);
        let pieces = vec![
            Piece::Made { name: shared, tokens: prefix_len },
            Piece::Made { name: PieceName::Content(index), tokens: own_tokens },
        ];
        Ok(PlannedPrompt::of(pieces, self.specials, output_len))
    }

    fn notes(&self) -> Vec<DatasetNote> {
        let (planned, asked) = (self.len(), self.context.count);
        let text = format!(
            "{planned} of {asked} prompts are sent, so that every prefix has the same number"
        );
        if planned < asked { vec![DatasetNote::new("rounded-down", text)] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, open};
    use std::collections::BTreeMap;
    use tokometer_base::PromptContent;

    #[test]
    fn every_prefix_has_as_many_prompts_and_the_rest_is_left_out() {
        let options = Options { prefix_len: 5, suffix_len: 7, num_prefixes: 4, output_len: 3 };
        let context = DatasetContext::for_test(1, 30);
        let workload = open(&Spec::PrefixRepetition(options), &context).unwrap();
        assert_eq!(workload.len(), 28);
        assert_eq!(workload.notes()[0].code, "rounded-down");
        let mut uses: BTreeMap<String, u32> = BTreeMap::new();
        for index in 0..28 {
            let item = workload.item(index).unwrap();
            let PromptContent::Text(text) = item.prompt.content else { panic!("no text") };
            assert_eq!(item.asked_tokens, Some(12));
            let words: Vec<_> = text.split(' ').collect();
            assert_eq!(words.len(), 12);
            *uses.entry(words[..5].join(" ")).or_default() += 1;
        }
        assert_eq!(uses.values().copied().collect::<Vec<_>>(), [7; 4]);
        assert_eq!(workload.check_lengths().unwrap().missed, 0);
    }
}
