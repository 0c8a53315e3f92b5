//! What a plan may hold: numbers within the limits of their options, and parts that fit together.
//!
//! A plan that a program wrote or a typing error made is refused before anything of its size is made. Only
//! rates and the burstiness may be infinite; they have a word for it on disk. Any other infinity would
//! become an absent value in `plan.json`, and a reader would take the default.

use tokometer_base::{Conventions, Partial, Refusal};
use tokometer_workload::PartialSpec;

use crate::options;
use crate::{Load, Plan, Timing};

const MOST_REQUESTS: u64 = 1_000_000_000;
/// Tokens of all shared prefixes together, which are kept in memory.
const MOST_SHARED_TOKENS: u64 = 1_000_000_000;

impl Plan {
    pub fn check(&self) -> Result<(), Refusal> {
        check_numbers(self)?;
        let spec = PartialSpec::of(self.workload.clone());
        check_products(&spec)?;
        check_nothing(self, &spec)?;
        check_load(&self.load)?;
        if self.load.has_own_end() && self.targets.len() > 1 {
            return Err(Refusal::usage(
                "cannot use stages with two targets: these are measured in blocks",
                "measure the targets one after the other, and use `tokometer compare`",
            ));
        }
        self.check_classes()
    }
}

fn check_numbers(plan: &Plan) -> Result<(), Refusal> {
    // Written once as a whole: a reader per type of field would be a large part of the program.
    let json = serde_json::to_value(plan).unwrap_or_default();
    // JSON has no number for an infinity, and TOML none for the largest counts.
    let toml = toml::Table::try_from(plan).map(toml::Value::Table).ok();
    for row in options::rows().filter(|row| !row.key.is_empty()) {
        let pointer = format!("/{}", row.key.replace('.', "/"));
        let written = json.pointer(&pointer).filter(|value| value.is_number());
        let infinite = || float_at(toml.as_ref()?, row.key);
        let number = written.and_then(serde_json::Value::as_f64).or_else(infinite);
        let Some(number) = number else { continue };
        check_number(row.key, number, if row.is_unsigned() { 0.0 } else { f64::NEG_INFINITY })?;
        if let Some(most) = row.limit().filter(|most| number > *most) {
            let shown = written.map_or_else(|| number.to_string(), ToString::to_string);
            // Lengths have a flag for each dataset.
            let is_only = options::rows().filter(|other| other.key == row.key).count() == 1;
            let name = if is_only { format!("--{}", row.flag) } else { row.key.to_owned() };
            return Err(Refusal::usage(
                format!("cannot use {shown} for `{name}`: the most is {most}"),
                "check the number of digits",
            ));
        }
    }
    if let Some(percent) = plan.metrics.percentiles.iter().find(|percent| **percent > 100.0) {
        return Err(Refusal::usage(
            format!("cannot use {percent} for `metrics.percentiles`: it is not a percentile"),
            "write numbers between 0 and 100, such as `[50, 90, 99]`",
        ));
    }
    let listed = plan.metrics.percentiles.iter().map(|number| ("metrics.percentiles", number));
    let goodput = plan.metrics.goodput.values().map(|number| ("metrics.goodput", number));
    listed.chain(goodput).try_for_each(|(name, number)| check_number(name, *number, 0.0))
}

fn float_at(table: &toml::Value, key: &str) -> Option<f64> {
    let inner = |value: &toml::Value, name: &str| match name.parse::<usize>() {
        Ok(at) => value.get(at).cloned(),
        Err(_) => value.get(name).cloned(),
    };
    key.split('.').try_fold(table.clone(), |value, name| inner(&value, name))?.as_float()
}

fn check_number(name: &str, number: f64, least: f64) -> Result<(), Refusal> {
    let why = match () {
        () if !number.is_finite() => "it must be a finite number",
        () if number < least => "it must not be negative",
        () => return Ok(()),
    };
    Err(Refusal::usage(
        format!("cannot use {number} for `{name}`: {why}"),
        "omit it for the default",
    ))
}

