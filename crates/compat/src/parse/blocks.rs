//! Finds where blocks begin and end in a text.
//!
//! A block runs from a header line to a line of `=`. Where a header comes before the footer of the
//! block above, that block is cut, or two blocks are mixed: then lines that can only belong to a
//! block also stand after the footer. What stands before every line of a block (a quote mark, a log's time
//! stamp) is taken off.

use super::labels::{MAIN, is_padded, start_of_printed};
use super::reading::{is_labelled_number, is_tail_header, labelled, read, rule_title};
use super::text::TextLine;
use crate::model::{Field, Key, Problem, Title};

/// The lines of one block and of what stands before it.
#[derive(Debug, Clone)]
pub(super) struct TextBlock<'a> {
    pub(super) title: Title,
    /// Characters of the header line.
    pub(super) width: usize,
    pub(super) header: Option<&'a str>,
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

impl<'a> TextBlock<'a> {
    fn is_cut(&self) -> bool {
        self.problems.iter().any(|problem| matches!(problem, Problem::Cut { .. }))
    }

    fn begin(line: TextLine<'a>, lead: Vec<TextLine<'a>>) -> Self {
        Self {
            title: Title::Serving,
            width: 0,
            header: None,
            footer: None,
            first_line: line.number,
            line_end: if line.end == "\r\n" { "\r\n" } else { "\n" },
            lines: Vec::new(),
            lead,
            problems: Vec::new(),
        }
    }
}

/// What a line opens.
struct Header<'a> {
    title: Title,
    text: &'a str,
    /// What stands before it on its line: a log prefix, or a progress bar without a line end.
    prefix: &'a str,
}

/// Whether a line cannot go on.
fn is_whole(line: &TextLine<'_>) -> bool {
    let decimals = line.text.trim_end().rsplit_once('.').map(|(_, decimals)| decimals);
    let is_complete =
        |digits: &str| digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
    !line.end.is_empty() || decimals.is_some_and(is_complete)
}

/// `==== Serving Benchmark Result ====` behind any prefix, also with other words before the last two. The
/// header of a block that a narrow terminal has wrapped is not in the middle: `200` behind a label of 40
/// columns would be read as 2 there.
fn header(text: &str) -> Option<Header<'_>> {
    const WORDS: &str = "Benchmark Result";
    let (before, after) = text.split_at(text.find(WORDS)? + WORDS.len());
    let left = before.trim_end_matches(|letter| letter != '=');
    let start = left.trim_end_matches('=').len();
    let right = after.trim_start_matches(|letter| letter != '=');
    let end = text.len() - right.trim_start_matches('=').len();
    let words = &text[left.len()..text.len() - right.len()];
    let (fill, more) = (left.len() - start, right.len() - (text.len() - end));
    let is_centred = fill >= 3 && (more == fill || more == fill + 1);
    // A sentence between two runs is none of ours.
    (is_centred && words.len() <= 60).then(|| Header {
        title: Title::ALL.into_iter().find(|title| title.words() == words).unwrap_or_default(),
        text: &text[start..end],
        prefix: &text[..start],
    })
}

/// A line of `=` and nothing else, as wide as any layout's footer.
fn is_footer(text: &str) -> bool {
    let text = text.trim_end();
    text.len() >= 40 && text.bytes().all(|byte| byte == b'=')
}

/// The same inside a block, where narrower ones end it too.
fn is_own_footer(text: &str) -> bool {
    let text = text.trim_matches([' ', '|', '│', '`']);
    text.len() >= 10 && text.bytes().all(|byte| byte == b'=')
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
    // A text without any header may be a table, so what it is is decided elsewhere.
    if !finder.found.is_empty() {
        finder.take_headless();
    }
    finder.found
}

/// The line without its prefix. Time stamps differ from line to line: a line that begins with another
/// prefix is cut where its label, its rule or its footer begins.
fn inside<'a>(line: TextLine<'a>, prefix: &str) -> TextLine<'a> {
    let text = line.text.strip_prefix(prefix).unwrap_or(line.text);
    TextLine { text: &text[start_of_own(text).unwrap_or(0)..], ..line }
}

/// Where the block's own text begins in a line.
fn start_of_own(text: &str) -> Option<usize> {
    let footer = || {
        let start = text.trim_end().trim_end_matches('=').len();
        is_footer(&text[start..]).then_some(start)
    };
    start_of_printed(text).or_else(footer).or_else(|| start_of_rule(text))
}

/// The first run of dashes that begins a rule. A prefix may have dashes too; then the title that follows
/// them holds the rule's own.
fn start_of_rule(text: &str) -> Option<usize> {
    let runs = text.match_indices("---").map(|(at, _)| at);
    runs.filter(|at| !text[..*at].ends_with('-'))
        .find(|at| rule_title(&text[*at..]).is_some_and(|title| !title.contains("---")))
}

/// Whether a line outside of a block can only belong to one: a known label padded to its column, or
/// the rule of a known section.
fn is_block_line(text: &str) -> bool {
    let is_label = || {
        let (label, after) = text.split_at(text.find(':').map_or(0, |colon| colon + 1));
        start_of_printed(text) == Some(0) && is_padded(label, after)
    };
    rule_title(text).is_some_and(|title| MAIN.has_title(title)) || is_label()
}

