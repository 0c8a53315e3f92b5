//! Text from outside, made fit for a terminal.
//!
//! A server, a file or a folder's name can hold anything: codes that move the cursor, line breaks that
//! start a line which looks like ours, marks that turn the reading direction. [`line()`] makes one line of
//! bounded length for a text inside a message; [`lines`] is the last check of a whole output.

/// The longest that a name or a message from outside is shown.
pub const LINE_CHARS: usize = 300;

const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Whether a character changes how others are shown, or is not shown itself.
fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

fn shown(letter: char) -> char {
    match letter {
        '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => ' ',
        _ if letter.is_control() || is_invisible(letter) => REPLACEMENT,
        _ => letter,
    }
}

/// A text from outside as one line of at most `chars_max` characters, without control characters.
/// Line breaks become blanks.
pub fn line(text: &str, chars_max: usize) -> String {
    let mut clean: String = text.chars().take(chars_max).map(shown).collect();
    if text.chars().nth(chars_max).is_some() {
        clean.pop();
        clean.push('…');
    }
    clean
}

/// A name or a message from outside as one line of ordinary length.
pub fn short(text: &str) -> String {
    line(text, LINE_CHARS)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColourCodes {
    /// Codes of the form `ESC [ … m` stay.
    Kept,
    Dropped,
}

/// An output of several lines without control characters other than line ends, tabs and colours.
pub fn lines(text: &str, colours: ColourCodes) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let code = if colours == ColourCodes::Kept { colour_code(rest) } else { 0 };
        if code > 0 {
            clean.push_str(&rest[..code]);
            rest = &rest[code..];
            continue;
        }
        match letter {
            '\n' | '\t' => clean.push(letter),
            // Reports of other tools may have the line ends of Windows.
            '\r' if rest.starts_with("\r\n") => clean.push(letter),
            _ => clean.push(shown(letter)),
        }
        rest = &rest[letter.len_utf8()..];
    }
    clean
}

/// Length of the colour code that a text begins with; zero where it begins with none.
fn colour_code(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\u{1b}[") else { return 0 };
    let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if rest.as_bytes().get(digits) == Some(&b'm') { digits + 3 } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_server_can_neither_start_a_line_nor_move_the_cursor() {
        let check = |text: &str, expected: &str| assert_eq!(line(text, 20), expected);
        check("plain", "plain");
        check("a\nVALID", "a VALID");
        check("a\r\u{1b}[2Jb", "a �[2Jb");
        check("\u{9b}31mred\u{7f}", "�31mred�");
        check("a\u{202e}b\u{200b}c\u{2066}d", "a�b�c�d");
        check("a\u{2028}b\u{85}c", "a b c");
        check("über 漢字 🙂", "über 漢字 🙂");
        check("exactly twenty chars", "exactly twenty chars");
        check("one more than twenty!", "one more than twent…");
    }

    #[test]
    fn an_output_keeps_its_lines_and_its_own_colours() {
        let text = "a\r\n\tb \u{1b}[1;31mred\u{1b}[0m \u{1b}[2J\u{1b}]0;t\u{7} \u{202e}x\r";
        let kept = "a\r\n\tb \u{1b}[1;31mred\u{1b}[0m �[2J�]0;t� �x ";
        assert_eq!(lines(text, ColourCodes::Kept), kept);
        assert!(!lines(text, ColourCodes::Dropped).contains('\u{1b}'));
    }

    /// Texts with many characters that must not be shown: ordinary strings have few of them.
    fn text() -> impl Strategy<Value = String> {
        let codes =
            "\u{1b}[31m\u{1b}]\r\n\t\u{7f}\u{9b}\u{85}\u{202e}\u{2066}\u{200b}\u{2028}\u{feff};";
        let code = proptest::sample::select(codes.chars().collect::<Vec<_>>());
        let letter = prop_oneof![any::<char>(), code];
        proptest::collection::vec(letter, 0..80).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn one_line_is_clean_bounded_and_stable(text in text(), most in 1_usize..60) {
            let clean = line(&text, most);
            prop_assert!(clean.chars().count() <= most);
            prop_assert!(!clean.chars().any(|letter| letter.is_control() || is_invisible(letter)));
            prop_assert_eq!(line(&clean, most), clean);
        }

        #[test]
        fn an_output_has_no_control_characters_but_its_own(text in text()) {
            let clean = lines(&text, ColourCodes::Dropped);
            let is_bad = |letter: char| {
                (letter.is_control() && !matches!(letter, '\n' | '\t')) || is_invisible(letter)
            };
            prop_assert!(!clean.replace("\r\n", "\n").chars().any(is_bad));
            prop_assert_eq!(lines(&clean, ColourCodes::Dropped), clean);
            let kept = lines(&text, ColourCodes::Kept);
            prop_assert_eq!(lines(&kept, ColourCodes::Kept), kept);
        }
    }
}