fn check_products(spec: &PartialSpec) -> Result<(), Refusal> {
    let check = |name: &str, factors: [Option<u32>; 2], most: u64| {
        let [count, each] = factors.map(|factor| u64::from(factor.unwrap_or(0)));
        let product = count.saturating_mul(each);
        if product <= most {
            return Ok(());
        }
        let message = format!("cannot use {product} for `{name}`: the most is {most}");
        Err(Refusal::usage(message, "check the number of digits"))
    };
    check(
        "workload.num_groups times workload.prompts_per_group",
        [spec.num_groups, spec.prompts_per_group],
        MOST_REQUESTS,
    )?;
    check(
        "workload.num_prefixes times workload.prefix_len",
        [spec.num_prefixes, spec.prefix_len],
        MOST_SHARED_TOKENS,
    )?;
    check(
        "workload.num_groups times workload.system_prompt_len",
        [spec.num_groups, spec.system_prompt_len],
        MOST_SHARED_TOKENS,
    )
}

/// Refuses runs that would measure nothing.
fn check_nothing(plan: &Plan, spec: &PartialSpec) -> Result<(), Refusal> {
    let is_random = matches!(spec.dataset.as_deref(), Some("random" | "random-ids"));
    let is_empty = is_random && spec.input_len == Some(0) && spec.prefix_len.unwrap_or(0) == 0;
    let output_len = spec.output_len.as_ref().and_then(|length| length.0);
    let (message, hint) = match () {
        () if plan.load.num_prompts == Some(0) && spec.trace_speed.is_none() => (
            "cannot use `--num-prompts 0`: there would be nothing to measure",
            "use at least 1; `tokometer dataset` shows prompts without sending them",
        ),
        () if plan.client.connect_timeout_s <= 0.0 => (
            "cannot use `--connect-timeout 0`: no connection could be opened",
            "omit it for the default of 10 s",
        ),
        () if output_len == Some(0) => (
            "cannot use an output length of 0: an answer needs at least one token",
            "use at least 1, such as `--random-output-len 1`",
        ),
        () if is_empty => (
            "cannot use `--random-input-len 0`: a prompt needs at least one token",
            "use at least 1, or give `--random-prefix-len`",
        ),
        () if plan.prompts.batch_size == 0 => {
            ("`--batch-size` must be greater than zero", "omit it for one")
        }
        () => return Ok(()),
    };
    Err(Refusal::usage(message, hint))
}

fn check_load(load: &Load) -> Result<(), Refusal> {
    let rate = load.request_rate.0;
    if rate.is_nan() || rate <= 0.0 {
        return Err(Refusal::usage(
            format!("cannot use `--request-rate {rate}`: a rate must be greater than zero"),
            "try `--request-rate inf` to send without waiting",
        ));
    }
    if load.burstiness.0.is_nan() || load.burstiness.0 <= 0.0 {
        return Err(Refusal::usage(
            format!(
                "cannot use `--burstiness {}`: it must be greater than zero",
                load.burstiness.0
            ),
            "use 1 for a Poisson process, inf for constant intervals",
        ));
    }
    if load.max_concurrency == Some(0) {
        return Err(Refusal::usage(
            "cannot use `--max-concurrency 0`: no request could be sent",
            "omit it for no limit",
        ));
    }
    if load.duration_s.is_some_and(|seconds| seconds <= 0.0) {
        return Err(Refusal::usage("`--duration` must be greater than zero", "write it as `30s`"));
    }
    if load.stages.is_empty() {
        return Ok(());
    }
    if rate.is_finite() || load.timing == Timing::Trace {
        let (other, hint) = match load.timing {
            Timing::Rate => {
                ("`--request-rate`", "omit one of them: both say when requests are sent")
            }
            Timing::Trace => {
                ("the times of a trace", "add `load.timing = \"rate\"` to a plan, or omit them")
            }
        };
        return Err(Refusal::usage(
            format!("cannot use {other} together with stages or a ramp-up"),
            hint,
        ));
    }
    let of_any = load.arrivals(Conventions::Vllm).check();
    of_any.map_err(|why| Refusal::usage(why.to_string(), "write them as `2m@5/s, 30s@5..50/s`"))
}
