//! Flags as a partial plan: one line per flag.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokometer_base::redact::hide_in_url;
use tokometer_base::{IgnoreEos, Nanos, units};
use tokometer_client::secret::{ExtraBody, Headers};
use tokometer_client::settings::Delivery;
use tokometer_client::tls::Trust;
use tokometer_client::{PartialSampling, UsageReports};
use tokometer_decide::sequential;
use tokometer_plan::{
    Address, Cache, CertificateFiles, Content, FlagValues, Form, Judgement, Metadata, Overload,
    PartialClient, PartialLoad, PartialLora, PartialMetrics, PartialObject, PartialOutput,
    PartialPhases, PartialPlan, PartialPrompts, PartialRamp, PartialRequest, PartialSglangResult,
    PartialTarget, PartialUntil, PartialVllmResult, PlanField, Profiler, ProxyUse, Record, Shown,
    SweepValue, Term, Timing, UrlText,
};
use tokometer_workload::{BadRows, Oversample, PartialTurns, RowOrder, Templating};

use super::defaults::{SGLANG_WARMUP_TOKENS, dialect};
use super::figures;
use crate::args::{
    ArrivalArgs, BenchArgs, ClientArgs, MetricArgs, OutputArgs, SamplingArgs, StopArgs, TargetArgs,
    TurnArgs, WorkloadArgs,
};
use crate::exit::Refusal;

/// What the flags set: single values, and the fields that take several.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    /// Single values.
    pub(crate) part: PartialPlan,
    /// Several values, by the flag's name: the field and its values.
    pub(crate) lists: Vec<(&'static str, PlanField, Vec<SweepValue>)>,
}

impl Flags {
    /// A flag that takes one value or a list.
    pub(crate) fn put_values<T: Term>(
        &mut self,
        flag: &'static str,
        field: PlanField,
        values: Option<&FlagValues<T>>,
    ) -> Result<(), Refusal> {
        let Some(FlagValues(values)) = values else { return Ok(()) };
        let values: Vec<SweepValue> = values.iter().map(|value| value.scalar()).collect();
        if let [only] = values.as_slice() {
            return field
                .set(&mut self.part, only)
                .map_err(|why| Refusal::usage(format!("cannot use `--{flag} {only}`: {why}"), ""));
        }
        self.lists.push((flag, field, values));
        Ok(())
    }
}

/// Everything but the flags of datasets, whose meaning depends on the dataset.
pub(crate) fn flags(args: &BenchArgs) -> Result<Flags, Refusal> {
    let seed = args.arrival.seed;
    let part = PartialPlan {
        name: args.output.name.clone(),
        family: args.target.compat,
        seed,
        content: seed.map(|_| Content::Repeated),
        targets: targets(&args.target)?,
        prompts: prompts(&args.target, &args.workload)?,
        load: load(args)?,
        phases: phases(&args.target, &args.arrival),
        request: request(&args.sampling, &args.target)?,
        canary: super::constraints::canaries(&args.sampling)?,
        client: client(&args.client)?,
        metrics: metrics(&args.metric)?,
        output: output(&args.output),
        ..PartialPlan::default()
    };
    let mut flags = Flags { part, lists: Vec::new() };
    super::turns::put_against(&mut flags.part, &args.against)?;
    let turns = &args.workload.turns;
    if turns.multi_turn {
        let cap = turns.multi_turn_concurrency.as_ref();
        flags.put_values("multi-turn-concurrency", PlanField::MaxConcurrency, cap)?;
    }
    let (arrival, stop) = (&args.arrival, &args.stop);
    flags.put_values("request-rate", PlanField::RequestRate, arrival.request_rate.as_ref())?;
    flags.put_values(
        "max-concurrency",
        PlanField::MaxConcurrency,
        arrival.max_concurrency.as_ref(),
    )?;
    flags.put_values("num-prompts", PlanField::NumPrompts, stop.num_prompts.as_ref())?;
    Ok(flags)
}

/// The later of two values that set one field.
fn last<T>(earlier: Option<T>, later: Option<T>) -> Option<T> {
    later.or(earlier)
}

