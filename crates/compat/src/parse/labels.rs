//! The labels that any layout prints, found in a line in their own or a similar spelling.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::number::{self, NumberUnit};
use crate::layout::Layout;
use crate::layout::table::{Element, Format, LayoutTable};
use crate::model::{Field, Key, Metric, Percentile, Stat};

/// A label longer than this is a sentence.
const LONGEST: usize = 80;

/// What a label stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Label {
    pub(super) key: Key,
    pub(super) format: Format,
    /// The unit that the label names.
    pub(super) unit: Option<NumberUnit>,
}

pub(super) fn tables() -> impl Iterator<Item = (Layout, &'static LayoutTable)> {
    Layout::ALL.into_iter().filter_map(|layout| Some((layout, layout.table()?)))
}

/// Rows of all tables, those of shared and titled groups included.
fn rows(rows: &'static [Element], each: &mut dyn FnMut(&'static Element)) {
    for row in rows {
        each(row);
        if let Element::Section { rows: inner, .. } | Element::Shared(inner) = row {
            self::rows(inner, each);
        }
    }
}

/// Everything that can be looked up, made once.
struct LabelTable {
    /// Labels of fields as printed, with their colon.
    printed: Vec<&'static str>,
    /// Names of metrics as printed in labels.
    metrics: Vec<&'static str>,
    /// Fields by the words of their label.
    fields: HashMap<String, (Field, Format)>,
    /// Titles of sections, in plain words.
    titles: Vec<String>,
}

/// Other tools' words for fields, in plain words.
const ALIASES: [(&str, Field, Format); 14] = [
    ("completed", Field::Successful, Format::Count),
    ("completed requests", Field::Successful, Format::Count),
    ("request count", Field::Successful, Format::Count),
    ("error request count", Field::Failed, Format::Count),
    ("failed", Field::Failed, Format::Count),
    ("duration", Field::Duration, Format::Fixed),
    ("total output tokens", Field::OutputTokens, Format::Count),
    ("output throughput", Field::OutputThroughput, Format::Fixed),
    ("output tokens throughput", Field::OutputThroughput, Format::Fixed),
    ("total throughput", Field::TotalThroughput, Format::Fixed),
    ("input token throughput", Field::InputThroughput, Format::Fixed),
    ("max concurrency", Field::MaxConcurrency, Format::CountOrWords),
    ("max concurrent requests", Field::PeakConcurrency, Format::Fixed),
    ("total output tokens retokenized", Field::RetokenizedTokens, Format::Count),
];

static VOCABULARY: LazyLock<LabelTable> = LazyLock::new(|| {
    let mut found = LabelTable {
        printed: Vec::new(),
        metrics: Vec::new(),
        fields: HashMap::new(),
        titles: Vec::new(),
    };
    for (_, table) in tables() {
        rows(table.rows, &mut |row| match row {
            Element::Line(line) => {
                found.printed.push(line.label);
                // An indented label is a part of the one above it and means nothing alone.
                if !line.label.starts_with(' ') {
                    let words = plain_words(line.label).0;
                    let _first = found.fields.entry(words).or_insert((line.field, line.format));
                }
            }
            Element::Latency(section) => {
                found.metrics.push(section.name);
                found.titles.extend(section.title.map(|title| plain_words(title).0));
            }
            Element::Section { title, .. } => found.titles.push(plain_words(title).0),
            Element::Positions { .. } | Element::Shared(_) | Element::Rule => {}
        });
        if let Some(tail) = table.tail {
            rows(tail.rows, &mut |row| {
                if let Element::Line(line) = row {
                    found.printed.push(line.label);
                }
            });
        }
    }
    for (words, field, format) in ALIASES {
        let _first = found.fields.entry(words.to_owned()).or_insert((field, format));
    }
    // Longest first: `Total input tokens:` is not `input tokens:`.
    found.printed.sort_by_key(|label| std::cmp::Reverse(label.len()));
    found.printed.dedup();
    found.metrics.sort_by_key(|name| std::cmp::Reverse(name.len()));
    found.metrics.dedup();
    found
});

/// Where a label of any layout begins in this line, in its exact spelling and behind whatever a log
/// or a terminal put before it.
pub(super) fn start_of_printed(text: &str) -> Option<usize> {
    text.match_indices(':').find_map(|(colon, _)| {
        let (before, after) = text.split_at(colon + 1);
        let is_apart = after.is_empty() || after.starts_with([' ', '\t']);
        let start = Some(before).filter(|_| is_apart).and_then(field_start)?;
        // One word is too little to be sure of: it must also be padded to its column.
        let label = before[start..].trim();
        let padding = after.len() - after.trim_start().len();
        let is_sure = start == 0 || label.contains(' ') || label.len() + padding > 30;
        (is_word_start(text, start) && is_sure).then_some(start)
    })
}

