//! What a backend without generation has no use for is refused, and what only it can use.

use crate::Plan;

use tokometer_base::Refusal;

/// Refuses a plan whose parts do not fit a backend with or without generation.
pub(super) fn check(plan: &Plan) -> Result<(), Refusal> {
    let Some(dialect) = plan.targets.first().map(|target| target.backend) else { return Ok(()) };
    let (name, batch) = (dialect.name(), plan.prompts.batch_size);
    if dialect.is_audio() && plan.phases.probe_rate > 0.0 {
        return Err(Refusal::usage(
            format!(
                "cannot use `--probe-request-rate` with the backend `{name}`: a probe is a short text"
            ),
            "omit `--probe-request-rate`",
        ));
    }
    if !dialect.is_pooling() {
        if batch > 1 {
            return Err(Refusal::usage(
                format!(
                    "cannot use `--batch-size {batch}` with the backend `{name}`: it generates one answer per request"
                ),
                "raise `--max-concurrency` instead, or measure an embedding backend such as `openai-embeddings`",
            ));
        }
        return Ok(());
    }
    if batch > 1 && dialect.is_chat() {
        return Err(Refusal::usage(
            format!(
                "cannot use `--batch-size {batch}` with the backend `{name}`: a request is one conversation"
            ),
            "use `--backend openai-embeddings`",
        ));
    }
    let request = &plan.request;
    let sampling = serde_json::to_value(&request.sampling).unwrap_or_default();
    let first = sampling.as_object().and_then(|fields| fields.keys().next());
    let logprobs = request.logprobs.map(|_| "logprobs".to_owned());
    if let Some(field) = first.cloned().or(logprobs) {
        return Err(Refusal::usage(
            format!(
                "cannot use `--{}` with the backend `{name}`: it generates nothing",
                field.replace('_', "-")
            ),
            "omit the sampling flags",
        ));
    }
    if plan.prompts.turns.is_some() {
        return Err(Refusal::usage(
            format!("cannot use `--multi-turn` with the backend `{name}`: it generates nothing"),
            "omit `--multi-turn`",
        ));
    }
    let objectives = &plan.metrics.goodput;
    if let Some(objective) = objectives.keys().find(|key| key.as_str() != "e2el") {
        return Err(Refusal::usage(
            format!(
                "cannot use the objective `{objective}` with the backend `{name}`: its answers come in one piece"
            ),
            "use `--goodput e2el:MS`",
        ));
    }
    Ok(())
}
