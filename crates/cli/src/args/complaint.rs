//! Messages about values that a flag does not accept.
//!
//! In: clap's error and the words as typed. Out: the same in our own form (what, why, what to try), or
//! nothing where clap's own words are as good. All flags get them here: none says what its type says.

use std::error::Error as _;

use clap::Subcommand as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use tokometer_base::redact::redact;
use tokometer_plan::options;

use super::address::with_command;
use super::command::{Command, flags_of};
use super::compat::habit;
use crate::exit::Refusal;

/// Our words for clap's, about the value of a flag.
pub(crate) fn complaint(error: &clap::Error, words: &[String]) -> Option<Refusal> {
    let words = &with_command(words);
    match error.kind() {
        ErrorKind::ValueValidation => {
            let flag = text(error, ContextKind::InvalidArg)?;
            let flag = flag.split_whitespace().next()?;
            let why = reason(&error.source()?.to_string());
            refused(words, flag, &text(error, ContextKind::InvalidValue)?, &why)
        }
        // A negative number looks like a flag, and clap says that there is no such flag.
        ErrorKind::UnknownArgument => {
            let is_negative = |word: &str| {
                let rest = word.strip_prefix('-').unwrap_or_default();
                rest.starts_with(|first: char| first.is_ascii_digit() || first == '.')
            };
            if let Some(at) = words.iter().position(|word| is_negative(word)) {
                let flag = words.get(at.checked_sub(1)?)?;
                return refused(words, flag, &words[at], "it must not be negative");
            }
            unexpected(words.first()?, &text(error, ContextKind::InvalidArg)?)
        }
        ErrorKind::InvalidValue => {
            let flag = text(error, ContextKind::InvalidArg)?;
            let flag = flag.split_whitespace().next()?;
            let value = text(error, ContextKind::InvalidValue)?;
            if value.is_empty() {
                return without_value(words.first()?, flag);
            }
            not_a_choice(words, flag, &value, &choices(error))
        }
        ErrorKind::MissingRequiredArgument => missing(words.first()?, &choices_of_missing(error)),
        ErrorKind::InvalidSubcommand => no_command(&text(error, ContextKind::InvalidSubcommand)?),
        _ => None,
    }
}

/// A word that the command does not take.
fn unexpected(command: &str, typed: &str) -> Option<Refusal> {
    match (command, typed) {
        (_, flag) if flag.starts_with('-') => {
            let flag = flag.split('=').next().unwrap_or(flag);
            Some(habit::unknown(flag, &flags_of(command)))
        }
        ("bench", word) if word.contains("://") => Some(Refusal::usage(
            format!("cannot measure `{}` as well: one address is enough", redact(word)),
            "`--against URL` measures two servers in turn and compares them",
        )),
        _ => None,
    }
}

/// A flag at the end of the line, or in front of the next one.
fn without_value(command: &str, flag: &str) -> Option<Refusal> {
    let purpose = purpose(command, flag)?;
    Some(Refusal::usage(format!("cannot use `{flag}` without a value"), purpose.described()))
}

/// A word that is none of the words that a flag accepts.
fn not_a_choice(words: &[String], flag: &str, value: &str, choices: &str) -> Option<Refusal> {
    let value = repeated(flag.trim_start_matches('-'), value);
    let message = format!("cannot use `{value}` for `{flag}`: the choices are {choices}");
    // Other load tools count connections with this flag.
    if flag == "--connections" && value.parse::<u64>().is_ok() {
        let hint = format!("`--max-concurrency {value}` limits the requests in flight");
        return Some(Refusal::usage(message, hint));
    }
    let purpose = purpose(words.first()?, flag);
    Some(Refusal::usage(message, purpose.map(|found| found.described()).unwrap_or_default()))
}

fn choices(error: &clap::Error) -> String {
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(all)) => all.join(", "),
        _ => String::new(),
    }
}

/// Names of what a command lacks, as its usage line shows them.
fn choices_of_missing(error: &clap::Error) -> Vec<String> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(all)) => all.clone(),
        _ => Vec::new(),
    }
}

