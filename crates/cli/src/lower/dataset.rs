//! Flags of datasets: each belongs to some datasets and sets one of their options.
//!
//! Which dataset is meant is known only once flags and file are put together, so these flags are
//! kept in a list until then. A flag of another dataset has no effect, and that is said.

use serde_json::Value;
use tokometer_base::Conventions;
use tokometer_plan::{Term, Values};
use tokometer_workload::Spec;

use super::flags::Flags;
use crate::args::WorkloadArgs;
use crate::args::compat::nearest;
use crate::exit::Refusal;

/// One flag that was typed.
struct Typed {
    flag: &'static str,
    /// Datasets that have the option. Empty: all that have an option of this name.
    datasets: &'static [&'static str],
    option: &'static str,
    /// One value, or several for a sweep. Null takes a default away.
    values: Vec<Value>,
}

/// Options that were typed, in no particular order.
#[derive(Default)]
struct TypedOptions(Vec<Typed>);

impl TypedOptions {
    fn one(
        &mut self,
        flag: &'static str,
        (datasets, option): (&'static [&'static str], &'static str),
        value: Option<impl Into<Value>>,
    ) {
        if let Some(value) = value {
            self.0.push(Typed { flag, datasets, option, values: vec![value.into()] });
        }
    }

    fn list(
        &mut self,
        flag: &'static str,
        (datasets, option): (&'static [&'static str], &'static str),
        values: Option<&Values<u64>>,
    ) {
        if let Some(Values(values)) = values {
            let values = values.iter().map(|value| value.value()).collect();
            self.0.push(Typed { flag, datasets, option, values });
        }
    }
}

const RANDOM: &[&str] = &["random", "random-ids"];
const SHARED: &[&str] = &["generated-shared-prefix"];
const REPEATED: &[&str] = &["prefix_repetition"];

fn typed_options(args: &WorkloadArgs) -> Result<Vec<Typed>, Refusal> {
    let mut typed = TypedOptions::default();
    typed.one("dataset-path", (RANDOM, "content_path"), args.dataset_path.clone());
    typed.one("dataset-path", (&[], "path"), args.dataset_path.clone());
    typed.list("input-len", (&[], "input_len"), args.input_len.as_ref());
    typed.list("output-len", (&[], "output_len"), args.output_len.as_ref());
    typed.one("prompt-suffix", (&[], "prompt_suffix"), args.prompt_suffix.clone());
    put_random(&mut typed, args)?;
    put_files(&mut typed, args);
    put_shared(&mut typed, args);
    let trace = &args.trace;
    let chunk = trace.timed_trace_chunk_hash_size;
    typed.one("timed-trace-chunk-hash-size", (&["timed_trace"], "chunk_hash_size"), chunk);
    let stretch = trace.timed_trace_sec_multiplier;
    typed.one("timed-trace-sec-multiplier", (&["timed_trace"], "sec_multiplier"), stretch);
    let slowdown = trace.mooncake_slowdown_factor;
    typed.one("mooncake-slowdown-factor", (&["mooncake"], "slowdown_factor"), slowdown);
    let rounds = trace.mooncake_num_rounds;
    typed.one("mooncake-num-rounds", (&["mooncake"], "num_rounds"), rounds);
    Ok(typed.0)
}

fn put_random(typed: &mut TypedOptions, args: &WorkloadArgs) -> Result<(), Refusal> {
    let random = &args.random;
    typed.list("random-input-len", (RANDOM, "input_len"), random.random_input_len.as_ref());
    typed.list("random-output-len", (RANDOM, "output_len"), random.random_output_len.as_ref());
    typed.one("random-prefix-len", (&["random"], "prefix_len"), random.random_prefix_len);
    if let Some(text) = &random.random_range_ratio {
        let ratio: tokometer_workload::Ratio = text.parse().map_err(|why| {
            Refusal::usage(format!("cannot use `--random-range-ratio {text}`: {why}"), "")
        })?;
        let ratio = serde_json::to_value(ratio).unwrap_or(Value::Null);
        typed.one("random-range-ratio", (RANDOM, "range_ratio"), Some(ratio));
    }
    Ok(())
}

