//! Sizes that no run can have: refused with the limit, before anything of that size is made.
//!
//! The limits lie far above what servers and machines can do. They are here for typing errors and for
//! plans made by programs, which would otherwise end in an allocation that fails.

use tokometer_base::Partial as _;
use tokometer_plan::Plan;
use tokometer_workload::{OrNone, PartialSpec};

use crate::exit::Refusal;

/// Tokens of one prompt or answer.
const MOST_TOKENS: u64 = 10_000_000;
/// Tokens of all shared prefixes together, which are kept in memory.
const MOST_SHARED_TOKENS: u64 = 1_000_000_000;
/// Requests of one run.
const MOST_REQUESTS: u64 = 1_000_000_000;
/// Requests in flight: more than a machine has ports for.
const MOST_IN_FLIGHT: u64 = 1_000_000;
/// Groups, prefixes, turns and rounds.
const MOST_PARTS: u64 = 1_000_000;
/// Threads that send.
const MOST_WORKERS: u64 = 1_024;
/// Seconds of anything that is waited for: thirty years.
const MOST_SECONDS: f64 = 1e9;

/// A field of the plan, what it is now, and the most that it may be.
type Size = (&'static str, Option<u64>, u64);

/// Refuses a plan with an impossible size.
pub(crate) fn check(plan: &Plan) -> Result<(), Refusal> {
    let spec = PartialSpec::of(plan.workload.clone());
    for (name, size, most) in of_plan(plan).into_iter().chain(of_workload(&spec)) {
        if let Some(size) = size.filter(|size| *size > most) {
            let message = format!("cannot use {size} for `{name}`: the most is {most}");
            return Err(Refusal::usage(message, "check the number of digits"));
        }
    }
    check_seconds(plan)?;
    check_nothing(plan, &spec)
}

fn of_plan(plan: &Plan) -> Vec<Size> {
    let (load, turns) = (&plan.load, plan.prompts.turns);
    vec![
        ("load.num_prompts", load.num_prompts, MOST_REQUESTS),
        ("load.max_concurrency", load.max_concurrency.map(u64::from), MOST_IN_FLIGHT),
        ("phases.warmups", Some(plan.phases.warmups), MOST_REQUESTS),
        ("prompts.turns.most", turns.map(|turns| u64::from(turns.most)), MOST_PARTS),
        (
            "prompts.turns.later_input_len",
            turns.and_then(|turns| turns.later_input_len).map(u64::from),
            MOST_TOKENS,
        ),
        ("client.workers", plan.client.workers.map(u64::from), MOST_WORKERS),
    ]
}

fn of_workload(spec: &PartialSpec) -> Vec<Size> {
    let whole = |size: Option<u32>| size.map(u64::from);
    let optional = |size: &Option<OrNone<u32>>| whole(size.as_ref().and_then(|size| size.0));
    let product = |count: Option<u32>, each: Option<u32>| {
        Some(u64::from(count?).saturating_mul(u64::from(each?)))
    };
    vec![
        ("workload.input_len", whole(spec.input_len), MOST_TOKENS),
        ("workload.output_len", optional(&spec.output_len), MOST_TOKENS),
        ("workload.prefix_len", whole(spec.prefix_len), MOST_TOKENS),
        ("workload.suffix_len", whole(spec.suffix_len), MOST_TOKENS),
        ("workload.system_prompt_len", whole(spec.system_prompt_len), MOST_TOKENS),
        ("workload.question_len", whole(spec.question_len), MOST_TOKENS),
        ("workload.chunk_hash_size", whole(spec.chunk_hash_size), MOST_TOKENS),
        ("workload.num_prefixes", whole(spec.num_prefixes), MOST_PARTS),
        ("workload.num_groups", whole(spec.num_groups), MOST_PARTS),
        ("workload.num_turns", whole(spec.num_turns), MOST_PARTS),
        ("workload.num_rounds", whole(spec.num_rounds), MOST_PARTS),
        (
            "workload.num_groups times workload.prompts_per_group",
            product(spec.num_groups, spec.prompts_per_group),
            MOST_REQUESTS,
        ),
        (
            "workload.num_prefixes times workload.prefix_len",
            product(spec.num_prefixes, spec.prefix_len),
            MOST_SHARED_TOKENS,
        ),
        (
            "workload.num_groups times workload.system_prompt_len",
            product(spec.num_groups, spec.system_prompt_len),
            MOST_SHARED_TOKENS,
        ),
    ]
}

fn check_seconds(plan: &Plan) -> Result<(), Refusal> {
    let (client, phases) = (&plan.client, &plan.phases);
    let spans = [
        ("load.duration_s", plan.load.duration_s),
        ("phases.ready_timeout_s", Some(phases.ready_timeout_s)),
        ("phases.flush_timeout_s", Some(phases.flush_timeout_s)),
        ("client.timeout_s", client.timeout_s),
        ("client.connect_timeout_s", Some(client.connect_timeout_s)),
        ("client.stall_timeout_s", client.stall_timeout_s),
        ("client.scrape_interval_s", Some(client.scrape_interval_s)),
    ];
    for (name, span) in spans {
        if let Some(seconds) = span.filter(|seconds| *seconds > MOST_SECONDS) {
            let message = format!("cannot use {seconds} for `{name}`: the most is {MOST_SECONDS}");
            return Err(Refusal::usage(message, "omit it for the default"));
        }
    }
    Ok(())
}

/// Refuses runs that would measure nothing.
fn check_nothing(plan: &Plan, spec: &PartialSpec) -> Result<(), Refusal> {
    if plan.load.num_prompts == Some(0) {
        return Err(Refusal::usage(
            "cannot use `--num-prompts 0`: there would be nothing to measure",
            "use at least 1; `tokometer dataset` shows prompts without sending them",
        ));
    }
    if plan.client.connect_timeout_s <= 0.0 {
        return Err(Refusal::usage(
            "cannot use `--connect-timeout 0`: no connection could be opened",
            "omit it for the default of 10 s",
        ));
    }
    if spec.output_len.as_ref().and_then(|length| length.0) == Some(0) {
        return Err(Refusal::usage(
            "cannot use an output length of 0: an answer needs at least one token",
            "use at least 1, such as `--random-output-len 1`",
        ));
    }
    let is_random = matches!(spec.dataset.as_deref(), Some("random" | "random-ids"));
    if is_random && spec.input_len == Some(0) && spec.prefix_len.unwrap_or(0) == 0 {
        return Err(Refusal::usage(
            "cannot use `--random-input-len 0`: a prompt needs at least one token",
            "use at least 1, or give `--random-prefix-len`",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::refused;

    #[test]
    fn absurd_sizes_are_refused_with_the_limit() {
        let check = |line: &str, parts: &[&str]| {
            let said = refused(line).unwrap_or_else(|| panic!("{line} is accepted"));
            assert!(parts.iter().all(|part| said.contains(part)), "{line}: {said}");
        };
        let most = |name: &str, most: &str| format!("for `{name}`: the most is {most}");
        check("--random-input-len 4294967295", &[&most("workload.input_len", "10000000")]);
        check("--random-output-len 4294967295", &[&most("workload.output_len", "10000000")]);
        check("--random-prefix-len 4294967295", &[&most("workload.prefix_len", "10000000")]);
        check("--num-prompts 18446744073709551615", &["load.num_prompts", "1000000000"]);
        check("--max-concurrency 4294967295", &["load.max_concurrency", "1000000"]);
        check("--num-warmups 4294967295", &["phases.warmups"]);
        check("--duration 99999999999999s", &["load.duration_s"]);
        check("--workers 65535", &["client.workers", "1024"]);
        let prefixes = "--dataset-name prefix_repetition --prefix-repetition-prefix-len 10000000";
        check(
            &format!("{prefixes} --prefix-repetition-num-prefixes 1000000"),
            &["workload.num_prefixes times workload.prefix_len"],
        );
        check("--num-prompts 0", &["nothing to measure", "at least 1"]);
        check("--random-input-len 0", &["at least one token"]);
        check("--random-output-len 0", &["output length of 0", "at least one token"]);
        check("--dataset-name sonnet --sonnet-output-len 0", &["output length of 0"]);
        check("--connect-timeout 0", &["no connection could be opened"]);
        assert_eq!(refused("--timeout 0 --stall-timeout 0"), None);
        assert_eq!(refused("--random-input-len 0 --random-prefix-len 5"), None);
        assert_eq!(refused("--random-input-len 1000000 --num-prompts 1000000"), None);
    }
}