/// A command without something that it cannot do without.
fn missing(command: &str, names: &[String]) -> Option<Refusal> {
    let first = names.first()?;
    let hint = match (command, first.split_whitespace().next()?) {
        ("capacity", "--slo") => {
            "state the objectives, such as `--slo \"p99 ttft < 2s, p99 tpot < 100ms\"`".to_owned()
        }
        ("report", _) if first.starts_with("<RUN") => {
            "name a run folder, such as `tokometer report runs/NAME`".to_owned()
        }
        _ => format!("`tokometer {command} -h` shows what it takes"),
    };
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    Some(Refusal::usage(format!("`tokometer {command}` needs {}", names.join(" and ")), hint))
}

/// A first word that is not a command: an address of another kind, or one without its port.
fn no_command(word: &str) -> Option<Refusal> {
    if let Some((scheme, _)) = word.split_once("://") {
        return Some(Refusal::usage(
            format!("cannot measure `{}`: unknown scheme `{scheme}://`", redact(word)),
            "use http://HOST:PORT, https://HOST:PORT or unix:/PATH",
        ));
    }
    let is_host = word == "localhost" || word.contains('.') || word.contains(':');
    if !is_host && word.contains('/') {
        return Some(Refusal::usage(
            format!("cannot use `{}`: it is not a command", redact(word)),
            format!("`tokometer report {}` shows a run folder", redact(word)),
        ));
    }
    is_host.then(|| {
        Refusal::usage(
            format!(
                "cannot use `{}`: it is neither a command nor an address with a port",
                redact(word)
            ),
            format!("write an address as `tokometer http://{}`", with_port(word)),
        )
    })
}

/// A host with a port, as an example.
fn with_port(word: &str) -> String {
    let host = redact(word.split(['/', ':']).next().unwrap_or_default());
    format!("{host}:8000")
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// The standard library's words, for people.
fn reason(said: &str) -> String {
    match said {
        "invalid digit found in string" => "it is not a whole number".to_owned(),
        "invalid float literal" => "it is not a number".to_owned(),
        "number too large to fit in target type" => "it is too large".to_owned(),
        "cannot parse integer from empty string" | "cannot parse float from empty string" => {
            "it is empty".to_owned()
        }
        other => other.to_owned(),
    }
}

/// A value as it can be repeated: without what may be a secret.
fn repeated(name: &str, value: &str) -> String {
    match options::named(name) {
        Some(row) => row.shown(value),
        None => redact(value),
    }
}

/// What a flag is called, and what for.
struct FlagPurpose {
    /// Its long name without dashes.
    name: String,
    /// `--num-prompts <N>`.
    usage: String,
    /// The first line of its help.
    help: String,
}

impl FlagPurpose {
    fn described(&self) -> String {
        format!("`{}`: {}", self.usage, self.help)
    }
}

/// `None` where the flag is unknown or takes no value.
fn purpose(command: &str, flag: &str) -> Option<FlagPurpose> {
    let mut all = Command::augment_subcommands(clap::Command::new("tokometer"));
    all.build();
    let short = flag.strip_prefix('-').filter(|rest| rest.len() == 1);
    let name = flag.strip_prefix("--").or(short)?.replace('_', "-");
    let is_it = |arg: &&clap::Arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        let is_short = short.is_some() && arg.get_short() == name.chars().next();
        is_short || arg.get_long() == Some(name.as_str()) || aliases.contains(&name.as_str())
    };
    let found = all.find_subcommand(command)?.get_arguments().find(is_it)?;
    if !found.get_action().takes_values() {
        return None;
    }
    let help = found.get_help().map(ToString::to_string).unwrap_or_default();
    let shown = found.to_string();
    Some(FlagPurpose {
        name: found.get_long().unwrap_or(&name).to_owned(),
        usage: shown.split_whitespace().take(2).collect::<Vec<_>>().join(" "),
        help: help.lines().next().unwrap_or_default().to_owned(),
    })
}

