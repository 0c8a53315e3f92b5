//! Files of constraints, tools and canaries: `--structured`, `--tools`, `--canary`.

use std::path::Path;

use super::ReadText;

use crate::options::ContentFiles;
use crate::{CanaryRow, Plan};
use serde_json::Value;
use tokometer_base::IgnoreEos;
use tokometer_client::{Structured, ToolSet};
use tokometer_figures::quality::{Canary, Schema};

use tokometer_base::Refusal;
use tokometer_base::refusal::reason;

const STRUCTURED_FORM: &str =
    r#"write a JSON schema, or one of {"regex": "…"}, {"choice": ["…"]}, {"grammar": "…"}"#;
const TOOLS_FORM: &str =
    r#"write a list of {"type": "function", "function": {"name": …, "parameters": …}}"#;

const CANARY_FORM: &str =
    r#"write one {"prompt": "…", "expected": "…"} or {"messages": […], "regex": "…"} per line"#;

/// The text of the file that `flag` names. `form` says what it has to hold.
fn read(flag: &str, form: &str, path: &Path, text_of: ReadText) -> Result<String, Refusal> {
    text_of(path).map_err(|why| {
        let (shown, why) = (path.display(), reason(&why));
        Refusal::usage(
            format!("cannot read the file of `{flag} {shown}`: {why}"),
            format!("check the path; {form}"),
        )
    })
}

pub(super) fn structured(
    files: &ContentFiles,
    text_of: ReadText,
) -> Result<Option<Structured>, Refusal> {
    let Some(path) = &files.structured else { return Ok(None) };
    let text = read("--structured", STRUCTURED_FORM, path, text_of)?;
    let refused = |why: String| {
        Refusal::usage(format!("cannot use the file `{}`: {why}", path.display()), STRUCTURED_FORM)
    };
    let structured = Structured::parse(&text).map_err(refused)?;
    if let Structured::Json(schema) = &structured {
        check_schema(schema, "").map_err(refused)?;
    }
    Ok(Some(structured))
}

/// Says what is wrong with the schema at `pointer` of a JSON text; a server would refuse every request.
fn check_schema(text: &str, pointer: &str) -> Result<(), String> {
    let document: Value = serde_json::from_str(text).map_err(|why| why.to_string())?;
    let Some(schema) = document.pointer(pointer) else { return Ok(()) };
    Schema::check(schema).map_err(|why| format!("it is not a JSON schema: {why}"))
}

pub(super) fn tools(files: &ContentFiles, text_of: ReadText) -> Result<Option<ToolSet>, Refusal> {
    let choice = files.tool_choice.as_ref();
    let Some(path) = &files.tools else { return Ok(None) };
    let refused = |why: String| {
        Refusal::usage(format!("cannot use the file `{}`: {why}", path.display()), TOOLS_FORM)
    };
    let mut tools =
        ToolSet::parse(&read("--tools", TOOLS_FORM, path, text_of)?).map_err(refused)?;
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

pub(super) fn canaries(
    files: &ContentFiles,
    text_of: ReadText,
) -> Result<Option<Vec<CanaryRow>>, Refusal> {
    let Some(path) = &files.canary else { return Ok(None) };
    let text = read("--canary", CANARY_FORM, path, text_of)?;
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        rows.push(canary(line).map_err(|why| {
            let message = format!("cannot use line {number} of `{}`: {why}", path.display());
            Refusal::usage(message, CANARY_FORM)
        })?);
    }
    if rows.is_empty() {
        let message = format!("cannot use the file `{}`: it has no canaries", path.display());
        return Err(Refusal::usage(message, CANARY_FORM));
    }
    Ok(Some(rows))
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
