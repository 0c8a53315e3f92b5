//! The forms in which a server may print a secret that it was sent.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Shorter pieces of base64 occur by chance.
const BASE64_CHARS_MIN: usize = 8;

/// A secret as it is, percent-encoded and decoded, in base64, and escaped for JSON and HTML.
pub(super) fn of(secret: &str) -> Vec<String> {
    let mut plain = vec![secret.to_owned()];
    plain.extend(decoded_percent(secret));
    let mut forms = Vec::new();
    for text in plain {
        for keeps in ["-_.~", "-_.~!$&'()*+,;=:@/"] {
            let upper = percent(&text, keeps);
            forms.push(with_lower_hex(&upper));
            forms.push(upper.replace("%20", "+"));
            forms.push(upper);
        }
        forms.extend(base64_pieces(text.as_bytes(), &STANDARD_NO_PAD));
        forms.extend(base64_pieces(text.as_bytes(), &URL_SAFE_NO_PAD));
        forms.extend([json(&text, NonAscii::Kept), json(&text, NonAscii::Escaped)]);
        forms.push(json(&text, NonAscii::Kept).replace('/', "\\/"));
        forms.push(json(&json(&text, NonAscii::Kept), NonAscii::Kept));
        forms.extend(["&#x27;", "&#39;"].map(|quote| html(&text, quote)));
        forms.push(text);
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

fn percent(text: &str, keeps: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || keeps.as_bytes().contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

fn with_lower_hex(encoded: &str) -> String {
    let mut digits = 0;
    let lower = |letter: char| match letter {
        '%' => {
            digits = 2;
            letter
        }
        _ if digits > 0 => {
            digits -= 1;
            letter.to_ascii_lowercase()
        }
        _ => letter,
    };
    encoded.chars().map(lower).collect()
}

/// A text without its percent signs; `None` where it has none, or they encode no text.
pub(super) fn decoded_percent(text: &str) -> Option<String> {
    if !text.contains('%') {
        return None;
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(byte) = byte.filter(|_| bytes[at] == b'%') {
            decoded.push(byte);
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(decoded).ok()
}

/// The characters of base64 that `bytes` have at each of the three offsets within a larger text. Those
/// that also depend on the bytes around are left out, and so is padding.
fn base64_pieces(bytes: &[u8], engine: &GeneralPurpose) -> Vec<String> {
    let piece = |before: usize| {
        let all = [&vec![0; before][..], bytes].concat();
        let whole = (before * 8).div_ceil(6)..all.len() * 8 / 6;
        engine.encode(&all).get(whole).unwrap_or_default().to_owned()
    };
    (0..3).map(piece).filter(|piece| piece.len() >= BASE64_CHARS_MIN).collect()
}

/// The text that a word in base64 stands for; `None` where it stands for none.
pub(super) fn decoded_base64(word: &str) -> Option<String> {
    let word = word.trim_end_matches('=');
    let bytes = STANDARD_NO_PAD.decode(word).or_else(|_| URL_SAFE_NO_PAD.decode(word)).ok()?;
    String::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control))
}

#[derive(Clone, Copy, PartialEq)]
enum NonAscii {
    Kept,
    Escaped,
}

fn json(text: &str, non_ascii: NonAscii) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\\' => escaped.extend(['\\', letter]),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            _ if letter < ' ' || (!letter.is_ascii() && non_ascii == NonAscii::Escaped) => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
            _ => escaped.push(letter),
        }
    }
    escaped
}

fn html(text: &str, quote: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    escaped.replace('"', "&quot;").replace('\'', quote)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_the_forms_that_servers_print() {
        let forms = of("p/s \"é");
        for expected in [
            "p/s \"é",
            "p%2Fs%20%22%C3%A9",
            "p%2fs%20%22%c3%a9",
            "p%2Fs+%22%C3%A9",
            "p/s%20%22%C3%A9",
            "cC9zICLDq",
            "p/s \\\"é",
            "p/s \\\"\\u00e9",
            "p\\/s \\\"é",
            "p/s &quot;é",
        ] {
            assert!(forms.iter().any(|form| form == expected), "{expected}: {forms:?}");
        }
    }

    #[test]
    fn base64_is_found_at_every_offset_of_a_longer_text() {
        let pieces = base64_pieces(b"hunter22", &STANDARD_NO_PAD);
        for encoded in ["aHVudGVyMjI=", "dTpodW50ZXIyMg==", "dXM6aHVudGVyMjI=", "dXNlOmh1bnRlcjIy"]
        {
            assert!(pieces.iter().any(|piece| encoded.contains(piece)), "{encoded}: {pieces:?}");
        }
    }

    #[test]
    fn what_is_encoded_is_read_back() {
        assert_eq!(decoded_base64("dXNlOmh1bnRlcjIy").as_deref(), Some("use:hunter22"));
        assert_eq!(decoded_base64("aHVudGVyMjI=").as_deref(), Some("hunter22"));
        assert_eq!(decoded_base64("no base64"), None);
        assert_eq!(decoded_percent("a%2Fb%zz%").as_deref(), Some("a/b%zz%"));
        assert_eq!(decoded_percent("ab"), None);
    }
}
