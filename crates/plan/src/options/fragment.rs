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
    /// Which one.
    pub row: &'static OptionRow,
    /// Empty for a switch.
    pub words: Vec<String>,
}

/// Several values of one option.
#[derive(Debug, Clone)]
pub struct OptionList {
    /// The flag that has them.
    pub flag: &'static str,
    /// The sweep that they make.
    pub axis: Axis,
}

/// Files whose content becomes part of a plan.
#[derive(Debug, Clone, Default)]
pub struct ContentFiles {
    /// What answers must be.
    pub structured: Option<PathBuf>,
    /// Tools that the model may call.
    pub tools: Option<PathBuf>,
    /// Whether it must call one of them.
    pub tool_choice: Option<String>,
    /// Prompts with known answers.
    pub canary: Option<PathBuf>,
}

/// What happens with results besides the plan.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct OutputArgs {
    /// Folder of the run.
    pub run_dir: Option<PathBuf>,
    /// Skip points that are already in the folder.
    pub resume: bool,
    /// Remove an earlier run first.
    pub overwrite: bool,
    /// Print nothing but errors.
    pub quiet: bool,
    /// Show a dashboard.
    pub live: bool,
    /// Show no progress bar.
    pub disable_tqdm: bool,
}

/// One run from several processes.
#[derive(Debug, Clone, Default)]
pub struct ShardArgs {
    /// `K/N`.
    pub shard: Option<String>,
    /// Number of shards.
    pub shards: Option<u32>,
    /// Address at which shard 0 listens.
    pub leader: Option<String>,
    /// File with the shared secret.
    pub shard_secret_file: Option<PathBuf>,
    /// Certificate of this shard.
    pub shard_tls_cert: Option<PathBuf>,
    /// Its private key.
    pub shard_tls_key: Option<PathBuf>,
    /// Authorities of all certificates.
    pub shard_tls_ca: Option<PathBuf>,
    /// Time for all shards to become ready.
    pub shard_wait: Option<String>,
    /// One limit of requests in flight for all shards together.
    pub global_cap: bool,
}

impl ShardArgs {
    /// Whether the run is divided.
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
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Fragment {
    /// Single values.
    pub part: PartialPlan,
    /// Lists, in the order of the table.
    pub lists: Vec<OptionList>,
    /// Options of datasets, whose meaning depends on the dataset.
    pub of_dataset: Vec<GivenOption>,
    /// Flags that are given.
    pub given: Vec<&'static str>,
    /// The plan file.
    pub plan: Option<PathBuf>,
    /// Whether the plan is only printed.
    pub print_plan: bool,
    /// The backend's name.
    pub backend: Option<String>,
    /// Host without a whole address.
    pub host: Option<String>,
    /// Port without a whole address.
    pub port: Option<u16>,
    /// A key.
    pub api_key: Option<ApiKey>,
    /// A file with a key.
    pub api_key_file: Option<PathBuf>,
    /// Files whose content becomes part of the plan.
    pub files: ContentFiles,
    /// Whether the client's own error is measured first.
    pub calibrate: bool,
    /// Time for all steps of a staircase or a search.
    pub budget: Option<String>,
    /// File for a page of the results.
    pub html: Option<PathBuf>,
    /// Whether events stay in plain columns.
    pub keep_events: bool,
    /// What happens with results.
    pub output: OutputArgs,
    /// One run from several processes.
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

    /// Whether a flag is given.
    pub fn has(&self, flag: &str) -> bool {
        debug_assert!(super::named(flag).is_some(), "no option is called `{flag}`");
        self.given.contains(&flag)
    }

    /// Whether one of these flags is given.
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

/// Whether a partial plan sets the field at `key`.
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
