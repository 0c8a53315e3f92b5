//! Presets: values for every measurement, from the config file and from `TOKOMETER_*` variables.
//!
//! In: the file's text and the variables. Out: for each of the two the flags that it stands for. The
//! names are those of `bench`'s long flags, and the values are parsed as flags are, so that a value
//! means the same in all three places. An unknown key of the file is refused; an unknown variable is
//! only remarked on, because another program may own it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tokometer_base::neighbours::nearest;

use super::origin::ValueOrigin;
use crate::args::{self, AddressArgs, BenchArgs, Command, ParseOutcome};
use crate::exit::Refusal;

/// What begins the name of a variable.
pub(super) const PREFIX: &str = "TOKOMETER_";

/// Flags that ask for one command, and are no values for every measurement.
const PER_COMMAND: [&str; 18] = [
    "plan",
    "print-plan",
    "resume",
    "overwrite",
    "against",
    "block",
    "html",
    "switch-command",
    "shard",
    "shards",
    "leader",
    "shard-secret-file",
    "shard-tls-cert",
    "shard-tls-key",
    "shard-tls-ca",
    "shard-wait",
    "global-cap",
    "help",
];

/// Names that are read elsewhere, in [`super::Environment`].
const ELSEWHERE: [&str; 2] = ["color", "shard-secret"];

/// Presets as they were found, not yet parsed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Presets {
    /// Variables that begin with `TOKOMETER_`, by name.
    pub(crate) variables: BTreeMap<String, String>,
    /// Such a variable whose value is not UTF-8.
    pub(crate) not_text: Option<String>,
    /// The config file; `None` where there is none.
    pub(crate) config: Option<ConfigFile>,
}

#[derive(Debug, Clone)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    /// Its text, or why it cannot be read.
    pub(crate) text: Result<String, String>,
}

/// One source of presets, parsed.
#[derive(Debug, Default)]
pub(crate) struct Preset {
    pub(crate) origin: ValueOrigin,
    pub(crate) args: BenchArgs,
    /// For a server by its address.
    pub(crate) at: AddressArgs,
    pub(super) order: Vec<String>,
}

impl Presets {
    /// The presets of each origin, the weakest first.
    pub(crate) fn layers(&self) -> Result<Vec<Preset>, Refusal> {
        parsed(self).map(|(layers, _)| layers)
    }
}

/// The flags of presets and of the command line, the weakest first.
pub(crate) fn layered<'a>(presets: &'a [Preset], typed: &'a BenchArgs) -> Vec<&'a BenchArgs> {
    presets.iter().map(|preset| &preset.args).chain([typed]).collect()
}

/// All presets, the weakest first, and remarks on names that mean nothing.
pub(super) fn parsed(presets: &Presets) -> Result<(Vec<Preset>, Vec<String>), Refusal> {
    if let Some(name) = &presets.not_text {
        let why = format!("cannot use the variable `{name}`: its value is not text in UTF-8");
        return Err(Refusal::usage(why, "unset it, or write it in UTF-8"));
    }
    let (mut found, mut remarks) = (Vec::new(), Vec::new());
    if presets.config.is_none() && presets.variables.is_empty() {
        return Ok((found, remarks));
    }
    let flags = BenchFlags::declared();
    if let Some(config) = &presets.config {
        let place = format!("in `{}`", config.path.display());
        let words = of_config(config, &flags)?;
        found.push(BenchFlags::parse(ValueOrigin::Config, &words, &place)?);
    }
    let mut words = Vec::new();
    for (name, value) in &presets.variables {
        let flag = name[PREFIX.len()..].to_ascii_lowercase().replace('_', "-");
        if ELSEWHERE.contains(&flag.as_str()) {
            continue;
        }
        match flags.known(&flag) {
            Ok(arg) => words.extend(typed(arg, &PresetValue::Text(value)).map_err(|why| {
                Refusal::usage(format!("cannot use the variable `{name}`: {why}"), "")
            })?),
            Err(why) => {
                remarks.push(format!("the variable `{name}` has no effect: {}", why.variable()));
            }
        }
    }
    found.push(BenchFlags::parse(
        ValueOrigin::Environment,
        &words,
        "in the variables `TOKOMETER_*`",
    )?);
    Ok((found, remarks))
}

