//! Files of constraints, tools and canaries: `--structured`, `--tools`, `--canary`.

use std::path::Path;

use serde_json::Value;
use tokometer_base::IgnoreEos;
use tokometer_client::{Structured, ToolSet};
use tokometer_figures::quality::{Canary, Schema};
use tokometer_plan::{CanaryRow, PartialCanaryPlan, Plan};

use crate::args::SamplingArgs;
use crate::exit::{Refusal, reason};

/// What the files hold.
const STRUCTURED_FORM: &str =
    r#"write a JSON schema, or one of {"regex": "…"}, {"choice": ["…"]}, {"grammar": "…"}"#;
const TOOLS_FORM: &str =
    r#"write a list of {"type": "function", "function": {"name": …, "parameters": …}}"#;

const CANARY_FORM: &str =
    r#"write one {"prompt": "…", "expected": "…"} or {"messages": […], "regex": "…"} per line"#;

/// The text of the file that `flag` names. `form` says what it has to hold.
fn read((flag, form): (&str, &str), path: &Path) -> Result<String, Refusal> {
    std::fs::read_to_string(path).map_err(|why| {
        let (shown, why) = (path.display(), reason(&why));
        Refusal::usage(
            format!("cannot read the file of `{flag} {shown}`: {why}"),
            format!("check the path; {form}"),
        )
    })
}

/// The constraint of `--structured`.
pub(super) fn structured(args: &SamplingArgs) -> Result<Option<Structured>, Refusal> {
    let Some(path) = &args.structured else { return Ok(None) };
    let text = read(("--structured", STRUCTURED_FORM), path)?;
    let refused = |why: String| {
        Refusal::usage(format!("cannot use the file `{}`: {why}", path.display()), STRUCTURED_FORM)
    };
    let structured = Structured::parse(&text).map_err(refused)?;
    if let Structured::Json(schema) = &structured {
        check_schema(schema, "").map_err(refused)?;
    }
    Ok(Some(structured))
}

/// Says what is wrong with a schema at `place` of a JSON text; a server would refuse every request.
fn check_schema(text: &str, place: &str) -> Result<(), String> {
    let document: Value = serde_json::from_str(text).map_err(|why| why.to_string())?;
    let Some(schema) = document.pointer(place) else { return Ok(()) };
    Schema::check(schema).map_err(|why| format!("it is not a JSON schema: {why}"))
}

/// The tools of `--tools`, with `--tool-choice`.
pub(super) fn tools(args: &SamplingArgs) -> Result<Option<ToolSet>, Refusal> {
    let choice = args.tool_choice.as_ref();
    let Some(path) = &args.tools else {
        return match choice {
            Some(_) => Err(Refusal::usage("`--tool-choice` needs tools", "use `--tools FILE`")),
            None => Ok(None),
        };
    };
    let refused = |why: String| {
        Refusal::usage(format!("cannot use the file `{}`: {why}", path.display()), TOOLS_FORM)
    };
    let mut tools = ToolSet::parse(&read(("--tools", TOOLS_FORM), path)?).map_err(refused)?;
    for (name, definition) in tools.names().zip(&tools.definitions) {
        let named = |why| refused(format!("the parameters of `{name}`: {why}"));
        check_schema(definition, "/function/parameters").map_err(named)?;
    }
    if let Some(choice) = choice {
        let names: Vec<String> = tools.names().collect();
        let is_word = matches!(choice.as_str(), "auto" | "none" | "required");
        if !is_word && !names.contains(choice) {
            return Err(Refusal::usage(
                format!("cannot use `--tool-choice {choice}`: no tool has this name"),
                format!("use auto, none, required or one of {}", names.join(", ")),
            ));
        }
        tools.choice = Some(choice.clone());
    }
    Ok(Some(tools))
}

/// The canaries of `--canary`, with `--canary-share`.
pub(super) fn canaries(args: &SamplingArgs) -> Result<Option<PartialCanaryPlan>, Refusal> {
    let share = args.canary_share;
    if let Some(share) = share.filter(|share| !(0.0..=1.0).contains(share)) {
        let message = format!("cannot use `--canary-share {share}`: a share is between 0 and 1");
        return Err(Refusal::usage(message, "write 0.02 for one canary per 50 requests"));
    }
    let Some(path) = &args.canary else {
        return match share {
            Some(_) => {
                Err(Refusal::usage("`--canary-share` needs canaries", "use `--canary FILE`"))
            }
            None => Ok(None),
        };
    };
    let text = read(("--canary", CANARY_FORM), path)?;
    let mut rows = Vec::new();
    for (place, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        rows.push(canary(line).map_err(|why| {
            let message = format!("cannot use line {} of `{}`: {why}", place + 1, path.display());
            Refusal::usage(message, CANARY_FORM)
        })?);
    }
    if rows.is_empty() {
        let message = format!("cannot use the file `{}`: it has no canaries", path.display());
        return Err(Refusal::usage(message, CANARY_FORM));
    }
    Ok(Some(PartialCanaryPlan { rows: Some(rows), share }))
}

fn canary(line: &str) -> Result<CanaryRow, String> {
    let row: CanaryRow = serde_json::from_str(line).map_err(|why| why.to_string())?;
    if row.prompt.is_some() == row.messages.is_some() {
        return Err("it needs either a `prompt` or `messages`".to_owned());
    }
    let canary = Canary { expected: row.expected.clone(), pattern: row.pattern.clone() };
    canary.expectation()?;
    Ok(row)
}

/// A constrained answer has an end: a model that must go on behind its JSON gets status 500 from vLLM.
/// `--ignore-eos` is sent as it was typed.
pub(super) fn settle(plan: &mut Plan) {
    let request = &mut plan.request;
    let is_constrained = request.structured.is_some() || request.tools.is_some();
    if is_constrained && request.ignore_eos == IgnoreEos::Implied {
        request.ignore_eos = IgnoreEos::Off;
    }
}

/// Refuses canaries where nothing answers with text.
pub(super) fn check_canaries(plan: &Plan) -> Result<(), Refusal> {
    let Some(dialect) = plan.targets.first().map(|target| target.backend) else { return Ok(()) };
    if plan.canary.is_none() || !(dialect.is_pooling() || dialect.is_audio()) {
        return Ok(());
    }
    let message = format!("cannot use `--canary` with the backend `{}`", dialect.name());
    Err(Refusal::usage(message, "canaries are prompts; omit `--canary`"))
}
