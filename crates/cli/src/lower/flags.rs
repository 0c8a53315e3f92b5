//! Flags as a layer over the plan: one line per flag.

use serde_json::Value;
use tokometer_base::{Conventions, Nanos, units};
use tokometer_decide::sequential::Until;
use tokometer_plan::{Term, Values};

use super::figures;
use super::layer::{Given, Layer};
use crate::args::{BenchArgs, StopArgs, TurnArgs};
use crate::exit::Refusal;

/// What the flags set: single values, and the fields that take several.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    /// Single values.
    pub(crate) layer: Layer,
    /// Several values, by the flag's name: the field and its values.
    pub(crate) lists: Vec<(&'static str, String, Vec<Value>)>,
}

impl Flags {
    /// A flag that takes one value or a list.
    pub(crate) fn put_values<T: Term>(
        &mut self,
        flag: &'static str,
        path: &str,
        values: Option<&Values<T>>,
    ) {
        let Some(Values(values)) = values else { return };
        let values: Vec<Value> = values.iter().map(|value| value.value()).collect();
        match values.as_slice() {
            [only] => self.layer.put(path, only),
            _ => self.lists.push((flag, path.to_owned(), values)),
        }
    }
}

/// Everything but the flags of datasets, whose meaning depends on the dataset.
pub(crate) fn flags(args: &BenchArgs) -> Result<Flags, Refusal> {
    let mut flags = Flags::default();
    put_target(&mut flags.layer, args);
    super::turns::put_against(&mut flags.layer, &args.against)?;
    put_prompts(&mut flags.layer, args)?;
    put_turns(&mut flags, &args.workload.turns);
    put_load(&mut flags, args)?;
    put_phases(&mut flags.layer, args);
    put_request(&mut flags.layer, args)?;
    put_client(&mut flags.layer, args)?;
    put_metrics(&mut flags.layer, args)?;
    put_output(&mut flags.layer, args);
    Ok(flags)
}

fn put_target(layer: &mut Layer, args: &BenchArgs) {
    let target = &args.target;
    layer.put("family", target.compat.map(Conventions::name));
    layer.put("targets.0.backend", &target.backend);
    layer.put("targets.0.endpoint", &target.endpoint);
    layer.put("targets.0.model", &target.model);
    layer.put("targets.0.served_model_name", &target.served_model_name);
    layer.put("targets.0.address", &target.base_url);
    layer.put(
        "targets.0.address",
        target.sim.as_ref().map(|profile| format!("simulator:{profile}")),
    );
    layer.put_if(Given::from(!target.header.is_empty()), "targets.0.headers", &target.header);
    layer.put("targets.0.trust.file", &target.ca_cert);
    layer.put_if(Given::from(target.insecure), "targets.0.trust", "anybody");
}

fn put_prompts(layer: &mut Layer, args: &BenchArgs) -> Result<(), Refusal> {
    let (target, workload) = (&args.target, &args.workload);
    layer.put_if(Given::from(target.skip_tokenizer_init), "prompts.tokenizer", "cl100k");
    layer.put("prompts.tokenizer", &target.tokenizer);
    layer.put_if(Given::from(workload.prompt_token_ids), "prompts.form", "token-ids");
    layer.put_if(Given::from(workload.disable_shuffle), "prompts.row_order", "as_in_file");
    layer.put_if(Given::from(workload.no_oversample), "prompts.oversample", "never");
    layer.put_if(Given::from(workload.skip_chat_template), "prompts.templating", "skip");
    layer.put_if(Given::from(workload.apply_chat_template), "prompts.templating", "apply");
    let kwargs = object("--chat-template-kwargs", workload.chat_template_kwargs.as_deref())?;
    layer.put("prompts.template_values", kwargs);
    layer.put("prompts.max_model_len", workload.max_model_len);
    Ok(())
}

/// Turns of a conversation in vLLM's Rust client.
const TURNS: u32 = 3;

fn put_turns(flags: &mut Flags, turns: &TurnArgs) {
    if !turns.multi_turn {
        return;
    }
    // Zero stands for "as many as the others".
    let all = turns.multi_turn_num_turns.unwrap_or(TURNS);
    let of = |count: Option<u32>| count.filter(|count| *count > 0).unwrap_or(all);
    let layer = &mut flags.layer;
    layer.put("prompts.turns.least", of(turns.multi_turn_min_turns));
    layer.put("prompts.turns.most", of(turns.multi_turn_max_turns));
    layer.put("prompts.turns.think_ms", turns.multi_turn_delay_ms);
    let input_len = turns.per_turn_input_len.filter(|tokens| *tokens > 0);
    layer.put("prompts.turns.later_input_len", input_len);
    let cap = turns.multi_turn_concurrency.as_ref();
    flags.put_values("multi-turn-concurrency", "load.max_concurrency", cap);
}

