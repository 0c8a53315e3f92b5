//! A query with documents of random words, for rerank and score routes.
//!
//! The query is the same in all requests, as in vLLM's tool. A cross-encoder reads it together with each
//! document, so both share the input length, with a separator behind each. A model that embeds reads
//! query and documents one by one; each then has the whole length, and the query counts as one of the
//! inputs.

use serde::{Deserialize, Serialize};
use tokometer_base::{Conventions, Prompt, PromptContent};

use crate::compose::Composer;
use crate::lengths::Span;
use crate::{DatasetContext, Error, PlannedPrompt, Ratio, Result, Source};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scoring {
    /// It reads both together.
    #[default]
    CrossEncoder,
    /// It embeds each alone.
    Embedding,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Options {
    /// Tokens that the model reads at once.
    pub input_len: u32,
    /// The spread of the documents' lengths, by the conventions followed.
    pub range_ratio: Ratio,
    pub scoring: Scoring,
}

impl Default for Options {
    fn default() -> Self {
        Self { input_len: 1_024, range_ratio: Ratio::both(0.0), scoring: Scoring::default() }
    }
}

impl Options {
    /// The defaults of the tool whose conventions are followed: SGLang's ratio of 1 is one length.
    pub fn by_conventions(conventions: Conventions) -> Self {
        let ratio = if conventions == Conventions::Sglang { 1.0 } else { 0.0 };
        Self { range_ratio: Ratio::both(ratio), ..Self::default() }
    }
}

pub(crate) struct RandomRerank {
    context: DatasetContext,
    composer: Composer,
    query: String,
    query_tokens: u32,
    lengths: Span,
    scoring: Scoring,
    /// Documents in all requests together, and in one.
    documents: u64,
    per_request: u64,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<RandomRerank> {
    let refused = |reason: String| Error::Options { dataset: "random-rerank", reason };
    if let Some(reason) = options.range_ratio.fault(context.conventions) {
        return Err(refused(reason));
    }
    let (count, batch) = (context.count, u64::from(context.batch_size.max(1)));
    let (query_tokens, document_tokens) = match options.scoring {
        Scoring::CrossEncoder => {
            let query = (options.input_len / 2).saturating_sub(1).max(1);
            (query, options.input_len.saturating_sub(query + 1).max(1))
        }
        Scoring::Embedding if count < 2 || batch < 2 => {
            let reason = "a query and a document are two inputs: with `--no-reranker` use \
                          `--num-prompts` and `--batch-size` of at least 2";
            return Err(refused(reason.to_owned()));
        }
        Scoring::Embedding => (options.input_len, options.input_len),
    };
    let composer = Composer::new(std::sync::Arc::clone(&context.tokenizer));
    let mut generator = context.salt.stream("query").at(0);
    let query = composer.text(query_tokens, &mut generator)?;
    let taken = u64::from(options.scoring == Scoring::Embedding);
    Ok(RandomRerank {
        context: context.clone(),
        composer,
        query: query.text,
        query_tokens: query.tokens,
        lengths: Span::around(document_tokens, options.range_ratio.input, context.conventions),
        scoring: options.scoring,
        documents: count - taken,
        per_request: batch - taken,
    })
}

impl Source for RandomRerank {
    fn len(&self) -> u64 {
        self.documents.div_ceil(self.per_request)
    }

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let begin = index.saturating_mul(self.per_request);
        let left = self.documents.saturating_sub(begin);
        let count = if left == 0 { self.per_request } else { left.min(self.per_request) };
        let (mut documents, mut sum) = (Vec::new(), 0_u32);
        for index in begin..begin.saturating_add(count) {
            let mut lengths = self.context.seed.stream("lengths").at(index);
            let mut words = self.context.salt.stream("content").at(index);
            let made = self.composer.text(self.lengths.draw(&mut lengths), &mut words)?;
            sum = sum.saturating_add(made.tokens);
            documents.push(made.text);
        }
        let pairs = u32::try_from(documents.len()).unwrap_or(u32::MAX);
        // A cross-encoder reads the query once per document, with a separator behind it.
        let of_query = match self.scoring {
            Scoring::CrossEncoder => (self.query_tokens + 1).saturating_mul(pairs),
            Scoring::Embedding => self.query_tokens,
        };
        let prompt = Prompt {
            content: PromptContent::Ranking { query: self.query.clone(), documents },
            prompt_tokens: Some(of_query.saturating_add(sum)),
            ..Prompt::text("")
        };
        Ok(PlannedPrompt::given(prompt, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, open};

    fn context(count: u64, batch_size: u32) -> DatasetContext {
        DatasetContext { batch_size, ..DatasetContext::for_test(1, count) }
    }

    fn ranking(content: PromptContent) -> (String, Vec<String>) {
        match content {
            PromptContent::Ranking { query, documents } => (query, documents),
            other => panic!("{other:?}"),
        }
    }

    /// The lengths and the number of requests of vLLM's own run with 64 tokens, 20 prompts and 3 in
    /// a request.
    #[test]
    fn a_query_and_its_documents_share_the_input_length() {
        let context = context(20, 3);
        let spec = Spec::RandomRerank(Options { input_len: 64, ..Options::default() });
        let workload = open(&spec, &context).unwrap();
        assert_eq!(workload.len(), 7);
        let first = workload.item(0).unwrap().prompt;
        let (query, documents) = ranking(first.content);
        let count = |text: &str| context.tokenizer.count(text).unwrap();
        assert_eq!((count(&query), documents.len(), count(&documents[0])), (31, 3, 32));
        assert_eq!(first.prompt_tokens, Some((31 + 1) * 3 + 32 * 3));
        let (again, rest) = ranking(workload.item(6).unwrap().prompt.content);
        assert_eq!((again == query, rest.len()), (true, 2));
        assert_ne!(rest[0], documents[0]);
    }

    #[test]
    fn without_a_reranker_the_query_is_one_of_the_inputs() {
        let options = Options { input_len: 64, scoring: Scoring::Embedding, ..Options::default() };
        let spec = Spec::RandomRerank(options);
        let workload = open(&spec, &context(20, 3)).unwrap();
        assert_eq!(workload.len(), 10);
        let first = workload.item(0).unwrap().prompt;
        assert_eq!((first.content.items(), first.prompt_tokens), (2, Some(64 * 3)));
        let error = open(&spec, &context(20, 1)).err().unwrap().to_string();
        assert!(error.contains("--no-reranker") && error.contains("at least 2"), "{error}");
    }
}
