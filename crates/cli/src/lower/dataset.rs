//! Flags of datasets: each belongs to some datasets and sets one of their options.
//!
//! Which dataset is meant is known only once flags and file are put together. A flag of another
//! dataset has no effect, and a remark says so.

use tokometer_base::neighbours::suggestion;
use tokometer_base::{Conventions, Partial};
use tokometer_plan::{FlagValues, PartialPlan, PlanField};
use tokometer_workload::datasets::random_rerank::Scoring;
use tokometer_workload::{OrNone, PartialSpec, Ratio, Spec};

use super::flags::{Flags, word};
use super::foreign;
use crate::args::WorkloadArgs;
use crate::exit::Refusal;

const RANDOM: &[&str] = &["random", "random-ids"];
const RANDOM_TEXT: &[&str] = &["random", "random-ids", "random-mm", "image", "random-audio"];
const RANDOM_INPUT: &[&str] = &["random", "random-ids", "random-mm", "image", "random-rerank"];
const RANDOM_IMAGES: &[&str] = &["random-mm"];
const IMAGE: &[&str] = &["image"];
const RANDOM_AUDIO: &[&str] = &["random-audio"];
const SHARED: &[&str] = &["generated-shared-prefix"];
const REPEATED: &[&str] = &["prefix_repetition"];
const TRACE: &[&str] = &["timed_trace"];
/// Every dataset that has the option.
const ANY: &[&str] = &[];

/// A flag and the datasets that it belongs to.
type Name = (&'static str, &'static [&'static str]);

/// The options of one dataset, as typed.
struct DatasetFlags<'a> {
    dataset: &'a str,
    /// A plan in which all options that the dataset has are set.
    known: PartialPlan,
    flags: &'a mut Flags,
    used: Vec<&'static str>,
    unused: Vec<&'static str>,
}

impl DatasetFlags<'_> {
    /// An option, where it was typed.
    fn one<T>(
        &mut self,
        name: Name,
        value: Option<T>,
        option: fn(&mut PartialSpec) -> &mut Option<T>,
    ) {
        let Some(value) = value else { return };
        let has_option = option(&mut self.known.workload).is_some();
        if self.takes(name, has_option.then_some(())).is_some() {
            *option(&mut self.flags.part.workload) = Some(value);
        }
    }

    /// An option that may have several values, where it was typed.
    fn list(
        &mut self,
        name: Name,
        values: Option<&FlagValues<u64>>,
        field: PlanField,
    ) -> Result<(), Refusal> {
        let Some(values) = values else { return Ok(()) };
        let option = field.is_set(&self.known).then_some(field);
        match self.takes(name, option) {
            Some(field) => self.flags.put_values(name.0, field, Some(values)),
            None => Ok(()),
        }
    }

    /// Notes whether the flag has an effect: its option, if the dataset has that.
    fn takes<T>(&mut self, (flag, datasets): Name, option: Option<T>) -> Option<T> {
        let is_meant = datasets.is_empty() || datasets.contains(&self.dataset);
        let option = option.filter(|_| is_meant);
        if option.is_some() {
            self.used.push(flag);
        } else {
            self.unused.push(flag);
        }
        option
    }

    fn remarks(self) -> Vec<String> {
        let mut unused: Vec<&str> =
            self.unused.into_iter().filter(|flag| !self.used.contains(flag)).collect();
        unused.dedup();
        let remark = |flag| format!("`--{flag}` has no effect with the dataset `{}`", self.dataset);
        unused.into_iter().map(remark).collect()
    }
}

fn put_any(typed: &mut DatasetFlags<'_>, args: &WorkloadArgs) -> Result<(), Refusal> {
    let path = || args.dataset_path.clone().map(|path| OrNone(Some(path.into())));
    typed.one(("dataset-path", RANDOM), path(), |spec| &mut spec.content_path);
    typed.one(("dataset-path", ANY), path(), |spec| &mut spec.path);
    typed.list(("input-len", ANY), args.input_len.as_ref(), PlanField::InputLen)?;
    typed.list(("output-len", ANY), args.output_len.as_ref(), PlanField::OutputLen)?;
    let suffix = args.prompt_suffix.clone();
    typed.one(("prompt-suffix", ANY), suffix, |spec| &mut spec.prompt_suffix);
    Ok(())
}

