//! Plan files: TOML, JSON, or the `plan.json` of a run.

use std::path::Path;

use crate::renamed::renamed_key;
use crate::{PartialOutput, PartialPlan, Plan};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokometer_base::Partial;
use tokometer_base::redact::Secrets;
use tokometer_workload::{PartialSpec, Spec};

use super::origin::Origins;
use super::secrets::of_plan_file;

/// A run's `plan.json`, whose plan is beside facts of the run. A plan has neither field.
#[derive(Deserialize)]
struct OfRun {
    schema: Option<IgnoredAny>,
    plan: Option<Value>,
}

/// The variable whose key the run of this plan sent. `None` for a plan that is not a run's, or whose
/// run sent none.
pub fn key_variable(text: &str) -> Option<String> {
    let run: Value = serde_json::from_str(text).ok()?;
    run.pointer("/environment/key_variable")?.as_str().map(str::to_owned)
}

/// The plan in the text of a file, or what is wrong with it, without its secrets.
pub fn plan_of(text: &str, path: &Path) -> Result<PartialPlan, String> {
    parse(text, path).map_err(|why| secrets_in(text).redact(&why))
}

fn parse(text: &str, path: &Path) -> Result<PartialPlan, String> {
    let is_json = path.extension().is_some_and(|extension| extension == "json")
        || text.trim_start().starts_with('{');
    if !is_json {
        return toml::from_str(text).map_err(|why| {
            let document: Value = toml::from_str(text).unwrap_or_default();
            renamed_key(&document).unwrap_or_else(|| without_the_line(text, &why))
        });
    }
    let run: OfRun = serde_json::from_str(text).map_err(|why| why.to_string())?;
    if let (Some(_), Some(plan)) = (run.schema, run.plan) {
        let mut plan = PartialPlan::from_record(plan).map_err(|why| why.to_string())?;
        // Where that run's results went and how they were shown: a new run must not replace them, and
        // is shown as its own flags say.
        plan.output = PartialOutput::default();
        return Ok(plan);
    }
    PartialPlan::from_json(text).map_err(|why| {
        let document: Value = serde_json::from_str(text).unwrap_or_default();
        renamed_key(&document).unwrap_or_else(|| why.to_string())
    })
}

/// What TOML's reader says and where, without a copy of the line: it may hold a secret.
pub(super) fn without_the_line(text: &str, why: &toml::de::Error) -> String {
    let line = |at: usize| text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
    match why.span() {
        Some(span) => format!("line {}: {}", line(span.start), why.message()),
        None => why.message().to_owned(),
    }
}

/// The secrets of a plan that is wrong elsewhere.
fn secrets_in(text: &str) -> Secrets {
    let document = serde_json::from_str(text).ok().or_else(|| toml::from_str(text).ok());
    of_plan_file(&document.unwrap_or_default())
}

/// A plan as TOML that gives the same plan when it is read, with each value's origin in a comment.
pub fn written(plan: &Plan, origins: &Origins) -> Result<String, toml::ser::Error> {
    plain(plan).map(|text| origins.annotate(&text))
}

fn plain(plan: &Plan) -> Result<String, toml::ser::Error> {
    let text = as_toml(plan)?;
    let Some(defaults) = Spec::defaults(plan.workload.name(), plan.conventions) else {
        return Ok(text);
    };
    let (own, defaults) = (PartialSpec::of(plan.workload.clone()), PartialSpec::of(defaults));
    let absent = removed(own, &defaults);
    let words = if absent.is_unset() { String::new() } else { as_toml(&absent)? };
    Ok(text.replacen("[workload]\n", &format!("[workload]\n{words}"), 1))
}

/// By way of a table: TOML's writer, compiled for every type of a plan, was a seventh of this package's
/// code.
fn as_toml(value: &impl Serialize) -> Result<String, toml::ser::Error> {
    toml::to_string(&toml::Table::try_from(value)?)
}