fn field_start(before: &str) -> Option<usize> {
    let field = VOCABULARY.printed.iter().find(|label| before.ends_with(**label));
    if let Some(label) = field {
        return Some(before.len() - label.len());
    }
    let (before, unit) = before.strip_suffix("):")?.rsplit_once(" (")?;
    let is_time = matches!(number::unit(unit), Some(NumberUnit::Time(_)));
    let before = Some(before).filter(|_| is_time)?;
    VOCABULARY.metrics.iter().find_map(|name| {
        let words = before.strip_suffix(name)?.strip_suffix(' ')?;
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
        let start = words.trim_end_matches(is_part).len();
        Stat::from_label(&words[start..]).map(|_| start)
    })
}

fn is_word_start(text: &str, start: usize) -> bool {
    !text[..start].ends_with(char::is_alphanumeric)
}

/// A label in words of small letters, and its unit.
fn plain_words(label: &str) -> (String, Option<NumberUnit>) {
    let mut unit = None;
    let mut words: Vec<String> = Vec::new();
    for (index, part) in label.split(['(', '[']).enumerate() {
        let (inside, outside) = match part.split_once([')', ']']) {
            Some((inside, outside)) if index > 0 => (inside, outside),
            _ => ("", part),
        };
        match number::unit(inside) {
            Some(found) => unit = unit.or(Some(found)),
            None => words.extend(split_words(inside)),
        }
        words.extend(split_words(outside));
    }
    // `mean_ttft_ms` has its unit as its last word.
    let last = words.last().and_then(|word| number::unit(word));
    if let Some(found @ NumberUnit::Time(_)) = last.filter(|_| words.len() >= 2 && unit.is_none()) {
        unit = Some(found);
        words.pop();
    }
    (words.join(" "), unit)
}

fn split_words(text: &str) -> impl Iterator<Item = String> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '.' && letter != '%')
        .map(|word| word.trim_matches('.').to_lowercase())
        .filter(|word| !word.is_empty())
}

/// The word of `AIPerf` and GenAI-Perf for E2E.
const REQUEST_LATENCY: &str = "request latency";

const METRICS: [(&str, Metric); 17] = [
    ("ttft", Metric::Ttft),
    ("time to first token", Metric::Ttft),
    ("tpot", Metric::Tpot),
    ("time per output token", Metric::Tpot),
    ("itl", Metric::Itl),
    ("inter token latency", Metric::Itl),
    ("intertoken latency", Metric::Itl),
    ("e2el", Metric::E2el),
    ("e2e", Metric::E2el),
    ("e2e latency", Metric::E2el),
    ("end to end latency", Metric::E2el),
    ("e2e request latency", Metric::E2el),
    (REQUEST_LATENCY, Metric::E2el),
    ("end to end", Metric::E2el),
    ("client queue time", Metric::ClientQueue),
    ("e2el incl client queue", Metric::QueuedE2el),
    ("client side queueing", Metric::ClientQueue),
];

/// The metric of these plain words, also where they name it twice: `time to first token ttft`.
fn metric(words: &str) -> Option<Metric> {
    let words =
        words.trim_end_matches(" excl 1st token").trim_end_matches(" excluding first token");
    let exact = |words: &str| METRICS.iter().find(|(name, _)| *name == words).map(|(_, of)| *of);
    exact(words).or_else(|| {
        let (first, second) = words.rsplit_once(' ')?;
        exact(first).filter(|of| exact(second) == Some(*of))
    })
}

/// Whether a text names this metric and nothing else.
pub(super) fn names_metric(text: &str, of: Metric) -> bool {
    metric(&plain_words(text).0) == Some(of)
}

/// Whether a text names E2E as `AIPerf` and GenAI-Perf do.
pub(super) fn is_request_latency(text: &str) -> bool {
    plain_words(text).0 == REQUEST_LATENCY
}

/// Whether a text is a word for the mean.
pub(super) fn is_mean(text: &str) -> bool {
    stat(&plain_words(text).0) == Some(Stat::Mean)
}

fn stat(word: &str) -> Option<Stat> {
    match word {
        "mean" | "avg" | "average" => Some(Stat::Mean),
        "median" => Some(Stat::Median),
        "std" | "stddev" | "stdev" => Some(Stat::Std),
        "max" | "maximum" => Some(Stat::Max),
        _ => word.strip_prefix('p').and_then(Percentile::parse).map(Stat::Percentile),
    }
}