fn put_load(flags: &mut Flags, args: &BenchArgs) -> Result<(), Refusal> {
    let (arrival, stop) = (&args.arrival, &args.stop);
    flags.put_values("request-rate", "load.request_rate", arrival.request_rate.as_ref());
    flags.put_values("max-concurrency", "load.max_concurrency", arrival.max_concurrency.as_ref());
    flags.put_values("num-prompts", "load.num_prompts", stop.num_prompts.as_ref());
    let layer = &mut flags.layer;
    layer.put("load.burstiness", arrival.burstiness);
    layer.put("load.duration_s", seconds("--duration", stop.duration.as_deref())?);
    put_until(layer, stop)?;
    layer.put("load.ramp.strategy", &arrival.ramp_up_strategy);
    layer.put("load.ramp.from", arrival.ramp_up_start_rps);
    layer.put("load.ramp.to", arrival.ramp_up_end_rps);
    layer.put_if(Given::from(args.workload.trace.self_timed), "load.timing", "trace");
    layer.put_if(Given::from(args.workload.trace.no_self_timed), "load.timing", "rate");
    layer.put("seed", arrival.seed);
    layer.put("content", arrival.seed.map(|_| "repeated"));
    Ok(())
}

/// The shortest run that ends by `--until`, in seconds.
const UNTIL_AT_LEAST_S: f64 = 5.0;

fn put_until(layer: &mut Layer, stop: &StopArgs) -> Result<(), Refusal> {
    if let Some(text) = &stop.until {
        let rule = Until::parse(text).map_err(|why| {
            let hint = "write it as `--until \"p99 ttft ±10%\"`";
            Refusal::usage(format!("cannot use `--until`: {why}"), hint)
        })?;
        layer.put("load.until.rule", rule);
        let least = seconds("--at-least", stop.at_least.as_deref())?;
        layer.put("load.until.min_s", least.unwrap_or(UNTIL_AT_LEAST_S));
    }
    layer.put_if(Given::from(stop.stop_when_overloaded), "load.overload", "stop");
    Ok(())
}

/// Answers of SGLang's warm-up requests are no longer than this.
const SGLANG_WARMUP_TOKENS: u32 = 32;

fn put_phases(layer: &mut Layer, args: &BenchArgs) {
    let (target, arrival) = (&args.target, &args.arrival);
    layer.put("phases.ready_timeout_s", target.ready_check_timeout_sec);
    layer.put("phases.warmups", arrival.warmup_requests);
    layer.put("phases.warmup_output_max", arrival.warmup_requests.map(|_| SGLANG_WARMUP_TOKENS));
    layer.put("phases.warmups", arrival.num_warmups);
    layer.put_if(Given::from(target.flush_cache), "phases.cache", "flush");
    layer.put("phases.flush_timeout_s", target.flush_cache_timeout);
    layer.put_if(Given::from(target.profile), "phases.profiler", "on");
    layer.put("phases.profile_request", target.profiling.body());
    layer.put("phases.probe_rate", arrival.probe_request_rate);
}

fn put_request(layer: &mut Layer, args: &BenchArgs) -> Result<(), Refusal> {
    let (sampling, target) = (&args.sampling, &args.target);
    layer.put("request.sampling.temperature", sampling.temperature);
    layer.put("request.sampling.top_p", sampling.top_p);
    layer.put("request.sampling.top_k", sampling.top_k);
    layer.put("request.sampling.min_p", sampling.min_p);
    layer.put("request.sampling.frequency_penalty", sampling.frequency_penalty);
    layer.put("request.sampling.presence_penalty", sampling.presence_penalty);
    layer.put("request.sampling.repetition_penalty", sampling.repetition_penalty);
    let sglang_logprobs = sampling.return_logprob.then(|| sampling.top_logprobs_num.unwrap_or(0));
    layer.put("request.logprobs", sglang_logprobs);
    layer.put("request.logprobs", sampling.logprobs);
    layer.put_if(Given::from(sampling.ignore_eos), "request.ignore_eos", "asked");
    layer.put_if(Given::from(sampling.disable_ignore_eos), "request.ignore_eos", "off");
    layer.put_if(Given::from(sampling.disable_stream), "request.delivery", "whole");
    layer.put_if(Given::from(sampling.continuous_usage), "request.usage", "continuous");
    layer.put("request.request_id_prefix", &sampling.request_id_prefix);
    let body = object("--extra-body", sampling.extra_body.as_deref())?;
    layer.put("request.extra_body", body);
    layer.put("request.extra_body.logprob_start_len", sampling.logprob_start_len);
    layer.put_if(
        Given::from(!target.lora_modules.is_empty()),
        "request.lora.names",
        &target.lora_modules,
    );
    layer.put("request.lora.assignment", &target.lora_assignment);
    layer.put("request.lora.assignment", &target.lora_request_distribution);
    layer.put("request.lora.alpha", target.lora_zipf_alpha);
    Ok(())
}

