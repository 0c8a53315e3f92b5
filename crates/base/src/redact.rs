//! Removes secrets from text before it is shown or stored.
//!
//! Two rules work together. [`Secrets`] holds the exact secrets that the program was given and removes
//! them wherever they stand, also encoded. What merely looks like a secret (a bearer token, a key with
//! a known prefix, a password in an address) is removed as well, because a server may print secrets
//! that the program does not know. Every file, message and line goes through here.

mod forms;
mod guess;
mod names;
mod url;

use std::collections::BTreeSet;
use std::fmt;

pub use names::{is_public_header, is_public_parameter, is_secret_name};
pub use url::hide_in_url;

pub const HIDDEN: &str = "[redacted]";

/// A shorter text cannot be removed: it occurs everywhere by chance.
const SECRET_BYTES_MIN: usize = 4;

/// The same for a value that may be a secret, such as that of an unknown header: `true` or `blue`
/// occurs in messages by chance.
const VALUE_BYTES_MIN: usize = 6;

/// The same for our own words: `none` and `EMPTY` are usual keys of servers that need none.
const OUTPUT_BYTES_MIN: usize = 8;

/// The secrets of one process, removed exactly.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Each secret as it is and as servers encode it.
    certain: BTreeSet<String>,
    /// The same of values that may be secrets.
    possible: BTreeSet<String>,
}

impl Secrets {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn add(&mut self, secret: &str) {
        self.certain.extend(forms_of(secret, SECRET_BYTES_MIN));
    }

    /// Adds a text that may be a secret, unless it is so short that it occurs by chance.
    pub fn add_value(&mut self, value: &str) {
        self.possible.extend(forms_of(value, VALUE_BYTES_MIN));
    }

    /// Adds the value of a header: as a whole, the part after its scheme, and what that encodes.
    pub fn add_header(&mut self, name: &str, value: &str) {
        if is_public_header(name) {
            return;
        }
        let is_named = is_secret_name(name);
        let mut add = |text: &str| if is_named { self.add(text) } else { self.add_value(text) };
        add(value);
        let Some((_scheme, rest)) = value.trim().split_once(' ') else { return };
        add(rest);
        if let Some(decoded) = forms::decoded_base64(rest.trim()) {
            self.add_user_info(&decoded);
        }
    }

    /// Adds `user:password`, both together and the password alone.
    pub fn add_user_info(&mut self, user_info: &str) {
        self.add(user_info);
        if let Some((_user, password)) = user_info.split_once(':') {
            self.add(password);
        } else {
            self.add(user_info);
        }
    }

    /// Adds the user name, the password and the parameters of an address or a path.
    pub fn add_url(&mut self, address: &str) {
        let parts = url::secrets(address);
        if let Some(user_info) = parts.user_info {
            self.add_user_info(user_info);
            if let Some(decoded) = forms::decoded_percent(user_info) {
                self.add_user_info(&decoded);
            }
        }
        for (name, value) in parts.parameters {
            if is_secret_name(name) { self.add(value) } else { self.add_value(value) }
        }
    }

    pub fn extend(&mut self, other: &Self) {
        self.certain.extend(other.certain.iter().cloned());
        self.possible.extend(other.possible.iter().cloned());
    }

    /// Removes a value that the user also gave where nothing is secret, such as the model's name.
    pub fn remove_public(&mut self, text: &str) {
        for form in forms_of(text, VALUE_BYTES_MIN) {
            self.possible.remove(&form);
        }
    }

    fn forms(&self) -> impl Iterator<Item = &str> + Clone {
        self.certain.iter().chain(&self.possible).map(String::as_str)
    }

    pub fn is_empty(&self) -> bool {
        self.forms().next().is_none()
    }

    pub fn are_in(&self, text: &str) -> bool {
        self.forms().any(|form| text.contains(form))
    }

    /// `text` without these secrets, and without anything that looks like one.
    pub fn redact(&self, text: &str) -> String {
        guess::hide(&self.redact_exact(text))
    }

    /// `text` without these secrets. For texts that may look like anything, such as answers.
    pub fn redact_exact(&self, text: &str) -> String {
        without(text, self.forms())
    }

    /// Our own output without the secrets that cannot stand there by chance.
    pub fn redact_output(&self, text: &str) -> String {
        let forms = self.certain.iter().map(String::as_str);
        without(text, forms.filter(|form| form.len() >= OUTPUT_BYTES_MIN))
    }
}

fn forms_of(secret: &str, bytes_min: usize) -> Vec<String> {
    let secret = secret.trim();
    // Part of the mark itself cannot be removed: the mark would bring it back.
    let is_long = secret.len() >= bytes_min && !HIDDEN.contains(secret);
    if is_long { forms::of(secret) } else { Vec::new() }
}

fn without<'a>(text: &str, forms: impl Iterator<Item = &'a str> + Clone) -> String {
    let ranges = ranges(text, forms.clone());
    if ranges.is_empty() {
        return text.to_owned();
    }
    let mut clean = String::with_capacity(text.len());
    let mut copied = 0;
    for (start, end) in ranges {
        clean.push_str(&text[copied..start]);
        clean.push_str(HIDDEN);
        copied = end;
    }
    clean.push_str(&text[copied..]);
    // A secret with a bracket can stand across the edge of the mark.
    let is_clean = forms.into_iter().all(|form| !clean.contains(form));
    if is_clean { clean } else { HIDDEN.to_owned() }
}

/// Where these texts stand. Ranges that overlap or touch are one.
fn ranges<'a>(text: &str, forms: impl Iterator<Item = &'a str>) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for form in forms {
        let mut from = 0;
        while let Some(at) = text[from..].find(form) {
            let start = from + at;
            found.push((start, start + form.len()));
            // Occurrences may overlap, so the search goes on at the next character.
            from = start + text[start..].chars().next().map_or(1, char::len_utf8);
        }
    }
    found.sort_unstable();
    let mut merged: Vec<(usize, usize)> = Vec::new();
    for (start, end) in found {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

/// Never shows what it holds.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({} forms)", self.forms().count())
    }
}

/// `text` without anything that looks like a secret.
pub fn redact(text: &str) -> String {
    guess::hide(text)
}

#[cfg(test)]
mod tests;
