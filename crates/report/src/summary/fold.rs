//! Lines of the summary within the width of a terminal.

use super::{LABEL, WIDTH};
use crate::grid::width as columns;

/// A line in pieces of at most [`WIDTH`] columns, broken behind a `·` where there is one, else between
/// words; the rest is indented below its text. A word that is too long, such as an address, stays
/// whole: it may be copied.
pub(super) fn folded(line: &str) -> Vec<String> {
    folded_at(line, indent(line))
}

/// The same with the rest indented by so many columns.
pub(crate) fn folded_at(line: &str, indent: usize) -> Vec<String> {
    if columns(line) <= WIDTH {
        return vec![line.to_owned()];
    }
    let mut folded = Folded { lines: vec![String::new()], indent };
    let parts: Vec<&str> = line.split(" · ").collect();
    for (at, part) in parts.iter().enumerate() {
        let part = if at + 1 < parts.len() { format!("{part} ·") } else { (*part).to_owned() };
        // The first part begins with the label.
        let is_short = at > 0 && indent + columns(&part) <= WIDTH;
        if is_short {
            folded.push(&part, 1);
        } else {
            for (word_at, word) in part.split(' ').enumerate() {
                folded.push(word, usize::from(at + word_at > 0));
            }
        }
    }
    folded.lines
}

/// A sentence in lines of at most `WIDTH` columns, all but the first indented by four. No line begins
/// with a number: it stays behind the word that says what it is.
pub fn wrapped(line: &str) -> Vec<String> {
    let mut folded = Folded { lines: vec![String::new()], indent: 4 };
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        let is_number =
            word.trim_start_matches(['+', '-', '(']).starts_with(|c: char| c.is_ascii_digit());
        match words.last_mut().filter(|_| is_number) {
            Some(last) => last.extend([" ", word]),
            None => words.push(word.to_owned()),
        }
    }
    for (at, word) in words.iter().enumerate() {
        folded.push(word, usize::from(at > 0));
    }
    folded.lines
}

/// A label and the words of its text beside it, all lines but the first indented to the text.
pub(crate) fn beside(label: &str, text: &str) -> Vec<String> {
    let indent = columns(label) + 1;
    let mut folded = Folded { lines: vec![label.to_owned()], indent };
    for word in text.split_whitespace() {
        folded.push(word, 1);
    }
    folded.lines
}

struct Folded {
    lines: Vec<String>,
    indent: usize,
}

impl Folded {
    /// Adds a text behind a gap, or on a line of its own where it does not fit.
    fn push(&mut self, text: &str, gap: usize) {
        let last = self.lines.last_mut().expect("there is always a line");
        let is_full = columns(last) + gap + columns(text) > WIDTH;
        if is_full && !text.is_empty() && !last.trim().is_empty() {
            last.truncate(last.trim_end().len());
            self.lines.push(format!("{}{text}", " ".repeat(self.indent)));
        } else {
            last.push_str(&" ".repeat(gap));
            last.push_str(text);
        }
    }
}

/// Where the rest of a line goes: behind its label, else four columns in, so that it differs from the
/// lines that are themselves indented by two.
fn indent(line: &str) -> usize {
    let plain = plain(line);
    let label: String = plain.chars().take(LABEL).collect();
    match plain.as_str() {
        text if text.starts_with(' ') => 2,
        text if text.starts_with("target: ") || text.starts_with("note[") => 4,
        _ if label.ends_with(' ') && !label.trim_end().contains(": ") => LABEL,
        _ => 4,
    }
}

/// The text without colour codes, which begin with an escape and end with `m`.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words_and_lose_nothing() {
        let check = |line: &str, indent: usize| {
            let found = folded(line);
            assert!(found.iter().all(|line| columns(line) <= WIDTH), "{found:#?}");
            assert!(
                found[1..].iter().all(|line| line.len() - line.trim_start().len() == indent),
                "{found:#?}"
            );
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&found.join(" ")), words(line));
        };
        check(&format!("TTFT split   {}", "measured: sending 0.05 · ".repeat(8)), LABEL);
        check(&format!("block above  \u{1b}[2m{}\u{1b}[0m", "mean TTFT, ours ".repeat(9)), LABEL);
        check(&format!("target: http://h:8000/v1/completions ({})", "model, ".repeat(12)), 4);
        check(&format!("  {}", "the reason of a note ".repeat(7).trim_end()), 2);
        check(&format!("note[late-sends]: {}", "412 of 1000 ".repeat(9).trim_end()), 4);
    }

    #[test]
    fn a_sentence_is_wrapped_and_a_number_begins_no_line() {
        let (few, many) = ("of several words ".repeat(4), "so many words ".repeat(6));
        let line = format!("warning: {few}12345 runs of {many}");
        let found = wrapped(line.trim_end());
        assert!(found.len() > 1 && found.iter().all(|line| columns(line) <= WIDTH), "{found:#?}");
        assert!(found[1].starts_with("    words 12345 runs of so many"), "{found:#?}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&found.join(" ")), words(&line));
        assert_eq!(wrapped("short"), ["short"]);
    }

    #[test]
    fn what_fits_is_left_alone_and_an_address_stays_whole() {
        let table = "TTFT             150.2~     135.2      225.4    > 60000     failed";
        assert_eq!(folded(table), [table]);
        let address = format!("http://{}:8000", "h".repeat(90));
        assert_eq!(
            folded(&format!("target: {address}")),
            ["target:".to_owned(), format!("    {address}")]
        );
    }
}
