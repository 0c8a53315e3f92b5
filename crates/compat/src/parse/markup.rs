//! Line ends and blanks that web pages and programs spell out.

use std::borrow::Cow;

/// A header with this many spelled-out line ends behind it on its line has its block there.
const FEWEST_ENDS: usize = 3;

/// The text with a line end where `<br>` or a block's `\n` is spelled out, and blanks for `&nbsp;`.
pub(super) fn spelled_out(text: &str) -> Cow<'_, str> {
    let is_quoted = |line: &str| {
        line.contains("Benchmark Result") && line.matches("\\n").count() >= FEWEST_ENDS
    };
    let mut text = Cow::Borrowed(text);
    if text.lines().any(is_quoted) {
        let lines = text.replace("\\r\\n", "\n").replace("\\n", "\n").replace("\\t", "\t");
        text = Cow::Owned(lines);
    }
    if text.contains("&nbsp;") {
        text = Cow::Owned(text.replace("&nbsp;", "\u{a0}"));
    }
    if text.contains("<br") { Cow::Owned(with_breaks(&text)) } else { text }
}

/// `<br>`, `<br/>` or `<br />` ends a line, together with a line end behind it.
fn with_breaks(text: &str) -> String {
    let mut pieces = text.split("<br");
    let mut lines = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let tag = piece.trim_start_matches([' ', '/']).strip_prefix('>');
        if let Some(rest) = tag {
            lines.push('\n');
            lines.push_str(rest.strip_prefix("\r\n").or(rest.strip_prefix('\n')).unwrap_or(rest));
        } else {
            lines.push_str("<br");
            lines.push_str(piece);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::{SEEDS, raw_blocks};
    use super::*;

    #[test]
    fn a_block_is_read_however_its_line_ends_are_written() {
        let block = &raw_blocks(SEEDS[0].1)[0];
        let plain = parse(block);
        for text in [
            block.replace('\n', "\\n"),
            format!("stdout = '{}'", block.replace('\n', "\\r\\n")),
            format!("<p>{}</p>", block.replace(' ', "&nbsp;").replace('\n', "<br>\n")),
            format!("<p>{}</p>", block.replace('\n', "<br />")),
        ] {
            let [read] = &parse(&text)[..] else { panic!("one report: {text}") };
            assert_eq!(read.values, plain[0].values, "{text}");
        }
    }

    #[test]
    fn other_text_stays() {
        for text in ["C:\\new\\n", "a <brand> b", "Benchmark Result\nC:\\new"] {
            assert!(matches!(spelled_out(text), Cow::Borrowed(_)) || spelled_out(text) == text);
        }
        assert_eq!(spelled_out("a<br/>b<br\nc"), "a\nb<br\nc");
    }
}
