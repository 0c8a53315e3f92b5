//! Parts of a report that stand in a text without its header.

use super::blocks::{TextBlock, start_of_own};
use super::lines::TextLine;
use super::loose;
use crate::model::{Field, Key, Problem, Title};

/// Fewer labelled values than this are taken for ordinary text.
const FEWEST: usize = 3;

/// The lines of a text that read like a report, one block for each time that they start again.
pub(super) fn fragments<'a>(lines: &[TextLine<'a>]) -> Vec<TextBlock<'a>> {
    let mut found: Vec<Fragment<'a>> = Vec::new();
    let mut open = Fragment::default();
    for line in lines {
        let line = start_of_own(line.text).map_or(*line, |start| line.from(start));
        let value = loose::known_lines(&[line]).remove(0).value;
        let value = value.map(|value| (value.meaning.key, value.text));
        if value.is_some_and(|(key, text)| open.has_other(key, text)) {
            found.push(std::mem::take(&mut open));
        }
        open.take(line, value);
    }
    found.push(open);
    found.into_iter().filter(Fragment::is_report).map(Fragment::into_block).collect()
}

#[derive(Default)]
struct Fragment<'a> {
    lead: Vec<TextLine<'a>>,
    lines: Vec<TextLine<'a>>,
    /// Lines up to the last one that has a value.
    own: usize,
    values: std::collections::BTreeMap<Key, &'a str>,
}

impl<'a> Fragment<'a> {
    fn has_other(&self, key: Key, text: &str) -> bool {
        self.values.get(&key).is_some_and(|earlier| *earlier != text)
    }

    fn take(&mut self, line: TextLine<'a>, value: Option<(Key, &'a str)>) {
        if let Some((key, text)) = value {
            let _same = self.values.insert(key, text);
            self.lines.push(line);
            self.own = self.lines.len();
        } else if self.lines.is_empty() {
            self.lead.push(line);
        } else {
            self.lines.push(line);
        }
    }

    /// Some of its values must be results: settings and counts alone are those of a command.
    fn is_report(&self) -> bool {
        let is_result = |key: &Key| match key {
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
        self.values.len() >= FEWEST && self.values.keys().any(is_result)
    }

    fn into_block(mut self) -> TextBlock<'a> {
        self.lines.truncate(self.own);
        let first_line = self.lines.first().map_or(1, |line| line.number);
        TextBlock {
            title: Title::Serving,
            width: 0,
            header: "",
            footer: None,
            first_line,
            line_end: if self.lines.iter().any(|line| line.end == "\r\n") { "\r\n" } else { "\n" },
            lines: self.lines,
            lead: self.lead,
            problems: vec![Problem::NoHeader { line: first_line }],
        }
    }
}