/// The value of a key of the config file that is no flag of `bench` alone; `None` where it has none.
pub(super) fn config_text(presets: &Presets, key: &str) -> Option<String> {
    let text = presets.config.as_ref()?.text.as_ref().ok()?;
    let table: toml::Table = toml::from_str(text).ok()?;
    table.get(key)?.as_str().map(str::to_owned)
}

fn of_config(config: &ConfigFile, flags: &BenchFlags) -> Result<Vec<String>, Refusal> {
    let shown = config.path.display();
    let hint = "its keys are the long flags of `tokometer bench`, such as `base-url = \"http://127.0.0.1:8000\"`";
    let refused =
        |why: String| Refusal::usage(format!("cannot use the config file `{shown}`: {why}"), hint);
    let text = config.text.as_ref().map_err(|why| refused(why.clone()))?;
    let table: toml::Table =
        toml::from_str(text).map_err(|why| refused(super::file::without_the_line(text, &why)))?;
    let mut words = Vec::new();
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
        let arg = flags.known(&flag).map_err(|why| refused(why.key(key)))?;
        let typed = typed(arg, &PresetValue::Toml(value));
        words.extend(typed.map_err(|why| refused(format!("`{key}`: {why}")))?);
    }
    Ok(words)
}

/// Why a name is not a preset.
enum Unknown {
    /// A flag of one command.
    PerCommand(String),
    /// No flag; the nearest ones.
    NoFlag(Vec<String>),
}

impl Unknown {
    fn variable(&self) -> String {
        let spelled =
            |flag: &String| format!("`{PREFIX}{}`", flag.to_uppercase().replace('-', "_"));
        match self {
            Self::PerCommand(flag) => format!("`--{flag}` is set for one command only"),
            Self::NoFlag(near) if near.is_empty() => {
                "`bench` has no such flag (`tokometer bench --help` lists them)".to_owned()
            }
            Self::NoFlag(near) => {
                let near: Vec<String> = near.iter().map(spelled).collect();
                format!("`bench` has no such flag; similar: {}", near.join(", "))
            }
        }
    }

    fn key(&self, key: &str) -> String {
        match self {
            Self::PerCommand(flag) => format!("`{key}`: `--{flag}` is set for one command only"),
            Self::NoFlag(near) if near.is_empty() => format!("unknown key `{key}`"),
            Self::NoFlag(near) => {
                let near: Vec<String> = near.iter().map(|flag| format!("`{flag}`")).collect();
                format!("unknown key `{key}`; similar: {}", near.join(", "))
            }
        }
    }
}

/// The flags of `bench`, as declared.
struct BenchFlags(clap::Command);

impl BenchFlags {
    fn declared() -> Self {
        let mut all = args::declaration();
        all.build();
        Self(all.find_subcommand("bench").cloned().unwrap_or_default())
    }

    fn known(&self, flag: &str) -> Result<&clap::Arg, Unknown> {
        if PER_COMMAND.contains(&flag) {
            return Err(Unknown::PerCommand(flag.to_owned()));
        }
        let all = || self.0.get_arguments().filter(|arg| arg.get_long().is_some());
        all().find(|arg| arg.get_long() == Some(flag)).ok_or_else(|| {
            let names = all().filter_map(clap::Arg::get_long);
            let names: BTreeSet<&str> = names.filter(|name| !PER_COMMAND.contains(name)).collect();
            Unknown::NoFlag(
                nearest(flag, names.into_iter()).iter().map(|&name| name.to_owned()).collect(),
            )
        })
    }