fn put_random(typed: &mut DatasetFlags<'_>, args: &WorkloadArgs) -> Result<(), Refusal> {
    let random = &args.random;
    let (input, output) = (random.random_input_len.as_ref(), random.random_output_len.as_ref());
    typed.list(("random-input-len", RANDOM_INPUT), input, PlanField::InputLen)?;
    typed.list(("random-output-len", RANDOM_TEXT), output, PlanField::OutputLen)?;
    let prefix = random.random_prefix_len;
    typed.one(("random-prefix-len", &["random", "random-mm"]), prefix, |spec| &mut spec.prefix_len);
    let ratio = |text: &String| {
        text.parse::<Ratio>().map_err(|why| {
            Refusal::usage(format!("cannot use `--random-range-ratio {text}`: {why}"), "")
        })
    };
    let ratio = random.random_range_ratio.as_ref().map(ratio).transpose()?;
    typed.one(("random-range-ratio", RANDOM_INPUT), ratio, |spec| &mut spec.range_ratio);
    let embeds = random.no_reranker.then_some(Scoring::Embedding);
    typed.one(("no-reranker", &["random-rerank"]), embeds, |spec| &mut spec.scoring);
    Ok(())
}

fn put_images(typed: &mut DatasetFlags<'_>, args: &WorkloadArgs) -> Result<(), Refusal> {
    let images = &args.images;
    let items = images.random_mm_base_items_per_request;
    typed
        .one(("random-mm-base-items-per-request", RANDOM_IMAGES), items, |spec| &mut spec.mm_items);
    let ratio = images.random_mm_num_mm_items_range_ratio;
    let name: Name = ("random-mm-num-mm-items-range-ratio", RANDOM_IMAGES);
    typed.one(name, ratio, |spec| &mut spec.mm_items_ratio);
    let refused = |flag: &str, text: &str, why: String| {
        Refusal::usage(format!("cannot use `--{flag} {text}`: {why}"), "")
    };
    let limit = |text: &String| {
        let limits: Option<serde_json::Value> =
            serde_json::from_str(&text.replace('\'', "\"")).ok();
        let limit = limits.as_ref().and_then(|limits| limits.get("image")?.as_u64());
        limit.and_then(|limit| u32::try_from(limit).ok()).ok_or_else(|| {
            let why = "write {\"image\": N}".to_owned();
            refused("random-mm-limit-mm-per-prompt", text, why)
        })
    };
    let limit = images.random_mm_limit_mm_per_prompt.as_ref().map(limit).transpose()?;
    let name: Name = ("random-mm-limit-mm-per-prompt", RANDOM_IMAGES);
    typed.one(name, limit, |spec| &mut spec.mm_images_max);
    let buckets =
        |text: &String| text.parse().map_err(|why| refused("random-mm-bucket-config", text, why));
    let buckets = images.random_mm_bucket_config.as_ref().map(buckets).transpose()?;
    typed.one(("random-mm-bucket-config", RANDOM_IMAGES), buckets, |spec| &mut spec.mm_buckets);
    typed.one(("image-count", IMAGE), images.image_count, |spec| &mut spec.image_count);
    let is_random = images.random_image_count.then_some(true);
    typed.one(("random-image-count", IMAGE), is_random, |spec| &mut spec.is_image_count_random);
    let size = images.image_resolution.clone();
    typed.one(("image-resolution", IMAGE), size, |spec| &mut spec.image_resolution);
    let format = word("--image-format", images.image_format.as_ref())?;
    typed.one(("image-format", IMAGE), format, |spec| &mut spec.image_format);
    let content = word("--image-content", images.image_content.as_ref())?;
    typed.one(("image-content", IMAGE), content, |spec| &mut spec.image_content);
    Ok(())
}

