//! Numbers that a plan can hold: finite, and not below zero where that means nothing.
//!
//! Only rates and the burstiness may be infinite; they have a word for it on disk. Any other
//! infinity would become an absent value in `plan.json`, and a reader would take the default.

use tokometer_plan::Plan;
use tokometer_workload::Spec;

use crate::exit::Refusal;

/// What a number may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Range {
    /// Any finite number.
    Finite,
    /// Finite and not below zero.
    NotNegative,
}

type BoundedNumber = (&'static str, Option<f64>, Range);

/// Refuses a plan with a number that means nothing.
pub(crate) fn check(plan: &Plan) -> Result<(), Refusal> {
    let rows = timing(plan).into_iter().chain(sampling(plan)).chain(workload(&plan.workload));
    for (name, value, range) in rows {
        let Some(number) = value else { continue };
        if !number.is_finite() {
            return Err(Refusal::usage(
                format!("cannot use {number} for `{name}`: it must be a finite number"),
                "omit it for the default",
            ));
        }
        if range == Range::NotNegative && number < 0.0 {
            return Err(Refusal::usage(
                format!("cannot use {number} for `{name}`: it must not be negative"),
                "omit it for the default",
            ));
        }
    }
    Ok(())
}

fn timing(plan: &Plan) -> Vec<BoundedNumber> {
    let (load, phases, client) = (&plan.load, &plan.phases, &plan.client);
    let numbers = [
        ("load.ramp.from", load.ramp.map(|ramp| ramp.from)),
        ("load.ramp.to", load.ramp.map(|ramp| ramp.to)),
        ("load.duration_s", load.duration_s),
        ("load.until.min_s", load.until.as_ref().map(|until| until.min_s)),
        ("phases.ready_timeout_s", Some(phases.ready_timeout_s)),
        ("phases.flush_timeout_s", Some(phases.flush_timeout_s)),
        ("phases.probe_rate", Some(phases.probe_rate)),
        ("canary.share", plan.canary.as_ref().map(|canary| canary.share)),
        ("client.timeout_s", client.timeout_s),
        ("client.connect_timeout_s", Some(client.connect_timeout_s)),
        ("client.stall_timeout_s", client.stall_timeout_s),
        ("client.retry_max_wait_s", Some(client.retry_max_wait_s)),
        ("client.scrape_interval_s", Some(client.scrape_interval_s)),
        ("prompts.turns.think_ms", plan.prompts.turns.map(|turns| turns.think_ms)),
        ("request.lora.alpha", plan.request.lora.as_ref().map(|lora| lora.alpha)),
        ("interleave.block_s", plan.interleave.as_ref().and_then(|turns| turns.block_s)),
    ];
    let percentiles =
        plan.metrics.percentiles.iter().map(|percent| ("metrics.percentiles", percent));
    let goodput = plan.metrics.goodput.values().map(|bound| ("metrics.goodput", bound));
    let listed = percentiles.chain(goodput).map(|(name, number)| (name, Some(*number)));
    let row = |(name, number)| (name, number, Range::NotNegative);
    numbers.into_iter().chain(listed).map(row).collect()
}

fn sampling(plan: &Plan) -> Vec<BoundedNumber> {
    let sampling = &plan.request.sampling;
    vec![
        ("request.sampling.temperature", sampling.temperature, Range::NotNegative),
        ("request.sampling.top_p", sampling.top_p, Range::NotNegative),
        ("request.sampling.min_p", sampling.min_p, Range::NotNegative),
        ("request.sampling.frequency_penalty", sampling.frequency_penalty, Range::Finite),
        ("request.sampling.presence_penalty", sampling.presence_penalty, Range::Finite),
        ("request.sampling.repetition_penalty", sampling.repetition_penalty, Range::NotNegative),
    ]
}

fn workload(spec: &Spec) -> Vec<BoundedNumber> {
    let numbers = match spec {
        Spec::Random(options) => ratios(options.range_ratio),
        Spec::RandomIds(options) => ratios(options.range_ratio),
        Spec::SharedPrefix(options) => vec![
            ("workload.range_ratio", options.range_ratio),
            ("workload.zipf_alpha", options.zipf_alpha),
        ],
        Spec::TimedTrace(options) => vec![("workload.sec_multiplier", options.sec_multiplier)],
        Spec::Mooncake(options) => vec![("workload.slowdown_factor", options.slowdown_factor)],
        _ => Vec::new(),
    };
    numbers.into_iter().map(|(name, number)| (name, Some(number), Range::NotNegative)).collect()
}

fn ratios(ratio: tokometer_workload::Ratio) -> Vec<(&'static str, f64)> {
    vec![("workload.range_ratio", ratio.input), ("workload.range_ratio", ratio.output)]
}
