//! Every secret that a process is given: on the command line, in a plan file, in the environment.
//!
//! The words are looked at before they are parsed, because a message about a word that cannot be
//! parsed must not repeat a key.

use crate::ShellCommand;
use crate::options::{self, Holds, OptionRow};
use serde_json::{Map, Value};
use tokometer_base::redact::{HIDDEN, Secrets, hide_in_url, is_secret_name};
use tokometer_client::secret::add_object;

/// Flags that we do not have and whose values are secrets.
const OTHERS: [(&str, Holds); 3] =
    [("proxy", Holds::Url), ("token", Holds::Key), ("hf-token", Holds::Key)];

/// What the value of a flag may hold, in our spelling or in that of another tool.
fn held(flag: &str) -> Option<Holds> {
    let is_meant =
        |row: &&OptionRow| row.flag == flag || row.also.iter().any(|other| other.flag == flag);
    let ours = options::rows().find(is_meant).and_then(|row| row.holds);
    ours.or_else(|| OTHERS.iter().find(|(other, _)| *other == flag).map(|(_, holds)| *holds))
}

pub fn of_words(words: &[String]) -> Secrets {
    let mut secrets = Secrets::new();
    each_value(words, |_, holds, value| {
        if let Some((holds, value)) = holds.zip(value) {
            add(holds, value, &mut secrets);
        }
    });
    secrets
}

/// Calls `found` for every word: what the flag before it may hold, and its value, which is the whole word
/// or what follows `=`. A flag without a value has none.
fn each_value<'a>(
    words: &'a [String],
    mut found: impl FnMut(&'a str, Option<Holds>, Option<&'a str>),
) {
    let mut holds = None;
    for word in words {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value)),
            _ => (word.as_str(), None),
        };
        if name.starts_with("--") {
            let (flag, path) = name.split_once('.').unwrap_or((name, ""));
            let is_secret = is_secret_name(path.rsplit('.').next().unwrap_or_default());
            let flag = flag.trim_start_matches('-').replace('_', "-");
            holds = if is_secret { Some(Holds::Key) } else { held(&flag) };
        } else if is_short_flag(word) {
            holds = None;
        }
        let value = if name.starts_with("--") { value } else { Some(word.as_str()) };
        // An address may stand without a flag.
        let is_address = name.starts_with("http://") || name.starts_with("https://");
        found(word, if is_address { Some(Holds::Url) } else { holds }, value);
    }
}

/// The words of a command line as a record may hold them. What may be a secret is hidden even if it
/// does not look like one: the arguments of a command, the parameters of an address.
pub fn shown_words(words: &[String]) -> Vec<String> {
    let known = of_words(words);
    let mut shown = Vec::new();
    each_value(words, |word, holds, value| {
        let hidden = holds.zip(value).map(|(holds, value)| {
            let text = match holds {
                Holds::Url => hide_in_url(value),
                Holds::Command => ShellCommand(value.to_owned()).to_string(),
                Holds::Key => HIDDEN.to_owned(),
                Holds::Header | Holds::Pair | Holds::Json => value.to_owned(),
            };
            let flag = &word[..word.len() - value.len()];
            format!("{flag}{text}")
        });
        shown.push(known.redact(&hidden.unwrap_or_else(|| word.to_owned())));
    });
    shown
}

/// Whether a word is a flag such as `-n`; a key may begin with a dash and be longer.
fn is_short_flag(word: &str) -> bool {
    matches!(word.as_bytes(), [b'-', letter] if letter.is_ascii_alphabetic())
}

fn add(holds: Holds, value: &str, secrets: &mut Secrets) {
    // What is written wrongly, such as `Name: value`, is separated somewhere as well.
    let pair = || value.split_once(['=', ':']);
    match holds {
        Holds::Url => secrets.add_url(value),
        Holds::Header => match pair() {
            Some((name, value)) => secrets.add_header(name, value),
            None => secrets.add_value(value),
        },
        Holds::Pair => match pair() {
            Some((name, value)) if is_secret_name(name) => secrets.add(value),
            _ => {}
        },
        Holds::Json => {
            let object: Map<String, Value> = serde_json::from_str(value).unwrap_or_default();
            add_object(&object, secrets);
        }
        Holds::Command => ShellCommand(value.to_owned()).add_to(secrets),
        Holds::Key => secrets.add(value),
    }
}