fn put_sounds(typed: &mut DatasetFlags<'_>, args: &WorkloadArgs) {
    let mean = args.audio.audio_length_mean;
    typed.one(("audio-length-mean", RANDOM_AUDIO), mean, |spec| &mut spec.audio_seconds);
    let spread = args.audio.audio_length_stddev;
    typed.one(("audio-length-stddev", RANDOM_AUDIO), spread, |spec| &mut spec.audio_seconds_stddev);
}

fn put_files(typed: &mut DatasetFlags<'_>, args: &WorkloadArgs) -> Result<(), Refusal> {
    let files = &args.files;
    let some = |tokens: Option<u32>| tokens.map(|tokens| OrNone(Some(tokens)));
    let text = |text: &Option<String>| text.clone().map(|text| OrNone(Some(text)));
    let sharegpt: Name = ("sharegpt-output-len", &["sharegpt", "openai", "custom"]);
    typed.one(sharegpt, some(files.sharegpt_output_len), |spec| &mut spec.output_len);
    let context: Name = ("sharegpt-context-len", &["sharegpt", "custom"]);
    typed.one(context, some(files.sharegpt_context_len), |spec| &mut spec.context_len);
    // Below zero each row's own length counts, so a default is taken away.
    let custom = files.custom_output_len.map(|tokens| OrNone(u32::try_from(tokens).ok()));
    typed.one(("custom-output-len", &["custom", "custom_image", "custom_audio"]), custom, |spec| {
        &mut spec.output_len
    });
    typed.list(
        ("book-input-len", &["book"]),
        files.book_input_len.as_ref(),
        PlanField::InputLen,
    )?;
    let book = some(files.book_output_len);
    typed.one(("book-output-len", &["book"]), book, |spec| &mut spec.output_len);
    let input = files.sonnet_input_len;
    typed.one(("sonnet-input-len", &["sonnet"]), input, |spec| &mut spec.input_len);
    let output = some(files.sonnet_output_len);
    typed.one(("sonnet-output-len", &["sonnet"]), output, |spec| &mut spec.output_len);
    let prefix = files.sonnet_prefix_len;
    typed.one(("sonnet-prefix-len", &["sonnet"]), prefix, |spec| &mut spec.prefix_len);
    let category = text(&files.spec_bench_category);
    typed.one(("spec-bench-category", &["spec_bench"]), category, |spec| &mut spec.category);
    typed.one(("hf-subset", &["hf"]), text(&files.hf_subset), |spec| &mut spec.subset);
    typed.one(("hf-split", &["hf"]), text(&files.hf_split), |spec| &mut spec.split);
    typed.one(("hf-output-len", &["hf"]), some(files.hf_output_len), |spec| &mut spec.output_len);
    let column = text(&files.hf_text_column);
    typed.one(("hf-text-column", &["hf"]), column, |spec| &mut spec.text_column);
    Ok(())
}

