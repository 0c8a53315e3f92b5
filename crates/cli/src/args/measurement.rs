//! The flags of a measurement, made from the table of options.

use std::ops::{Deref, DerefMut};

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, ValueHint};
use tokometer_plan::options::{self, Fragment, GivenOption, Kind, OptionRow};

/// The flags of a measurement, which several commands share. If a flag is given twice, the last one
/// applies; scripts of other tools rely on it.
#[derive(Debug, Clone, Default)]
pub(crate) struct BenchArgs(pub(crate) Fragment);

impl Deref for BenchArgs {
    type Target = Fragment;

    fn deref(&self) -> &Fragment {
        &self.0
    }
}

impl DerefMut for BenchArgs {
    fn deref_mut(&mut self) -> &mut Fragment {
        &mut self.0
    }
}

impl Args for BenchArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let mut command = command.args_override_self(true);
        for group in options::groups() {
            let args = group.rows.iter().map(|row| arg(row).help_heading(group.title));
            command = command.args(args);
        }
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for BenchArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = options::rows().filter_map(|row| given(row, matches)).collect();
        Fragment::of(given).map(Self).map_err(|why| {
            let text = format!("{}\n  {}\n", why.message, why.hint);
            clap::Error::raw(ErrorKind::ArgumentConflict, text)
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// A server by its address alone. The flags that belong to it are in [`BenchArgs`].
#[derive(Debug, Clone, Default)]
pub(crate) struct AddressArgs {
    pub(crate) url: Option<String>,
}

impl Args for AddressArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let help = "Address of the server, such as `http://127.0.0.1:8000`";
        let url = Arg::new("url").value_name("URL").help(help);
        let heading = options::ADDRESSED.title;
        command
            .arg(url)
            .args(options::ADDRESSED.rows.iter().map(arg).map(|arg| arg.help_heading(heading)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for AddressArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { url: matches.get_one::<String>("url").cloned() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What the exit code of `bench` says of its objectives, which are in [`BenchArgs`].
#[derive(Debug, Clone, Default)]
pub(crate) struct JudgedArgs {
    pub(crate) require_power: bool,
}

impl Args for JudgedArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let heading = options::JUDGED.title;
        let help = "Exit with code 8 if the data cannot tell whether an objective of --slo is met";
        let power = Arg::new("require-power").long("require-power").help(help);
        let power = power.action(ArgAction::SetTrue).help_heading(heading);
        command
            .args(options::JUDGED.rows.iter().map(arg).map(|arg| arg.help_heading(heading)))
            .arg(power)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for JudgedArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { require_power: matches.get_flag("require-power") })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The words of an option on the command line; `None` where it is not there.
fn given(row: &'static OptionRow, matches: &ArgMatches) -> Option<GivenOption> {
    if !row.takes_value() {
        let is_on = matches.try_get_one::<bool>(row.flag).ok()??;
        return is_on.then(|| GivenOption { row, words: Vec::new() });
    }
    let words = matches.try_get_many::<String>(row.flag).ok()??;
    Some(GivenOption { row, words: words.cloned().collect() })
}

fn arg(row: &'static OptionRow) -> Arg {
    let arg = Arg::new(row.flag)
        .long(row.flag)
        .short(row.short)
        .help(row.described())
        .overrides_with_all(row.replaces)
        .allow_negative_numbers(row.is_signed);
    let arg = match row.kind {
        Kind::Switch(_) => return arg.action(ArgAction::SetTrue),
        Kind::Texts | Kind::Pairs => arg.action(ArgAction::Append).num_args(1..),
        Kind::Repeated(_) | Kind::Joined => arg.action(ArgAction::Append),
        Kind::Optional(word, _) => arg.num_args(0..=1).default_missing_value(word),
        Kind::Path => arg.value_hint(ValueHint::AnyPath),
        _ => arg,
    };
    let arg = arg.value_name(row.value);
    match row.kind {
        Kind::Choice(words) => arg.value_parser(PossibleValuesParser::new(words)),
        _ => arg.value_parser(|word: &str| row.parse(word).map(|_| word.to_owned())),
    }
}