/// What a label stands for, in any spelling. `section` is the metric of the section it stands in,
/// which a label such as `Mean` needs.
pub(super) fn label(text: &str, section: Option<Metric>) -> Option<Label> {
    let text = text.trim_end_matches([':', '=', ' ']);
    if text.len() > LONGEST || !text.contains(char::is_alphabetic) {
        return None;
    }
    let (words, unit) = plain_words(text);
    if let Some((field, format)) = VOCABULARY.fields.get(&words) {
        return Some(Label { key: Key::Field(*field), format: *format, unit });
    }
    let split: Vec<&str> = words.split(' ').collect();
    let at = split.iter().position(|word| stat(word).is_some())?;
    let stat = stat(split[at])?;
    let rest: Vec<&str> = split[..at].iter().chain(&split[at + 1..]).copied().collect();
    let metric = if rest.is_empty() { section? } else { metric(&rest.join(" "))? };
    Some(Label { key: Key::Latency(metric, stat), format: Format::Fixed, unit })
}

/// What the title of a section says about the lines below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SectionTitle {
    /// Of this metric, or of the whole run.
    Known(Option<Metric>),
    /// Of something that no layout has: its lines are carried as they are.
    Unknown,
}

/// Words that titles of ordinary sections are made of.
const ORDINARY: &str = "text throughput summary result results request requests token tokens latency latencies \
    overall general metrics metric statistics stats benchmark serving time to first per output inter end \
    performance total totals counts traffic and ttft tpot itl e2e e2el";

pub(super) fn title(text: &str) -> SectionTitle {
    let (words, _) = plain_words(text);
    if let Some(metric) = metric(&words) {
        return SectionTitle::Known(Some(metric));
    }
    let ordinary = ORDINARY.split(' ');
    let is_ordinary = words.split(' ').all(|word| ordinary.clone().any(|known| known == word));
    if is_ordinary || VOCABULARY.titles.contains(&words) {
        SectionTitle::Known(None)
    } else {
        SectionTitle::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_label_is_found_behind_any_prefix() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(start_of_printed(text).map(|at| &text[at..]), expected, "{text}");
        };
        check("Mean TTFT (ms):    4.5", Some("Mean TTFT (ms):    4.5"));
        check(
            "INFO 11-15 08:00:01 [serve.py:12] P99.9 TTFT (ms): 4.5",
            Some("P99.9 TTFT (ms): 4.5"),
        );
        check("host py[1]: Successful requests:  7", Some("Successful requests:  7"));
        check("é|Total input tokens: 7", Some("Total input tokens: 7"));
        check("unSuccessful requests: 7", None);
        check("INFO: the Backend: cuda", None);
        check("Pxx TTFT (ms): 4.5", None);
    }

    #[test]
    fn labels_are_known_in_similar_spellings() {
        let check = |text: &str, key: Key| {
            assert_eq!(label(text, None).map(|label| label.key), Some(key), "{text}");
        };
        let ttft = |stat| Key::Latency(Metric::Ttft, stat);
        check("Mean TTFT (ms):", ttft(Stat::Mean));
        check("mean_ttft_ms", ttft(Stat::Mean));
        check("**Average TTFT**", ttft(Stat::Mean));
        check("TTFT P99.9 [s]", ttft(Stat::Percentile(Percentile::parse("99.9").unwrap())));
        check("Median Time to First Token", ttft(Stat::Median));
        check("Mean E2E Latency (ms)", Key::Latency(Metric::E2el, Stat::Mean));
        check("Total Token Throughput (tok/s)", Key::Field(Field::TotalThroughput));
        check("benchmark duration", Key::Field(Field::Duration));
        let bare = label("P99", Some(Metric::Itl)).unwrap().key;
        assert_eq!(bare, Key::Latency(Metric::Itl, Stat::P99));
        assert_eq!(label("Mean TTFT (s)", None).unwrap().unit, Some(NumberUnit::Time(1.0)));
        for text in ["P99", "Energy (J)", "Min TTFT (ms)", "TTFT", "", "::", "Mean warm-up TTFT"] {
            assert_eq!(label(text, None), None, "{text}");
        }
    }

    #[test]
    fn titles_of_unknown_sections_are_told_from_ordinary_ones() {
        assert_eq!(title("Time to First Token"), SectionTitle::Known(Some(Metric::Ttft)));
        assert_eq!(title("Time to First Token (TTFT)"), SectionTitle::Known(Some(Metric::Ttft)));
        assert_eq!(
            title("Time per Output Token (excl. 1st token)"),
            SectionTitle::Known(Some(Metric::Tpot))
        );
        assert_eq!(title("Throughput"), SectionTitle::Known(None));
        assert_eq!(title("Speculative Decoding"), SectionTitle::Known(None));
        assert_eq!(title("Warm-up Phase"), SectionTitle::Unknown);
        assert_eq!(title(" Steady-State Metrics "), SectionTitle::Unknown);
    }
}
