//! Changes of an engine profile: `KEY=VALUE` by its TOML path, such as `scheduler.max_seqs=8`.
//!
//! In: a profile and its changes. Out: the changed profile, checked as a file of its own would be, and
//! what each value was before. Who wrote the profile and how well it was tested cannot be changed:
//! those are facts, not settings.

use std::fmt;

use serde_json::{Value as Json, json};
use tokometer_base::neighbours::nearest;
use toml::{Table, Value};

use crate::cost::{Experts, PrefillCost};
use crate::profile::{self, Disaggregation, Kv, PrefixCache, Profile, SpeculativeDecoding};

/// Parts of a profile that say where it comes from.
const FACTS: [&str; 3] = ["name", "provenance", "evidence"];

#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    key: String,
    /// Absent where the profile had no such value.
    before: Option<Value>,
    after: Value,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.before.as_ref().map_or("absent".to_owned(), shown);
        write!(f, "{} {before} → {}", self.key, shown(&self.after))
    }
}

impl Change {
    pub fn json(&self) -> Json {
        json!({ "key": self.key, "before": self.before, "after": self.after })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    #[error("`{setting}` has no `=`\n  write it as `scheduler.max_seqs=8`")]
    NoValue { setting: String },
    #[error("the engine profile has no value `{key}`\n  {hint}")]
    Unknown {
        key: String,
        /// The nearest keys, or all of them.
        hint: String,
    },
    #[error("`{key}` must be {kind}, not `{text}`\n  its current value is {before}")]
    Type { key: String, kind: &'static str, text: String, before: String },
    #[error("{keys}: {reason}")]
    Syntax { keys: String, reason: String },
    #[error(transparent)]
    Profile(profile::ProfileError),
}

impl From<WhatIfError> for tokometer_base::Refusal {
    fn from(why: WhatIfError) -> Self {
        Self::usage(format!("cannot use `--set`: {why}"), "")
    }
}

/// The profile with the values of all `settings`, and what they were. Of two for one key the last counts.
pub fn changed(
    profile: Profile,
    settings: &[String],
) -> Result<(Profile, Vec<Change>), WhatIfError> {
    if settings.is_empty() {
        return Ok((profile, Vec::new()));
    }
    let original = Table::try_from(&profile).expect("a profile holds only tables and values");
    let whole = Table::try_from(with_every_part(profile.clone()));
    let known = keys(&whole.expect("a profile holds only tables and values"));
    let mut table = original.clone();
    let mut changes: Vec<Change> = Vec::new();
    for setting in settings {
        let change = read(setting, &original, &known)?;
        insert(&mut table, &change).ok_or_else(|| unknown(&change.key, &known))?;
        changes.retain(|earlier| earlier.key != change.key);
        changes.push(change);
    }
    let text = toml::to_string(&table).expect("a table can be written");
    let made = Profile::parse(&profile.name, &text).map_err(|why| refused(why, &changes))?;
    Ok((made, changes))
}

/// The profile with every optional part present, so that its table has every key. The values of parts
/// that it lacks are never used.
fn with_every_part(mut profile: Profile) -> Profile {
    let Profile { scheduler, kv, cost, disaggregation, .. } = &mut profile;
    scheduler.lora_slots.get_or_insert(1);
    scheduler.speculation.get_or_insert(SpeculativeDecoding { tokens: 1, acceptance: 0.0 });
    kv.get_or_insert(Kv { tokens: 1, block_tokens: 1, prefix_cache: PrefixCache::Off });
    cost.graph_context_max.get_or_insert(1);
    cost.graph_sizes.push(1);
    cost.experts.get_or_insert(Experts { all_ms: 0.0, share: 0.0 });
    cost.prefill.get_or_insert(PrefillCost { base_ms: 0.0, token_ms: 0.0, pair_ms: 0.0 });
    disaggregation.get_or_insert(Disaggregation {
        prefill_engines: 1,
        decode_engines: 1,
        transfer_ms: 0.0,
        transfer_token_ms: 0.0,
    });
    profile
}

/// The change that `KEY=VALUE` asks for.
fn read(setting: &str, original: &Table, known: &[String]) -> Result<Change, WhatIfError> {
    let pair = setting.split_once('=');
    let (key, text) = pair.ok_or_else(|| WhatIfError::NoValue { setting: setting.to_owned() })?;
    let (key, text) = (key.trim(), text.trim());
    let before = find(original, key);
    let is_part_of =
        |whole: &String| whole.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
    // A part that the profile lacks may be given whole, as an inline table.
    let is_absent_part = before.is_none() && known.iter().any(is_part_of);
    if !is_absent_part && !known.iter().any(|known| known == key) {
        return Err(unknown(key, known));
    }
    let given = value(text);
    let after = match &before {
        None => given,
        Some(before) => alike(before, given).ok_or_else(|| WhatIfError::Type {
            key: key.to_owned(),
            kind: kind(before),
            text: text.to_owned(),
            before: shown(before),
        })?,
    };
    Ok(Change { key: key.to_owned(), before, after })
}

/// A value as TOML would read it; what is nothing else is a word.
fn value(text: &str) -> Value {
    let line = format!("value = {text}");
    let read = toml::from_str::<Table>(&line).ok().filter(|table| table.len() == 1);
    read.and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// The value as one of the kind that is there; `None` where it is of another.
fn alike(before: &Value, given: Value) -> Option<Value> {
    match (before, given) {
        #[expect(clippy::cast_precision_loss, reason = "nobody types a cost beyond 2^53")]
        (Value::Float(_), Value::Integer(number)) => Some(Value::Float(number as f64)),
        (before, given) => before.same_type(&given).then_some(given),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "`true` or `false`",
        _ => "a string",
    }
}

/// A value without the quotes of a word.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Paths of all values that can be changed.
fn keys(table: &Table) -> Vec<String> {
    let below = |(key, value): (&String, &Value)| match value {
        Value::Table(inner) => keys(inner).iter().map(|rest| format!("{key}.{rest}")).collect(),
        _ => vec![key.clone()],
    };
    table.iter().filter(|(key, _)| !FACTS.contains(&key.as_str())).flat_map(below).collect()
}

fn find(table: &Table, key: &str) -> Option<Value> {
    let mut parts = key.split('.');
    let first = table.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.as_table()?.get(part)).cloned()
}

/// Sets the value, and makes the tables on the way. `None` where a value is in the way.
fn insert(table: &mut Table, change: &Change) -> Option<()> {
    let (way, name) = change.key.rsplit_once('.').unwrap_or(("", &change.key));
    let mut inner = table;
    for part in way.split('.').filter(|part| !part.is_empty()) {
        inner = inner.entry(part).or_insert_with(|| Value::Table(Table::new())).as_table_mut()?;
    }
    inner.insert(name.to_owned(), change.after.clone());
    Some(())
}

fn unknown(key: &str, known: &[String]) -> WhatIfError {
    let last = key.rsplit('.').next().unwrap_or(key);
    let is_last = |known: &&str| known.rsplit('.').next() == Some(last);
    let names = || known.iter().map(String::as_str);
    let mut near: Vec<&str> = names().filter(is_last).collect();
    near.extend(nearest(key, names()).into_iter().filter(|name| !is_last(name)));
    near.truncate(3);
    let hint = if near.is_empty() {
        format!("its values are {}", known.join(", "))
    } else {
        format!("similar: {}", near.join(", "))
    };
    WhatIfError::Unknown { key: key.to_owned(), hint }
}

/// Why the changed profile cannot be used.
fn refused(why: profile::ProfileError, changes: &[Change]) -> WhatIfError {
    let profile::ProfileError::Syntax { message, .. } = &why else {
        return WhatIfError::Profile(why);
    };
    // The parser quotes a text that the user has not written; only its last line is about the keys.
    let reason = message.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let keys: Vec<String> = changes.iter().map(|one| format!("`{}`", one.key)).collect();
    WhatIfError::Syntax { keys: keys.join(", "), reason: reason.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(settings: &[&str]) -> Result<(Profile, Vec<Change>), WhatIfError> {
        let settings: Vec<String> = settings.iter().map(|one| (*one).to_owned()).collect();
        changed(Profile::default(), &settings)
    }

    #[test]
    fn numbers_words_and_switches_of_a_profile_can_be_changed() {
        let (profile, changes) = change(&[
            "scheduler.max_seqs=16",
            "scheduler.policy.token_budget = 256",
            "cost.scale=2",
            "scheduler.is_async=true",
            "kv.prefix_cache=off",
            "scheduler.max_seqs=8",
        ])
        .unwrap();
        assert_eq!(profile.scheduler.max_seqs, 8);
        assert!(profile.scheduler.is_async && (profile.cost.scale - 2.0).abs() < 1e-9);
        let shown: Vec<String> = changes.iter().map(Change::to_string).collect();
        insta::assert_snapshot!(shown.join("\n"), @r"
        scheduler.policy.token_budget 8192 → 256
        cost.scale 1.0 → 2.0
        scheduler.is_async false → true
        kv.prefix_cache lru → off
        scheduler.max_seqs 256 → 8
        ");
        assert_eq!(change(&[]).unwrap().0, Profile::default());
    }

    #[test]
    fn parts_that_a_profile_lacks_can_be_added_whole() {
        let both = ["scheduler.speculation.tokens=3", "scheduler.speculation.acceptance=0.7"];
        let (profile, changes) = change(&both).unwrap();
        assert_eq!(profile.scheduler.speculation.unwrap().tokens, 3);
        assert_eq!(changes[0].to_string(), "scheduler.speculation.tokens absent → 3");
        assert_eq!(changes[0].json()["before"], Json::Null);
    }

    /// Unknown keys and incomplete parts were distinguished by the parser's words.
    #[test]
    fn every_key_of_every_shipped_profile_is_known_to_the_default_one_or_belongs_to_its_policy() {
        let known = keys(&Table::try_from(with_every_part(Profile::default())).unwrap());
        for name in Profile::names() {
            let own = keys(&Table::try_from(Profile::shipped(name).unwrap()).unwrap());
            let is_shared = |key: &&String| !key.starts_with("scheduler.policy.");
            for key in own.iter().filter(is_shared) {
                assert!(known.contains(key), "{name}: {key}");
            }
        }
        for key in ["cost.experts.", "cost.prefill.", "kv.", "disaggregation."] {
            assert!(known.iter().any(|known| known.starts_with(key)), "{key}");
        }
    }

    #[test]
    fn changes_that_make_no_engine_are_refused_by_name() {
        let check = |settings: &[&str], parts: &[&str]| {
            let text = change(settings).unwrap_err().to_string();
            for part in parts {
                assert!(text.contains(part), "{settings:?}: {text}");
            }
        };
        check(&["scheduler.max_seqs"], &["has no `=`"]);
        check(&["scheduler.max_seq=8"], &["no value", "similar: scheduler.max_seqs"]);
        check(&["max_seqs=8"], &["no value", "similar: scheduler.max_seqs"]);
        check(&["scheduler.max_seqs.more=8"], &["has no value `scheduler.max_seqs.more`"]);
        check(&["cost=8"], &["has no value `cost`"]);
        check(&["scheduler.specul.tokens=3"], &["similar: ", "scheduler.speculation.tokens"]);
        check(&["scheduler.policy.prefill_budget=3"], &["no value `scheduler.policy.prefill"]);
        check(&["zzz=8"], &["its values are max_model_len, scheduler.max_seqs, "]);
        check(&["evidence.held_out_median=0"], &["has no value `evidence.held_out_median`"]);
        check(&["scheduler.max_seqs=8.5"], &["must be a whole number, not `8.5`", "value is 256"]);
        check(&["cost.base_ms=fast"], &["`cost.base_ms` must be a number, not `fast`"]);
        check(&["scheduler.order=lifo"], &["unknown variant `lifo`"]);
        check(&["cost.base_ms=-1"], &["`cost.base_ms = -1`", "at least 0"]);
        check(&["scheduler.max_seqs=0"], &["must be at least 1"]);
        check(&["scheduler.max_seqs=-4"], &["`scheduler.max_seqs`: "]);
        check(&["scheduler.speculation.tokens=3"], &["missing field `acceptance`"]);
    }
}