/// `None` where the flag is unknown or takes no value: then the value is not what is wrong.
fn refused(words: &[String], flag: &str, value: &str, why: &str) -> Option<Refusal> {
    let purpose = purpose(words.first()?, flag)?;
    Some(Refusal::usage(
        format!("cannot use `{}` for `{flag}`: {why}", repeated(&purpose.name, value)),
        purpose.described(),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::command::{ParseOutcome, parse};
    use super::*;

    fn said(line: &str) -> Option<String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&words) {
            Err(ParseOutcome::Clap(error)) => {
                complaint(&error, &words).map(|refusal| refusal.to_string())
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_value_that_makes_no_sense_is_refused_with_what_the_flag_is_for() {
        let check = |line: &str, message: &str, hint: &str| {
            let said = said(line).unwrap();
            let (first, second) = said.split_once("\n  ").unwrap();
            assert_eq!(first, message);
            assert!(second.starts_with(hint), "{second}");
        };
        let input = "`--random-input-len <TOKENS>`: ";
        let negative = "cannot use `-3` for `--random-input-len`: it must not be negative";
        check("bench --random-input-len -3", negative, input);
        let negative = "cannot use `-3` for `--random-input-len`: it is not a whole number";
        check("bench --random-input-len=-3", negative, input);
        let list = "cannot use `4,x` for `--random-input-len`: it is not a whole number";
        check("bench --random-input-len 4,x", list, input);
        let rate = "cannot use `-2.5` for `--request-rate`: it must not be negative";
        check("bench --request-rate -2.5", rate, "`--request-rate <");
        let short = "cannot use `-2` for `-n`: it must not be negative";
        check("bench -n -2", short, "`--num-prompts <N>`: ");
        let large = "cannot use `99999999999999999999` for `--seed`: it is too large";
        check("bench --seed 99999999999999999999", large, "`--seed <");
        let port = "cannot use `70000` for `--port`: 70000 is not in 0..=65535";
        check("sim --port 70000", port, "`--port <PORT>`: ");
    }

    #[test]
    fn words_typed_from_habit_are_answered_with_what_to_type() {
        let check = |line: &str, parts: [&str; 2]| {
            let said = said(line).unwrap();
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        };
        check("report r --json", ["unknown flag `--json`", "called `--format json` now"]);
        check("doctor r --markdown", ["unknown flag", "called `--format markdown` now"]);
        check("ftp://h:9", ["unknown scheme `ftp://`", "http://HOST:PORT"]);
        check("localhost", ["nor an address with a port", "`tokometer http://localhost:8000`"]);
        check(
            "gpu1.example/v1",
            [
                "neither a command nor an address with a port",
                "`tokometer http://gpu1.example:8000`",
            ],
        );
        check("runs/a", ["not a command", "`tokometer report runs/a`"]);
        check("bench -m x", ["unknown flag `-m`", "`--model`"]);
        check("bench http://a http://b", ["`http://b` as well", "--against"]);
        check("report r --htlm x", ["unknown flag `--htlm`", "`--html`"]);
        check("sim --prot=1", ["unknown flag `--prot`", "`--port`"]);
        check("capacity http://h", ["`tokometer capacity` needs `--slo <OBJECTIVES>`", "p99 ttft"]);
        check("report", ["`tokometer report` needs `<RUN|FILE>...`", "run folder"]);
        check("completions", ["needs `<SHELL>`", "`tokometer completions -h`"]);
        assert_eq!(said("bnch"), None, "clap names the nearest command");
    }

    #[test]
    fn a_flag_of_few_words_names_them_and_one_without_a_value_says_what_for() {
        let check = |line: &str, expected: &str| {
            let said = said(line).unwrap();
            assert!(said.starts_with(expected), "{said}");
        };
        let choices =
            "cannot use `x` for `--conventions`: the choices are vllm, sglang\n  `--conventions <";
        check("bench --conventions x", choices);
        let connections = "cannot use `5` for `--connections`: the choices are auto, preopen, \
                           on-demand, per-request\n  `--max-concurrency 5` limits";
        check("bench --connections 5", connections);
        check("bench --seed", "cannot use `--seed` without a value\n  `--seed <N>`: ");
        let shells = "cannot use `foo` for `<SHELL>`: the choices are bash, elvish, fish";
        check("completions foo", shells);
    }

    #[test]
    fn what_is_not_about_a_value_is_left_to_clap() {
        assert_eq!(said("bench --ignore-eos -3"), None);
        assert_eq!(said("bench -3"), None);
    }
}
