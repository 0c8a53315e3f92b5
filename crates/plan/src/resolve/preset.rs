//! Presets: values for every measurement, from the config file and from `TOKOMETER_*` variables.
//!
//! In: the file's text and the variables. Out: for each of the two the flags that it stands for. The
//! names are those of `bench`'s long flags, and the values are parsed as flags are, so that a value
//! means the same in all three. An unknown key of the file is refused; an unknown variable is
//! only remarked on, because another program may own it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::options::{self, Fragment, GivenOption, Kind, OptionRow};
use crate::renamed_flag;
use tokometer_base::neighbours::nearest;

use super::origin::ValueOrigin;
use tokometer_base::Refusal;

pub const PREFIX: &str = "TOKOMETER_";

/// Names that are read elsewhere, with the environment.
const ELSEWHERE: [&str; 2] = ["color", "shard-secret"];

/// Presets as they were found, not yet parsed.
#[derive(Debug, Clone, Default)]
pub struct Presets {
    /// Variables that begin with `TOKOMETER_`, by name.
    pub variables: BTreeMap<String, String>,
    /// Such a variable whose value is not UTF-8.
    pub not_text: Option<String>,
    pub config: Option<ConfigFile>,
}

#[derive(Debug, Clone)]
pub struct ConfigFile {
    pub path: PathBuf,
    /// Its text, or why it cannot be read.
    pub text: Result<String, String>,
}

#[derive(Debug, Default)]
pub struct Preset {
    pub origin: ValueOrigin,
    pub fragment: Fragment,
}

impl Presets {
    /// The presets of each origin, the weakest first.
    pub fn layers(&self) -> Result<Vec<Preset>, Refusal> {
        parsed(self).map(|(layers, _)| layers)
    }
}

/// The flags of presets and of the command line, the weakest first.
pub fn layered<'a>(presets: &'a [Preset], typed: &'a Fragment) -> Vec<&'a Fragment> {
    presets.iter().map(|preset| &preset.fragment).chain([typed]).collect()
}

/// All presets, the weakest first, and remarks on names that mean nothing.
pub fn parsed(presets: &Presets) -> Result<(Vec<Preset>, Vec<String>), Refusal> {
    if let Some(name) = &presets.not_text {
        let why = format!("cannot use the variable `{name}`: its value is not text in UTF-8");
        return Err(Refusal::usage(why, "unset it, or write it in UTF-8"));
    }
    let (mut found, mut remarks) = (Vec::new(), Vec::new());
    if presets.config.is_none() && presets.variables.is_empty() {
        return Ok((found, remarks));
    }
    if let Some(config) = &presets.config {
        let source = format!("in `{}`", config.path.display());
        found.push(Preset::of(ValueOrigin::Config, of_config(config)?, &source)?);
    }
    let mut given = Vec::new();
    for (name, value) in &presets.variables {
        let flag = name[PREFIX.len()..].to_ascii_lowercase().replace('_', "-");
        if ELSEWHERE.contains(&flag.as_str()) {
            continue;
        }
        let spelled = |flag: &str| format!("`{PREFIX}{}`", flag.to_uppercase().replace('-', "_"));
        match known(&flag, "`bench` has no such flag", spelled) {
            Ok(row) => given.extend(typed(row, &of_text(row, value)).map_err(|why| {
                Refusal::usage(format!("cannot use the variable `{name}`: {why}"), "")
            })?),
            Err(why) => remarks.push(format!("the variable `{name}` has no effect: {why}")),
        }
    }
    let source = "in the variables `TOKOMETER_*`";
    found.push(Preset::of(ValueOrigin::Environment, given, source)?);
    Ok((found, remarks))
}

/// The value of a key of the config file that is no flag of `bench` alone; `None` where it has none.
pub fn config_text(presets: &Presets, key: &str) -> Option<String> {
    let text = presets.config.as_ref()?.text.as_ref().ok()?;
    let table: toml::Table = toml::from_str(text).ok()?;
    table.get(key)?.as_str().map(str::to_owned)
}

