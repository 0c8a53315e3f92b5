//! What looks like a secret in a text that nothing is known about.

use super::HIDDEN;
use super::names::is_surely_secret_name;
use super::url::hide_in_url;

/// Words after which the next word is a secret, in any case.
const MARKERS: [&str; 9] = [
    "bearer ",
    "basic ",
    "api_key=",
    "api-key=",
    "apikey=",
    "key=",
    "token=",
    "secret=",
    "password=",
];

/// Words between a name and its secret: `Authorization: Basic …`.
const SCHEMES: [&str; 4] = ["bearer ", "basic ", "token ", "digest "];

/// Prefixes that only keys have.
const KEY_PREFIXES: [&str; 9] =
    ["sk-", "hf_", "nvapi-", "ghp_", "gho_", "glpat-", "xoxb-", "AIza", "eyJ"];

/// A key with a known prefix has at least this many bytes.
const KEY_BYTES_MIN: usize = 12;

/// The fewest bytes of a word after `Basic `: it is also an ordinary word.
const BASIC_BYTES_MIN: usize = 8;

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~+/=%!*$".contains(&byte)
}

fn key_end(text: &str, start: usize) -> usize {
    let rest = &text.as_bytes()[start..];
    rest.iter().position(|byte| !is_key_byte(*byte)).map_or(text.len(), |length| start + length)
}

fn starts_with_ignoring_case(text: &[u8], marker: &str) -> bool {
    text.len() >= marker.len() && text[..marker.len()].eq_ignore_ascii_case(marker.as_bytes())
}

/// Where a secret after a marker starts and ends.
fn marked(text: &str, at: usize) -> Option<(usize, usize)> {
    let rest = &text.as_bytes()[at..];
    MARKERS.iter().filter(|marker| starts_with_ignoring_case(rest, marker)).find_map(|marker| {
        let start = at + marker.len();
        let end = key_end(text, start);
        let least = if *marker == "basic " { BASIC_BYTES_MIN } else { 1 };
        (end - start >= least && !is_scheme_end(text, end)).then_some((start, end))
    })
}

/// Where the value of a name starts and ends that only secrets have: `"api_key": "…"`.
fn named(text: &str, at: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let end = at + bytes[at..].iter().take_while(|byte| is_name(byte)).count();
    if end == at || end - at > 64 || !is_surely_secret_name(&text[at..end]) {
        return None;
    }
    let skip = |from: usize, skipped: &[u8]| {
        from + bytes[from..].iter().take_while(|byte| skipped.contains(byte)).count()
    };
    let separator = skip(end, b"\\\"' ");
    if !matches!(bytes.get(separator), Some(b':' | b'=')) {
        return None;
    }
    let mut start = skip(separator + 1, b"\\\"' ");
    if let Some(scheme) =
        SCHEMES.iter().find(|scheme| starts_with_ignoring_case(&bytes[start..], scheme))
    {
        start += scheme.len();
    }
    let end = key_end(text, start);
    (end > start && !is_scheme_end(text, end)).then_some((start, end))
}

/// Whether a word is the scheme of an address, which is hidden by its parts.
fn is_scheme_end(text: &str, end: usize) -> bool {
    text[end..].starts_with("://")
}

/// Where an address starts and ends whose `://` is at `at`.
fn address(text: &str, at: usize) -> Option<(usize, usize)> {
    if !text[at..].starts_with("://") {
        return None;
    }
    let bytes = text.as_bytes();
    let is_scheme = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'+';
    let start = at - bytes[..at].iter().rev().take_while(is_scheme).count();
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`<>(),|\\".contains(byte);
    let end = bytes[at..].iter().position(ends).map_or(text.len(), |length| at + length);
    (start < at).then_some((start, end))
}

/// The end of a secret that begins at `at`, and where its hidden part starts.
fn secret_at(text: &str, at: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    if at > 0 && bytes[at - 1].is_ascii_alphanumeric() {
        return None;
    }
    if let Some(found) = marked(text, at).or_else(|| named(text, at)) {
        return Some(found);
    }
    let end = key_end(text, at);
    let is_key = KEY_PREFIXES.iter().any(|prefix| bytes[at..].starts_with(prefix.as_bytes()));
    (is_key && end - at >= KEY_BYTES_MIN).then_some((at, end))
}

/// Rounds after which a text whose hidden parts look like further secrets is hidden as a whole.
const ROUNDS_MAX: usize = 8;

/// `text` without anything that looks like a secret. What is left does not look like one either.
pub(super) fn hide(text: &str) -> String {
    let mut text = text.to_owned();
    for _ in 0..ROUNDS_MAX {
        let clean = hide_once(&text);
        if clean == text {
            return text;
        }
        text = clean;
    }
    HIDDEN.to_owned()
}

fn hide_once(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let (mut copied, mut at) = (0, 0);
    while at < text.len() {
        if !text.is_char_boundary(at) {
            at += 1;
        } else if text[at..].starts_with(HIDDEN) {
            at += HIDDEN.len();
        } else if let Some((start, end)) = address(text, at).filter(|(start, _)| *start >= copied) {
            clean.push_str(&text[copied..start]);
            clean.push_str(&hide_in_url(&text[start..end]));
            (copied, at) = (end, end);
        } else if let Some((start, end)) = secret_at(text, at) {
            clean.push_str(&text[copied..start]);
            clean.push_str(HIDDEN);
            (copied, at) = (end, end);
        } else {
            at += 1;
        }
    }
    clean.push_str(&text[copied..]);
    clean
}
