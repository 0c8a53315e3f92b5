//! Whether events carry all text so far or only what is new.

use crate::dialect::{Counting, TextForm};
use crate::scan::{Fields, Marks};

use super::ResponseReading;

/// Bytes of the first text that later ones are compared with.
const COMPARED_BYTES: usize = 64;

/// What is known of texts that should each repeat the one before.
#[derive(Debug, Default)]
pub(super) struct CumulativeText {
    /// Length of the longest so far.
    longest: usize,
    /// The beginning of the first one.
    first: Vec<u8>,
    /// Whether one of them began otherwise: the server sends only new text.
    has_pieces: bool,
}

impl CumulativeText {
    /// Prepares for the next response.
    pub(super) fn clear(&mut self) {
        self.longest = 0;
        self.first.clear();
        self.has_pieces = false;
    }

    fn compare(&mut self, text: &[u8]) {
        let text = &text[..text.len().min(COMPARED_BYTES)];
        let first = without_half_characters(&self.first);
        if first.is_empty() {
            self.first.clear();
            self.first.extend_from_slice(text);
        } else if !text.starts_with(first) && !first.starts_with(text) {
            self.has_pieces = true;
        }
    }

    /// Whether a cumulative text is longer than those before it.
    fn grows_to(&mut self, length: usize) -> bool {
        let is_longer = length > self.longest;
        self.longest = self.longest.max(length);
        is_longer
    }
}

/// A text without replacement characters at its end: the next event has the whole character instead.
fn without_half_characters(mut text: &[u8]) -> &[u8] {
    const REPLACEMENTS: [&[u8]; 3] = ["\u{fffd}".as_bytes(), br"\ufffd", br"\uFFFD"];
    while let Some(rest) = REPLACEMENTS.iter().find_map(|half| text.strip_suffix(*half)) {
        text = rest;
    }
    text
}

impl ResponseReading {
    /// Whether the event adds text.
    pub(super) fn is_new_text(&mut self, fields: &Fields<'_>) -> bool {
        let Some(text) = &fields.text else { return false };
        if self.rules.text == TextForm::Cumulative {
            self.cumulative.compare(text.as_bytes());
        }
        match self.text_form(fields) {
            TextForm::Piece => !text.is_empty() && !fields.marks.has(Marks::SPECIAL),
            TextForm::Cumulative => self.cumulative.grows_to(text.len()),
        }
    }

    /// Whether the event has new tokens and no text, as a server without a tokenizer streams them.
    pub(super) fn has_only_ids(&self, fields: &Fields<'_>) -> bool {
        let told = fields.usage.and_then(|usage| usage.completion_tokens);
        self.rules.counting == Counting::RunningCount
            && fields.text.is_none()
            && fields.token_ids.is_some_and(|ids| ids > 0)
            && told.is_some_and(|told| told > self.counted)
    }

    /// SGLang can be configured to stream increments. Its events then have fewer ids than the cumulative
    /// count; those of versions without ids do not begin as the first did.
    pub(super) fn text_form(&self, fields: &Fields<'_>) -> TextForm {
        let told = fields.usage.and_then(|usage| usage.completion_tokens);
        match (self.rules.text, fields.token_ids, told) {
            (TextForm::Cumulative, Some(ids), Some(told)) if ids < told => TextForm::Piece,
            (TextForm::Cumulative, ..) if self.cumulative.has_pieces => TextForm::Piece,
            (form, ..) => form,
        }
    }
}
