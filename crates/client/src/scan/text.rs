//! Text of a response as it appears in the event; unescaped only when it is kept.

use memchr::memchr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Text<'a> {
    Plain(&'a [u8]),
    Escaped(&'a [u8]),
    /// Unescaped, from the full parser.
    Owned(String),
}

impl Text<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes between the quotes, before unescaping.
    pub(crate) fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Whether it equals `word`, which must not need escapes.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.as_bytes() == word.as_bytes()
    }

    /// What is between the quotes, before unescaping.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Plain(bytes) | Self::Escaped(bytes) => bytes,
            Self::Owned(text) => text.as_bytes(),
        }
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        self.append_to(&mut text);
        text
    }

    /// Appends the text, unescaped. Invalid UTF-8 and half surrogate pairs become U+FFFD.
    pub(crate) fn append_to(&self, buffer: &mut String) {
        match self {
            Self::Plain(bytes) => push_lossy(bytes, buffer),
            Self::Escaped(bytes) => unescape(bytes, buffer),
            Self::Owned(text) => buffer.push_str(text),
        }
    }
}

fn push_lossy(bytes: &[u8], buffer: &mut String) {
    match std::str::from_utf8(bytes) {
        Ok(text) => buffer.push_str(text),
        Err(_) => buffer.push_str(&String::from_utf8_lossy(bytes)),
    }
}

fn unescape(bytes: &[u8], buffer: &mut String) {
    let mut rest = bytes;
    while let Some(at) = memchr(b'\\', rest) {
        push_lossy(&rest[..at], buffer);
        let escape = &rest[at + 1..];
        let (character, length) = match escape.first() {
            Some(b'n') => ('\n', 1),
            Some(b't') => ('\t', 1),
            Some(b'r') => ('\r', 1),
            Some(b'b') => ('\u{8}', 1),
            Some(b'f') => ('\u{c}', 1),
            Some(b'u') => code_point(escape),
            Some(other) => (char::from(*other), 1),
            None => (char::REPLACEMENT_CHARACTER, 0),
        };
        buffer.push(character);
        rest = &escape[length..];
    }
    push_lossy(rest, buffer);
}

fn code_unit(escape: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(escape.strip_prefix(b"u")?.get(..4)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

/// The character of an escape that begins with `u`, and the number of bytes it takes.
fn code_point(escape: &[u8]) -> (char, usize) {
    let replaced = (char::REPLACEMENT_CHARACTER, escape.len().min(5));
    let Some(unit) = code_unit(escape) else { return replaced };
    if let Some(character) = char::from_u32(unit) {
        return (character, 5);
    }
    let low = escape.get(5..).and_then(|rest| rest.strip_prefix(b"\\")).and_then(code_unit);
    match low {
        Some(low @ 0xdc00..0xe000) if unit < 0xdc00 => {
            let point = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            (char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER), 11)
        }
        _ => replaced,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unescaped(text: &str) -> String {
        let mut buffer = String::new();
        Text::Escaped(text.as_bytes()).append_to(&mut buffer);
        buffer
    }

    #[test]
    fn escapes_become_what_they_mean_and_halves_become_replacements() {
        let check = |text: &str, expected: &str| assert_eq!(unescaped(text), expected);
        check(r#"a\"\\\/\n\t\r\b\fz"#, "a\"\\/\n\t\r\u{8}\u{c}z");
        check(r"\u00e9\ud83d\ude00!", "é😀!");
        check(r"\ud83dx", "\u{fffd}x");
        check(r"\u12", "\u{fffd}");
        check("\\", "\u{fffd}");
    }

    proptest! {
        #[test]
        fn escaped_text_round_trips(text: String) {
            let written = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(unescaped(&written[1..written.len() - 1]), text);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            Text::Escaped(&bytes).append_to(&mut String::new());
        }
    }
}