/// Options that are absent although they have a default: TOML leaves them out, and a reader would
/// take the default, so they are written as a word.
fn removed(own: PartialSpec, defaults: &PartialSpec) -> PartialSpec {
    let output_len =
        own.output_len.filter(|own| own.0.is_none() && defaults.output_len.as_ref() != Some(own));
    PartialSpec { output_len, ..PartialSpec::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_json_and_the_plan_of_a_run_are_read_alike() {
        let check = |name: &str, text: &str| {
            let part = plan_of(text, Path::new(name)).unwrap();
            assert_eq!(part.load.num_prompts, Some(Some(5)), "{name}");
        };
        check("a.toml", "[load]\nnum_prompts = 5\n");
        check("b.json", r#"{"load": {"num_prompts": 5}}"#);
        check("plan.json", r#"{"schema": 1, "plan": {"load": {"num_prompts": 5}}}"#);
        let of_run = r#"{"schema": 1, "plan": {"output": {"run_dir": "r", "shown": "nothing"}}}"#;
        let output = parse(of_run, Path::new("plan.json")).unwrap().output;
        assert_eq!(output, PartialOutput::default());
    }

    #[test]
    fn a_renamed_key_is_read_in_a_record_and_refused_in_a_file() {
        let run = r#"{"schema": 1, "plan": {"family": "sglang", "client": {"harvest": "eager"}}}"#;
        let part = plan_of(run, Path::new("plan.json")).unwrap();
        assert_eq!(part.conventions, Some(tokometer_base::Conventions::Sglang));
        assert_eq!(part.client.socket_reads, Some(tokometer_drive::SocketReads::Eager));
        let refused = |name: &str, text: &str| plan_of(text, Path::new(name)).unwrap_err();
        let now = "the key `family` is called `conventions` now";
        assert_eq!(refused("a.toml", "family = \"vllm\"\n"), now);
        assert_eq!(refused("a.json", r#"{"family": "vllm"}"#), now);
    }

    #[test]
    fn a_message_about_a_plan_repeats_no_secret_of_it() {
        let check = |name: &str, text: &str| {
            let why = plan_of(text, Path::new(name)).unwrap_err();
            assert!(!why.contains("hunter22"), "{why}");
        };
        check("a.toml", "[[targets]]\nheaders = \"hunter22\"\n");
        check("a.json", r#"{"targets": [{"headers": "hunter22"}]}"#);
        check("b.toml", "[request]\nextra_body = { api_key = \"hunter22\" \n");
        check("b.json", r#"{"targets": [{"address": 5, "endpoint": "/?code=hunter22"}]}"#);
    }

    #[test]
    fn an_unknown_key_names_its_table_and_its_neighbours() {
        let check = |name: &str, text: &str, parts: &[&str]| {
            let why = parse(text, Path::new(name)).unwrap_err();
            assert!(parts.iter().all(|part| why.contains(part)), "{text}: {why}");
        };
        let near = "similar: num_prompts";
        check("a.toml", "[load]\nnum_promts = 5\n", &["line ", "`num_promts`", near]);
        check("a.json", r#"{"load": {"num_promts": 5}}"#, &["line 1", "`num_promts`", near]);
        let run = r#"{"schema": 1, "plan": {"laod": {}}}"#;
        check("plan.json", run, &["`laod`", "similar: load"]);
        let section = "[[sections]]\nheading = \"a\"\n[sections.load]\nnum_promts = 5\n";
        check("a.toml", section, &["`num_promts`", near]);
        let sampling = "[request.sampling]\ntempature = 1.0\n";
        check("a.toml", sampling, &["`tempature`", "similar: temperature"]);
        let axis = "[[sweep]]\nfield = \"load.num_promts\"\nvalues = \"1,2\"\n";
        check("a.toml", axis, &["`load.num_promts`", "similar: load.num_prompts"]);
    }
}
