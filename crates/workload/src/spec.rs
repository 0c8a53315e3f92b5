//! Which dataset, with which options: the part of a plan that this room owns.

use serde::{Deserialize, Serialize};

use crate::datasets::{
    book, burstgpt, custom, hf, mooncake, openai, prefix_repetition, random, random_ids,
    shared_prefix, sharegpt, sonnet, timed_trace,
};
use crate::{Context, Result, Source};
use tokometer_base::Conventions;

/// A dataset and its options, as a plan stores them: the name under `dataset`, the options beside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "dataset", rename_all = "snake_case")]
pub enum Spec {
    /// Random words in exact lengths.
    Random(random::Options),
    /// Consecutive ids of the vocabulary.
    #[serde(rename = "random-ids")]
    RandomIds(random_ids::Options),
    /// Conversations of a ShareGPT file.
    Sharegpt(sharegpt::Options),
    /// Consecutive slices of one long text.
    Book(book::Options),
    /// Lines of poems behind a common beginning.
    Sonnet(sonnet::Options),
    /// Lengths of a BurstGPT file.
    Burstgpt(burstgpt::Options),
    /// Prompts of the user's own file.
    Custom(custom::Options),
    /// A few prefixes, each with many endings.
    PrefixRepetition(prefix_repetition::Options),
    /// Groups of prompts that share a system prompt.
    #[serde(rename = "generated-shared-prefix")]
    SharedPrefix(shared_prefix::Options),
    /// Requests in OpenAI's form.
    Openai(openai::Options),
    /// A dataset of the hub, or local files in its formats.
    Hf(hf::Options),
    /// A trace with times, lengths and shared blocks.
    TimedTrace(timed_trace::Options),
    /// A Mooncake trace.
    Mooncake(mooncake::Options),
}

impl Spec {
    /// The name of every dataset, as `--dataset-name` takes it.
    pub const NAMES: [&'static str; 13] = [
        "random",
        "random-ids",
        "sharegpt",
        "book",
        "sonnet",
        "burstgpt",
        "custom",
        "prefix_repetition",
        "generated-shared-prefix",
        "openai",
        "hf",
        "timed_trace",
        "mooncake",
    ];

    /// The dataset of this name with the defaults of the tool whose conventions are followed. `None` for another name.
    pub fn defaults(name: &str, conventions: Conventions) -> Option<Self> {
        Some(match name {
            "random" => Self::Random(random::Options::by_conventions(conventions)),
            "random-ids" => Self::RandomIds(random_ids::Options::by_conventions(conventions)),
            "sharegpt" => Self::Sharegpt(sharegpt::Options::default()),
            "book" => Self::Book(book::Options::default()),
            "sonnet" => Self::Sonnet(sonnet::Options::default()),
            "burstgpt" => Self::Burstgpt(burstgpt::Options::default()),
            "custom" => Self::Custom(custom::Options::by_conventions(conventions)),
            "prefix_repetition" => Self::PrefixRepetition(prefix_repetition::Options::default()),
            "generated-shared-prefix" => Self::SharedPrefix(shared_prefix::Options::default()),
            "openai" => Self::Openai(openai::Options::default()),
            "hf" => Self::Hf(hf::Options::default()),
            "timed_trace" => Self::TimedTrace(timed_trace::Options::default()),
            "mooncake" => Self::Mooncake(mooncake::Options::default()),
            _ => return None,
        })
    }

    /// The dataset's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Random(_) => "random",
            Self::RandomIds(_) => "random-ids",
            Self::Sharegpt(_) => "sharegpt",
            Self::Book(_) => "book",
            Self::Sonnet(_) => "sonnet",
            Self::Burstgpt(_) => "burstgpt",
            Self::Custom(_) => "custom",
            Self::PrefixRepetition(_) => "prefix_repetition",
            Self::SharedPrefix(_) => "generated-shared-prefix",
            Self::Openai(_) => "openai",
            Self::Hf(_) => "hf",
            Self::TimedTrace(_) => "timed_trace",
            Self::Mooncake(_) => "mooncake",
        }
    }

    pub(crate) fn source(&self, context: &Context) -> Result<Box<dyn Source>> {
        Ok(match self {
            Self::Random(options) => Box::new(random::open(options, context)?),
            Self::RandomIds(options) => Box::new(random_ids::open(options, context)?),
            Self::Sharegpt(options) => Box::new(sharegpt::open(options, context)?),
            Self::Book(options) => Box::new(book::open(options, context)?),
            Self::Sonnet(options) => Box::new(sonnet::open(options, context)?),
            Self::Burstgpt(options) => Box::new(burstgpt::open(options, context)?),
            Self::Custom(options) => Box::new(custom::open(options, context)?),
            Self::PrefixRepetition(options) => Box::new(prefix_repetition::open(options, context)?),
            Self::SharedPrefix(options) => Box::new(shared_prefix::open(options, context)?),
            Self::Openai(options) => Box::new(openai::open(options, context)?),
            Self::Hf(options) => Box::new(hf::open(options, context)?),
            Self::TimedTrace(options) => Box::new(timed_trace::open(options, context)?),
            Self::Mooncake(options) => Box::new(mooncake::open(options, context)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_defaults_that_survive_a_plan_file() {
        for name in Spec::NAMES {
            for conventions in [Conventions::Vllm, Conventions::Sglang] {
                let spec = Spec::defaults(name, conventions).unwrap();
                assert_eq!(spec.name(), name);
                let text = serde_json::to_string(&spec).unwrap();
                assert!(text.contains(&format!(r#""dataset":"{name}""#)), "{text}");
                assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec);
                let bare = format!(r#"{{"dataset":"{name}"}}"#);
                assert_eq!(serde_json::from_str::<Spec>(&bare).unwrap().name(), name);
            }
        }
        assert_eq!(Spec::defaults("rendom", Conventions::Vllm), None);
    }

    #[test]
    fn an_option_that_a_dataset_does_not_have_is_refused() {
        let error = serde_json::from_str::<Spec>(r#"{"dataset":"random","inputlen":3}"#);
        assert!(error.unwrap_err().to_string().contains("inputlen"));
    }
}
