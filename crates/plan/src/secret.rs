//! Fields of a plan that may hold secrets: used as they are, shown and written without them.
//!
//! What is left out is marked, so that a stored plan shows which fields have to be given again before
//! it can be measured ([`Plan::missing_secrets`]).

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use tokometer_base::redact::{HIDDEN, Secrets, hide_in_url, is_secret_name, redact};
use tokometer_client::secret::Headers;

use crate::plan::Plan;
use crate::target::Address;

/// A URL or a path whose user name, password and parameters may be secret.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct UrlText(pub String);

/// Run by the shell. It may hold secrets anywhere, so only its program, its flags and its numbers
/// are shown and written.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct ShellCommand(pub String);

/// Facts that are added to a result file. Values of secrets are not written, there or elsewhere.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct Metadata(pub Vec<(String, String)>);

macro_rules! shown_by_display {
    ($($name:ident)*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.to_string())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}

shown_by_display! { UrlText ShellCommand }

impl fmt::Display for UrlText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hide_in_url(&self.0))
    }
}

/// Words of a command that are shown: flags without a value, numbers, and the marks of the shell.
fn is_shown(word: &str) -> bool {
    let is_flag = word.starts_with('-') && !word.contains('=');
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit() || b".:".contains(&byte));
    let is_mark = word.bytes().all(|byte| byte.is_ascii_punctuation());
    (is_flag && word.len() <= 24) || (is_number && word.len() < 8) || is_mark || word == HIDDEN
}

impl fmt::Display for ShellCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut has_program = false;
        let mut shown: Vec<&str> = Vec::new();
        for word in self.0.split_whitespace() {
            let is_plain = !word.contains(['=', '@', '?', '\'', '"', '$', '`']);
            let is_program = !has_program && is_plain && word != HIDDEN;
            has_program |= is_program;
            let word = if is_program || is_shown(word) { word } else { HIDDEN };
            if word != HIDDEN || shown.last() != Some(&HIDDEN) {
                shown.push(word);
            }
        }
        f.write_str(&shown.join(" "))
    }
}

impl ShellCommand {
    /// Adds what is assigned to variables and flags, and what may be secret in addresses.
    pub fn add_to(&self, secrets: &mut Secrets) {
        self.0.split_whitespace().for_each(|word| add_word(word, secrets));
    }
}

impl Metadata {
    pub fn shown(&self) -> Vec<(String, String)> {
        let shown = |(name, value): &(String, String)| {
            let is_hidden = is_secret_name(name);
            (name.clone(), if is_hidden { HIDDEN.to_owned() } else { redact(value) })
        };
        self.0.iter().map(shown).collect()
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shown().serialize(serializer)
    }
}

/// A field whose secret is not in a stored plan, with the flag that sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    pub field: &'static str,
    pub flag: &'static str,
}

impl Plan {
    /// Adds every secret that the plan holds, and removes what it also says in public.
    pub fn add_secrets(&self, secrets: &mut Secrets) {
        for target in &self.targets {
            target.headers.add_to(secrets);
            if let Address::Server(url) = &target.address {
                url.add_to(secrets);
            }
            if let Some(endpoint) = &target.endpoint {
                secrets.add_url(&endpoint.0);
            }
        }
        for url in &self.client.metrics_urls {
            secrets.add_url(&url.0);
        }
        self.client.metrics_headers.add_to(secrets);
        self.request.extra_body.add_to(secrets);
        let objects = [&self.prompts.template_values, &self.phases.profile_request];
        objects.into_iter().flatten().for_each(|object| object.add_to(secrets));
        for (name, value) in self.output.vllm_result.iter().flat_map(|file| &file.metadata.0) {
            if is_secret_name(name) {
                secrets.add(value);
            }
        }
        if let Some(command) = self.interleave.as_ref().and_then(|two| two.switch_command.as_ref())
        {
            command.add_to(secrets);
        }
        let names = self.targets.iter().flat_map(|one| [&one.model, &one.served_model_name]);
        names.flatten().chain([&self.name]).for_each(|public| secrets.remove_public(public));
    }

