//! Flags that set one value inside a JSON flag: `--extra-body.chat_template_kwargs.enable_thinking false`.
//!
//! vLLM's tools write any JSON flag so. All of one flag become a single JSON object; with an object of the
//! flag itself they are merged, and the dotted values win. A name that ends in `+` appends to a list.

use serde_json::{Map, Value};
use tokometer_plan::options::{self, OptionRow};

use crate::exit::Refusal;

/// The words with dotted flags put together.
pub(super) fn gathered(words: &[String]) -> Result<Vec<String>, Refusal> {
    let mut objects: Vec<(String, Map<String, Value>)> = Vec::new();
    let mut rest: Vec<String> = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, given) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let Some((flag, path)) = dotted(name) else {
            rest.push(word.clone());
            continue;
        };
        let value = given.or_else(|| words.next().cloned()).ok_or_else(|| {
            Refusal::usage(format!("the flag `{name}` needs a value"), "write it behind the flag")
        })?;
        let at = objects.iter().position(|(known, _)| *known == flag).unwrap_or(objects.len());
        if at == objects.len() {
            objects.push((flag, Map::new()));
        }
        set(&mut objects[at].1, path, parsed(&value));
    }
    for (flag, mut object) in objects {
        if let Some(under) = take(&mut rest, &flag) {
            let under: Map<String, Value> = serde_json::from_str(&under).map_err(|why| {
                let message = format!("cannot use the value of `{flag}`: {why}");
                Refusal::usage(message, "write a JSON object, or only dotted flags")
            })?;
            object = merged(under, object);
        }
        rest.push(format!("{flag}={}", Value::Object(object)));
    }
    Ok(rest)
}

/// The flag of a JSON object, and the path behind its first dot.
fn dotted(name: &str) -> Option<(String, &str)> {
    let (flag, path) = name.strip_prefix("--")?.split_once('.')?;
    let flag = flag.replace('_', "-");
    let is_meant = |row: &OptionRow| {
        row.is_dotted && (row.flag == flag || row.also.iter().any(|other| other.flag == flag))
    };
    let is_known = !path.is_empty() && options::rows().any(is_meant);
    is_known.then(|| (format!("--{flag}"), path))
}

/// A value as JSON where it is that, else as text.
fn parsed(text: &str) -> Value {
    let is_python = match text {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    };
    is_python
        .map(Value::Bool)
        .or_else(|| serde_json::from_str(text).ok())
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

fn set(object: &mut Map<String, Value>, path: &str, value: Value) {
    let Some((key, inner)) = path.split_once('.') else {
        let Some(list) = path.strip_suffix('+') else {
            let _earlier = object.insert(path.to_owned(), value);
            return;
        };
        let known = object.entry(list).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(known) = known {
            match value {
                Value::Array(more) => known.extend(more),
                one => known.push(one),
            }
        }
        return;
    };
    let entry = object.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !entry.is_object() {
        *entry = Value::Object(Map::new());
    }
    if let Value::Object(entry) = entry {
        set(entry, inner, value);
    }
}

/// Takes a flag's own object out of the words.
fn take(words: &mut Vec<String>, flag: &str) -> Option<String> {
    let is_flag = |word: &String| {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        name.replace('_', "-") == flag
    };
    let at = words.iter().position(is_flag)?;
    let word = words.remove(at);
    match word.split_once('=') {
        Some((_, value)) => Some(value.to_owned()),
        None => (at < words.len()).then(|| words.remove(at)),
    }
}

fn merged(mut under: Map<String, Value>, over: Map<String, Value>) -> Map<String, Value> {
    for (key, value) in over {
        let value = match (under.remove(&key), value) {
            (Some(Value::Object(under)), Value::Object(over)) => Value::Object(merged(under, over)),
            (_, value) => value,
        };
        let _earlier = under.insert(key, value);
    }
    under
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotted_flags_become_one_object() {
        let check = |line: &str, expected: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(gathered(&words).unwrap().join(" "), expected, "{line}");
        };
        check(
            "--extra-body.chat_template_kwargs.enable_thinking false --model m",
            r#"--model m --extra-body={"chat_template_kwargs":{"enable_thinking":false}}"#,
        );
        check(
            "--extra_body.a.b=1 --extra-body.a.c x --extra-body.l+ 1 --extra-body.l+ [2,3]",
            r#"--extra-body={"a":{"b":1,"c":"x"},"l":[1,2,3]}"#,
        );
        check(
            r#"--extra-body {"a":{"b":1,"d":2}} --extra-body.a.b True"#,
            r#"--extra-body={"a":{"b":true,"d":2}}"#,
        );
        check("--request-rate 0.5 --metadata a=b.c", "--request-rate 0.5 --metadata a=b.c");
        let alone = ["--extra-body.x".to_owned()];
        assert!(gathered(&alone).unwrap_err().to_string().contains("needs a value"));
    }
}
