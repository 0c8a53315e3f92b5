//! Which runs belong to one configuration: one server with one workload, under several loads.
//!
//! Runs of one folder that the user gave by itself, such as a sweep, belong together. Runs that
//! differ in a field of the plan other than the load, or in their server, do not. What differs names the
//! configuration.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tokometer_record::RunInfo;

/// Fields of a plan that do not make another configuration: the load, what follows from it, and what
/// only concerns the report.
const NOT_OF_A_CONFIGURATION: [&str; 14] = [
    "seed",
    "name",
    "output",
    "metrics",
    "sweep",
    "sections",
    "targets",
    "phases.warmups",
    "load.request_rate",
    "load.max_concurrency",
    "load.num_prompts",
    "load.duration_s",
    "load.until",
    "load.overload",
];

/// Longer values are cut.
const LONGEST_VALUE: usize = 48;

type ConfigurationFields = BTreeMap<String, String>;

/// The name of each run's configuration, in the order of the runs. Runs with one name belong together.
/// `sources` is, for each run, the name of the folder or the label that it was given with; `None` for a
/// run that was given by itself.
pub(super) fn names(runs: &[(&RunInfo, Option<&str>)]) -> Vec<String> {
    let fields: Vec<ConfigurationFields> = runs.iter().map(|(info, _)| fields(info)).collect();
    let varying = varying(&fields);
    let has_sources = runs.iter().map(|(_, source)| source).collect::<BTreeSet<_>>().len() > 1;
    // A field that only differs between sources is said by their names.
    let varies_within = |source: Option<&str>, path: &str| {
        let of_source = runs.iter().zip(&fields).filter(|((_, other), _)| *other == source);
        of_source.map(|(_, fields)| fields.get(path)).collect::<BTreeSet<_>>().len() > 1
    };
    let name = |run: &(&RunInfo, Option<&str>), fields: &ConfigurationFields, has_zeros: bool| {
        let (info, source) = run;
        let source = source.filter(|_| has_sources);
        let own: Vec<String> = varying
            .iter()
            .filter(|path| source.is_none() || varies_within(source, path))
            .filter_map(|path| Some((path, fields.get(*path)?)))
            .filter(|(_, value)| has_zeros || !is_zero(value))
            .map(|(path, value)| format!("{}={value}", last(path, &varying)))
            .collect();
        let own = (!own.is_empty()).then(|| own.join(", "));
        let parts: Vec<String> = source.map(str::to_owned).into_iter().chain(own).collect();
        if parts.is_empty() { plain(info) } else { parts.join(": ") }
    };
    let all = |has_zeros: bool| -> Vec<String> {
        runs.iter().zip(&fields).map(|(run, fields)| name(run, fields, has_zeros)).collect()
    };
    // Fields that are zero are mostly options that were not used.
    let (long, short) = (all(true), all(false));
    // A name without zeros must distinguish what the whole name distinguishes.
    let count = |names: &[String]| names.iter().collect::<BTreeSet<_>>().len();
    let is_enough =
        long.iter().zip(&short).all(|(long, short)| long == short || short.contains('='));
    if count(&long) == count(&short) && is_enough { short } else { long }
}

fn is_zero(text: &str) -> bool {
    text.parse().is_ok_and(|value: f64| value == 0.0)
}

/// The name of the only configuration of a page.
fn plain(info: &RunInfo) -> String {
    info.targets.first().map_or_else(|| info.name.clone(), |target| target.model.clone())
}

