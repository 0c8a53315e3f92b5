//! The labels that the layouts print and the keys of result files, known by their words.
//!
//! `Mean TTFT (ms):`, `mean_ttft_ms` and `mean TTFT ms` have the same words.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::file_keys::{FILE_KEYS, is_counted};
use crate::layout::Layout;
use crate::layout::table::{Element, Format, LayoutTable};
use crate::model::{Field, Key, Metric, Stat};

/// A label longer than this is a sentence.
const LONGEST: usize = 80;

pub(super) fn tables() -> impl Iterator<Item = (Layout, &'static LayoutTable)> {
    Layout::all().filter_map(|layout| Some((layout, layout.table()?)))
}

/// What a label may stand for. Two lines of one label differ in their format.
pub(super) type Meanings = Vec<(Key, Format)>;

/// The labels of a part of a report.
#[derive(Default)]
pub(super) struct Vocabulary {
    /// Labels of fields as printed, with their colon. The longest first: `Total input tokens:` is not
    /// `input tokens:`.
    printed: Vec<&'static str>,
    /// Names of metrics as printed in labels.
    metrics: Vec<(&'static str, Metric)>,
    fields: HashMap<String, Meanings>,
    titles: HashSet<String>,
}

/// The words of the first part of every report.
pub(super) static MAIN: LazyLock<Vocabulary> = LazyLock::new(|| {
    let mut found = Vocabulary::default();
    for (_, table) in tables() {
        found.add(table.rows);
    }
    let keys = FILE_KEYS.into_iter().flatten().copied();
    // Columns of published grids.
    let grids = [("duration_s", Field::Duration), ("output_tok_s", Field::OutputThroughput)];
    for (key, field) in keys.chain(grids) {
        let format = if is_counted(field) { Format::Count } else { Format::Fixed };
        found.add_field(words(key), field, format);
    }
    found.ordered()
});

/// The words of the second part that one tool prints, which repeat those of the first.
pub(super) static TAIL: LazyLock<Vocabulary> = LazyLock::new(|| {
    let mut found = Vocabulary::default();
    for tail in tables().filter_map(|(_, table)| table.tail) {
        found.add(tail.rows);
    }
    found.ordered()
});

impl Vocabulary {
    fn add(&mut self, rows: &'static [Element]) {
        for row in rows {
            match row {
                Element::Line(line) => {
                    self.printed.push(line.label);
                    self.add_field(indented_words(line.label), line.field, line.format);
                }
                Element::Latency(section) => {
                    self.metrics.push((section.name, section.metric));
                    self.titles.extend(section.title.map(words));
                }
                Element::Section { title, rows, .. } => {
                    let _new = self.titles.insert(words(title));
                    self.add(rows);
                }
                Element::Shared(rows) => self.add(rows),
                Element::Positions { .. } | Element::Rule => {}
            }
        }
    }

    fn add_field(&mut self, words: String, field: Field, format: Format) {
        let known = self.fields.entry(words).or_default();
        let meaning = (Key::Field(field), format);
        if !known.contains(&meaning) {
            known.push(meaning);
            // What can be read as a count is one.
            known.sort_by_key(|(_, format)| *format != Format::Count);
        }
    }

    fn ordered(mut self) -> Self {
        self.printed.sort_by_key(|label| std::cmp::Reverse(label.len()));
        self.metrics.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        self
    }

    /// What a label may stand for, in any spelling; nothing where it is not known.
    pub(super) fn meanings(&self, label: &str) -> Meanings {
        if label.len() > LONGEST {
            return Vec::new();
        }
        let found = self.fields.get(&indented_words(label));
        if let Some(found) = found.or_else(|| self.fields.get(&words(label))) {
            return found.clone();
        }
        let words = words(label);
        let position = words.strip_prefix("position ").and_then(|number| number.parse().ok());
        let position = position.map(|number| (Key::Position(number), Format::Fixed));
        position.or_else(|| self.latency(&words)).into_iter().collect()
    }

    /// `mean ttft ms` as printed, `ttft ms p50` as in published grids, and `latency p99 s` as in SGLang's
    /// reports of diffusion models.
    fn latency(&self, words: &str) -> Option<(Key, Format)> {
        if let Some(stat) = words.strip_prefix("latency ").and_then(|rest| rest.strip_suffix(" s"))
        {
            return Some((Key::Latency(Metric::E2el, Stat::from_label(stat)?), Format::Seconds));
        }
        let printed = || words.strip_suffix(" ms")?.split_once(' ');
        let column = || words.split_once(" ms ").map(|(name, stat)| (stat, name));
        let (stat, name) = printed().or_else(column)?;
        let is_it = |(known, _): &&(&str, Metric)| self::words(known) == name;
        let (_, metric) = self.metrics.iter().find(is_it)?;
        Some((Key::Latency(*metric, Stat::from_label(stat)?), Format::Fixed))
    }

    pub(super) fn has_title(&self, title: &str) -> bool {
        self.titles.contains(&words(title))
    }
}

/// Words of small letters, without what stands between them.
fn words(text: &str) -> String {
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '%');
    let words = text.split(|letter| !is_part(letter)).map(|word| word.trim_matches('.'));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ").to_lowercase()
}

/// The same; an indented label is a part of the one above it and means nothing alone.
fn indented_words(label: &str) -> String {
    let indent = if label.starts_with("  ") { "  " } else { "" };
    indent.to_owned() + &words(label)
}

/// Where a label of any layout begins in this line, in its exact spelling and behind whatever a log
/// or a terminal put before it.
pub(super) fn start_of_printed(text: &str) -> Option<usize> {
    text.match_indices(':').find_map(|(colon, _)| {
        let (before, after) = text.split_at(colon + 1);
        let is_apart = after.is_empty() || after.starts_with([' ', '\t']);
        let start = Some(before).filter(|_| is_apart).and_then(label_start)?;
        // One word is too little to be sure of: it must also be padded to its column.
        let label = before[start..].trim();
        let is_sure = start == 0 || label.contains(' ') || is_padded(label, after);
        let is_word = !text[..start].ends_with(char::is_alphanumeric);
        (is_word && is_sure).then_some(start)
    })
}

/// Whether the value behind a label stands in its column.
pub(super) fn is_padded(label: &str, after: &str) -> bool {
    label.len() + after.len() - after.trim_start().len() > 30
}

fn label_start(before: &str) -> Option<usize> {
    let printed = MAIN.printed.iter().chain(&TAIL.printed);
    if let Some(label) = printed.into_iter().find(|label| before.ends_with(**label)) {
        return Some(before.len() - label.len());
    }
    let before = before.strip_suffix(" (ms):")?;
    MAIN.metrics.iter().find_map(|(name, _)| {
        let words = before.strip_suffix(name)?.strip_suffix(' ')?;
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
        let start = words.trim_end_matches(is_part).len();
        Stat::from_label(&words[start..]).map(|_| start)
    })
}
