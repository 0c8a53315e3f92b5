//! `--set KEY=VALUE`: an engine profile with some of its numbers changed.
//!
//! In: a profile and changes by their TOML path, such as `scheduler.max_seqs=8`. Out: the changed
//! profile, checked as a file of its own would be, and what each value was before. Who wrote the
//! profile and how well it was tested cannot be changed: those are facts, not settings.

use std::fmt;

use serde_json::{Value as Json, json};
use tokometer_base::neighbours::nearest;
use tokometer_sim::{Profile, profile};
use toml::{Table, Value};

use crate::exit::Refusal;

/// Parts of a profile that say where it comes from.
const FACTS: [&str; 3] = ["name", "provenance", "evidence"];

/// One value that was changed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
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
    /// The change for other programs.
    pub(crate) fn json(&self) -> Json {
        json!({ "key": self.key, "before": self.before, "after": self.after })
    }
}

/// The profile with the values of all `settings`, and what they were. Of two for one key the last counts.
pub(crate) fn changed(
    profile: Profile,
    settings: &[String],
) -> Result<(Profile, Vec<Change>), Refusal> {
    if settings.is_empty() {
        return Ok((profile, Vec::new()));
    }
    let original = Table::try_from(&profile).expect("a profile holds only tables and values");
    let known = keys(&original);
    let mut table = original.clone();
    let mut changes: Vec<Change> = Vec::new();
    for setting in settings {
        let change = read(setting, &original, &known)?;
        insert(&mut table, &change).ok_or_else(|| unknown(&change.key, &known))?;
        changes.retain(|earlier| earlier.key != change.key);
        changes.push(change);
    }
    let text = toml::to_string(&table).expect("a table can be written");
    let made =
        Profile::parse(&profile.name, &text).map_err(|why| refused(&why, &changes, &known))?;
    Ok((made, changes))
}

/// The change that `KEY=VALUE` asks for.
fn read(setting: &str, original: &Table, known: &[String]) -> Result<Change, Refusal> {
    let (key, text) = setting.split_once('=').ok_or_else(|| {
        Refusal::usage(
            format!("cannot use `--set {setting}`: it has no `=`"),
            "write it as `--set scheduler.max_seqs=8`",
        )
    })?;
    let (key, text) = (key.trim(), text.trim());
    let root = key.split('.').next().unwrap_or_default();
    if FACTS.contains(&root) || key.split('.').any(str::is_empty) {
        return Err(unknown(key, known));
    }
    let before = find(original, key);
    let given = value(text);
    let after = match &before {
        None => given,
        Some(Value::Table(_)) => return Err(unknown(key, known)),
        Some(before) => alike(before, given).ok_or_else(|| {
            let kind = kind(before);
            Refusal::usage(
                format!("cannot use `--set {setting}`: `{key}` must be {kind}"),
                format!("its current value is {}", shown(before)),
            )
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

/// Puts the value in its place, and makes the tables on the way. `None` where a value is in the way.
fn insert(table: &mut Table, change: &Change) -> Option<()> {
    let (way, name) = change.key.rsplit_once('.').unwrap_or(("", &change.key));
    let mut place = table;
    for part in way.split('.').filter(|part| !part.is_empty()) {
        place = place.entry(part).or_insert_with(|| Value::Table(Table::new())).as_table_mut()?;
    }
    place.insert(name.to_owned(), change.after.clone());
    Some(())
}

fn unknown(key: &str, known: &[String]) -> Refusal {
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
    Refusal::usage(format!("cannot change `{key}`: the engine profile has no such value"), hint)
}

/// Why the changed profile cannot be used.
fn refused(why: &profile::Error, changes: &[Change], known: &[String]) -> Refusal {
    let profile::Error::Syntax { message, .. } = why else {
        return Refusal::usage(format!("cannot use `--set`: {why}"), "");
    };
    // The parser quotes a text that nobody has seen; only its last line speaks of the keys.
    let reason = message.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let added = || changes.iter().filter(|change| change.before.is_none());
    let is_named = |change: &&Change| {
        change.key.split('.').any(|part| reason.contains(&format!("unknown field `{part}`")))
    };
    if let Some(change) = added().find(is_named) {
        return unknown(&change.key, known);
    }
    let keys: Vec<String> = changes.iter().map(|one| format!("`{}`", one.key)).collect();
    let message = format!("cannot use `--set` with {}: {}", keys.join(", "), reason.trim());
    Refusal::usage(message, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(settings: &[&str]) -> Result<(Profile, Vec<Change>), Refusal> {
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

    #[test]
    fn changes_that_make_no_engine_are_refused_by_name() {
        let check = |settings: &[&str], parts: &[&str]| {
            let refusal = change(settings).unwrap_err();
            assert_eq!(refusal.exit, crate::exit::Exit::Usage);
            let text = refusal.to_string();
            for part in parts {
                assert!(text.contains(part), "{settings:?}: {text}");
            }
        };
        check(&["scheduler.max_seqs"], &["has no `=`"]);
        check(&["scheduler.max_seq=8"], &["no such value", "similar: scheduler.max_seqs"]);
        check(&["max_seqs=8"], &["no such value", "similar: scheduler.max_seqs"]);
        check(&["scheduler.max_seqs.more=8"], &["cannot change `scheduler.max_seqs.more`"]);
        check(&["cost=8"], &["cannot change `cost`"]);
        check(&["zzz=8"], &["its values are cost.admission_ms, "]);
        check(&["evidence.held_out_median=0"], &["cannot change `evidence.held_out_median`"]);
        check(&["scheduler.max_seqs=8.5"], &["must be a whole number", "its current value is 256"]);
        check(&["cost.base_ms=fast"], &["`cost.base_ms` must be a number"]);
        check(&["scheduler.order=lifo"], &["unknown variant `lifo`"]);
        check(&["cost.base_ms=-1"], &["`cost.base_ms = -1`", "at least 0"]);
        check(&["scheduler.max_seqs=0"], &["must be at least 1"]);
        check(&["scheduler.max_seqs=-4"], &["cannot use `--set` with `scheduler.max_seqs`"]);
        check(&["scheduler.speculation.tokens=3"], &["missing field `acceptance`"]);
    }
}