fn put_shared(typed: &mut DatasetFlags<'_>, args: &WorkloadArgs) -> Result<(), Refusal> {
    use tokometer_workload::datasets::shared_prefix::{PromptOrder, RoutingKey};

    let shared = &args.shared;
    let some = |tokens: Option<u32>| tokens.map(|tokens| OrNone(Some(tokens)));
    let prefix = shared.prefix_repetition_prefix_len;
    typed.one(("prefix-repetition-prefix-len", REPEATED), prefix, |spec| &mut spec.prefix_len);
    let suffix = shared.prefix_repetition_suffix_len;
    typed.one(("prefix-repetition-suffix-len", REPEATED), suffix, |spec| &mut spec.suffix_len);
    let count = shared.prefix_repetition_num_prefixes;
    typed.one(("prefix-repetition-num-prefixes", REPEATED), count, |spec| &mut spec.num_prefixes);
    let output = some(shared.prefix_repetition_output_len);
    typed.one(("prefix-repetition-output-len", REPEATED), output, |spec| &mut spec.output_len);
    typed.one(("gsp-num-groups", SHARED), shared.gsp_num_groups, |spec| &mut spec.num_groups);
    let prompts = shared.gsp_prompts_per_group;
    typed.one(("gsp-prompts-per-group", SHARED), prompts, |spec| &mut spec.prompts_per_group);
    let system = shared.gsp_system_prompt_len;
    typed.one(("gsp-system-prompt-len", SHARED), system, |spec| &mut spec.system_prompt_len);
    typed.one(("gsp-question-len", SHARED), shared.gsp_question_len, |spec| &mut spec.question_len);
    let output = some(shared.gsp_output_len);
    typed.one(("gsp-output-len", SHARED), output, |spec| &mut spec.output_len);
    let ratio = shared.gsp_range_ratio.map(Ratio::both);
    typed.one(("gsp-range-ratio", SHARED), ratio, |spec| &mut spec.range_ratio);
    typed.one(("gsp-num-turns", SHARED), shared.gsp_num_turns, |spec| &mut spec.num_turns);
    let order = shared.gsp_ordered.then_some(PromptOrder::Grouped);
    typed.one(("gsp-ordered", SHARED), order, |spec| &mut spec.order);
    let routing = shared.gsp_send_routing_key.then_some(RoutingKey::Send);
    typed.one(("gsp-send-routing-key", SHARED), routing, |spec| &mut spec.routing_key);
    let spread = word("--gsp-group-distribution", shared.gsp_group_distribution.as_ref())?;
    typed.one(("gsp-group-distribution", SHARED), spread, |spec| &mut spec.group_distribution);
    typed.one(("gsp-zipf-alpha", SHARED), shared.gsp_zipf_alpha, |spec| &mut spec.zipf_alpha);
    Ok(())
}

fn put_traces(typed: &mut DatasetFlags<'_>, args: &WorkloadArgs) {
    let trace = &args.trace;
    let chunk = trace.timed_trace_chunk_hash_size;
    typed.one(("timed-trace-chunk-hash-size", TRACE), chunk, |spec| &mut spec.chunk_hash_size);
    let stretch = trace.timed_trace_sec_multiplier;
    typed.one(("timed-trace-sec-multiplier", TRACE), stretch, |spec| &mut spec.sec_multiplier);
    let slowdown = trace.mooncake_slowdown_factor;
    let name: Name = ("mooncake-slowdown-factor", &["mooncake"]);
    typed.one(name, slowdown, |spec| &mut spec.slowdown_factor);
    let rounds = trace.mooncake_num_rounds;
    typed.one(("mooncake-num-rounds", &["mooncake"]), rounds, |spec| &mut spec.num_rounds);
}

/// The defaults of a dataset.
pub(crate) fn defaults(name: &str, family: Conventions) -> Result<Spec, Refusal> {
    Spec::defaults(name, family).ok_or_else(|| {
        if let Some(instead) = foreign::dataset(name) {
            return Refusal::usage(format!("unsupported dataset `{name}`"), instead);
        }
        let hint = suggestion(name, Spec::NAMES);
        Refusal::usage(format!("unknown dataset `{name}`"), hint)
    })
}

/// Adds the typed options of `dataset` to the flags. Returns a remark for each flag of another one.
pub(crate) fn put_options(
    flags: &mut Flags,
    args: &WorkloadArgs,
    dataset: &str,
) -> Result<Vec<String>, Refusal> {
    let known = PartialPlan {
        workload: PartialSpec::of(defaults(dataset, Conventions::Vllm)?),
        ..PartialPlan::default()
    };
    let mut typed = DatasetFlags { dataset, known, flags, used: Vec::new(), unused: Vec::new() };
    put_any(&mut typed, args)?;
    put_random(&mut typed, args)?;
    put_images(&mut typed, args)?;
    put_sounds(&mut typed, args);
    put_files(&mut typed, args)?;
    put_shared(&mut typed, args)?;
    put_traces(&mut typed, args);
    Ok(typed.remarks())
}