/// No target at all where nothing is said of one: what is said elsewhere then counts.
fn targets(args: &TargetArgs) -> Result<Vec<PartialTarget>, Refusal> {
    if args.base_url.is_some() && args.sim.is_some() {
        return Err(Refusal::usage(
            "cannot measure `--base-url` and `--sim` in one run: they are two targets",
            "use one of them; `--against URL` measures two servers in turn",
        ));
    }
    let named = args.base_url.as_ref().map(|url| address("--base-url", url)).transpose()?;
    let simulated = args.sim.clone().map(Address::Simulator);
    let target = PartialTarget {
        address: last(named, simulated),
        backend: args.backend.as_deref().map(dialect).transpose()?,
        endpoint: args.endpoint.clone().map(|path| Some(UrlText(path))),
        model: args.model.clone().map(Some),
        served_model_name: args.served_model_name.clone().map(Some),
        headers: (!args.header.is_empty()).then(|| Headers(args.header.clone())),
        trust: last(args.ca_cert.clone().map(Trust::File), args.insecure.then_some(Trust::Anybody)),
        identity: args.client_cert.clone().map(|certificate| {
            Some(CertificateFiles { certificate, key: args.client_key.clone() })
        }),
        resolve: (!args.resolve.is_empty()).then(|| args.resolve.clone()),
        proxy: args.no_proxy.then_some(ProxyUse::Never),
    };
    Ok(if target == PartialTarget::default() { Vec::new() } else { vec![target] })
}

/// An address as typed.
pub(crate) fn address(flag: &str, text: &str) -> Result<Address, Refusal> {
    text.parse().map_err(|why| {
        Refusal::usage(format!("cannot use `{flag} {}`: {why}", hide_in_url(text)), "")
    })
}

fn prompts(target: &TargetArgs, workload: &WorkloadArgs) -> Result<PartialPrompts, Refusal> {
    let built_in = target.skip_tokenizer_init.then(|| "cl100k".to_owned());
    let kwargs = object("--chat-template-kwargs", workload.chat_template_kwargs.as_deref())?;
    Ok(PartialPrompts {
        tokenizer: last(built_in, target.tokenizer.clone()).map(Some),
        form: workload.prompt_token_ids.then_some(Form::TokenIds),
        row_order: workload.disable_shuffle.then_some(RowOrder::AsInFile),
        oversample: workload.no_oversample.then_some(Oversample::Never),
        bad_rows: workload.skip_bad_rows.then_some(BadRows::Skip),
        batch_size: workload.batch_size,
        templating: last(
            workload.skip_chat_template.then_some(Templating::Skip),
            workload.apply_chat_template.then_some(Templating::Apply),
        ),
        template_values: PartialObject(kwargs),
        max_model_len: workload.max_model_len.map(Some),
        turns: turns(&workload.turns),
    })
}

/// Turns of a conversation in vLLM's Rust client.
const TURNS: u32 = 3;

fn turns(turns: &TurnArgs) -> Option<PartialTurns> {
    // Zero stands for "as many as the others".
    let all = turns.multi_turn_num_turns.unwrap_or(TURNS);
    let of = |count: Option<u32>| count.filter(|count| *count > 0).unwrap_or(all);
    turns.multi_turn.then(|| PartialTurns {
        least: Some(of(turns.multi_turn_min_turns)),
        most: Some(of(turns.multi_turn_max_turns)),
        think_ms: turns.multi_turn_delay_ms,
        later_input_len: turns.per_turn_input_len.filter(|tokens| *tokens > 0).map(Some),
    })
}

