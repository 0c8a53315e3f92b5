//! A report as values: what any tool's printed block says, whatever it looks like.
//!
//! Made from a run's summary, from a printed block or from a result file; turned into text by a
//! [`Layout`]. A value that a report does not have is absent, never zero. A report that was read
//! from text also knows how it stood there ([`Printed`]), which `--layout same` gives back.

use std::fmt;

use tokometer_base::printable;
use tokometer_base::units::nearest_count;
use tokometer_figures::Figure;

use crate::layout::Layout;
use crate::layout::table::label_of;
pub use crate::quantity::{Field, Key, Metric, Percentile, Scalar, Stat, Value, Values};

/// What the header line calls the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Title {
    /// ` Serving Benchmark Result `.
    #[default]
    Serving,
    /// ` Embedding/Pooling Benchmark Result `.
    Pooling,
    /// ` Predicted Serving Benchmark Result `: not a measurement.
    Predicted,
}

impl Title {
    /// All titles, those that contain another one first.
    pub const ALL: [Self; 3] = [Self::Predicted, Self::Pooling, Self::Serving];

    /// The words, with the blanks around them.
    pub fn words(self) -> &'static str {
        match self {
            Self::Serving => " Serving Benchmark Result ",
            Self::Pooling => " Embedding/Pooling Benchmark Result ",
            Self::Predicted => " Predicted Serving Benchmark Result ",
        }
    }
}

/// What a text says before a block: its heading, the command that made it, its settings.
///
/// A block without words of its own inherits those of the block before it, as the rows of a sweep
/// do; [`Context::ordinal`] counts them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Context {
    /// The heading above the block, without its marks.
    pub heading: Option<String>,
    /// The command line above the block.
    pub command: Option<String>,
    /// Lines of the form `name: value`, such as `num_prompts: 1, 2, 4`.
    pub settings: Vec<(String, String)>,
    /// Number of the block among those that share this context, from zero.
    pub ordinal: usize,
}

impl Context {
    /// The longest answer that the command line allowed.
    pub fn output_limit(&self) -> Option<u32> {
        const FLAGS: [&str; 5] = [
            "--random-output-len",
            "--output-len",
            "--sharegpt-output-len",
            "--hf-output-len",
            "--max-tokens",
        ];
        let mut words = self.command.as_deref()?.split_whitespace();
        while let Some(word) = words.next() {
            let (flag, value) =
                word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value)));
            if FLAGS.contains(&flag.replace('_', "-").as_str()) {
                return value.or_else(|| words.next())?.parse().ok();
            }
        }
        None
    }
}

/// How a report stood in the text it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// Its lines, header and footer included, without what stood before them.
    pub lines: Vec<String>,
    /// `\n` or `\r\n`.
    pub line_end: &'static str,
}

/// What was wrong with a block as a piece of text.
#[expect(missing_docs, reason = "their texts say what the numbers are")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// It ends before its footer: the text stops, or another header begins, at this line.
    Cut { line: usize },
    /// It ends behind a whole section, without its footer, at this line.
    NoFooter { line: usize },
    /// Lines of two blocks are mixed.
    Interleaved { line: usize },
    /// It has no header: lines that only a report has stand alone.
    NoHeader { line: usize },
    /// Most of its lines with values have labels that are not known.
    Unknown { lines: usize, line: usize },
    /// An object of a result file cannot be read.
    BadObject { why: String },
}

/// A value that could not be read. Its line is kept as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadValue {
    /// Line in the text, from one; zero in a result file.
    pub line: usize,
    /// The label or the key.
    pub label: String,
    /// What stands where the value should be.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { line } => write!(f, "the block is truncated after line {line}"),
            Self::NoFooter { line } => write!(f, "the block has no footer after line {line}"),
            Self::Interleaved { line } => {
                write!(f, "lines of two blocks are mixed, first at line {line}")
            }
            Self::NoHeader { line } => {
                write!(
                    f,
                    "no header line; the labelled lines from line {line} on are read as a report"
                )
            }
            Self::Unknown { lines, line } => {
                write!(f, "{lines} lines with values have unknown labels, first at line {line}")
            }
            Self::BadObject { why } => write!(f, "a part of the file cannot be read: {why}"),
        }
    }
}

/// One report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// The layout it was read in, or made for. `None` when no layout fits.
    pub layout: Option<Layout>,
    /// What its header calls it.
    pub title: Title,
    /// What stood before it.
    pub context: Context,
    /// Its values.
    pub values: Values,
    /// How it stood in a text, if it was read from one.
    pub printed: Option<Printed>,
    /// What was wrong with that text.
    pub problems: Vec<Problem>,
    /// Values that could not be read.
    pub unread: Vec<UnreadValue>,
}

impl Report {
    /// Sets a whole number.
    pub fn set_count(&mut self, field: Field, count: u64) {
        self.set(Key::Field(field), Scalar::Count(count));
    }

    /// Sets a measured number.
    pub fn set_number(&mut self, field: Field, number: f64) {
        self.set(Key::Field(field), Scalar::Number(number));
    }

    /// Sets words.
    pub fn set_words(&mut self, field: Field, words: impl Into<String>) {
        self.set(Key::Field(field), Scalar::Words(printable::short(&words.into())));
    }

    /// Sets a statistic, in milliseconds.
    pub fn set_latency(&mut self, metric: Metric, stat: Stat, millis: f64) {
        self.set(Key::Latency(metric, stat), Scalar::Number(millis));
    }