    /// Parses words as flags of `bench`. `place` says where they stand.
    fn parse(origin: ValueOrigin, words: &[String], place: &str) -> Result<Preset, Refusal> {
        let words: Vec<String> =
            std::iter::once("bench".to_owned()).chain(words.iter().cloned()).collect();
        let refused = |refusal: Refusal| placed(refusal, place);
        let parsed = args::parse(&words).map_err(|outcome| match outcome {
            ParseOutcome::Refused(refusal) => refused(refusal),
            ParseOutcome::Clap(error) => {
                refused(args::complaint(&error, &words).unwrap_or_else(|| {
                    let text = error.to_string();
                    let line = text.lines().next().unwrap_or_default();
                    Refusal::usage(line.trim_start_matches("error: "), "")
                }))
            }
        })?;
        let Command::Bench(args) = parsed.command else {
            return Err(refused(Refusal::usage("they are not flags of `bench`", "")));
        };
        Ok(Preset { origin, args: args.bench, at: args.at, order: parsed.order })
    }
}

/// The same refusal with where its value stands.
pub(super) fn placed(refusal: Refusal, place: &str) -> Refusal {
    Refusal { message: format!("{place}: {}", refusal.message), ..refusal }
}

/// A value as it was found.
enum PresetValue<'a> {
    Text(&'a str),
    Toml(&'a toml::Value),
}

impl PresetValue<'_> {
    /// Words of a text, or the entries of a list.
    fn list(&self) -> Result<Vec<String>, String> {
        match self {
            Self::Text(text) => Ok(text.split_whitespace().map(str::to_owned).collect()),
            Self::Toml(toml::Value::Array(values)) => values.iter().map(one).collect(),
            Self::Toml(value) => Ok(vec![one(value)?]),
        }
    }

    /// One text; a list is written with commas, as a sweep is.
    fn text(&self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok((*text).to_owned()),
            Self::Toml(toml::Value::Array(values)) => {
                Ok(values.iter().map(one).collect::<Result<Vec<_>, _>>()?.join(","))
            }
            Self::Toml(value) => one(value),
        }
    }

    /// `None` for what is neither yes nor no.
    fn is_on(&self) -> Option<bool> {
        match self {
            Self::Toml(toml::Value::Boolean(is_on)) => Some(*is_on),
            Self::Toml(_) => None,
            Self::Text(text) => match text.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Some(true),
                "" | "0" | "false" | "no" | "off" => Some(false),
                _ => None,
            },
        }
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

/// The words that set `arg` to a value.
fn typed(arg: &clap::Arg, value: &PresetValue<'_>) -> Result<Vec<String>, String> {
    let flag = format!("--{}", arg.get_long().unwrap_or_default());
    let values = arg.get_num_args().unwrap_or_default();
    if !arg.get_action().takes_values() {
        let is_on =
            value.is_on().ok_or("it is a switch: write 1 or 0 (in a file: true or false)")?;
        return Ok(if is_on { vec![flag] } else { Vec::new() });
    }
    if values.min_values() == 0
        && let Some(is_on) = value.is_on()
    {
        return Ok(if is_on { vec![flag] } else { Vec::new() });
    }
    if values.max_values() > 1 {
        let words = value.list()?;
        let is_empty = words.is_empty();
        let all = std::iter::once(flag).chain(words).collect();
        return Ok(if is_empty { Vec::new() } else { all });
    }
    if matches!(arg.get_action(), clap::ArgAction::Append) {
        return Ok(value.list()?.into_iter().map(|one| format!("{flag}={one}")).collect());
    }
    Ok(vec![format!("{flag}={}", value.text()?)])
}

/// The place of the config file, as XDG's rules say: a relative `XDG_CONFIG_HOME` is ignored.
pub(super) fn config_place(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let named = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".config"));
    Some(named.or_else(home)?.join("tokometer").join("config.toml"))
}

