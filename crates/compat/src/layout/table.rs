//! The words in which a layout is written down: rows of labels, fields, formats and conditions.

use crate::quantity::{Field, Key, Metric, Scalar, Stat};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Count,
    /// Fixed point, two decimals.
    Fixed,
    /// Seconds that are kept as milliseconds. Read only.
    Seconds,
    /// A whole number, or words such as `not set`.
    CountOrWords,
    Words,
    /// One decimal and a percent sign, never padded.
    Percent,
}

/// Whether a tool prints a line always or only when it has something to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// In every report of a generation run: its absence excludes this layout.
    Always,
    /// Only under the tool's own condition, which is why a missing value prints no line.
    Known,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) label: &'static str,
    pub(crate) field: Field,
    pub(crate) format: Format,
    pub(crate) when: When,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Stats {
    /// Mean, median, then the report's own percentiles in their order.
    AsGiven,
    Fixed(&'static [Stat]),
}

/// A section of one metric. Printed only when the report has any of its statistics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section {
    /// `None` opens with a bare rule.
    pub(crate) title: Option<&'static str>,
    pub(crate) metric: Metric,
    /// The metric in labels: `TTFT` in `Mean TTFT (ms):`.
    pub(crate) name: &'static str,
    pub(crate) stats: Stats,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Element {
    Line(Line),
    Latency(Section),
    /// A titled section of other rows, shown when any of them has a value.
    Section {
        title: &'static str,
        width: usize,
        rows: &'static [Element],
    },
    /// A bare line and one line per position of the draft.
    Positions {
        heading: &'static str,
    },
    Shared(&'static [Element]),
    Rule,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Widths {
    /// Header and footer.
    pub(crate) header: usize,
    /// Rules of metric sections.
    pub(crate) rule: usize,
    /// Labels, before the one blank.
    pub(crate) label: usize,
    /// Values; zero leaves them unpadded.
    pub(crate) value: usize,
}

/// What nearly every tool prints.
pub(crate) const CLASSIC: Widths = Widths { header: 50, rule: 50, label: 40, value: 10 };

/// A second block after the footer, with a look of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail {
    pub(crate) title: &'static str,
    pub(crate) widths: Widths,
    pub(crate) rows: &'static [Element],
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct LayoutTable {
    pub(crate) widths: Widths,
    /// Printed before the header.
    pub(crate) opening: &'static str,
    pub(crate) rows: &'static [Element],
    pub(crate) tail: Option<Tail>,
}

pub(crate) const fn always(label: &'static str, field: Field, format: Format) -> Element {
    Element::Line(Line { label, field, format, when: When::Always })
}

/// A line that has its condition.
pub(crate) const fn known(label: &'static str, field: Field, format: Format) -> Element {
    Element::Line(Line { label, field, format, when: When::Known })
}

pub(crate) const fn latency(
    title: &'static str,
    metric: Metric,
    name: &'static str,
    stats: Stats,
) -> Element {
    Element::Latency(Section { title: Some(title), metric, name, stats })
}

/// `text` in the middle of `width` fills; an odd one goes to the right.
pub(crate) fn centred(text: &str, fill: char, width: usize) -> String {
    let fills = width.saturating_sub(text.chars().count());
    let left: String = std::iter::repeat_n(fill, fills / 2).collect();
    let right: String = std::iter::repeat_n(fill, fills - fills / 2).collect();
    format!("{left}{text}{right}")
}

/// A number with fixed decimals as the other tools spell it, non-numbers included.
fn fixed(number: f64, decimals: usize) -> String {
    if number.is_nan() { "nan".to_owned() } else { format!("{number:.decimals$}") }
}

impl Format {
    /// The value as this format writes it.
    pub(crate) fn write(self, scalar: &Scalar) -> String {
        match (self, scalar) {
            (_, Scalar::Words(words)) => words.clone(),
            (Self::Fixed | Self::Seconds, Scalar::Count(count)) => fixed(*count as f64, 2),
            (Self::Percent, scalar) => {
                format!("{}%", fixed(scalar.as_f64().unwrap_or(f64::NAN), 1))
            }
            (_, Scalar::Count(count)) => count.to_string(),
            (Self::Fixed | Self::Seconds | Self::Words, Scalar::Number(number)) => {
                fixed(*number, 2)
            }
            (Self::Count | Self::CountOrWords, Scalar::Number(number)) => fixed(*number, 0),
        }
    }

    /// The value of this text; `None` when it is not of this format.
    pub(crate) fn read(self, text: &str) -> Option<Scalar> {
        let number = |text: &str| text.parse::<f64>().ok().map(Scalar::Number);
        match self {
            // Libraries for tables write a column of counts with a point.
            Self::Count => text.strip_suffix(".0").unwrap_or(text).parse().ok().map(Scalar::Count),
            Self::Fixed => number(text),
            Self::Seconds => text.parse::<f64>().ok().map(|seconds| Scalar::Number(seconds * 1e3)),
            Self::CountOrWords => text.parse().ok().map(Scalar::Count).or_else(|| {
                (text == "not set" || text == "None").then(|| Scalar::Words(text.to_owned()))
            }),
            Self::Words => (!text.is_empty()).then(|| Scalar::Words(text.to_owned())),
            Self::Percent => number(text.strip_suffix('%')?),
        }
    }
}

impl Section {
    pub(crate) fn label(&self, stat: Stat) -> String {
        format!("{} {} (ms):", stat.label(), self.name)
    }

    pub(crate) fn stat(&self, label: &str) -> Option<Stat> {
        let words = label.strip_suffix(" (ms):")?.strip_suffix(self.name)?.strip_suffix(' ')?;
        let stat = Stat::from_label(words)?;
        match self.stats {
            Stats::AsGiven => (!matches!(stat, Stat::Max | Stat::Std)).then_some(stat),
            Stats::Fixed(stats) => stats.contains(&stat).then_some(stat),
        }
    }
}

#[cfg(test)]
impl Format {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "tests give numbers that fit"
    )]
    pub(crate) fn example(self, number: f64) -> Scalar {
        match self {
            Self::Count | Self::CountOrWords => Scalar::Count(number as u64),
            Self::Fixed | Self::Seconds | Self::Percent => Scalar::Number(number),
            Self::Words => Scalar::Words(format!("w{number:.1}")),
        }
    }
}

/// Every value that a table has a line for, with its format; sections as given have P99.
#[cfg(test)]
pub(crate) fn keys(table: &LayoutTable) -> Vec<(Key, Format)> {
    fn of(row: &Element) -> Vec<(Key, Format)> {
        match row {
            Element::Line(line) => vec![(Key::Field(line.field), line.format)],
            Element::Latency(section) => {
                let stats = match section.stats {
                    Stats::AsGiven => &[Stat::Mean, Stat::Median, Stat::P99],
                    Stats::Fixed(stats) => stats,
                };
                let key = |stat: &Stat| (Key::Latency(section.metric, *stat), Format::Fixed);
                stats.iter().map(key).collect()
            }
            Element::Section { rows, .. } | Element::Shared(rows) => {
                rows.iter().flat_map(of).collect()
            }
            Element::Positions { .. } => {
                (0..2).map(|number| (Key::Position(number), Format::Fixed)).collect()
            }
            Element::Rule => Vec::new(),
        }
    }
    let tail = table.tail.map_or(&[][..], |tail| tail.rows);
    table.rows.iter().chain(tail).flat_map(of).collect()
}

pub(crate) fn label_of(table: &LayoutTable, key: Key) -> Option<(String, Format)> {
    let tail_rows = table.tail.map_or(&[][..], |tail| tail.rows);
    table.rows.iter().chain(tail_rows).find_map(|row| label_in(row, key))
}

fn label_in(row: &Element, key: Key) -> Option<(String, Format)> {
    match (row, key) {
        (Element::Line(line), Key::Field(field)) if line.field == field => {
            Some((line.label.to_owned(), line.format))
        }
        (Element::Latency(section), Key::Latency(metric, stat)) if section.metric == metric => {
            Some((section.label(stat), Format::Fixed))
        }
        (Element::Positions { .. }, Key::Position(number)) => {
            Some((position_label(number), Format::Fixed))
        }
        (Element::Section { rows, .. } | Element::Shared(rows), _) => {
            rows.iter().find_map(|row| label_in(row, key))
        }
        _ => None,
    }
}

/// The last statistic of a metric's section, where the layout fixes its statistics.
pub(crate) fn last_stat(table: &LayoutTable, metric: Metric) -> Option<Stat> {
    fn within(row: &Element, metric: Metric) -> Option<Stat> {
        match row {
            Element::Latency(Section { metric: own, stats: Stats::Fixed(stats), .. })
                if *own == metric =>
            {
                stats.last().copied()
            }
            Element::Section { rows, .. } | Element::Shared(rows) => {
                rows.iter().find_map(|row| within(row, metric))
            }
            _ => None,
        }
    }
    table.rows.iter().find_map(|row| within(row, metric))
}

pub(crate) fn position_label(number: u32) -> String {
    format!("  Position {number}:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_fill_goes_to_the_right() {
        let check = |text: &str, left: usize, right: usize| {
            let expected = format!("{}{text}{}", "-".repeat(left), "-".repeat(right));
            assert_eq!(centred(text, '-', 50), expected);
        };
        check("Time to First Token", 15, 16);
        check("Time per Output Token (excl. 1st token)", 5, 6);
        check("End-to-end Latency", 16, 16);
        check("Cache Hit Details", 16, 17);
        assert_eq!(centred("longer than the width", '=', 4), "longer than the width");
    }

    #[test]
    fn formats_write_what_they_read() {
        let check = |format: Format, text: &str| {
            let scalar = format.read(text).unwrap();
            assert_eq!(format.write(&scalar), text);
        };
        check(Format::Count, "18446744073709551615");
        check(Format::Fixed, "145803.99");
        check(Format::Fixed, "nan");
        check(Format::Fixed, "inf");
        check(Format::CountOrWords, "not set");
        check(Format::CountOrWords, "20");
        check(Format::Words, "sglang-oai-chat");
        check(Format::Percent, "12.3%");
        assert_eq!(Format::Count.read("12.5"), None);
        assert_eq!(Format::Count.read("1,024"), None);
        assert_eq!(Format::CountOrWords.read("many"), None);
        assert_eq!(Format::Fixed.read("fast"), None);
    }
}
