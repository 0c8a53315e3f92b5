//! What one source says of a measurement: the command line, the config file, or the variables.

use std::path::PathBuf;

use serde_json::{Map, Value};
use tokometer_base::partial::FieldVisitor;
use tokometer_base::{Partial, Refusal};
use tokometer_client::ApiKey;

use super::row::{Kind, OptionRow, Target};
use crate::{Axis, AxisValues, PartialPlan, PlanField, SweepValue};

/// An option as given: the words behind its flag.
#[derive(Debug, Clone)]
pub struct GivenOption {
    pub row: &'static OptionRow,
    /// Empty for a switch.
    pub words: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct OptionList {
    pub flag: &'static str,
    pub axis: Axis,
}

/// Files whose content becomes part of a plan.
#[derive(Debug, Clone, Default)]
pub struct ContentFiles {
    pub structured: Option<PathBuf>,
    pub tools: Option<PathBuf>,
    pub tool_choice: Option<String>,
    pub canary: Option<PathBuf>,
}

/// The three flags of a ramp in vLLM's client.
#[derive(Debug, Clone, Default)]
pub struct RampFlags {
    pub shape: Option<String>,
    pub from: Option<String>,
    pub to: Option<String>,
}

/// The flags of an adapter mix in vLLM's and SGLang's clients.
#[derive(Debug, Clone, Default)]
pub struct LoraFlags {
    pub names: Vec<String>,
    pub assignment: Option<String>,
    pub alpha: Option<String>,
}

/// What happens with results besides the plan.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct OutputArgs {
    pub run_dir: Option<PathBuf>,
    pub resume: bool,
    pub overwrite: bool,
    pub quiet: bool,
    pub details: bool,
    pub live: bool,
    pub disable_tqdm: bool,
}

#[derive(Debug, Clone, Default)]
pub struct ShardArgs {
    /// `K/N`.
    pub shard: Option<String>,
    pub shards: Option<u32>,
    pub leader: Option<String>,
    pub shard_secret_file: Option<PathBuf>,
    pub shard_tls_cert: Option<PathBuf>,
    pub shard_tls_key: Option<PathBuf>,
    pub shard_tls_ca: Option<PathBuf>,
    pub shard_wait: Option<String>,
    pub global_cap: bool,
}

impl ShardArgs {
    pub fn is_given(&self) -> bool {
        self.shard.is_some() || self.shards.is_some() || self.leader.is_some()
    }

    /// Flags that only several shards can use, of those that are given.
    pub fn for_several(&self) -> Vec<&'static str> {
        let given = [
            (self.shard_secret_file.is_some(), "--shard-secret-file"),
            (self.shard_tls_cert.is_some(), "--shard-tls-cert"),
            (self.shard_wait.is_some(), "--shard-wait"),
            (self.global_cap, "--global-cap"),
        ];
        given.into_iter().filter_map(|(is_given, flag)| is_given.then_some(flag)).collect()
    }
}

/// What one source says: a partial plan, lists that make sweeps, and what no plan holds.
#[derive(Debug, Clone, Default)]
pub struct Fragment {
    pub part: PartialPlan,
    /// Lists, in the order of the table.
    pub lists: Vec<OptionList>,
    /// Options of datasets, whose meaning depends on the dataset.
    pub of_dataset: Vec<GivenOption>,
    pub given: Vec<&'static str>,
    pub plan: Option<PathBuf>,
    pub print_plan: bool,
    pub backend: Option<String>,
    pub host: Option<String>,
    pub port: Option<u16>,
    pub api_key: Option<ApiKey>,
    pub api_key_file: Option<PathBuf>,
    pub files: ContentFiles,
    pub ramp: RampFlags,
    pub lora: LoraFlags,
    pub calibrate: bool,
    pub budget: Option<String>,
    pub html: Option<PathBuf>,
    pub keep_events: bool,
    pub output: OutputArgs,
    pub shards: ShardArgs,
}

impl Fragment {
    /// What these options say. They are applied in the order of the table, so that of two options for
    /// one key the later row wins.
    pub fn of(mut options: Vec<GivenOption>) -> Result<Self, Refusal> {
        let mut fragment = Self::default();
        options.sort_by_key(|one| super::rows().position(|row| row.flag == one.row.flag));
        fragment.given = options.iter().map(|one| one.row.flag).collect();
        for option in options {
            fragment.check_company(option.row)?;
            fragment.take(option)?;
        }
        Ok(fragment)
    }

    /// Adds an option with one word, as if it had been given.
    pub fn add(&mut self, flag: &'static str, word: &str) -> Result<(), Refusal> {
        let row = super::named(flag);
        let row = row.ok_or_else(|| Refusal::usage(format!("unknown option `{flag}`"), ""))?;
        self.given.push(flag);
        self.take(GivenOption { row, words: vec![word.to_owned()] })
    }

    fn take(&mut self, option: GivenOption) -> Result<(), Refusal> {
        let (row, words) = (option.row, &option.words);
        if !row.only_with.is_empty() && !self.has_any(row.only_with) {
            return Ok(());
        }
        if row.datasets.is_some() {
            self.of_dataset.push(option);
            return Ok(());
        }
        self.put(row, words).map_err(|why| refused(row, words, &why))
    }

    pub fn has(&self, flag: &str) -> bool {
        debug_assert!(super::named(flag).is_some(), "no option is called `{flag}`");
        self.given.contains(&flag)
    }

