//! Plans that make no sense are refused before anything is opened.

use std::path::Path;

use tokometer_base::backend::{PoolingRoute, Protocol};
use tokometer_base::units::counted;
use tokometer_base::{CancelAfter, Partial, Refusal};
use tokometer_client::settings::Delivery;
use tokometer_client::{Dialect, RequestInput, Settings, Url};
use tokometer_compat::LayoutChoice;
use tokometer_record::STDOUT;
use tokometer_workload::PartialSpec;
use tokometer_workload::lengths::Span;

use super::figures;
use crate::Plan;

pub(crate) fn check(plan: &Plan) -> Result<(), Refusal> {
    plan.check()?;
    check_backend(plan)?;
    check_route(plan)?;
    check_constraints(plan)?;
    check_cancellation(plan)?;
    let layout = &plan.metrics.layout;
    let _choice = LayoutChoice::named(layout).map_err(|why| Refusal::usage(why.to_string(), ""))?;
    for name in &plan.metrics.sections {
        let _section = figures::section(name)?;
    }
    if plan.output.run_dir.as_deref() == Some(Path::new(STDOUT)) {
        return Err(Refusal::usage(
            "cannot use `--run-dir -`: a run is a folder",
            "`--format json` prints the summary, `--no-run-dir` keeps no record",
        ));
    }
    if !(1..=2).contains(&plan.targets.len()) {
        return Err(Refusal::usage(
            format!("cannot measure {} targets in one run", plan.targets.len()),
            "measure the targets one after the other",
        ));
    }
    Ok(())
}

/// Refuses what a backend with or without generation has no use for.
fn check_backend(plan: &Plan) -> Result<(), Refusal> {
    let Some(dialect) = plan.targets.first().map(|target| target.backend) else { return Ok(()) };
    let (name, batch, is_pooling) = (dialect.name(), plan.prompts.batch_size, dialect.is_pooling());
    let refused = |what: &str, why: &str, hint: &str| {
        Err(Refusal::usage(format!("cannot use {what} with the backend `{name}`{why}"), hint))
    };
    if dialect.is_audio() && plan.phases.probe_rate > 0.0 {
        let hint = "omit `--probe-request-rate`";
        return refused("`--probe-request-rate`", ": a probe is a short text", hint);
    }
    if batch > 1 && (!is_pooling || dialect.is_chat()) {
        let (why, hint) = if is_pooling {
            (": a request is one conversation", "use `--backend openai-embeddings`")
        } else {
            (
                ": it generates one answer per request",
                "raise `--max-concurrency` instead, or measure an embedding backend such as `openai-embeddings`",
            )
        };
        return refused(&format!("`--batch-size {batch}`"), why, hint);
    }
    if plan.canary.is_some() && (is_pooling || dialect.is_audio()) {
        return refused("`--canary`", "", "canaries are prompts; omit `--canary`");
    }
    if !is_pooling {
        return Ok(());
    }
    let sampling = serde_json::to_value(&plan.request.sampling).unwrap_or_default();
    let first = sampling.as_object().and_then(|fields| fields.keys().next());
    let logprobs = plan.request.logprobs.map(|_| "logprobs".to_owned());
    if let Some(field) = first.cloned().or(logprobs) {
        let flag = format!("`--{}`", field.replace('_', "-"));
        return refused(&flag, ": it generates nothing", "omit the sampling flags");
    }
    if plan.prompts.turns.is_some() {
        return refused("`--multi-turn`", ": it generates nothing", "omit `--multi-turn`");
    }
    match plan.metrics.goodput.keys().find(|key| key.as_str() != "e2el") {
        Some(objective) => refused(
            &format!("the objective `{objective}`"),
            ": its answers come in one piece",
            "use `--goodput e2el:MS`",
        ),
        None => Ok(()),
    }
}