fn of_config(config: &ConfigFile) -> Result<Vec<GivenOption>, Refusal> {
    let shown = config.path.display();
    let hint = "its keys are the long flags of `tokometer bench`, such as `base-url = \"http://127.0.0.1:8000\"`";
    let refused =
        |why: String| Refusal::usage(format!("cannot use the config file `{shown}`: {why}"), hint);
    let text = config.text.as_ref().map_err(|why| refused(why.clone()))?;
    let table: toml::Table =
        toml::from_str(text).map_err(|why| refused(super::file::without_the_line(text, &why)))?;
    let mut given = Vec::new();
    for (key, value) in &table {
        let flag = key.replace('_', "-");
        if ELSEWHERE.contains(&flag.as_str()) {
            continue;
        }
        if flag == "api-key" {
            return Err(Refusal::usage(
                format!(
                    "cannot use `{key}` in the config file `{shown}`: keys are not stored in it"
                ),
                "use `api-key-file = \"FILE\"`, or set OPENAI_API_KEY",
            ));
        }
        let unknown = format!("unknown key `{key}`");
        let row = known(&flag, &unknown, |flag| format!("`{flag}`")).map_err(refused)?;
        given.extend(typed(row, value).map_err(|why| refused(format!("`{key}`: {why}")))?);
    }
    Ok(given)
}

/// The option of a preset, or why it is none. `unknown` says so of a name that is no flag; `spelled` writes a
/// flag as the source does.
fn known(
    flag: &str,
    unknown: &str,
    spelled: impl Fn(&str) -> String,
) -> Result<&'static OptionRow, String> {
    match options::named(flag) {
        Some(row) if row.is_per_command => Err(format!("`--{flag}` is set for one command only")),
        Some(row) => Ok(row),
        None => {
            if let Some(now) = renamed_flag(flag) {
                let now = now.split(' ').next().unwrap_or(now);
                return Err(format!("{unknown}; it is called {} now", spelled(now)));
            }
            let names = options::rows().filter(|row| !row.is_per_command).map(|row| row.flag);
            let near: Vec<String> = nearest(flag, names).into_iter().map(spelled).collect();
            let near = near.join(", ");
            Err(if near.is_empty() {
                unknown.to_owned()
            } else {
                format!("{unknown}; similar: {near}")
            })
        }
    }
}

impl Preset {
    fn of(origin: ValueOrigin, given: Vec<GivenOption>, source: &str) -> Result<Self, Refusal> {
        let fragment = Fragment::of(given).map_err(|refusal| from_source(refusal, source))?;
        Ok(Self { origin, fragment })
    }
}

/// The same refusal with where its value comes from.
pub(super) fn from_source(refusal: Refusal, source: &str) -> Refusal {
    Refusal { message: format!("{source}: {}", refusal.message), ..refusal }
}

/// The text of a variable as a file would have it: a switch as yes or no, several words as a list.
fn of_text(row: &OptionRow, text: &str) -> toml::Value {
    let is_on = match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "" | "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    };
    match (row.kind, is_on) {
        (Kind::Switch(_) | Kind::Optional(..), Some(is_on)) => is_on.into(),
        (Kind::Texts | Kind::Pairs | Kind::Repeated(_), _) => {
            text.split_whitespace().collect::<Vec<_>>().into()
        }
        _ => text.into(),
    }
}

fn one(value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        toml::Value::Table(table) => serde_json::to_string(table).map_err(|why| why.to_string()),
        toml::Value::Boolean(_) | toml::Value::Datetime(_) | toml::Value::Array(_) => {
            Err("it takes a text or a number".to_owned())
        }
    }
}