/// The secrets in a `TOKOMETER_*` variable, which stands for a flag.
pub fn of_variable(name: &str, value: &str, secrets: &mut Secrets) {
    let flag = name.trim_start_matches("TOKOMETER_").to_ascii_lowercase().replace('_', "-");
    match held(&flag) {
        Some(holds @ (Holds::Url | Holds::Json | Holds::Command | Holds::Key)) => {
            add(holds, value, secrets);
        }
        Some(holds) => value.split_whitespace().for_each(|word| add(holds, word, secrets)),
        None => {}
    }
}

/// The secrets in a plan file, as far as it can be read: a message about the rest must not repeat them.
pub(super) fn of_plan_file(document: &Value) -> Secrets {
    let mut secrets = Secrets::new();
    add_document(document, &mut secrets);
    secrets
}

fn add_document(value: &Value, secrets: &mut Secrets) {
    match value {
        Value::Object(object) => {
            add_object(object, secrets);
            for (name, value) in object {
                let holds = match name.as_str() {
                    "address" | "endpoint" | "metrics_urls" => Some(Holds::Url),
                    "switch_command" => Some(Holds::Command),
                    "headers" | "metrics_headers" => {
                        add_headers(value, secrets);
                        None
                    }
                    _ => None,
                };
                let texts = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                for text in texts.iter().filter_map(Value::as_str) {
                    if let Some(holds) = holds {
                        add(holds, text, secrets);
                    }
                }
                add_document(value, secrets);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| add_document(value, secrets)),
        _ => {}
    }
}

fn add_headers(value: &Value, secrets: &mut Secrets) {
    match value {
        Value::String(text) => secrets.add_header("", text),
        Value::Array(values) => match values.as_slice() {
            [Value::String(name), Value::String(value)] => secrets.add_header(name, value),
            _ => values.iter().for_each(|value| add_headers(value, secrets)),
        },
        Value::Object(object) => object.values().for_each(|value| add_headers(value, secrets)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        of_words(&words).redact_exact(&words.join(" "))
    }

    #[test]
    fn secrets_are_found_in_words_before_they_are_parsed() {
        let check = |words: &[&str], expected: &str| assert_eq!(shown(words), expected);
        check(
            &["bench", "--base-url", "http://h?code=secret1", "--model", "m"],
            "bench --base-url http://h?code=[redacted] --model m",
        );
        check(
            &["--header", "a=b", "http://h?code=secret7"],
            "--header a=b http://h?code=[redacted]",
        );
        check(
            &["--header", "Authorization: secret22", "x-tenant=secret2", "--metadata=key=secret3"],
            "--header Authorization: [redacted] x-tenant=[redacted] --metadata=key=[redacted]",
        );
        check(
            &["--extra_body", r#"{"a":[{"token":"secret4"}]}"#, "--switch-command", "K=secret5 x"],
            r#"--extra_body {"a":[{"token":"[redacted]"}]} --switch-command K=[redacted] x"#,
        );
        check(
            &["--api-key", "secret6", "--name", "run-number"],
            "--api-key [redacted] --name run-number",
        );
    }

    #[test]
    fn secrets_are_found_in_a_plan_file_whatever_else_is_wrong_with_it() {
        let document = serde_json::json!({
            "targets": [{"address": "http://h?sig=secret1", "headers": [["x-team", "secret2"]]}],
            "request": {"extra_body": {"api_key": "secret3"}},
            "client": {"metrics_urls": ["http://u:secret4@h"]},
            "sections": [{"targets": [{"headers": "secret5"}]}],
        });
        let secrets = of_plan_file(&document);
        for number in 1..=5 {
            assert_eq!(secrets.redact_exact(&format!("secret{number}")), "[redacted]");
        }
    }
}
