//! Recognises an event that differs from an earlier one only in its text.
//!
//! A stream repeats the same hundred bytes around every token. After the scan of an event that has
//! only text, the bytes before and after the text are stored. A later event with the same bytes
//! around a well-formed string has the same meaning with another text: two comparisons replace a
//! scan, with the same result.

use memchr::memchr2;
use tokometer_record::EventKind;

use super::text::Text;

#[derive(Debug, Default)]
pub(crate) struct EventTemplate {
    before: Vec<u8>,
    after: Vec<u8>,
    kind: Option<EventKind>,
}

impl EventTemplate {
    pub(crate) fn forget(&mut self) {
        self.kind = None;
    }

    /// Stores an event of this kind whose only information is `text`, a part of `data`.
    pub(crate) fn learn(&mut self, data: &[u8], text: &Text<'_>, kind: EventKind) {
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

    /// The kind and text of an event that matches. `None`: scan it.
    #[inline]
    pub(crate) fn matched<'a>(&self, data: &'a [u8]) -> Option<(EventKind, Text<'a>)> {
        let kind = self.kind?;
        let text =
            data.strip_prefix(self.before.as_slice())?.strip_suffix(self.after.as_slice())?;
        // An empty text changes the kind of the event, so it is scanned.
        if text.is_empty() {
            return None;
        }
        Some((kind, string_content(text)?))
    }
}

/// The bytes as the content of one string; `None` when a quote inside would end it.
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
    // An escape of the closing quote leaves the string open.
    (at == bytes.len()).then_some(Text::Escaped(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_that_differ_in_their_text_are_recognised() {
        let learned = br#"{"c":[{"text":"one","f":null}]}"#;
        let mut template = EventTemplate::default();
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
