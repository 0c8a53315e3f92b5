//! Finds where blocks begin and end in a text.
//!
//! A block runs from a header line to a line of `=`. Where a header comes before the footer of the
//! block above, that block is cut, or two blocks are mixed: then lines that can only belong to a
//! block also stand after the footer. What stands before or behind every line of a block (a quote
//! mark, a log's time stamp, the border of a box) is taken off.

use super::fit::is_block_line;
use super::labels;
use super::lines::TextLine;
use super::loose;
use crate::layout::Layout;
use crate::layout::table::centred;
use crate::model::{Problem, Title};

/// The lines of one block and of what stands before it.
#[derive(Debug, Clone)]
pub(super) struct TextBlock<'a> {
    pub(super) title: Title,
    /// Characters of the header line.
    pub(super) width: usize,
    /// The header; empty where a block has none.
    pub(super) header: &'a str,
    /// The footer, unless the block ends without one.
    pub(super) footer: Option<&'a str>,
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
    text: &'a str,
    /// What stands before it on its line: a log prefix, or a progress bar without a line end.
    prefix: &'a str,
    /// What stands behind it: the border of a box.
    suffix: &'a str,
}

fn is_fill(letter: char) -> bool {
    matches!(letter, '=' | '═' | '━')
}

/// `==== Serving Benchmark Result ====` behind any prefix, also with other words before the last two.
fn header(text: &str) -> Option<Header<'_>> {
    const WORDS: &str = "benchmark result";
    let bytes = text.as_bytes();
    let at =
        bytes.windows(WORDS.len()).position(|part| part.eq_ignore_ascii_case(WORDS.as_bytes()))?;
    let left = text[..at].trim_end_matches(|letter| !is_fill(letter));
    let start = left.trim_end_matches(is_fill).len();
    let after = &text[at + WORDS.len()..];
    let right = after.find(is_fill)?;
    let tail = after[right..].trim_start_matches(is_fill);
    let end = text.len() - tail.len();
    let words = &text[left.len()..at + WORDS.len() + right];
    let runs = [&text[start..left.len()], &text[text.len() - after.len() + right..end]];
    let is_framed = runs.iter().all(|run| run.chars().count() >= 3);
    // A sentence between two runs is none of ours.
    (is_framed && words.len() <= 60).then(|| Header {
        title: title_of(words),
        text: &text[start..end],
        prefix: &text[..start],
        suffix: tail.trim(),
    })
}

fn title_of(words: &str) -> Title {
    let words = words.to_ascii_lowercase();
    let has = |title: &Title| words.contains(title.words().trim().to_ascii_lowercase().as_str());
    Title::ALL.into_iter().find(has).unwrap_or_default()
}

/// A line of `=` and nothing else, as wide as any layout's footer.
pub(super) fn is_footer(text: &str) -> bool {
    let text = text.trim_end();
    text.len() >= 40 && text.bytes().all(|byte| byte == b'=')
}

/// The same inside a block, where narrower and drawn ones end it too.
fn is_own_footer(text: &str) -> bool {
    let text = without_markup(text);
    let text = text.trim_matches(|letter: char| letter.is_whitespace() || loose::is_corner(letter));
    text.chars().count() >= 10 && text.chars().all(is_fill)
}

/// A line without the closing tags of a web page, or the fence, behind it.
fn without_markup(text: &str) -> &str {
    let mut text = text.trim_end();
    while let Some(at) = text.strip_suffix('>').and_then(|inside| inside.rfind('<')) {
        text = text[..at].trim_end();
    }
    text.trim_end_matches('`')
}

fn is_tail_header(text: &str) -> bool {
    let tails = Layout::ALL.into_iter().filter_map(|layout| layout.table()?.tail);
    tails.into_iter().any(|tail| text.trim_end() == centred(tail.title, '=', tail.widths.header))
}

/// All blocks of the text, in order.
pub(super) fn blocks<'a>(lines: &[TextLine<'a>]) -> Vec<TextBlock<'a>> {
    let mut finder =
        Finder { found: Vec::new(), open: None, frame: LineFrame::default(), lead: Vec::new() };
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