/// The last part of a path, or all of it where two paths end alike.
fn last<'a>(path: &'a str, varying: &[&'a str]) -> &'a str {
    let end = |path: &'a str| path.rsplit('.').next().unwrap_or(path);
    let is_unique = varying.iter().filter(|other| end(other) == end(path)).count() == 1;
    if is_unique { end(path) } else { path }
}

fn varying(all: &[ConfigurationFields]) -> Vec<&str> {
    let paths: BTreeSet<&str> = all.iter().flat_map(|one| one.keys().map(String::as_str)).collect();
    let is_varying = |path: &&str| {
        let mut values = all.iter().map(|one| one.get(*path));
        let first = values.next().flatten();
        values.any(|value| value != first)
    };
    paths.into_iter().filter(is_varying).collect()
}

/// Everything that makes a configuration, by path.
fn fields(info: &RunInfo) -> ConfigurationFields {
    let mut fields = ConfigurationFields::new();
    flatten("", &info.plan, &mut fields);
    for (at, target) in info.targets.iter().enumerate() {
        let name = |what: &str| if at == 0 { what.to_owned() } else { format!("{what}_b") };
        fields.insert(name("model"), target.model.clone());
        fields.insert(name("backend"), target.backend.clone());
        if !target.is_simulated {
            fields.insert(name("target"), target.route_url());
        }
        fields.extend(target.server.clone().map(|server| (name("server"), server)));
    }
    fields
}

fn flatten(path: &str, value: &Value, fields: &mut ConfigurationFields) {
    let is_left_out = |path: &str| NOT_OF_A_CONFIGURATION.contains(&path);
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                if !is_left_out(&path) {
                    flatten(&path, value, fields);
                }
            }
        }
        Value::Null => {}
        Value::String(text) => {
            fields.insert(path.to_owned(), text.chars().take(LONGEST_VALUE).collect());
        }
        other => {
            let text: String = other.to_string().chars().take(LONGEST_VALUE).collect();
            fields.insert(path.to_owned(), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing;

    fn run(input_len: u32, concurrency: u32, server: &str) -> RunInfo {
        let mut info = testing::info();
        info.plan = json!({
            "seed": concurrency,
            "workload": {"input_len": input_len},
            "load": {"max_concurrency": concurrency, "num_prompts": 10 * concurrency},
            "phases": {"warmups": 2 * concurrency},
        });
        info.targets[0].server = Some(server.to_owned());
        info
    }

    fn named(runs: &[(RunInfo, Option<&str>)]) -> Vec<String> {
        let runs: Vec<(&RunInfo, Option<&str>)> =
            runs.iter().map(|(info, source)| (info, *source)).collect();
        names(&runs)
    }

    #[test]
    fn loads_of_one_plan_are_one_configuration() {
        let runs = [(run(128, 1, "v"), None), (run(128, 8, "v"), None)];
        assert_eq!(named(&runs), ["org/model-8b", "org/model-8b"]);
    }

    #[test]
    fn what_differs_besides_the_load_names_the_configuration() {
        let runs = [(run(128, 1, "v"), None), (run(128, 8, "v"), None), (run(512, 8, "v"), None)];
        assert_eq!(named(&runs), ["input_len=128", "input_len=128", "input_len=512"]);
        let runs = [(run(128, 1, "vllm 1"), None), (run(128, 1, "vllm 2"), None)];
        assert_eq!(named(&runs), ["server=vllm 1", "server=vllm 2"]);
    }

    /// A legend said `prefix_len=0, range_ratio=0.0` beside the dataset and its lengths.
    #[test]
    fn options_that_were_not_used_are_not_named_where_the_rest_is_enough() {
        let with = |options: serde_json::Value| {
            let mut info = run(128, 1, "v");
            info.plan["workload"] = options;
            info
        };
        let random = json!({"dataset": "random", "range_ratio": 0.0, "prefix_len": 0});
        let other = json!({"dataset": "sonnet"});
        let runs = [(with(random.clone()), None), (with(other.clone()), None)];
        assert_eq!(named(&runs), ["dataset=random", "dataset=sonnet"]);
        let varied = json!({"dataset": "random", "range_ratio": 0.5, "prefix_len": 0});
        let runs = [(with(random), None), (with(varied), None), (with(other), None)];
        let expected = ["dataset=random", "dataset=random, range_ratio=0.5", "dataset=sonnet"];
        assert_eq!(named(&runs), expected);
        assert_eq!(named(&runs[..2]), ["range_ratio=0.0", "range_ratio=0.5"]);
    }

    #[test]
    fn folders_that_were_given_are_configurations_even_if_their_plans_agree() {
        let runs = [(run(128, 1, "v"), Some("base")), (run(128, 1, "v"), Some("tuned"))];
        assert_eq!(named(&runs), ["base", "tuned"]);
        let runs = [
            (run(128, 1, "v"), Some("base")),
            (run(512, 1, "v"), Some("base")),
            (run(128, 1, "v"), Some("tuned")),
        ];
        assert_eq!(named(&runs), ["base: input_len=128", "base: input_len=512", "tuned"]);
    }
}
