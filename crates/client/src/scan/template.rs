//! Recognises an event that differs from an earlier one in its text alone.
//!
//! A stream repeats the same hundred bytes around every token. Once an event has been scanned and
//! its text was the only thing it said, the bytes before and after that text are remembered. A later
//! event with the same bytes around a well-formed string says the same thing about another text: two
//! comparisons instead of a scan, and no way to be wrong.

use memchr::memchr2;
use tokometer_record::EventKind;

use super::text::Text;

/// The bytes around the text of an event.
#[derive(Debug, Default)]
pub struct Template {
    before: Vec<u8>,
    after: Vec<u8>,
    kind: Option<EventKind>,
}

impl Template {
    /// Nothing is remembered any more.
    pub fn forget(&mut self) {
        self.kind = None;
    }

    /// Remembers an event of this kind whose only message is `text`, a part of `data`.
    pub fn learn(&mut self, data: &[u8], text: &Text<'_>, kind: EventKind) {
        let (Text::Plain(part) | Text::Escaped(part)) = text else { return };
        let start = part.as_ptr().addr().wrapping_sub(data.as_ptr().addr());
        let (Some(before), Some(after)) = (data.get(..start), data.get(start + part.len()..))
        else {
            return;
        };
        self.before.clear();
        self.before.extend_from_slice(before);
        self.after.clear();
        self.after.extend_from_slice(after);
        self.kind = Some(kind);
    }

    /// The kind and the text of an event that says nothing else. `None`: scan it.
    #[inline]
    pub fn matched<'a>(&self, data: &'a [u8]) -> Option<(EventKind, Text<'a>)> {
        let kind = self.kind?;
        let text =
            data.strip_prefix(self.before.as_slice())?.strip_suffix(self.after.as_slice())?;
        // Whether text is there at all changes the kind, so an empty one is scanned.
        if text.is_empty() {
            return None;
        }
        Some((kind, string_content(text)?))
    }
}

/// The bytes as the content of one string; `None` when a quote among them would end it.
#[inline]
fn string_content(bytes: &[u8]) -> Option<Text<'_>> {
    let Some(first) = memchr2(b'"', b'\\', bytes) else { return Some(Text::Plain(bytes)) };
    let mut at = first;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return None,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    // An escape that takes the closing quote with it leaves the string open.
    (at == bytes.len()).then_some(Text::Escaped(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_that_differ_in_their_text_are_recognised() {
        let learned = br#"{"c":[{"text":"one","f":null}]}"#;
        let mut template = Template::default();
        assert_eq!(template.matched(learned), None);
        template.learn(learned, &Text::Plain(&learned[15..18]), EventKind::Text);
        let check = |event: &str, expected: Option<Text<'_>>| {
            let expected = expected.map(|text| (EventKind::Text, text));
            assert_eq!(template.matched(event.as_bytes()), expected, "{event}");
        };
        check(r#"{"c":[{"text":"other","f":null}]}"#, Some(Text::Plain(b"other")));
        check(r#"{"c":[{"text":"a\"b","f":null}]}"#, Some(Text::Escaped(br#"a\"b"#)));
        check(r#"{"c":[{"text":"a","x":"b","f":null}]}"#, None);
        check(r#"{"c":[{"text":"a\","f":null}]}"#, None);
        check(r#"{"c":[{"text":"","f":null}]}"#, None);
        check(r#"{"c":[{"text":"a","f":"length"}]}"#, None);
        template.forget();
        assert_eq!(template.matched(learned), None);
    }
}