/// What a block's header had around it, which its other lines may share.
#[derive(Debug, Clone, Copy, Default)]
struct LineFrame<'a> {
    prefix: &'a str,
    suffix: &'a str,
}

impl LineFrame<'_> {
    /// The line without its frame. Time stamps differ from line to line: a line that begins with
    /// another prefix is cut where its label, its rule or its footer begins.
    fn inside(self, line: TextLine<'_>) -> TextLine<'_> {
        let line = line.without_suffix(self.suffix).without_prefix(self.prefix);
        match start_of_own(line.text) {
            Some(start) => line.from(start),
            None => line,
        }
    }
}

/// Where the block's own text begins in a line.
pub(super) fn start_of_own(text: &str) -> Option<usize> {
    labels::start_of_printed(text).or_else(|| start_of_footer(text)).or_else(|| start_of_rule(text))
}

fn start_of_footer(text: &str) -> Option<usize> {
    let start = text.trim_end().trim_end_matches('=').len();
    is_footer(&text[start..]).then_some(start)
}

/// The first run of dashes that begins a rule. A prefix may have dashes too; then the title that follows
/// them holds the rule's own.
fn start_of_rule(text: &str) -> Option<usize> {
    if loose::is_table_rule(text) {
        return None;
    }
    let runs = text.match_indices("---").map(|(at, _)| at);
    runs.filter(|at| !text[..*at].ends_with('-'))
        .find(|at| loose::rule_title(&text[*at..]).is_some_and(|title| !title.contains("---")))
}

struct Finder<'a> {
    found: Vec<TextBlock<'a>>,
    open: Option<TextBlock<'a>>,
    frame: LineFrame<'a>,
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
        match self.open.take() {
            Some(block) => self.take_inside(block, line, after),
            None if is_footer(line.text) || is_block_line(line.text) => self.stray(line),
            None => self.lead.push(line),
        }
    }

    fn take_inside(
        &mut self,
        mut block: TextBlock<'a>,
        line: TextLine<'a>,
        after: &[TextLine<'a>],
    ) {
        let bare = self.frame.inside(line);
        if is_own_footer(bare.text) && !block.has_tail(after, self.frame) {
            block.footer = Some(bare.text.trim_end());
            self.found.push(block);
        } else {
            block.lines.push(bare);
            self.open = Some(block);
        }
    }

    fn begin(&mut self, line: TextLine<'a>, header: &Header<'a>) {
        self.frame = LineFrame { prefix: header.prefix, suffix: header.suffix };
        if !header.prefix.trim().is_empty() {
            self.lead.push(TextLine { text: header.prefix, ..line });
        }
        self.open = Some(TextBlock {
            title: header.title,
            width: header.text.chars().count(),
            header: header.text,
            footer: None,
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
        // Lines of a copied block have lost their padding, so a label in its exact spelling counts too. Where
        // no line has one, a line in any spelling does.
        let is_printed = |line: &TextLine<'_>| {
            is_block_line(line.text) || labels::start_of_printed(line.text) == Some(0)
        };
        let has_printed = block.lines.iter().any(is_printed);
        let is_own = |line: &TextLine<'_>| {
            if has_printed { is_printed(line) } else { loose::read(line.text, None).is_some() }
        };
        let is_half = |line: &TextLine<'_>| line.end.is_empty();
        let own = block
            .lines
            .iter()
            .rposition(|line| is_own(line) && !is_half(line))
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
    fn has_tail(&self, after: &[TextLine<'_>], frame: LineFrame<'_>) -> bool {
        let is_passed = |line: &TextLine<'_>| {
            !line.text.trim().is_empty() && !line.text.starts_with("Warning: ")
        };
        let is_in_tail = self.lines.iter().any(|line| is_tail_header(line.text));
        let mut after = after.iter().map(|line| line.without_prefix(frame.prefix));
        !is_in_tail && after.find(is_passed).is_some_and(|line| is_tail_header(line.text))
    }
}
