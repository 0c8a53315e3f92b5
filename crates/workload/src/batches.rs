//! Several prompts of a dataset in one request, for routes that answer each with a vector or a class.

use tokometer_base::{Nanos, Prompt, PromptContent};

use crate::prompts::PromptMaker;
use crate::{DatasetNote, Error, PlannedPrompt, Result, Source};

/// Groups of prompts that follow one another in the dataset. The last group has what is left.
pub(crate) struct PromptBatches {
    pub(crate) source: Box<dyn Source>,
    pub(crate) maker: PromptMaker,
    /// Prompts in a request; at least one.
    pub(crate) size: u32,
}

impl PromptBatches {
    /// The prompts of request `index`. Beyond the planned ones every group is full.
    fn members(&self, index: u64) -> std::ops::Range<u64> {
        let size = u64::from(self.size.max(1));
        let (begin, planned) = (index.saturating_mul(size), self.source.len());
        let end = begin.saturating_add(size);
        begin..if begin < planned { end.min(planned) } else { end }
    }
}

impl Source for PromptBatches {
    fn len(&self) -> u64 {
        self.source.len().div_ceil(u64::from(self.size.max(1)))
    }

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let (mut texts, mut counted, mut asked) = (Vec::new(), Some(0_u32), Some(0_u32));
        let plus = |sum: Option<u32>, tokens: Option<u32>| Some(sum?.saturating_add(tokens?));
        let mut class = None;
        for member in self.members(index) {
            let item = self.maker.item(member, self.source.prompt(member)?, &[])?;
            let PromptContent::Text(text) = item.prompt.content else {
                let reason = "only plain texts can share a request".to_owned();
                return Err(Error::Batch { reason });
            };
            texts.push(text);
            counted = plus(counted, item.prompt.prompt_tokens);
            asked = plus(asked, item.asked_tokens);
            class = class.or(Some(item.class));
        }
        let prompt = Prompt {
            content: PromptContent::Inputs(texts),
            prompt_tokens: counted,
            ..Prompt::text("")
        };
        Ok(PlannedPrompt { class: class.flatten(), ..PlannedPrompt::given(prompt, asked) })
    }

    fn due(&self, index: u64) -> Option<Nanos> {
        self.source.due(self.members(index).start)
    }

    fn asks_tokenizer(&self) -> bool {
        self.source.asks_tokenizer()
    }

    fn notes(&self) -> Vec<DatasetNote> {
        self.source.notes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datasets::random;
    use crate::{DatasetContext, Spec, WireForm, open};

    fn context(count: u64, batch_size: u32) -> DatasetContext {
        DatasetContext { batch_size, ..DatasetContext::for_test(1, count) }
    }

    fn random() -> Spec {
        Spec::Random(random::Options { input_len: 20, ..random::Options::default() })
    }

    #[test]
    fn prompts_share_requests_in_their_order_and_the_last_has_the_rest() {
        let alone = open(&random(), &context(7, 1)).unwrap();
        let workload = open(&random(), &context(7, 3)).unwrap();
        assert_eq!(workload.len(), 3);
        let texts = |index: u64| match workload.item(index).unwrap().prompt.content {
            PromptContent::Inputs(texts) => texts,
            other => panic!("{other:?}"),
        };
        assert_eq!([texts(0).len(), texts(1).len(), texts(2).len(), texts(3).len()], [3, 3, 1, 3]);
        assert_eq!(PromptContent::Text(texts(1)[0].clone()), alone.item(3).unwrap().prompt.content);
        let item = workload.item(0).unwrap();
        assert_eq!((item.prompt.prompt_tokens, item.asked_tokens), (Some(60), Some(60)));
        assert_eq!(workload.check_lengths().unwrap().missed, 0);
        let warm = workload.warmup_item(0).unwrap().prompt;
        assert_eq!(warm.content.items(), 3);
        assert_ne!(warm.content, item.prompt.content);
    }

    #[test]
    fn token_ids_cannot_share_a_request() {
        let context = DatasetContext { form: WireForm::TokenIds, ..context(4, 2) };
        let error = open(&random(), &context).unwrap().item(0).err().unwrap();
        assert!(error.to_string().contains("only plain texts"), "{error}");
    }
}
