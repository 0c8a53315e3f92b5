//! Lines as a terminal would show them.

use std::borrow::Cow;

/// What begins a colour code or a cursor code.
const CODE: &str = "\u{1b}[";

/// The text without such codes, and with plain blanks only. Line ends stay, so line numbers are those of
/// the original.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(CODE) && !text.contains('\u{a0}') {
        return Cow::Borrowed(text);
    }
    let mut pieces = text.split(CODE);
    let mut clean = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let last = piece.trim_start_matches(|letter| matches!(letter, ' '..='?'));
        clean.push_str(last.strip_prefix(|letter| matches!(letter, '@'..='~')).unwrap_or(last));
    }
    Cow::Owned(clean.replace('\u{a0}', " "))
}

/// One line of text, or one of the pieces that carriage returns cut it into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextLine<'a> {
    /// Line in the text, from one.
    pub(super) number: usize,
    /// Its text, without the line end.
    pub(super) text: &'a str,
    /// What ended it: `\n`, `\r\n`, or nothing at the end of the text.
    pub(super) end: &'static str,
}

/// All lines. A progress bar writes itself again and again over one line, with a carriage return
/// before each: every such piece is a line of its own here, with the number of the line it is in.
pub(super) fn lines(text: &str) -> Vec<TextLine<'_>> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let (body, end) = match (line.strip_suffix("\r\n"), line.strip_suffix('\n')) {
            (Some(body), _) => (body, "\r\n"),
            (None, Some(body)) => (body, "\n"),
            (None, None) => (line, ""),
        };
        found.extend(body.split('\r').map(|text| TextLine { number, text, end }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_go_and_line_ends_stay() {
        let check = |text: &str, expected: &str| assert_eq!(plain(text), expected, "{text:?}");
        check("\u{1b}[1;32mMean\u{1b}[0m TTFT", "Mean TTFT");
        check("a\u{a0}b\r\nc", "a b\r\nc");
        check("cut \u{1b}[12\nnext \u{1b}[", "cut \nnext ");
        assert!(matches!(plain("as it is"), Cow::Borrowed(_)));
    }

    #[test]
    fn carriage_returns_cut_a_line_into_pieces() {
        let found = lines("a\r\nbar 1\rbar 2\nlast");
        let seen: Vec<_> = found.iter().map(|line| (line.number, line.text, line.end)).collect();
        assert_eq!(
            seen,
            [(1, "a", "\r\n"), (2, "bar 1", "\n"), (2, "bar 2", "\n"), (3, "last", "")]
        );
    }
}