fn put_client(layer: &mut Layer, args: &BenchArgs) -> Result<(), Refusal> {
    let client = &args.client;
    layer.put("client.connections", &client.connections);
    layer.put("client.harvest", &client.harvest);
    layer.put("client.stamps", &client.stamps);
    layer.put("client.workers", client.workers);
    layer.put("client.timeout_s", seconds("--timeout", client.timeout.as_deref())?);
    let connect = seconds("--connect-timeout", client.connect_timeout.as_deref())?;
    layer.put("client.connect_timeout_s", connect);
    layer.put(
        "client.stall_timeout_s",
        seconds("--stall-timeout", client.stall_timeout.as_deref())?,
    );
    layer.put("client.retries", client.retries);
    layer.put("client.scrape_interval_s", client.scrape_interval);
    layer.put_if(Given::from(client.no_scrape), "client.scrape_interval_s", 0.0);
    let has_urls = Given::from(!client.metrics_url.is_empty());
    layer.put_if(has_urls, "client.metrics_urls", &client.metrics_url);
    Ok(())
}

fn put_metrics(layer: &mut Layer, args: &BenchArgs) -> Result<(), Refusal> {
    let metric = &args.metric;
    layer.put("metrics.layout", &metric.layout);
    let sections = metric.percentile_metrics.as_deref().map(figures::sections).transpose()?;
    layer.put("metrics.sections", sections);
    layer.put("metrics.percentiles", percentiles(metric.metric_percentiles.as_deref())?);
    for word in &metric.goodput {
        let (name, bound) = figures::objective(word)?;
        layer.put(&format!("metrics.goodput.{name}"), bound);
    }
    layer.put_if(Given::from(metric.strict), "metrics.judgement", "strict");
    Ok(())
}

fn put_output(layer: &mut Layer, args: &BenchArgs) {
    let output = &args.output;
    layer.put("name", &output.name);
    layer.put("output.run_dir", &output.run_dir);
    layer.put("output.prometheus_port", output.prometheus_port);
    layer.put_if(Given::from(output.no_run_dir), "output.record", "dropped");
    layer.put_if(Given::from(output.json), "output.shown", "json");
    layer.put_if(Given::from(output.quiet), "output.shown", "nothing");
    let is_saved = output.save_result || output.append_result || output.save_detailed;
    layer.put_if(Given::from(is_saved), "output.vllm_result", serde_json::json!({}));
    layer.put_if(Given::from(output.save_detailed), "output.vllm_result.is_detailed", true);
    layer.put_if(Given::from(output.append_result), "output.vllm_result.is_appended", true);
    if is_saved {
        layer.put("output.vllm_result.dir", &output.result_dir);
        layer.put("output.vllm_result.filename", &output.result_filename);
        layer.put("output.vllm_result.label", &output.label);
        layer.put("output.vllm_result.metadata", &output.metadata);
    }
    let is_line = output.output_file.is_some() || output.output_details || output.tag.is_some();
    layer.put_if(Given::from(is_line), "output.sglang_result", serde_json::json!({}));
    layer.put("output.sglang_result.file", &output.output_file);
    layer.put("output.sglang_result.tag", &output.tag);
    layer.put_if(Given::from(output.output_details), "output.sglang_result.is_detailed", true);
}

/// A flag's value as a JSON object.
fn object(
    flag: &str,
    text: Option<&str>,
) -> Result<Option<serde_json::Map<String, Value>>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    serde_json::from_str(text).map(Some).map_err(|why| {
        Refusal::usage(
            format!("cannot use the value of `{flag}`: {why}"),
            r#"write a JSON object, such as '{"min_tokens": 5}'"#,
        )
    })
}

/// `a,b,c` as words.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

/// `50,99.9` as percentiles.
pub(crate) fn percentiles(text: Option<&str>) -> Result<Option<Vec<f64>>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    let percentile = |word: &String| {
        word.parse().ok().filter(|percent| (0.0..=100.0).contains(percent)).ok_or_else(|| {
            Refusal::usage(
                format!("cannot use `--metric-percentiles {text}`: `{word}` is no percentile"),
                "write numbers between 0 and 100, such as `50,90,99`",
            )
        })
    };
    words(text).iter().map(percentile).collect::<Result<_, _>>().map(Some)
}

/// A span of time as typed, in seconds.
fn seconds(flag: &str, text: Option<&str>) -> Result<Option<f64>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    let span = units::parse_span(text, Nanos::from_secs(1)).map_err(|why| {
        Refusal::usage(
            format!("cannot use `{flag} {text}`: {why}"),
            "write a number with a unit, such as `30s`, `500ms` or `2m`",
        )
    })?;
    Ok(Some(span.as_secs_f64()))
}