/// Reads the config file; `None` where there is none.
pub(super) fn config(path: &Path) -> Option<ConfigFile> {
    let text = match std::fs::read_to_string(path) {
        Err(why)
            if matches!(
                why.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            return None;
        }
        read => read.map_err(|why| crate::exit::reason(&why)),
    };
    Some(ConfigFile { path: path.to_owned(), text })
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
        assert_eq!(file.args.target.base_url.as_deref(), Some("http://h:1"));
        assert_eq!(file.args.arrival.max_concurrency.as_ref().unwrap().0, [1, 2]);
        assert_eq!(file.args.sampling.extra_body.as_deref(), Some(r#"{"min_tokens":3}"#));
        assert_eq!(file.args.metric.goodput, ["ttft:5", "tpot:6"]);
        assert!(file.args.target.insecure && !shell.args.target.insecure);
        assert_eq!(shell.args.stop.num_prompts.as_ref().unwrap().0, [7]);
        assert_eq!(shell.args.target.header.len(), 2);
        assert_eq!(shell.args.target.sim.as_deref(), Some("small"));
        assert_eq!(shell.args.client.metrics_url, ["http://a", "http://b"]);
        assert_eq!(remarks, [] as [&str; 0]);
    }

    #[test]
    fn unknown_names_are_answered_with_their_neighbours() {
        let (_, remarks) = parsed(&presets(&[("TOKOMETER_NUM_PROMTS", "7")], None)).unwrap();
        assert!(remarks[0].contains("similar: `TOKOMETER_NUM_PROMPTS`"), "{remarks:?}");
        let (_, remarks) = parsed(&presets(&[("TOKOMETER_RESUME", "1")], None)).unwrap();
        assert!(remarks[0].contains("`--resume` is set for one command only"), "{remarks:?}");
        let why = refused(&presets(&[], Some("num-promts = 7")));
        assert!(why.contains("unknown key `num-promts`; similar: `num-prompts`"), "{why}");
        let why = refused(&presets(&[], Some("api-key = \"hunter22\"")));
        assert!(why.contains("`api-key-file") && !why.contains("hunter22"), "{why}");
    }

    /// `TOKOMETER_SHARD_TLS_CERT` was read and had no effect, so that the shards connected without TLS.
    #[test]
    fn flags_of_shards_are_those_of_one_command() {
        let flags = BenchFlags::declared();
        let all = flags.0.get_arguments();
        let of_shards = all.filter(|arg| arg.get_help_heading() == Some("Many machines"));
        let names: Vec<&str> = of_shards.filter_map(clap::Arg::get_long).collect();
        assert!(names.contains(&"shard-tls-cert") && names.contains(&"global-cap"), "{names:?}");
        for name in names {
            assert!(matches!(flags.known(name), Err(Unknown::PerCommand(_))), "--{name}");
        }
    }

    #[test]
    fn values_that_cannot_be_used_name_their_place() {
        let why = refused(&presets(&[("TOKOMETER_NUM_PROMPTS", "x")], None));
        assert!(why.starts_with("in the variables `TOKOMETER_*`: cannot use `x` for"), "{why}");
        let why = refused(&presets(&[("TOKOMETER_INSECURE", "maybe")], None));
        assert!(why.contains("`TOKOMETER_INSECURE`: it is a switch"), "{why}");
        let why = refused(&presets(&[], Some("num-prompts = true")));
        assert!(why.contains("c.toml") && why.contains("a text or a number"), "{why}");
        assert!(refused(&presets(&[], Some("num-prompts = "))).contains("line 1"));
    }

    #[test]
    fn the_config_file_is_where_xdg_says() {
        let check = |set: &[(&str, &str)], expected: Option<&str>| {
            let variable = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(config_place(&variable), expected.map(PathBuf::from), "{set:?}");
        };
        let home = ("HOME", "/h");
        check(&[home], Some("/h/.config/tokometer/config.toml"));
        check(&[home, ("XDG_CONFIG_HOME", "/x")], Some("/x/tokometer/config.toml"));
        check(&[home, ("XDG_CONFIG_HOME", "x")], Some("/h/.config/tokometer/config.toml"));
        check(&[], None);
    }
}