    /// Sets any value, without a text of its own.
    pub fn set(&mut self, key: Key, scalar: Scalar) {
        self.values.set(key, Value { scalar, text: None, half_unit: 0.0 });
    }

    /// Whether the text ended before the block did.
    pub fn is_cut(&self) -> bool {
        self.problems.iter().any(|problem| matches!(problem, Problem::Cut { .. }))
    }

    /// The label of a value in the report's own layout.
    pub fn label(&self, key: Key) -> String {
        let label = self.layout.and_then(|layout| label_of(layout.table()?, key));
        label.map_or_else(
            || "a value".to_owned(),
            |(label, _)| label.trim_matches([' ', ':']).to_owned(),
        )
    }

    /// The number of a field; `None` when absent or not a number.
    pub fn number(&self, field: Field) -> Option<f64> {
        self.values.get(Key::Field(field)).and_then(|value| value.scalar.as_f64())
    }

    /// The words of a field.
    pub fn words(&self, field: Field) -> Option<&str> {
        match &self.values.get(Key::Field(field))?.scalar {
            Scalar::Words(words) => Some(words),
            Scalar::Count(_) | Scalar::Number(_) => None,
        }
    }

    /// A figure as printed; `None` when the report does not have it.
    pub fn figure(&self, figure: Figure) -> Option<f64> {
        match Key::of(figure)? {
            Key::Latency(metric, stat) => self.latency(metric, stat),
            key => self.values.get(key)?.scalar.as_f64(),
        }
    }

    /// A figure that was measured: tools print 0.00 for what they did not measure.
    pub fn measured(&self, figure: Figure) -> Option<f64> {
        self.figure(figure).filter(|value| *value > 0.0)
    }

    /// The requests per second that were asked for, infinity for a run without a rate; `None` where
    /// the report does not say, or the times were those of a trace.
    pub fn request_rate(&self) -> Option<f64> {
        let words = self
            .words(Field::TrafficRate)
            .and_then(|words| words.parse::<f64>().ok())
            .filter(|rate| !rate.is_nan());
        words.or_else(|| self.number(Field::RateConfigured))
    }

    /// Whether the requests kept the times of a trace, which SGLang prints.
    pub fn is_traced(&self) -> bool {
        self.words(Field::TrafficRate) == Some("trace")
    }

    /// The most requests in flight that were allowed; `None` where the report states no limit.
    pub fn max_concurrency(&self) -> Option<u32> {
        let cap = self.number(Field::MaxConcurrency).filter(|cap| *cap >= 1.0)?;
        u32::try_from(nearest_count(cap)).ok()
    }

    /// A statistic in milliseconds. A printed P50 serves as median and the other way round.
    pub fn latency(&self, metric: Metric, stat: Stat) -> Option<f64> {
        const P50: Stat = Stat::Percentile(Percentile::whole(50));
        let of = |stat| self.values.get(Key::Latency(metric, stat))?.scalar.as_f64();
        of(stat).or_else(|| match stat {
            Stat::Median => of(P50),
            P50 => of(Stat::Median),
            _ => None,
        })
    }

    /// The percentiles that this report has of `metric`, in its order.
    pub fn percentiles(&self, metric: Metric) -> impl Iterator<Item = Percentile> {
        self.values.iter().filter_map(move |(key, _)| match key {
            Key::Latency(of, Stat::Percentile(percentile)) if of == metric => Some(percentile),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_answers_for_a_missing_p50_and_the_other_way_round() {
        let p50 = Stat::Percentile(Percentile::whole(50));
        let mut report = Report::default();
        report.set_latency(Metric::Ttft, Stat::Median, 5.0);
        report.set_latency(Metric::Itl, p50, 7.0);
        assert_eq!(report.latency(Metric::Ttft, p50), Some(5.0));
        assert_eq!(report.latency(Metric::Itl, Stat::Median), Some(7.0));
        assert_eq!(report.latency(Metric::Itl, Stat::Mean), None);
    }

    #[test]
    fn a_report_states_its_load_in_words_or_numbers_or_not_at_all() {
        let check = |words: &str, rate: Option<f64>, is_traced: bool| {
            let mut report = Report::default();
            report.set_words(Field::TrafficRate, words);
            assert_eq!((report.request_rate(), report.is_traced()), (rate, is_traced), "{words}");
        };
        check("20.0", Some(20.0), false);
        check("inf", Some(f64::INFINITY), false);
        check("trace", None, true);
        check("20.0 (baseline)", None, false);
        let mut report = Report::default();
        assert_eq!((report.request_rate(), report.max_concurrency()), (None, None));
        report.set_number(Field::RateConfigured, 2.5);
        report.set_count(Field::MaxConcurrency, 8);
        report.set_latency(Metric::Ttft, Stat::Mean, 0.0);
        assert_eq!((report.request_rate(), report.max_concurrency()), (Some(2.5), Some(8)));
        let mean = Figure::mean(tokometer_figures::Quantity::Ttft);
        assert_eq!((report.figure(mean), report.measured(mean)), (Some(0.0), None));
    }

    #[test]
    fn the_longest_answer_is_read_from_the_command() {
        let check = |command: &str, expected: Option<u32>| {
            let context = Context { command: Some(command.to_owned()), ..Context::default() };
            assert_eq!(context.output_limit(), expected, "{command}");
        };
        check("bench --random-output-len 128 --seed 1", Some(128));
        check("bench --random_output_len=64", Some(64));
        check("bench --num-prompts 5", None);
    }
}
