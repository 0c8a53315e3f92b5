//! Undoes the line breaks that a narrow terminal or an editor put into a block.
//!
//! In: text. Out: the same text with the pieces of each wrapped line joined. Blank lines stand for
//! the other pieces, so that line numbers stay. A block is wrapped where its header stands in pieces on
//! consecutive lines, all but the last of one width. Without this, `200` behind a label of 40 columns is
//! read as 2 where a line ends after 42.

use std::borrow::Cow;

use super::blocks;
use super::labels::{self, tables};
use crate::layout::table::centred;
use crate::model::Title;

/// Pieces of one line, at most. Narrower text is not a block any more.
const MOST_PIECES: usize = 4;

/// Columns of a label and of its value, with a blank between them.
const LABEL_COLUMNS: usize = 40;
const VALUE_COLUMNS: usize = 10;

/// The text without such line breaks.
pub(super) fn unwrapped(text: &str) -> Cow<'_, str> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_wrapped = |at: usize| wrap_width(&lines[at..]).is_some();
    if !(0..lines.len()).any(is_wrapped) {
        return Cow::Borrowed(text);
    }
    let mut joined = String::with_capacity(text.len());
    let mut at = 0;
    while at < lines.len() {
        if let Some(wrap) = wrap_width(&lines[at..]) {
            at += join_block(&lines[at..], wrap, &mut joined);
        } else {
            joined.push_str(lines[at]);
            at += 1;
        }
    }
    Cow::Owned(joined)
}

/// A line without its end.
fn body(line: &str) -> &str {
    line.trim_end_matches(['\r', '\n'])
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// The width at which the header that begins here is wrapped; `None` where none is.
fn wrap_width(lines: &[&str]) -> Option<usize> {
    let first = body(lines.first()?);
    if !first.starts_with("===") {
        return None;
    }
    let mut header = first.to_owned();
    (1..lines.len().min(MOST_PIECES)).find_map(|breaks| {
        let last = body(lines[breaks]);
        header.push_str(last);
        let whole = header_width(&header)?;
        Some((whole - width(last.trim_end())) / breaks).filter(|wrap| *wrap >= width(first))
    })
}

/// The width of the header that has these letters; a blank at the end of a piece may be missing.
fn header_width(text: &str) -> Option<usize> {
    let letters = |text: &str| text.split_whitespace().collect::<String>();
    let found = letters(text);
    let is_it = |width: &usize| {
        Title::ALL.iter().any(|title| found == letters(&centred(title.words(), '=', *width)))
    };
    tables().map(|(_, table)| table.widths.header).find(is_it)
}

/// Appends the block that begins here and returns how many lines it took.
fn join_block(lines: &[&str], wrap: usize, joined: &mut String) -> usize {
    let mut at = 0;
    while at < lines.len() && (at == 0 || wrap_width(&lines[at..]).is_none()) {
        let (line, pieces) = join_line(&lines[at..], wrap);
        let end = &lines[at][body(lines[at]).len()..];
        joined.push_str(&line);
        joined.push_str(end);
        joined.extend(std::iter::repeat_n("\n", pieces - 1));
        at += pieces;
        if blocks::is_footer(&line) {
            break;
        }
    }
    at
}

/// The line whose first piece is here, and the number of its pieces.
fn join_line(lines: &[&str], wrap: usize) -> (String, usize) {
    let mut line = body(lines[0]).to_owned();
    let mut last = width(&line);
    let mut pieces = 1;
    while let Some(next) = lines.get(pieces).map(|line| body(line)).filter(|_| pieces < MOST_PIECES)
    {
        let is_over = is_complete(&line) || (last != wrap && !is_value_apart(&line, next));
        // A line that is as wide as the terminal by chance ends there.
        if is_over || (begins_line(next) && !is_rule(&line)) {
            break;
        }
        // Blanks at the end of a piece may have been stripped.
        let padding = wrap.saturating_sub(last);
        line.extend(std::iter::repeat_n(' ', padding));
        line.push_str(next);
        last = width(next);
        pieces += 1;
    }
    (line, pieces)
}

fn is_rule(line: &str) -> bool {
    line.starts_with("===") || line.starts_with("---")
}

/// Whether nothing of this line can follow: a rule has the width of a header, and a value is padded.
fn is_complete(line: &str) -> bool {
    if is_rule(line) {
        return tables().any(|(_, table)| width(line) == table.widths.header);
    }
    width(line) > LABEL_COLUMNS + VALUE_COLUMNS && line.ends_with(' ')
}

/// Whether a label has its value on the next line.
fn is_value_apart(line: &str, next: &str) -> bool {
    let next = next.trim();
    labels::start_of_printed(line) == Some(0)
        && line.trim_end().ends_with(':')
        && next.starts_with(|letter: char| letter.is_ascii_digit() || letter == '-')
        && !next.contains(char::is_whitespace)
}

fn begins_line(text: &str) -> bool {
    is_rule(text) || labels::start_of_printed(text) == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_keep_their_numbers() {
        let check = |text: &str, expected: &str| assert_eq!(unwrapped(text), expected);
        check(
            "a\n============ Serving Benchmark Result ====\n========\n\
             Successful requests:                     2\n00       \nb\n",
            "a\n============ Serving Benchmark Result ============\n\n\
             Successful requests:                     200       \n\nb\n",
        );
    }

    #[test]
    fn text_that_is_not_wrapped_stays_as_it_is() {
        let whole = "============ Serving Benchmark Result ============\nx: 1\n====\n====\n";
        for text in [whole, "===\n===\n===", "", "===========\n"] {
            assert!(matches!(unwrapped(text), Cow::Borrowed(_)), "{text}");
        }
    }
}