    pub fn has_any(&self, flags: &[&str]) -> bool {
        flags.iter().any(|flag| self.has(flag))
    }

    /// Refuses an option beside one that it contradicts, or without one that it needs.
    fn check_company(&self, row: &OptionRow) -> Result<(), Refusal> {
        if let Some(other) = row.without.iter().find(|other| self.has(other)) {
            let message = format!("cannot use `--{}` together with `--{other}`", row.flag);
            return Err(Refusal::usage(message, "use one of them"));
        }
        if !row.needs.is_empty() && !self.has_any(row.needs) {
            let needed: Vec<String> = row.needs.iter().map(|flag| format!("`--{flag}`")).collect();
            let message = format!("cannot use `--{}` without {}", row.flag, needed.join(" or "));
            let help = row.needs.first().and_then(|flag| super::named(flag));
            let hint = help.map(|row| format!("`--{}`: {}", row.flag, row.described()));
            return Err(Refusal::usage(message, hint.unwrap_or_default()));
        }
        Ok(())
    }

    fn put(&mut self, row: &'static OptionRow, words: &[String]) -> Result<(), String> {
        let word = words.last().map_or("", String::as_str);
        match row.target {
            Target::Key if row.makes_sweep() => self.put_values(row, word)?,
            Target::Key => self.set_key(row, words)?,
            Target::Text(slot) => *slot(self) = Some(word.to_owned()),
            Target::Path(slot) => *slot(self) = Some(word.into()),
            Target::Flag(slot) => *slot(self) = true,
            Target::Several(put) if words.is_empty() => put(self, "")?,
            Target::Several(put) => words.iter().try_for_each(|word| put(self, word))?,
        }
        Ok(())
    }

    fn set_key(&mut self, row: &OptionRow, words: &[String]) -> Result<(), String> {
        let value = row.value_of(words)?;
        if matches!(row.kind, Kind::CountUnlessZero) && value == 0 {
            return Ok(());
        }
        set_key(&mut self.part, row.key, value)
    }

    /// One value, or a list that makes a sweep.
    fn put_values(&mut self, row: &'static OptionRow, word: &str) -> Result<(), String> {
        let mut values = row.list(word)?;
        if let [_] = values.as_slice() {
            return set_key(&mut self.part, row.key, values.remove(0));
        }
        let swept = |value: Value| serde_json::from_value(value).map_err(|why| why.to_string());
        let values: Vec<SweepValue> = values.into_iter().map(swept).collect::<Result<_, _>>()?;
        let axis = Axis { field: PlanField::of_row(row), values: AxisValues::List(values) };
        self.lists.push(OptionList { flag: row.flag, axis });
        Ok(())
    }

    /// Takes over the options of `dataset`. Returns the flags of other datasets, which have no effect.
    pub fn put_dataset(
        &mut self,
        dataset: &str,
        known: &PartialPlan,
    ) -> Result<Vec<&'static str>, Refusal> {
        let mut unused = Vec::new();
        for GivenOption { row, words } in std::mem::take(&mut self.of_dataset) {
            // The random datasets take their words from the file instead of their rows.
            let is_content = row.key == "workload.path" && !is_set(known, row.key);
            let key = if is_content { "workload.content_path" } else { row.key };
            let names = row.datasets.unwrap_or_default();
            let is_meant = names.is_empty() || names.contains(&dataset);
            if !is_meant || !is_set(known, key) {
                unused.push(row.flag);
                continue;
            }
            let word = words.last().map_or("", String::as_str);
            let put = if row.makes_sweep() {
                self.put_values(row, word)
            } else {
                row.value_of(&words).and_then(|value| set_key(&mut self.part, key, value))
            };
            put.map_err(|why| refused(row, &words, &why))?;
        }
        Ok(unused)
    }
}

fn refused(row: &OptionRow, words: &[String], why: &str) -> Refusal {
    let shown: Vec<String> = words.iter().map(|word| row.shown(word)).collect();
    let message = format!("cannot use `{}` for `--{}`: {why}", shown.join(" "), row.flag);
    Refusal::usage(message, format!("`--{} <{}>`: {}", row.flag, row.value, row.described()))
}

/// Sets the field at `key` of a plan to a value in the form of a plan file.
pub fn set_key(part: &mut PartialPlan, key: &str, value: Value) -> Result<(), String> {
    let nested = key.rsplit('.').fold(value, |inner, name| match name.parse::<usize>() {
        Ok(at) => {
            let before = std::iter::repeat_n(Value::Object(Map::new()), at);
            before.chain([inner]).collect::<Vec<Value>>().into()
        }
        Err(_) => Value::Object(Map::from_iter([(name.to_owned(), inner)])),
    });
    let read = PartialPlan::from_json(&nested.to_string()).map_err(|why| {
        let text = why.to_string();
        text.split(" at line ").next().unwrap_or_default().to_owned()
    })?;
    part.merge(read);
    Ok(())
}

pub fn is_set(part: &PartialPlan, key: &str) -> bool {
    struct Sought<'a> {
        key: &'a str,
        is_set: bool,
    }
    impl FieldVisitor for Sought<'_> {
        fn field<T: PartialEq + serde::Serialize>(&mut self, path: &str, values: &[Option<&T>]) {
            self.is_set |= path == self.key && values.iter().any(Option::is_some);
        }
    }
    let mut sought = Sought { key, is_set: false };
    PartialPlan::visit(&[part], "", &mut sought);
    sought.is_set
}
