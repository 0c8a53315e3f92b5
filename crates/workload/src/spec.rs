//! Which dataset, with which options: the part of a plan that this crate owns.
//!
//! The options of all datasets are one partial struct, because a flag or a section may set an option
//! before it is known which dataset is meant. The macro `datasets!` says which dataset has which options.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokometer_base::neighbours::suggestion;
use tokometer_base::partial::{FieldVisitor, Incomplete};
use tokometer_base::{Conventions, Partial};

use crate::datasets::image::{Filling, Format};
use crate::datasets::random_mm::SizeBuckets;
use crate::datasets::random_rerank::Scoring;
use crate::datasets::shared_prefix::{GroupSizes, PromptOrder, RoutingKey};
use crate::datasets::trace::{Pace, Spread};
use crate::datasets::{
    book, burstgpt, custom, hf, image, media_files, mooncake, openai, prefix_repetition, random,
    random_audio, random_ids, random_mm, random_rerank, shared_prefix, sharegpt, sonnet,
    spec_bench, timed_trace, trace,
};
use crate::{DatasetContext, Ratio, Result, Source, input};

tokometer_base::part! {
    /// Those options of a dataset that are set. Which of them a dataset has is checked once its
    /// name is known.
    pub struct PartialSpec {
        pub dataset: String,
        pub path: OrNone<PathBuf>,
        pub content_path: OrNone<PathBuf>,
        pub input_len: u32,
        pub output_len: OrNone<u32>,
        pub context_len: OrNone<u32>,
        pub range_ratio: Ratio,
        pub prefix_len: u32,
        pub cache_hit_fraction: f64,
        pub cache_ratio: f64,
        pub suffix_len: u32,
        pub num_prefixes: u32,
        pub prompt_suffix: String,
        pub num_groups: u32,
        pub prompts_per_group: u32,
        pub system_prompt_len: u32,
        pub question_len: u32,
        pub num_turns: u32,
        pub order: PromptOrder,
        pub routing_key: RoutingKey,
        pub group_distribution: GroupSizes,
        pub zipf_alpha: f64,
        pub subset: OrNone<String>,
        pub split: OrNone<String>,
        pub text_column: OrNone<String>,
        pub chunk_hash_size: u32,
        pub sec_multiplier: f64,
        pub label_timestamp: String,
        pub label_input_length: String,
        pub label_output_length: String,
        pub label_hash_ids: String,
        pub slowdown_factor: f64,
        pub num_rounds: u32,
        pub pace: Pace,
        pub trace_speed: f64,
        pub trace_from_s: f64,
        pub trace_to_s: OrNone<f64>,
        pub max_gap_s: OrNone<f64>,
        pub spread: Spread,
        pub map: OrNone<String>,
        pub block_tokens: OrNone<u32>,
        pub session_offset: u64,
        pub max_turns: OrNone<u32>,
        pub scoring: Scoring,
        pub category: OrNone<String>,
        pub audio_seconds: f64,
        pub audio_seconds_stddev: f64,
        pub mm_items: u32,
        pub mm_items_ratio: f64,
        pub mm_images_max: u32,
        pub mm_buckets: SizeBuckets,
        pub image_count: u32,
        pub is_image_count_random: bool,
        pub image_resolution: String,
        pub image_format: Format,
        pub image_content: Filling,
    }
}

/// An option that can be taken away: `none` in a plan file, because TOML has no null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrNone<T>(pub Option<T>);

impl<T: Serialize> Serialize for OrNone<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match &self.0 {
            Some(value) => value.serialize(serializer),
            None => "none".serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrNone<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        enum Word {
            #[serde(rename = "none")]
            None,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum WrittenOption<T> {
            Absent(Word),
            Value(Option<T>),
        }
        Ok(Self(match WrittenOption::deserialize(deserializer)? {
            WrittenOption::Absent(Word::None) => None,
            WrittenOption::Value(value) => value,
        }))
    }
}

/// How an option fits the type that a dataset has for it.
trait FitOption<To>: Sized {
    fn fit(self) -> Option<To>;
    fn from_fitted(value: To) -> Self;
}

impl<T> FitOption<T> for T {
    fn fit(self) -> Option<T> {
        Some(self)
    }

    fn from_fitted(value: T) -> Self {
        value
    }
}

impl<T> FitOption<Option<T>> for OrNone<T> {
    fn fit(self) -> Option<Option<T>> {
        Some(self.0)
    }

    fn from_fitted(value: Option<T>) -> Self {
        Self(value)
    }
}

impl<T> FitOption<T> for OrNone<T> {
    fn fit(self) -> Option<T> {
        self.0
    }
    fn from_fitted(value: T) -> Self {
        Self(Some(value))
    }
}