    pub fn switch_command(&self) -> Option<&str> {
        Some(self.interleave.as_ref()?.switch_command.as_ref()?.0.as_str())
    }

    /// Fields whose secrets were left out when the plan was stored, and that nothing has set since.
    pub fn missing_secrets(&self) -> Vec<Missing> {
        let is_hidden = |text: &str| text.contains(HIDDEN);
        let is_hidden_header =
            |headers: &Headers| headers.0.iter().any(|(_, value)| is_hidden(value));
        let mut missing = Vec::new();
        let mut check = |field, flag, is_missing: bool| {
            if is_missing {
                missing.push(Missing { field, flag });
            }
        };
        for (number, target) in self.targets.iter().enumerate() {
            let is_address = match &target.address {
                Address::Server(url) => url.query.as_deref().is_some_and(is_hidden),
                Address::Simulator(_) => false,
            };
            let flag = if number == 0 { "--base-url URL" } else { "--against URL" };
            check("targets.address", flag, is_address);
            let is_endpoint = target.endpoint.as_ref().is_some_and(|path| is_hidden(&path.0));
            check("targets.endpoint", "--endpoint PATH", is_endpoint);
            let is_header = is_hidden_header(&target.headers);
            check("targets.headers", "--header NAME=VALUE", is_header && number == 0);
        }
        let is_header = is_hidden_header(&self.client.metrics_headers);
        check("client.metrics_headers", "--metrics-header NAME=VALUE", is_header);
        let is_url = self.client.metrics_urls.iter().any(|url| is_hidden(&url.0));
        check("client.metrics_urls", "--metrics-url URL", is_url);
        let body = serde_json::to_string(&self.request.extra_body.0).unwrap_or_default();
        check("request.extra_body", "--extra-body JSON", is_hidden(&body));
        let is_command = self.switch_command().is_some_and(is_hidden);
        check("interleave.switch_command", "--switch-command COMMAND", is_command);
        missing
    }
}

/// The secrets of one word of a command: an assignment to a variable or a flag, or an address.
fn add_word(word: &str, secrets: &mut Secrets) {
    let word = word.trim_matches(['\'', '"']);
    if word.contains("://") {
        secrets.add_url(word);
    } else if let Some((name, value)) = word.split_once('=') {
        let value = value.trim_matches(['\'', '"']);
        if is_secret_name(name) { secrets.add(value) } else { secrets.add_value(value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_shows_its_program_and_nothing_that_could_be_a_secret() {
        let check = |command: &str, expected: &str| {
            let shown = ShellCommand(command.to_owned()).to_string();
            assert_eq!(shown, expected, "{command}");
            assert_eq!(ShellCommand(shown.clone()).to_string(), shown, "twice");
        };
        check("./switch.sh", "./switch.sh");
        check(
            "KEY=abc ./switch.sh --port 8000 tiny",
            "[redacted] ./switch.sh --port 8000 [redacted]",
        );
        check("curl -H 'X: abc' http://u:p@h/?k=v", "curl -H [redacted]");
        check("a && b --x=y | c", "a && [redacted] | [redacted]");
    }

    #[test]
    fn metadata_and_addresses_are_shown_without_secrets() {
        let metadata = Metadata(vec![
            ("gpu".to_owned(), "H100".to_owned()),
            ("apiKey".to_owned(), "abc".to_owned()),
        ]);
        assert_eq!(
            serde_json::to_string(&metadata).unwrap(),
            r#"[["gpu","H100"],["apiKey","[redacted]"]]"#
        );
        let url = UrlText("http://u:p@h/metrics?x=1".to_owned());
        assert_eq!(format!("{url:?}"), r#""http://[redacted]@h/metrics?x=[redacted]""#);
    }
}