fn load(args: &BenchArgs) -> Result<PartialLoad, Refusal> {
    let (arrival, stop, trace) = (&args.arrival, &args.stop, &args.workload.trace);
    let ramp = PartialRamp {
        strategy: word("--ramp-up-strategy", arrival.ramp_up_strategy.as_ref())?,
        from: arrival.ramp_up_start_rps,
        to: arrival.ramp_up_end_rps,
    };
    Ok(PartialLoad {
        burstiness: arrival.burstiness,
        duration_s: seconds("--duration", stop.duration.as_deref())?.map(Some),
        until: until(stop)?,
        ramp: (ramp != PartialRamp::default()).then_some(ramp),
        overload: stop.stop_when_overloaded.then_some(Overload::Stop),
        timing: last(
            trace.self_timed.then_some(Timing::Trace),
            trace.no_self_timed.then_some(Timing::Rate),
        ),
        ..PartialLoad::default()
    })
}

/// The shortest run that ends by `--until`, in seconds.
const UNTIL_AT_LEAST_S: f64 = 5.0;

fn until(stop: &StopArgs) -> Result<Option<PartialUntil>, Refusal> {
    let Some(text) = &stop.until else { return Ok(None) };
    let rule = sequential::PrecisionGoal::parse(text).map_err(|why| {
        let hint = "write it as `--until \"p99 ttft ±10%\"`";
        Refusal::usage(format!("cannot use `--until`: {why}"), hint)
    })?;
    let least = seconds("--at-least", stop.at_least.as_deref())?;
    let min_s = Some(least.unwrap_or(UNTIL_AT_LEAST_S));
    Ok(Some(PartialUntil { rule: Some(rule), min_s }))
}

fn phases(target: &TargetArgs, arrival: &ArrivalArgs) -> PartialPhases {
    PartialPhases {
        ready_timeout_s: target.ready_check_timeout_sec,
        warmups: last(arrival.warmup_requests, arrival.num_warmups),
        warmup_output_max: arrival.warmup_requests.map(|_| Some(SGLANG_WARMUP_TOKENS)),
        cache: target.flush_cache.then_some(Cache::Flush),
        flush_timeout_s: target.flush_cache_timeout,
        profiler: target.profile.then_some(Profiler::On),
        profile_request: PartialObject(target.profiling.body()),
        probe_rate: arrival.probe_request_rate,
    }
}

fn request(sampling: &SamplingArgs, target: &TargetArgs) -> Result<PartialRequest, Refusal> {
    let sglang_logprobs = sampling.return_logprob.then(|| sampling.top_logprobs_num.unwrap_or(0));
    let mut body = object("--extra-body", sampling.extra_body.as_deref())?.unwrap_or_default();
    if let Some(start) = sampling.logprob_start_len {
        body.insert("logprob_start_len".to_owned(), Value::from(start));
    }
    Ok(PartialRequest {
        ignore_eos: last(
            sampling.ignore_eos.then_some(IgnoreEos::Asked),
            sampling.disable_ignore_eos.then_some(IgnoreEos::Off),
        ),
        delivery: sampling.disable_stream.then_some(Delivery::Whole),
        usage: sampling.continuous_usage.then_some(UsageReports::Continuous),
        logprobs: last(sglang_logprobs, sampling.logprobs).map(Some),
        request_id_prefix: sampling.request_id_prefix.clone().map(Some),
        structured: super::constraints::structured(sampling)?.map(Some),
        tools: super::constraints::tools(sampling)?.map(Some),
        sampling: PartialSampling {
            temperature: sampling.temperature.map(Some),
            top_p: sampling.top_p.map(Some),
            top_k: sampling.top_k.map(Some),
            min_p: sampling.min_p.map(Some),
            frequency_penalty: sampling.frequency_penalty.map(Some),
            presence_penalty: sampling.presence_penalty.map(Some),
            repetition_penalty: sampling.repetition_penalty.map(Some),
            seed: None,
        },
        extra_body: ExtraBody(body),
        lora: lora(target)?,
    })
}

fn lora(target: &TargetArgs) -> Result<Option<PartialLora>, Refusal> {
    let distribution = target.lora_request_distribution.as_ref();
    let lora = PartialLora {
        names: (!target.lora_modules.is_empty()).then(|| target.lora_modules.clone()),
        assignment: last(
            word("--lora-assignment", target.lora_assignment.as_ref())?,
            word("--lora-request-distribution", distribution)?,
        ),
        alpha: target.lora_zipf_alpha,
    };
    Ok((lora != PartialLora::default()).then_some(lora))
}

