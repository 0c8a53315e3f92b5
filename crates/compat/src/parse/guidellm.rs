//! The tables that `GuideLLM` prints: one row per benchmark, under heads of two or three lines.
//!
//! In: lines. Out: one report per benchmark, with the values of its rows in all tables. A cell of a head spans as
//! many columns as bars follow it. The first column names the benchmark; later tables have their rows in
//! the same order. Tables of other things (words, images) have no column that is known here.

use tokometer_base::printable;

use super::decimal::DecimalMark;
use super::fit::nearest_layout;
use super::labels::Label;
use super::lines::TextLine;
use super::number;
use crate::layout::table::Format;
use crate::model::{
    Blanks, Context, Field, Key, Metric, Place, Printed, Report, Stat, UnreadValue, Value,
};
use crate::quantity::Percentile;

/// Lines of a head at most: group, name and statistic.
const MOST_HEAD_LINES: usize = 3;

/// Wider tables and more rows hold no benchmarks.
const MOST_COLUMNS: usize = 64;
const MOST_ROWS: usize = 10_000;

/// The reports of a text with such tables; none when there is no latency and no throughput among them.
pub(super) fn reports(lines: &[TextLine<'_>]) -> Vec<Report> {
    let mut runs: Vec<ConsoleRun> = vec![ConsoleRun::default()];
    for (at, line) in lines.iter().enumerate() {
        if !is_rule(line.text) {
            continue;
        }
        let begin = at.saturating_sub(MOST_HEAD_LINES);
        let Some(columns) = columns(&lines[begin..at]) else { continue };
        let body: Vec<TextLine<'_>> = lines[at + 1..]
            .iter()
            .take_while(|line| is_row(line.text))
            .take(MOST_ROWS)
            .copied()
            .collect();
        // A second run of the tool prints its tables again.
        let is_again = runs.last().is_some_and(|run| run.has_any(&columns));
        if is_again {
            runs.push(ConsoleRun::default());
        }
        if let Some(run) = runs.last_mut() {
            run.take(&columns, &body);
        }
    }
    runs.into_iter().flat_map(ConsoleRun::finish).collect()
}

/// The line between head and body: dashes and bars.
fn is_rule(text: &str) -> bool {
    let text = text.trim();
    text.contains("-|-") && text.chars().all(|letter| matches!(letter, '-' | '|'))
}

fn is_row(text: &str) -> bool {
    let text = text.trim();
    text.contains('|') && text.contains(|letter: char| letter.is_alphanumeric())
}

/// The cells of a line, a cell of a head as often as it spans columns.
fn cells(text: &str) -> Vec<&str> {
    let text = text.trim();
    // Older tables have no border, and their last cell no bar behind it.
    let (inner, missing) = match text.strip_prefix('|') {
        Some(inner) => (inner, 0),
        None => (text, 1),
    };
    let mut found = Vec::new();
    let mut rest = inner;
    while !rest.is_empty() && found.len() < MOST_COLUMNS {
        let end = rest.find('|').unwrap_or(rest.len());
        let (cell, after) = rest.split_at(end);
        rest = after.trim_start_matches('|');
        let bars = after.len() - rest.len() + if rest.is_empty() { missing } else { 0 };
        found.extend(std::iter::repeat_n(cell.trim(), bars.max(1)));
    }
    found
}

/// What each column of a table holds; `None` where none of them is known.
fn columns(head: &[TextLine<'_>]) -> Option<Vec<Option<Key>>> {
    let is_head = |line: &&TextLine<'_>| is_row(line.text);
    let rows: Vec<Vec<&str>> =
        head.iter().rev().take_while(is_head).map(|line| cells(line.text)).collect();
    let width = rows.iter().map(Vec::len).max()?;
    // One line is the head of an ordinary table.
    if rows.len() < 2 || !rows.iter().flatten().any(|cell| *cell == "Benchmark") {
        return None;
    }
    let name = |column: usize| {
        let words = rows.iter().rev().filter_map(|row| row.get(column).copied());
        let words: Vec<&str> = words.filter(|cell| !cell.is_empty()).collect();
        words.join(" ").to_lowercase()
    };
    let keys: Vec<Option<Key>> = (0..width).map(|column| key(&name(column))).collect();
    keys.iter().any(Option::is_some).then_some(keys)
}

/// The value below a head. Its inter-token latency is one value per request, so it is what others call TPOT;
/// what it calls TPOT has the first token in it. Latencies of requests are in seconds, also where an older
/// head says milliseconds. Its duration goes on to the end of requests that were stopped.
fn key(head: &str) -> Option<Key> {
    const FIELDS: [(&str, Field); 15] = [
        ("requests made comp", Field::Successful),
        ("requests made err", Field::Failed),
        ("request counts comp", Field::Successful),
        ("request counts err", Field::Failed),
        ("prompt tok total comp", Field::InputTokens),
        ("output tok total comp", Field::OutputTokens),
        ("input tokens comp tot", Field::InputTokens),
        ("output tokens comp tot", Field::OutputTokens),
        ("request stats per second", Field::RequestThroughput),
        ("requests per sec mean", Field::RequestThroughput),
        ("input tokens per sec mean", Field::InputThroughput),
        ("output tokens per sec mean", Field::OutputThroughput),
        ("total tokens per sec mean", Field::TotalThroughput),
        ("out tok/sec mean", Field::OutputThroughput),
        ("tot tok/sec mean", Field::TotalThroughput),
    ];
    const TIMES: [(&str, Metric); 7] = [
        ("request latency sec", Metric::E2el),
        ("req latency (sec)", Metric::E2el),
        ("req latency (ms)", Metric::E2el),
        ("ttft ms", Metric::Ttft),
        ("ttft (ms)", Metric::Ttft),
        ("itl ms", Metric::Tpot),
        ("itl (ms)", Metric::Tpot),
    ];
    if let Some((_, field)) = FIELDS.iter().find(|(name, _)| *name == head) {
        return Some(Key::Field(*field));
    }
    let (name, stat) = head.rsplit_once(' ')?;
    let (_, metric) = TIMES.iter().find(|(time, _)| *time == name)?;
    let stat = match stat {
        "mean" => Stat::Mean,
        "mdn" | "median" => Stat::Median,
        other => Stat::Percentile(Percentile::parse(other.strip_prefix('p')?)?),
    };
    Some(Key::Latency(*metric, stat))
}

/// The benchmarks of one run of the tool.
#[derive(Default)]
struct ConsoleRun {
    reports: Vec<Report>,
    first_lines: Vec<usize>,
    texts: Vec<Vec<String>>,
}

impl ConsoleRun {
    fn has_any(&self, columns: &[Option<Key>]) -> bool {
        let has =
            |report: &Report| columns.iter().flatten().any(|key| report.values.get(*key).is_some());
        self.reports.iter().any(has)
    }

    fn take(&mut self, columns: &[Option<Key>], body: &[TextLine<'_>]) {
        for (at, line) in body.iter().enumerate() {
            let cells = cells(line.text);
            let name = cells.first().copied().unwrap_or_default();
            if self.reports.len() == at {
                let context = Context { heading: Some(name.to_owned()), ..Context::default() };
                self.reports.push(Report { context, ..Report::default() });
                self.first_lines.push(line.number);
                self.texts.push(Vec::new());
            }
            // Rows of another order would give a benchmark the values of another one.
            if self.reports[at].context.heading.as_deref() != Some(name) {
                continue;
            }
            self.texts[at].push(line.text.to_owned());
            for (key, text) in columns.iter().zip(&cells) {
                if let Some(key) = key {
                    set(&mut self.reports[at], *line, *key, text);
                }
            }
        }
    }

    fn finish(self) -> Vec<Report> {
        let is_result = |report: &Report| {
            let is_result = |key: Key| match key {
                Key::Latency(..) | Key::Field(Field::RequestThroughput) => true,
                Key::Field(_) | Key::Position(_) => false,
            };
            report.values.iter().any(|(key, _)| is_result(key))
        };
        let printed = self.first_lines.into_iter().zip(self.texts);
        let whole = |(report, (first_line, texts)): (Report, (usize, Vec<String>))| Report {
            layout: nearest_layout(&report.values),
            printed: Some(Printed {
                first_line,
                header: String::new(),
                footer: None,
                places: texts.into_iter().map(Place::Unknown).collect(),
                blanks: Blanks::Stripped,
                line_end: "\n",
            }),
            ..report
        };
        self.reports
            .into_iter()
            .zip(printed)
            .filter(|(report, _)| is_result(report))
            .map(whole)
            .collect()
    }
}

fn set(report: &mut Report, line: TextLine<'_>, key: Key, text: &str) {
    let is_count = matches!(
        key,
        Key::Field(Field::Successful | Field::Failed | Field::InputTokens | Field::OutputTokens)
    );
    let format = if is_count { Format::Count } else { Format::Fixed };
    let in_seconds = matches!(key, Key::Latency(Metric::E2el, _));
    let unit = number::unit(if in_seconds { "s" } else { "" });
    // A dash stands for what was not measured.
    if text.is_empty() || text == "-" || text == "N/A" {
        return;
    }
    match number::read(Label { key, format, unit }, DecimalMark::Point, text) {
        Some((scalar, half_unit)) => {
            report.values.set(key, Value { scalar, text: Some(text.to_owned()), half_unit });
        }
        None => report.unread.push(UnreadValue {
            line: line.number,
            column: line.text.find(text).map_or(1, |at| line.from(at).column),
            label: "a column".to_owned(),
            text: printable::short(text),
        }),
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{Field, Metric, Percentile, Stat};
    use crate::{Report, parse};

    const NEWER: &str = "\
ℹ Run Summary Info
|===========|==========|==========|======|======|======|========|=====|=====|========|=====|=====|
| Benchmark | Timings                              ||||| Input Tokens     ||| Output Tokens    |||
| Strategy  | Start    | End      | Dur  | Warm | Cool | Comp   | Inc | Err | Comp   | Inc | Err |
|           |          |          | Sec  | Sec  | Sec  | Tot    | Tot | Tot | Tot    | Tot | Tot |
|-----------|----------|----------|------|------|------|--------|-----|-----|--------|-----|-----|
| constant  | 09:35:12 | 09:35:42 | 30.0 | 0.0  | 0.0  | 1530.0 | 9.0 | 0.0 | 1470.0 | 3.0 | 0.0 |
| throughput | 09:35:42 | 09:36:12 | 30.0 | 0.0 | 0.0 | 7650.0 | 0.0 | 0.0 | 7350.0 | 0.0 | 0.0 |
|===========|==========|==========|======|======|======|========|=====|=====|========|=====|=====|

ℹ Request Latency Statistics (Completed Requests)
|===========|=========|========|======|======|=====|=====|=====|=====|
| Benchmark | Request Latency || TTFT       || ITL      || TPOT     ||
| Strategy  | Sec             || ms         || ms       || ms       ||
|           | Mdn     | p95    | Mdn  | p95  | Mdn | p95 | Mdn | p95 |
|-----------|---------|--------|------|------|-----|-----|-----|-----|
| constant  | 0.4     | 0.5    | 23.2 | 30.9 | 7.8 | 8.0 | 8.1 | 8.4 |
| throughput | 0.5    | 0.6    | 33.2 | 40.9 | 9.8 | 9.9 | 10.1 | 10.4 |
|===========|=========|========|======|======|=====|=====|=====|=====|

ℹ Server Throughput Statistics
|===========|=====|======|=======|======|=======|=======|=======|========|=======|=======|
| Benchmark | Requests               |||| Input Tokens || Output Tokens || Total Tokens ||
| Strategy  | Per Sec   || Concurrency || Per Sec      || Per Sec       || Per Sec      ||
|           | Mdn | Mean | Mdn   | Mean | Mdn   | Mean  | Mdn   | Mean   | Mdn   | Mean  |
|-----------|-----|------|-------|------|-------|-------|-------|--------|-------|-------|
| constant  | 1.0 | 1.1  | 0.0   | 0.4  | 50.9  | 52.4  | 3.4   | 49.7   | 127.6 | 101.1 |
| throughput | 5.0 | 5.1 | 1.0   | 2.6  | 250.1 | 271.8 | 457.4 | 270.7  | 463.2 | 541.4 |
|===========|=====|======|=======|======|=======|=======|=======|========|=======|=======|
";

    const OLDER: &str = "\
Benchmarks Info:
=====================================================================================================================
Metadata                                      |||| Requests Made  ||| Prompt Tok/Req  ||| Prompt Tok Total||| Output Tok Total  ||
    Benchmark| Start Time| End Time| Duration (s)|  Comp|  Inc|  Err|   Comp|  Inc|  Err|   Comp|  Inc|  Err|   Comp|   Inc|   Err
-------------|-----------|---------|-------------|------|-----|-----|-------|-----|-----|-------|-----|-----|-------|------|------
  synchronous|   20:10:02| 20:12:13|        130.7|    30|    2|    1|  512.3|  0.0|  0.0|  15369|    0|    0|   7680|     0|     0
=====================================================================================================================

Benchmarks Stats:
=====================================================================================================================
Metadata     | Request Stats         || Out Tok/sec| Tot Tok/sec| Req Latency (ms)||| TTFT (ms)          ||| ITL (ms)        ||| TPOT (ms)       ||
    Benchmark| Per Second| Concurrency|        mean|        mean| mean| median|  p99|  mean| median|    p99| mean| median|  p99| mean| median|  p99
-------------|-----------|------------|------------|------------|-----|-------|-----|------|-------|-------|-----|-------|-----|-----|-------|-----
  synchronous|       0.23|        1.00|        58.7|       293.7| 4.36|   4.27| 4.91|  59.8|   59.1|   63.1| 16.8|   16.5| 19.0| 16.9|   16.6| 18.9
=====================================================================================================================
";

    fn p(report: &Report, metric: Metric, percent: &str) -> Option<f64> {
        report.latency(metric, Stat::Percentile(Percentile::parse(percent).unwrap()))
    }

    #[test]
    fn the_tables_of_one_run_are_one_report_per_benchmark() {
        let [constant, throughput] = &parse(NEWER)[..] else { panic!("two reports") };
        assert_eq!(constant.context.heading.as_deref(), Some("constant"));
        assert_eq!(constant.number(Field::InputTokens), Some(1_530.0));
        assert_eq!(constant.number(Field::OutputTokens), Some(1_470.0));
        assert_eq!(constant.number(Field::Duration), None);
        assert_eq!(constant.number(Field::RequestThroughput), Some(1.1));
        assert_eq!(constant.number(Field::InputThroughput), Some(52.4));
        assert_eq!(constant.number(Field::OutputThroughput), Some(49.7));
        assert_eq!(constant.number(Field::TotalThroughput), Some(101.1));
        assert_eq!(constant.latency(Metric::E2el, Stat::Median), Some(400.0));
        assert_eq!(p(constant, Metric::E2el, "95"), Some(500.0));
        assert_eq!(p(constant, Metric::Ttft, "95"), Some(30.9));
        assert_eq!(constant.latency(Metric::Tpot, Stat::Median), Some(7.8));
        assert_eq!(constant.latency(Metric::Itl, Stat::Median), None);
        assert_eq!(throughput.latency(Metric::Ttft, Stat::Median), Some(33.2));
        assert_eq!(throughput.number(Field::OutputThroughput), Some(270.7));
        assert!(constant.unread.is_empty() && constant.problems.is_empty());
    }

    /// Its head says milliseconds above seconds.
    #[test]
    fn the_tables_of_older_versions_are_read_too() {
        let [report] = &parse(OLDER)[..] else { panic!("one report") };
        assert_eq!(report.number(Field::Successful), Some(30.0));
        assert_eq!(report.number(Field::Failed), Some(1.0));
        assert_eq!(report.number(Field::InputTokens), Some(15_369.0));
        assert_eq!(report.number(Field::OutputTokens), Some(7_680.0));
        assert_eq!(report.number(Field::RequestThroughput), Some(0.23));
        assert_eq!(report.number(Field::OutputThroughput), Some(58.7));
        assert_eq!(report.latency(Metric::E2el, Stat::Mean), Some(4_360.0));
        assert_eq!(report.latency(Metric::Ttft, Stat::P99), Some(63.1));
        assert_eq!(report.latency(Metric::Tpot, Stat::Mean), Some(16.8));
    }

    #[test]
    fn a_second_run_makes_reports_of_its_own() {
        assert_eq!(parse(&format!("{NEWER}\nagain\n{NEWER}")).len(), 4);
        assert_eq!(parse(&NEWER[..NEWER.find("ℹ Server").unwrap()]).len(), 2);
    }
}