/// An option with the words of a value; `None` where it is switched off or empty.
fn typed(row: &'static OptionRow, value: &toml::Value) -> Result<Option<GivenOption>, String> {
    let switched = |is_on: bool, words| Ok(is_on.then_some(GivenOption { row, words }));
    let words = || match value {
        toml::Value::Array(values) => values.iter().map(one).collect(),
        value => Ok(vec![one(value)?]),
    };
    match (row.kind, value) {
        (Kind::Switch(_), toml::Value::Boolean(is_on)) => switched(*is_on, Vec::new()),
        (Kind::Switch(_), _) => {
            Err("it is a switch: write 1 or 0 (in a file: true or false)".to_owned())
        }
        (Kind::Optional(word, _), toml::Value::Boolean(is_on)) => {
            switched(*is_on, vec![word.to_owned()])
        }
        (Kind::Texts | Kind::Pairs | Kind::Repeated(_), _) => {
            let words: Vec<String> = words()?;
            switched(!words.is_empty(), words)
        }
        // A list is written with commas, as a sweep is.
        _ => switched(true, vec![words()?.join(",")]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presets(variables: &[(&str, &str)], config: Option<&str>) -> Presets {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let file = |text: &str| ConfigFile { path: "c.toml".into(), text: Ok(text.to_owned()) };
        let variables = variables.iter().map(pair).collect();
        Presets { variables, not_text: None, config: config.map(file) }
    }

    fn refused(presets: &Presets) -> String {
        parsed(presets).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn variables_and_keys_are_the_flags_of_bench() {
        let config = "base-url = \"http://h:1\"\nmax_concurrency = [1, 2]\ninsecure = true\n\
                      extra-body = { min_tokens = 3 }\ngoodput = [\"ttft:5\", \"tpot:6\"]\ncolor = \"never\"\n";
        let variables = [
            ("TOKOMETER_NUM_PROMPTS", "7"),
            ("TOKOMETER_HEADER", "a=b c=d"),
            ("TOKOMETER_SIM", "small"),
            ("TOKOMETER_METRICS_URL", "http://a http://b"),
            ("TOKOMETER_INSECURE", "0"),
        ];
        let (found, remarks) = parsed(&presets(&variables, Some(config))).unwrap();
        let [file, shell] = &found[..] else { panic!("{found:?}") };
        assert_eq!((file.origin, shell.origin), (ValueOrigin::Config, ValueOrigin::Environment));
        let (filed, shown) = (&file.fragment.part, &shell.fragment.part);
        let address =
            |part: &crate::PartialPlan| part.targets[0].address.as_ref().unwrap().to_string();
        assert_eq!(address(filed), "http://h:1");
        assert_eq!(file.fragment.lists[0].flag, "max-concurrency");
        assert_eq!(filed.request.extra_body.0["min_tokens"], 3);
        assert_eq!(filed.metrics.goodput.len(), 2);
        assert!(file.fragment.has("insecure") && !shell.fragment.has("insecure"));
        assert_eq!(shown.load.num_prompts, Some(Some(7)));
        assert_eq!(shown.targets[0].headers.as_ref().unwrap().0.len(), 2);
        assert_eq!(address(shown), "simulator:small");
        assert_eq!(shown.client.metrics_urls.as_ref().unwrap().len(), 2);
        assert_eq!(remarks, [] as [&str; 0]);
    }

    #[test]
    fn unknown_names_are_answered_with_their_neighbours() {
        let (_, remarks) = parsed(&presets(&[("TOKOMETER_NUM_PROMTS", "7")], None)).unwrap();
        assert!(remarks[0].contains("similar: `TOKOMETER_NUM_PROMPTS`"), "{remarks:?}");
        let (_, remarks) = parsed(&presets(&[("TOKOMETER_RESUME", "1")], None)).unwrap();
        assert!(remarks[0].contains("`--resume` is set for one command only"), "{remarks:?}");
        let (_, remarks) = parsed(&presets(&[("TOKOMETER_COMPAT", "sglang")], None)).unwrap();
        assert!(remarks[0].contains("it is called `TOKOMETER_CONVENTIONS` now"), "{remarks:?}");
        let why = refused(&presets(&[], Some("json = true")));
        assert!(why.contains("unknown key `json`; it is called `format` now"), "{why}");
        let why = refused(&presets(&[], Some("num-promts = 7")));
        assert!(why.contains("unknown key `num-promts`; similar: `num-prompts`"), "{why}");
        let why = refused(&presets(&[], Some("api-key = \"hunter22\"")));
        assert!(why.contains("`api-key-file") && !why.contains("hunter22"), "{why}");
    }

    /// `TOKOMETER_SHARD_TLS_CERT` was read and had no effect, so that the shards connected without TLS.
    #[test]
    fn flags_of_shards_are_those_of_one_command() {
        let group = options::groups().find(|group| group.title == "Many machines").unwrap();
        assert!(group.rows.len() > 5);
        for row in group.rows {
            assert!(row.is_per_command, "--{}", row.flag);
        }
    }

    #[test]
    fn values_that_cannot_be_used_name_their_source() {
        let why = refused(&presets(&[("TOKOMETER_NUM_PROMPTS", "x")], None));
        assert!(why.starts_with("in the variables `TOKOMETER_*`: cannot use `x` for"), "{why}");
        let why = refused(&presets(&[("TOKOMETER_INSECURE", "maybe")], None));
        assert!(why.contains("`TOKOMETER_INSECURE`: it is a switch"), "{why}");
        let why = refused(&presets(&[], Some("num-prompts = true")));
        assert!(why.contains("c.toml") && why.contains("a text or a number"), "{why}");
        assert!(refused(&presets(&[], Some("num-prompts = "))).contains("line 1"));
    }
}
