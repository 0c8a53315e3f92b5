//! Files of constraints and tools: `--structured`, `--tools`.

use std::path::Path;

use tokometer_client::{Structured, ToolSet};

use crate::args::SamplingArgs;
use crate::exit::Refusal;

fn read(flag: &str, path: &Path) -> Result<String, Refusal> {
    std::fs::read_to_string(path).map_err(|why| {
        Refusal::usage(format!("cannot read the file of `{flag} {}`: {why}", path.display()), "")
    })
}

/// The constraint of `--structured`.
pub(super) fn structured(args: &SamplingArgs) -> Result<Option<Structured>, Refusal> {
    let Some(path) = &args.structured else { return Ok(None) };
    let text = read("--structured", path)?;
    let refused = |why: String| {
        let hint =
            r#"write a JSON schema, or one of {"regex": "…"}, {"choice": ["…"]}, {"grammar": "…"}"#;
        Refusal::usage(format!("cannot use the file `{}`: {why}", path.display()), hint)
    };
    Structured::parse(&text).map(Some).map_err(refused)
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
        let hint =
            r#"write a list of {"type": "function", "function": {"name": …, "parameters": …}}"#;
        Refusal::usage(format!("cannot use the file `{}`: {why}", path.display()), hint)
    };
    let mut tools = ToolSet::parse(&read("--tools", path)?).map_err(refused)?;
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