fn client(client: &ClientArgs) -> Result<PartialClient, Refusal> {
    Ok(PartialClient {
        connections: word("--connections", client.connections.as_ref())?,
        harvest: word("--harvest", client.harvest.as_ref())?,
        stamps: word("--stamps", client.stamps.as_ref())?,
        workers: client.workers.map(Some),
        timeout_s: seconds("--timeout", client.timeout.as_deref())?.map(Some),
        connect_timeout_s: seconds("--connect-timeout", client.connect_timeout.as_deref())?,
        stall_timeout_s: seconds("--stall-timeout", client.stall_timeout.as_deref())?.map(Some),
        retries: client.retries,
        retry_max_wait_s: seconds("--retry-max-wait", client.retry_max_wait.as_deref())?,
        scrape_interval_s: last(client.scrape_interval, client.no_scrape.then_some(0.0)),
        metrics_urls: (!client.metrics_url.is_empty())
            .then(|| client.metrics_url.iter().cloned().map(UrlText).collect()),
    })
}

fn metrics(metric: &MetricArgs) -> Result<PartialMetrics, Refusal> {
    Ok(PartialMetrics {
        layout: metric.layout.clone(),
        sections: metric.percentile_metrics.as_deref().map(figures::sections).transpose()?,
        percentiles: percentiles(metric.metric_percentiles.as_deref())?,
        goodput: metric
            .goodput
            .iter()
            .map(|word| figures::objective(word))
            .collect::<Result<_, _>>()?,
        judgement: metric.strict.then_some(Judgement::Strict),
    })
}

fn output(output: &OutputArgs) -> PartialOutput {
    let is_saved = output.save_result || output.append_result || output.save_detailed;
    let vllm_result = is_saved.then(|| PartialVllmResult {
        dir: output.result_dir.clone().map(Some),
        filename: output.result_filename.clone().map(Some),
        label: output.label.clone().map(Some),
        metadata: Some(Metadata(output.metadata.clone())),
        is_detailed: output.save_detailed.then_some(true),
        is_appended: output.append_result.then_some(true),
    });
    let is_line = output.output_file.is_some() || output.output_details || output.tag.is_some();
    let sglang_result = is_line.then(|| PartialSglangResult {
        file: output.output_file.clone().map(Some),
        tag: output.tag.clone().map(Some),
        is_detailed: output.output_details.then_some(true),
    });
    PartialOutput {
        record: output.no_run_dir.then_some(Record::Dropped),
        run_dir: output.run_dir.clone().map(Some),
        shown: last(output.quiet.then_some(Shown::Nothing), output.json.then_some(Shown::Json)),
        prometheus_port: output.prometheus_port.map(Some),
        vllm_result,
        sglang_result,
    }
}

/// A flag that takes one of a few words, which a plan file takes as well.
pub(crate) fn word<T: DeserializeOwned>(
    flag: &str,
    text: Option<&String>,
) -> Result<Option<T>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    let parsed = SweepValue::Text(text.clone()).parse();
    parsed.map(Some).map_err(|why| Refusal::usage(format!("cannot use `{flag} {text}`: {why}"), ""))
}

/// A flag's value as a JSON object.
fn object(flag: &str, text: Option<&str>) -> Result<Option<Map<String, Value>>, Refusal> {
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
                format!("cannot use `--metric-percentiles {text}`: `{word}` is not a percentile"),
                "write numbers between 0 and 100, such as `50,90,99`",
            )
        })
    };
    words(text).iter().map(percentile).collect::<Result<_, _>>().map(Some)
}

/// A span of time as typed, in seconds.
pub(crate) fn seconds(flag: &str, text: Option<&str>) -> Result<Option<f64>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    let span = units::parse_span(text, Nanos::from_secs(1)).map_err(|why| {
        Refusal::usage(
            format!("cannot use `{flag} {text}`: {why}"),
            "write numbers with units, such as `30s`, `500ms` or `4m30s`",
        )
    })?;
    Ok(Some(span.as_secs_f64()))
}
