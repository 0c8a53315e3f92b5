//! Removes secrets from text before it is shown or stored.
//!
//! Keys reach texts by many roads: an echoed header in an error body, a key inside a URL, a bearer
//! token in an extra body. What looks like one is replaced by `[redacted]`; exact secrets that the
//! program itself holds are passed in and replaced wherever they stand.

const REDACTED: &str = "[redacted]";

/// Words after which the next word is a secret, in any case.
const MARKERS: [&str; 8] = [
    "bearer ",
    "api_key=",
    "api-key=",
    "apikey=",
    "key=",
    "token=",
    "access_token=",
    "x-api-key: ",
];

/// Prefixes that only keys have.
const KEY_PREFIXES: [&str; 5] = ["sk-", "hf_", "nvapi-", "ghp_", "AIza"];

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~+/=".contains(&byte)
}

fn key_end(text: &str, start: usize) -> usize {
    text.as_bytes()[start..]
        .iter()
        .position(|byte| !is_key_byte(*byte))
        .map_or(text.len(), |length| start + length)
}

fn starts_with_ignoring_case(text: &[u8], marker: &str) -> bool {
    text.len() >= marker.len() && text[..marker.len()].eq_ignore_ascii_case(marker.as_bytes())
}

/// The end of a secret that begins at `at`, and where its hidden part starts.
fn secret_at(text: &str, at: usize) -> Option<(usize, usize)> {
    let rest = &text.as_bytes()[at..];
    let at_word_start = at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric();
    if !at_word_start {
        return None;
    }
    let after_marker = MARKERS
        .iter()
        .filter(|marker| starts_with_ignoring_case(rest, marker))
        .map(|marker| at + marker.len())
        .find(|start| key_end(text, *start) > *start);
    if let Some(start) = after_marker {
        return Some((start, key_end(text, start)));
    }
    let end = key_end(text, at);
    let is_key = KEY_PREFIXES.iter().any(|prefix| rest.starts_with(prefix.as_bytes()));
    (is_key && end - at >= 12).then_some((at, end))
}

/// `text` without anything that looks like a key, and without any of `secrets`.
pub fn redact(text: &str, secrets: &[String]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| secret.len() >= 4) {
        text = text.replace(secret.as_str(), REDACTED);
    }
    let mut clean = String::with_capacity(text.len());
    let (mut copied, mut at) = (0, 0);
    while at < text.len() {
        if let Some((start, end)) =
            text.is_char_boundary(at).then(|| secret_at(&text, at)).flatten()
        {
            clean.push_str(&text[copied..start]);
            clean.push_str(REDACTED);
            (copied, at) = (end, end);
        } else {
            at += 1;
        }
    }
    clean.push_str(&text[copied..]);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_disappear_and_other_text_stays() {
        let check = |text: &str, expected: &str| {
            assert_eq!(redact(text, &["hunter2!".to_owned()]), expected);
        };
        check("plain text, a token count of 12", "plain text, a token count of 12");
        check("Authorization: Bearer abc.def-1", "Authorization: Bearer [redacted]");
        check("http://h/v1?api_key=123&x=1", "http://h/v1?api_key=[redacted]&x=1");
        check(
            "Incorrect API key provided: sk-abcdefghijkl.",
            "Incorrect API key provided: [redacted]",
        );
        check("the password hunter2! leaked", "the password [redacted] leaked");
        check("task-oriented risk-free", "task-oriented risk-free");
        check("naïve töken=ü bearer ", "naïve töken=ü bearer ");
    }
}