/// Declares the datasets: variant, name, module and options of each.
macro_rules! datasets {
    ($(
        $(#[$doc:meta])*
        $Variant:ident = $name:literal in $module:ident { $($option:ident),* $(,)? }
    )*) => {
        /// A dataset and its options, as a plan stores them: the name under `dataset`, the options
        /// beside.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(tag = "dataset")]
        pub enum Spec {
            $( $(#[$doc])* #[serde(rename = $name)] $Variant($module::Options), )*
        }

        impl Spec {
            /// The name of every dataset, as `--dataset-name` takes it.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            pub const fn name(&self) -> &'static str {
                match self { $( Self::$Variant(_) => $name, )* }
            }

            fn named(name: &str) -> Option<Self> {
                match name {
                    $( $name => Some(Self::$Variant($module::Options::default())), )*
                    _ => None,
                }
            }

            fn options(&self) -> &'static [&'static str] {
                match self { $( Self::$Variant(_) => &[$(stringify!($option)),*], )* }
            }

            fn set(&mut self, given: &mut PartialSpec) -> std::result::Result<(), Incomplete> {
                match self {
                    $( Self::$Variant(options) => {
                        $( if let Some(value) = given.$option.take() {
                            let name = stringify!($option);
                            let fault = || Incomplete::new(name, "cannot have this value here");
                            options.$option = value.fit().ok_or_else(fault)?;
                        } )*
                    } )*
                }
                Ok(())
            }

            pub(crate) fn source(&self, context: &DatasetContext) -> Result<Box<dyn Source>> {
                Ok(match self {
                    $( Self::$Variant(options) => Box::new($module::open(options, context)?), )*
                })
            }
        }

        impl From<Spec> for PartialSpec {
            fn from(spec: Spec) -> Self {
                let dataset = Some(spec.name().to_owned());
                match spec {
                    $( Spec::$Variant(options) => Self {
                        dataset,
                        $( $option: Some(FitOption::from_fitted(options.$option)), )*
                        ..Self::default()
                    }, )*
                }
            }
        }
    };
}

datasets! {
    Random = "random" in random {
        input_len, output_len, range_ratio, prefix_len, content_path, cache_hit_fraction,
        cache_ratio,
    }
    RandomIds = "random-ids" in random_ids { input_len, output_len, range_ratio }
    RandomRerank = "random-rerank" in random_rerank { input_len, range_ratio, scoring }
    RandomMm = "random-mm" in random_mm {
        input_len, output_len, range_ratio, prefix_len, mm_items, mm_items_ratio, mm_images_max,
        mm_buckets,
    }
    Image = "image" in image {
        input_len, output_len, range_ratio, image_count, is_image_count_random, image_resolution,
        image_format, image_content,
    }
    RandomAudio = "random-audio" in random_audio { audio_seconds, audio_seconds_stddev, output_len }
    CustomImage = "custom_image" in media_files { path, output_len }
    CustomAudio = "custom_audio" in media_files { path, output_len }
    Sharegpt = "sharegpt" in sharegpt { path, output_len, context_len, prompt_suffix }
    Book = "book" in book { path, input_len, output_len }
    Sonnet = "sonnet" in sonnet { path, input_len, output_len, prefix_len }
    SpecBench = "spec_bench" in spec_bench { path, output_len, category }
    Burstgpt = "burstgpt" in burstgpt { path }
    Custom = "custom" in custom { path, output_len, context_len, prompt_suffix }
    PrefixRepetition = "prefix_repetition" in prefix_repetition {
        prefix_len, suffix_len, num_prefixes, output_len,
    }
    SharedPrefix = "generated-shared-prefix" in shared_prefix {
        num_groups, prompts_per_group, system_prompt_len, question_len, output_len, range_ratio,
        num_turns, order, routing_key, group_distribution, zipf_alpha,
    }
    Openai = "openai" in openai { path, output_len }
    Hf = "hf" in hf { path, subset, split, text_column, output_len }
    TimedTrace = "timed_trace" in timed_trace {
        path, chunk_hash_size, sec_multiplier, label_timestamp, label_input_length,
        label_output_length, label_hash_ids,
    }
    Mooncake = "mooncake" in mooncake { path, slowdown_factor, num_rounds }
    Trace = "trace" in trace {
        path, output_len, pace, trace_speed, trace_from_s, trace_to_s, max_gap_s, spread, map,
        block_tokens, session_offset, max_turns,
    }
}

/// The file of a dataset. `None` for a dataset without one.
fn file_of(spec: &Spec) -> Option<PathBuf> {
    let options = PartialSpec::of(spec.clone());
    let path = options.path.and_then(|path| path.0);
    path.or_else(|| options.content_path.and_then(|path| path.0))
}

/// The file of a dataset, where that is a pipe. Reading it waits until somebody writes to it.
pub fn pipe(spec: &Spec) -> Option<PathBuf> {
    file_of(spec).filter(|path| input::is_pipe(path))
}

/// What tells the content of a dataset's file from another. `None` for a dataset without a file.
pub fn fingerprint(spec: &Spec) -> Option<String> {
    input::fingerprint(&file_of(spec)?)
}

impl Spec {
    /// The dataset of this name with the defaults of the tool whose conventions are followed. `None`
    /// for another name.
    pub fn defaults(name: &str, conventions: Conventions) -> Option<Self> {
        Some(match Self::named(name)? {
            Self::Random(_) => Self::Random(random::Options::by_conventions(conventions)),
            Self::RandomIds(_) => Self::RandomIds(random_ids::Options::by_conventions(conventions)),
            Self::RandomRerank(_) => {
                Self::RandomRerank(random_rerank::Options::by_conventions(conventions))
            }
            Self::Custom(_) => Self::Custom(custom::Options::by_conventions(conventions)),
            same_for_all => same_for_all,
        })
    }

    pub const fn is_traced(&self) -> bool {
        matches!(self, Self::TimedTrace(_) | Self::Mooncake(_) | Self::Trace(_))
    }

    /// Whether its prompts are random, so that an answer to them may end anywhere.
    pub const fn is_random(&self) -> bool {
        matches!(
            self,
            Self::Random(_)
                | Self::RandomIds(_)
                | Self::RandomMm(_)
                | Self::RandomAudio(_)
                | Self::Image(_)
                | Self::TimedTrace(_)
                | Self::Trace(_)
        )
    }
}

impl Partial for PartialSpec {
    type Whole = Spec;

    fn merge(&mut self, over: Self) {
        self.take_over(over);
    }

    fn is_unset(&self) -> bool {
        self.keys_set().is_empty()
    }

    fn complete(mut self) -> std::result::Result<Spec, Incomplete> {
        let name = self.dataset.take().ok_or_else(|| Incomplete::missing("dataset"))?;
        let mut spec = Spec::named(&name).ok_or_else(|| {
            let near = suggestion(&name, Spec::NAMES);
            Incomplete::new("dataset", format!("names no dataset with `{name}`; {near}"))
        })?;
        spec.set(&mut self)?;
        match self.keys_set().first() {
            None => Ok(spec),
            Some(key) => {
                let near = suggestion(key, spec.options());
                let why = format!("is not an option of the dataset `{name}`; {near}");
                Err(Incomplete::new(key, why))
            }
        }
    }

    fn of(whole: Spec) -> Self {
        whole.into()
    }

    fn visit<V: FieldVisitor>(all: &[&Self], path: &str, visitor: &mut V) {
        Self::visit_fields(all, path, visitor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> std::result::Result<Spec, String> {
        let part: PartialSpec = serde_json::from_str(text).map_err(|why| why.to_string())?;
        part.complete().map_err(|why| why.to_string())
    }

    #[test]
    fn every_name_has_defaults_that_survive_a_plan_file() {
        for name in Spec::NAMES {
            for conventions in [Conventions::Vllm, Conventions::Sglang] {
                let spec = Spec::defaults(name, conventions).unwrap();
                assert_eq!(spec.name(), *name);
                let text = serde_json::to_string(&spec).unwrap();
                assert!(text.contains(&format!(r#""dataset":"{name}""#)), "{text}");
                assert_eq!(read(&text), Ok(spec.clone()));
                let part = PartialSpec::of(spec.clone());
                let text = serde_json::to_string(&part).unwrap();
                assert_eq!(serde_json::from_str::<PartialSpec>(&text).unwrap(), part, "{text}");
                assert_eq!(part.complete(), Ok(spec));
                let bare = format!(r#"{{"dataset":"{name}"}}"#);
                assert_eq!(read(&bare).unwrap().name(), *name);
            }
        }
        assert_eq!(Spec::defaults("rendom", Conventions::Vllm), None);
        let named = |is_kind: fn(&Spec) -> bool| -> Vec<&str> {
            let is_kind = |name: &&&str| Spec::named(name).is_some_and(|spec| is_kind(&spec));
            Spec::NAMES.iter().filter(is_kind).copied().collect()
        };
        assert_eq!(named(Spec::is_traced), ["timed_trace", "mooncake", "trace"]);
        let random = ["random", "random-ids", "random-mm", "image", "random-audio"];
        assert_eq!(named(Spec::is_random), [&random[..], &["timed_trace", "trace"]].concat());
    }

    #[test]
    fn an_option_that_a_dataset_does_not_have_is_refused_with_its_neighbours() {
        let check = |text: &str, parts: &[&str]| {
            let why = read(text).unwrap_err();
            assert!(parts.iter().all(|part| why.contains(part)), "{text}: {why}");
        };
        check(r#"{"dataset":"random","inputlen":3}"#, &["`inputlen`", "similar: input_len"]);
        check(r#"{"dataset":"random","split":"x"}"#, &["`split`", "`random`", "prefix_len"]);
        check(r#"{"dataset":"rando"}"#, &["`rando`", "similar: random"]);
        check(r#"{"dataset":"random","output_len":"none"}"#, &["`output_len`", "cannot have"]);
        check(r#"{"input_len":3}"#, &["`dataset` is missing"]);
    }
}