fn put_files(typed: &mut TypedOptions, args: &WorkloadArgs) {
    let files = &args.files;
    let sharegpt: (&[&str], _) = (&["sharegpt", "openai", "custom"], "output_len");
    typed.one("sharegpt-output-len", sharegpt, files.sharegpt_output_len);
    let context: (&[&str], _) = (&["sharegpt", "custom"], "context_len");
    typed.one("sharegpt-context-len", context, files.sharegpt_context_len);
    let custom = files
        .custom_output_len
        .map(|tokens| u64::try_from(tokens).map_or(Value::Null, Value::from));
    typed.one("custom-output-len", (&["custom"], "output_len"), custom);
    typed.list("book-input-len", (&["book"], "input_len"), files.book_input_len.as_ref());
    typed.one("book-output-len", (&["book"], "output_len"), files.book_output_len);
    typed.one("sonnet-input-len", (&["sonnet"], "input_len"), files.sonnet_input_len);
    typed.one("sonnet-output-len", (&["sonnet"], "output_len"), files.sonnet_output_len);
    typed.one("sonnet-prefix-len", (&["sonnet"], "prefix_len"), files.sonnet_prefix_len);
    typed.one("hf-subset", (&["hf"], "subset"), files.hf_subset.clone());
    typed.one("hf-split", (&["hf"], "split"), files.hf_split.clone());
    typed.one("hf-output-len", (&["hf"], "output_len"), files.hf_output_len);
    typed.one("hf-text-column", (&["hf"], "text_column"), files.hf_text_column.clone());
}

fn put_shared(typed: &mut TypedOptions, args: &WorkloadArgs) {
    let shared = &args.shared;
    let prefix = shared.prefix_repetition_prefix_len;
    typed.one("prefix-repetition-prefix-len", (REPEATED, "prefix_len"), prefix);
    let suffix = shared.prefix_repetition_suffix_len;
    typed.one("prefix-repetition-suffix-len", (REPEATED, "suffix_len"), suffix);
    let prefixes = shared.prefix_repetition_num_prefixes;
    typed.one("prefix-repetition-num-prefixes", (REPEATED, "num_prefixes"), prefixes);
    let output = shared.prefix_repetition_output_len;
    typed.one("prefix-repetition-output-len", (REPEATED, "output_len"), output);
    typed.one("gsp-num-groups", (SHARED, "num_groups"), shared.gsp_num_groups);
    typed.one("gsp-prompts-per-group", (SHARED, "prompts_per_group"), shared.gsp_prompts_per_group);
    typed.one("gsp-system-prompt-len", (SHARED, "system_prompt_len"), shared.gsp_system_prompt_len);
    typed.one("gsp-question-len", (SHARED, "question_len"), shared.gsp_question_len);
    typed.one("gsp-output-len", (SHARED, "output_len"), shared.gsp_output_len);
    typed.one("gsp-range-ratio", (SHARED, "range_ratio"), shared.gsp_range_ratio);
    typed.one("gsp-num-turns", (SHARED, "num_turns"), shared.gsp_num_turns);
    typed.one("gsp-ordered", (SHARED, "order"), shared.gsp_ordered.then_some("grouped"));
    let routing = shared.gsp_send_routing_key.then_some("send");
    typed.one("gsp-send-routing-key", (SHARED, "routing_key"), routing);
    let distribution = shared.gsp_group_distribution.clone();
    typed.one("gsp-group-distribution", (SHARED, "group_distribution"), distribution);
    typed.one("gsp-zipf-alpha", (SHARED, "zipf_alpha"), shared.gsp_zipf_alpha);
}

/// The defaults of a dataset as a layer's fields.
pub(crate) fn defaults(name: &str, family: Conventions) -> Result<Value, Refusal> {
    let spec = Spec::defaults(name, family).ok_or_else(|| unknown(name))?;
    serde_json::to_value(spec)
        .map_err(|why| Refusal::usage(format!("cannot use the dataset `{name}`: {why}"), ""))
}

fn unknown(name: &str) -> Refusal {
    let near = nearest(name, Spec::NAMES.into_iter());
    let hint = if near.is_empty() {
        format!("the datasets are {}", Spec::NAMES.join(", "))
    } else {
        format!("the nearest are {}; all: {}", near.join(", "), Spec::NAMES.join(", "))
    };
    Refusal::usage(format!("there is no dataset `{name}`"), hint)
}

/// Adds the typed options of `dataset` to the flags. Returns a remark for each flag of another one.
pub(crate) fn put_options(
    flags: &mut Flags,
    args: &WorkloadArgs,
    dataset: &str,
) -> Result<Vec<String>, Refusal> {
    let known = defaults(dataset, Conventions::Vllm)?;
    let mut remarks = Vec::new();
    let mut used: Vec<&str> = Vec::new();
    let typed = typed_options(args)?;
    for option in &typed {
        let is_named = option.datasets.is_empty() || option.datasets.contains(&dataset);
        if !is_named || known.get(option.option).is_none() {
            continue;
        }
        used.push(option.flag);
        let path = format!("workload.{}", option.option);
        match option.values.as_slice() {
            [Value::Null] => flags.layer.clear(&path),
            [only] => flags.layer.put(&path, only),
            _ => flags.lists.push((option.flag, path, option.values.clone())),
        }
    }
    for option in typed.iter().filter(|option| !used.contains(&option.flag)) {
        let remark = format!("`--{}` has no effect with the dataset `{dataset}`", option.flag);
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    Ok(remarks)
}
