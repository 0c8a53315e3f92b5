//! Lines as a terminal would show them.

/// One line of text, or one of the pieces that carriage returns cut it into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextLine<'a> {
    /// Line in the text, from one.
    pub(super) number: usize,
    /// Column of its first character, from one.
    pub(super) column: usize,
    /// Its text, without the line end.
    pub(super) text: &'a str,
    /// What ended it: `\n`, `\r\n`, or nothing at the end of the text.
    pub(super) end: &'static str,
}

impl TextLine<'_> {
    /// The rest of the line from byte `start` on.
    pub(super) fn from(self, start: usize) -> Self {
        let column = self.column + self.text[..start].chars().count();
        Self { column, text: &self.text[start..], ..self }
    }

    /// The line without `prefix`, if it starts with it.
    pub(super) fn without_prefix(self, prefix: &str) -> Self {
        if self.text.starts_with(prefix) { self.from(prefix.len()) } else { self }
    }

    /// The line without `suffix`, if it ends with it.
    pub(super) fn without_suffix(self, suffix: &str) -> Self {
        let text = if suffix.is_empty() { None } else { self.text.trim_end().strip_suffix(suffix) };
        Self { text: text.unwrap_or(self.text), ..self }
    }
}

/// All lines. A progress bar writes itself again and again over one line, with a carriage return
/// before each: every such piece is a line of its own here, with the number of the line it is in.
pub(super) fn lines(text: &str) -> Vec<TextLine<'_>> {
    let mut found = Vec::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let (body, end) = match (line.strip_suffix("\r\n"), line.strip_suffix('\n')) {
            (Some(body), _) => (body, "\r\n"),
            (None, Some(body)) => (body, "\n"),
            (None, None) => (line, ""),
        };
        let mut column = 1;
        for piece in body.split('\r') {
            found.push(TextLine { number: index + 1, column, text: piece, end });
            column += piece.chars().count() + 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carriage_returns_cut_a_line_and_crlf_ends_it() {
        let found = lines("a\r\nbar 1\rbar 2\nlast");
        let seen: Vec<_> =
            found.iter().map(|line| (line.number, line.column, line.text, line.end)).collect();
        assert_eq!(
            seen,
            [(1, 1, "a", "\r\n"), (2, 1, "bar 1", "\n"), (2, 7, "bar 2", "\n"), (3, 1, "last", "")]
        );
    }
}