fn is_known(line: &TextLine<'_>) -> bool {
    let is_rule = || rule_title(line.text).is_some_and(|title| MAIN.has_title(title));
    labelled(line.text).is_some_and(|parts| !MAIN.meanings(parts.label).is_empty()) || is_rule()
}

/// Fewer labelled values than this are taken for ordinary text.
const FEWEST: usize = 3;

/// The lines of a text that read like a report without its header. Some of its values must be results:
/// settings and counts alone are those of a command. A text with the first piece of a header is wrapped.
pub(super) fn without_header<'a>(lines: &[TextLine<'a>]) -> Option<TextBlock<'a>> {
    if lines.iter().any(|line| line.text.contains("=== ")) {
        return None;
    }
    let lines: Vec<TextLine<'a>> = lines.iter().map(|line| inside(*line, "")).collect();
    let (first, last) = (lines.iter().position(is_known)?, lines.iter().rposition(is_known)?);
    let values = read(&lines[first..=last]).values;
    let is_result = |key: Key| match key {
        Key::Latency(..) => true,
        Key::Field(field) => matches!(
            field,
            Field::Duration
                | Field::RequestThroughput
                | Field::OutputThroughput
                | Field::TotalThroughput
        ),
        Key::Position(_) => false,
    };
    let is_report = values.iter().count() >= FEWEST && values.iter().any(|(key, _)| is_result(key));
    is_report.then(|| TextBlock {
        lines: lines[first..=last].to_vec(),
        problems: vec![Problem::NoHeader { line: lines[first].number }],
        ..TextBlock::begin(lines[first], lines[..first].to_vec())
    })
}

struct Finder<'a> {
    found: Vec<TextBlock<'a>>,
    open: Option<TextBlock<'a>>,
    /// What stood before the header of the open block, which its other lines may share.
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
        let bare = inside(line, self.prefix);
        if is_own_footer(bare.text) && !self.has_tail(&block, after) {
            block.footer = Some(bare.text.trim_end());
            self.found.push(block);
        } else {
            block.lines.push(bare);
            self.open = Some(block);
        }
    }

    /// A report without its header among the others. What stands after it belongs to the next one.
    fn take_headless(&mut self) {
        let first = self.lead.iter().position(|line| is_known(&inside(*line, "")));
        let Some(first) = first else { return };
        let is_end = |line: &TextLine<'_>| is_footer(inside(*line, "").text);
        let footer = self.lead[first..].iter().position(is_end).map(|at| first + at);
        let end = footer.unwrap_or(self.lead.len());
        if let Some(block) = without_header(&self.lead[..end]) {
            self.lead.drain(..footer.map_or(end, |at| at + 1));
            self.found.push(block);
        }
    }

    fn begin(&mut self, line: TextLine<'a>, header: &Header<'a>) {
        self.take_headless();
        self.prefix = header.prefix;
        if !header.prefix.trim().is_empty() {
            self.lead.push(TextLine { text: header.prefix, ..line });
        }
        self.open = Some(TextBlock {
            title: header.title,
            width: header.text.len(),
            header: Some(header.text),
            ..TextBlock::begin(line, std::mem::take(&mut self.lead))
        });
    }

    /// Whether the footer just met is followed by the block's second part. Only a warning may stand
    /// between the two.
    fn has_tail(&self, block: &TextBlock<'_>, after: &[TextLine<'_>]) -> bool {
        let is_passed = |text: &&str| !text.trim().is_empty() && !text.starts_with("Warning: ");
        let is_in_tail = block.lines.iter().any(|line| is_tail_header(line.text));
        let mut after =
            after.iter().map(|line| line.text.strip_prefix(self.prefix).unwrap_or(line.text));
        !is_in_tail && after.find(is_passed).is_some_and(is_tail_header)
    }

    /// Ends a block that has no footer. What follows its last recognisable line is not its own, and
    /// a last line without an end may be half a line, whose value cannot be trusted unless it has the two
    /// decimals that every layout prints.
    fn close_cut(&mut self, mut block: TextBlock<'a>) {
        let is_own = |line: &TextLine<'_>| is_known(line) && is_whole(line);
        let known = block.lines.iter().rposition(is_own).map_or(0, |last| last + 1);
        // Lines of a fork may follow, in the same columns.
        let is_fork_s = |line: &&TextLine<'_>| {
            let (label, after) =
                line.text.split_at(line.text.find(':').map_or(0, |colon| colon + 1));
            is_whole(line) && is_padded(label, after) && is_labelled_number(line.text)
        };
        let own = known + block.lines[known..].iter().take_while(is_fork_s).count();
        self.lead = block.lines.split_off(own);
        let line = block.lines.last().map_or(block.first_line, |line| line.number);
        block.problems.push(Problem::Cut { line });
        self.found.push(block);
    }

    /// A line that only a block can hold stands outside of any: it is of the block that was cut by the header
    /// of the last one, so the two are mixed; or it is of a block without a header.
    fn stray(&mut self, line: TextLine<'a>) {
        match &mut self.found[..] {
            [.., cut, last] if cut.is_cut() && !last.is_cut() => {
                if last.problems.is_empty() {
                    last.problems.push(Problem::Interleaved { line: line.number });
                }
            }
            _ => self.lead.push(line),
        }
    }
}