/// Ends of well-known routes, with the backend to use for each.
const ROUTES: [(&str, &str); 12] = [
    ("/chat/completions", "openai-chat"),
    ("/v1/completions", "openai"),
    ("/v1/responses", "openai-responses"),
    ("/v1/messages", "anthropic"),
    ("/v1/embeddings", "openai-embeddings"),
    ("/pooling", "vllm-pooling"),
    ("/classify", "vllm-classify"),
    ("/score", "vllm-score"),
    ("/rerank", "vllm-rerank"),
    ("/v2/embed", "cohere-embed"),
    ("/audio/transcriptions", "openai-audio"),
    ("/audio/translations", "openai-audio"),
];

/// Refuses an endpoint that belongs to another protocol, with the backend that supports it.
fn check_route(plan: &Plan) -> Result<(), Refusal> {
    for target in &plan.targets {
        let Some(endpoint) = &target.endpoint else { continue };
        let path = endpoint.0.split('?').next().unwrap_or_default().trim_end_matches('/');
        let path = format!("/{}", path.trim_start_matches('/'));
        let Some((route, backend)) = ROUTES.iter().find(|(end, _)| path.ends_with(end)) else {
            continue;
        };
        let (own, protocol) = (target.backend, target.backend.protocol());
        let is_same = Dialect::named(backend).is_some_and(|other| other.protocol() == protocol);
        // Its own path has no version.
        let is_infinity = protocol == Protocol::Pooling(PoolingRoute::Infinity);
        let is_spoken =
            is_same || own.path().ends_with(route) || (is_infinity && *route == "/v1/embeddings");
        if !is_spoken {
            return Err(Refusal::usage(
                format!("the backend `{}` does not support `{route}`", own.name()),
                format!("use `--backend {backend}`"),
            ));
        }
    }
    Ok(())
}

/// Refuses a cancellation that no request of the plan could live to see.
fn check_cancellation(plan: &Plan) -> Result<(), Refusal> {
    let Some(cancel) = plan.load.cancel else { return Ok(()) };
    let CancelAfter::Tokens(tokens) = cancel.after else { return Ok(()) };
    let refused = |why: String, hint: String| {
        Err(Refusal::usage(format!("cannot use `--cancel \"{cancel}\"`: {why}"), hint))
    };
    let in_pieces = plan.targets.iter().all(|target| !target.backend.is_pooling());
    if !in_pieces || plan.request.delivery == Delivery::Whole {
        let hint = "cancel after a time, such as `--cancel \"10% after 2s\"`";
        return refused("answers come in one piece".to_owned(), hint.to_owned());
    }
    let spec = PartialSpec::of(plan.workload.clone());
    let ratio = spec.range_ratio.map_or(0.0, |ratio| ratio.output);
    let longest = spec.output_len.and_then(|length| length.0);
    match longest.map(|length| Span::around(length, ratio, plan.conventions).high) {
        Some(longest) if cancel.after.is_beyond(longest) => refused(
            format!("no answer has more than {}", counted(longest, "token")),
            format!("cancel earlier, or use longer answers than {}", counted(tokens, "token")),
        ),
        _ => Ok(()),
    }
}

fn check_constraints(plan: &Plan) -> Result<(), Refusal> {
    let request = &plan.request;
    if request.structured.is_none() && request.tools.is_none() {
        return Ok(());
    }
    let mut settings = Settings::new(Url::http("127.0.0.1", 8000), "model");
    settings.conventions = Some(plan.conventions);
    settings.structured.clone_from(&request.structured);
    settings.tools.clone_from(&request.tools);
    let prompt = tokometer_base::Prompt::text("Hi");
    for target in &plan.targets {
        let made = target.backend.prepare(&settings, &RequestInput::new(&prompt, 0));
        let _request = made.map_err(|why| {
            let hint = "use a backend of a chat route, such as `openai-chat`";
            Refusal::usage(why.to_string(), hint)
        })?;
    }
    Ok(())
}
