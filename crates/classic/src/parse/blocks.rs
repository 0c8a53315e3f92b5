//! Finds where blocks begin and end in a text.
//!
//! A block runs from a header line to a line of `=`. Where a header comes before the footer of the
//! block above, that block is cut, or two blocks are mixed: then lines that can only belong to a
//! block also stand after the footer.

use super::fit::is_block_line;
use super::lines::TextLine;
use crate::layout::Layout;
use crate::layout::table::centred;
use crate::model::{Problem, Title};

/// The lines of one block and of what stands before it.
#[derive(Debug, Clone)]
pub(super) struct TextBlock<'a> {
    pub(super) title: Title,
    /// Characters of the header line.
    pub(super) width: usize,
    /// Line of the header.
    pub(super) first_line: usize,
    pub(super) line_end: &'static str,
    /// Lines between header and footer.
    pub(super) lines: Vec<TextLine<'a>>,
    /// Lines since the block before.
    pub(super) lead: Vec<TextLine<'a>>,
    pub(super) problems: Vec<Problem>,
}

/// What a line opens.
struct Header<'a> {
    title: Title,
    width: usize,
    /// What stands before it on its line: a log prefix, or a progress bar without a line end.
    prefix: &'a str,
}

fn header(text: &str) -> Option<Header<'_>> {
    let (title, at) =
        Title::ALL.into_iter().find_map(|title| Some((title, text.find(title.words())?)))?;
    let start = text[..at].trim_end_matches('=').len();
    let after = &text[at + title.words().len()..];
    let right = after.len() - after.trim_start_matches('=').len();
    let left = at - start;
    (left >= 3 && right >= 3).then(|| Header {
        title,
        width: left + title.words().chars().count() + right,
        prefix: &text[..start],
    })
}

/// A line of `=` and nothing else, as wide as any layout's footer.
fn is_footer(text: &str) -> bool {
    let text = text.trim_end();
    text.len() >= 40 && text.bytes().all(|byte| byte == b'=')
}

fn is_tail_header(text: &str) -> bool {
    let tails = Layout::ALL.into_iter().filter_map(|layout| layout.table()?.tail);
    tails.into_iter().any(|tail| text.trim_end() == centred(tail.title, '=', tail.widths.header))
}

/// All blocks of the text, in order.
pub(super) fn blocks<'a>(lines: &[TextLine<'a>]) -> Vec<TextBlock<'a>> {
    let mut finder = Finder { found: Vec::new(), open: None, prefix: "", lead: Vec::new() };
    let mut rest = lines;
    while let Some((line, after)) = rest.split_first() {
        rest = after;
        finder.take(*line, after);
    }
    if let Some(block) = finder.open.take() {
        finder.close_cut(block);
    }
    finder.found
}

struct Finder<'a> {
    found: Vec<TextBlock<'a>>,
    open: Option<TextBlock<'a>>,
    /// What the open block's header had before it, which its other lines may share.
    prefix: &'a str,
    lead: Vec<TextLine<'a>>,
}

impl<'a> Finder<'a> {
    fn take(&mut self, line: TextLine<'a>, after: &[TextLine<'a>]) {
        if let Some(header) = header(line.text) {
            if let Some(block) = self.open.take() {
                self.close_cut(block);
            }
            self.begin(line, &header);
            return;
        }
        let bare = line.without_prefix(self.prefix);
        match self.open.take() {
            Some(block) if is_footer(bare.text) && !block.has_tail(after) => self.found.push(block),
            Some(mut block) => {
                block.lines.push(bare);
                self.open = Some(block);
            }
            None if is_footer(line.text) || is_block_line(line.text) => self.stray(line),
            None => self.lead.push(line),
        }
    }

    fn begin(&mut self, line: TextLine<'a>, header: &Header<'a>) {
        self.prefix = header.prefix;
        if !header.prefix.trim().is_empty() {
            self.lead.push(TextLine { text: header.prefix, ..line });
        }
        self.open = Some(TextBlock {
            title: header.title,
            width: header.width,
            first_line: line.number,
            line_end: if line.end == "\r\n" { "\r\n" } else { "\n" },
            lines: Vec::new(),
            lead: std::mem::take(&mut self.lead),
            problems: Vec::new(),
        });
    }

    /// Ends a block that has no footer. What follows its last recognisable line is not its own, and
    /// a last line without an end may be half a line, whose value cannot be trusted.
    fn close_cut(&mut self, mut block: TextBlock<'a>) {
        let is_half = |line: &TextLine<'_>| line.end.is_empty();
        let own = block
            .lines
            .iter()
            .rposition(|line| is_block_line(line.text) && !is_half(line))
            .map_or(0, |last| last + 1);
        self.lead = block.lines.split_off(own);
        let line = block.lines.last().map_or(block.first_line, |line| line.number);
        block.problems.push(Problem::Cut { line });
        self.found.push(block);
    }

    /// A line that only a block can hold stands outside of any: its block was mixed with the last.
    fn stray(&mut self, line: TextLine<'a>) {
        let Some(last) = self.found.len().checked_sub(1) else { return };
        let mixed = Problem::Interleaved { line: line.number };
        let block = &mut self.found[last];
        if !block.problems.contains(&mixed) && block.problems.is_empty() {
            block.problems.push(mixed);
        }
    }
}

impl TextBlock<'_> {
    /// Whether the footer just met is followed by the block's second part. Only a warning may stand
    /// between the two.
    fn has_tail(&self, after: &[TextLine<'_>]) -> bool {
        let is_passed = |line: &&TextLine<'_>| {
            !line.text.trim().is_empty() && !line.text.starts_with("Warning: ")
        };
        let is_in_tail = self.lines.iter().any(|line| is_tail_header(line.text));
        !is_in_tail && after.iter().find(is_passed).is_some_and(|line| is_tail_header(line.text))
    }
}
