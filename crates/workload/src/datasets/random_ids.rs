//! Consecutive ids of the vocabulary from a random one on, as text or as ids.
//!
//! SGLang's `random-ids` sends the decoded text as it comes; here the text is adjusted until it has
//! the asked length when it is encoded again.

use serde::Serialize;
use tokometer_base::Conventions;

use crate::datasets::random::{self, Filling, Random};
use crate::{DatasetContext, Ratio, Result};

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
    pub fn by_conventions(conventions: Conventions) -> Self {
        let random::Options { input_len, output_len, range_ratio, .. } =
            random::Options::by_conventions(conventions);
        Self { input_len, output_len, range_ratio }
    }
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<Random> {
    let lengths = [options.input_len, options.output_len];
    let lengths = random::Options::of_lengths(lengths, options.range_ratio);
    random::filled(&lengths, context, Filling::ConsecutiveIds)
}

#[cfg(test)]
mod tests {
    use tokometer_base::PromptContent;

    use super::*;
    use crate::{Spec, WireForm, open};

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
