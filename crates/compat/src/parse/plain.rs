//! Text without what terminals, editors and web pages add to it.

use std::borrow::Cow;

const ESCAPE: char = '\u{1b}';

/// Characters without a width, and blanks that are not the plain one.
fn is_foreign(letter: char) -> bool {
    matches!(
        letter,
        ESCAPE | '\u{7}' | '\u{a0}' | '\u{9b}' | '\u{200b}'
            ..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\0' | '\u{8}'
    )
}

/// The text without colour codes, cursor codes and invisible characters. Line ends stay, so line
/// numbers are those of the original.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_foreign) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            ESCAPE => skip_code(&mut letters),
            '\u{9b}' => skip_control_sequence(&mut letters),
            '\u{a0}' => clean.push(no_break(&clean, letters.peek())),
            _ if is_foreign(letter) => {}
            _ => clean.push(letter),
        }
    }
    Cow::Owned(clean)
}

/// A blank that does not break a line separates thousands where it stands between digits.
fn no_break(before: &str, next: Option<&char>) -> char {
    let is_inside = before.ends_with(|letter: char| letter.is_ascii_digit())
        && next.is_some_and(char::is_ascii_digit);
    if is_inside { '\u{202f}' } else { ' ' }
}

type Letters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips what belongs to an escape character. No code runs past the end of its line: a truncated one
/// must not swallow the next.
fn skip_code(letters: &mut Letters<'_>) {
    match letters.peek() {
        Some('[') => {
            let _bracket = letters.next();
            skip_control_sequence(letters);
        }
        // A title or a link: it ends with a bell or with another escape code.
        Some(']') => {
            while letters.next_if(|letter| !matches!(letter, '\u{7}' | '\n' | &ESCAPE)).is_some() {}
            if letters.next_if_eq(&ESCAPE).is_some() {
                let _backslash = letters.next_if_eq(&'\\');
            }
        }
        Some('(' | ')') => {
            let _bracket = letters.next();
            let _set = letters.next_if(char::is_ascii_alphanumeric);
        }
        _ => {
            let _code =
                letters.next_if(|letter| matches!(letter, '=' | '>' | '7' | '8' | 'M' | 'c'));
        }
    }
}

fn skip_control_sequence(letters: &mut Letters<'_>) {
    while letters.next_if(|letter| matches!(letter, ' '..='?')).is_some() {}
    let _last = letters.next_if(|letter| matches!(letter, '@'..='~'));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_invisible_characters_go_and_line_ends_stay() {
        let check = |text: &str, expected: &str| assert_eq!(plain(text), expected, "{text:?}");
        check("\u{1b}[1;32mMean\u{1b}[0m TTFT", "Mean TTFT");
        check("\u{feff}a\u{a0}b\u{200b}\r\nc", "a b\r\nc");
        check("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]0;title\u{7}!", "link!");
        check("cut \u{1b}[12\nnext \u{1b}", "cut \nnext ");
        check("input:\u{a0}102\u{a0}400\u{a0}", "input: 102\u{202f}400 ");
        assert!(matches!(plain("as it is"), Cow::Borrowed(_)));
    }
}
