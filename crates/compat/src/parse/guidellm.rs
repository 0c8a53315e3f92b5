//! The tables that `GuideLLM` prints: one row per benchmark, under heads of two or three lines.
//!
//! In: lines. Out: one report per benchmark, with the values of its rows in all tables. A cell of a head spans as
//! many columns as bars follow it. The first column names the benchmark; later tables have their rows in
//! the same order. Tables of other things (words, images) have no column that is known here.

use super::decimal::DecimalMark;
use super::grid::ReportDraft;
use super::labels::Label;
use super::lines::TextLine;
use super::number;
use crate::layout::table::Format;
use crate::model::{Field, Key, Metric, Percentile, Report, Stat};

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
    let mut found = Vec::new();
    let mut rest = text.strip_prefix('|').unwrap_or(text);
    while !rest.is_empty() && found.len() < MOST_COLUMNS {
        let end = rest.find('|').unwrap_or(rest.len());
        let (cell, after) = rest.split_at(end);
        rest = after.trim_start_matches('|');
        let bars = after.len() - rest.len();
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
/// what it calls TPOT has the first token in it. Latencies of requests are in seconds. Its duration goes on to the end of requests that were stopped.
fn key(head: &str) -> Option<Key> {
    const FIELDS: [(&str, Field); 8] = [
        ("request counts comp", Field::Successful),
        ("request counts err", Field::Failed),
        ("input tokens comp tot", Field::InputTokens),
        ("output tokens comp tot", Field::OutputTokens),
        ("requests per sec mean", Field::RequestThroughput),
        ("input tokens per sec mean", Field::InputThroughput),
        ("output tokens per sec mean", Field::OutputThroughput),
        ("total tokens per sec mean", Field::TotalThroughput),
    ];
    const TIMES: [(&str, Metric); 3] = [
        ("request latency sec", Metric::E2el),
        ("ttft ms", Metric::Ttft),
        ("itl ms", Metric::Tpot),
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

/// A benchmark with what its rows say.
struct Benchmark {
    name: String,
    draft: ReportDraft,
}

/// The benchmarks of one run of the tool.
#[derive(Default)]
struct ConsoleRun(Vec<Benchmark>);

impl ConsoleRun {
    fn has_any(&self, columns: &[Option<Key>]) -> bool {
        let has = |one: &Benchmark| columns.iter().flatten().any(|key| one.draft.has(*key));
        self.0.iter().any(has)
    }

    fn take(&mut self, columns: &[Option<Key>], body: &[TextLine<'_>]) {
        for (at, line) in body.iter().enumerate() {
            let cells = cells(line.text);
            let name = cells.first().copied().unwrap_or_default();
            if self.0.len() == at {
                let draft = ReportDraft::with(DecimalMark::Point);
                self.0.push(Benchmark { name: name.to_owned(), draft });
            }
            // Rows of another order would give a benchmark the values of another one.
            let Benchmark { draft, .. } = match &mut self.0[at] {
                known if known.name == name => known,
                _ => continue,
            };
            for (key, text) in columns.iter().zip(&cells) {
                // A dash stands for what was not measured.
                if let Some(key) = key.filter(|_| !matches!(*text, "" | "-" | "N/A")) {
                    draft.take(*line, "a column", label(key), text);
                }
            }
        }
    }

    fn finish(self) -> Vec<Report> {
        let is_result =
            |key: Key| matches!(key, Key::Latency(..) | Key::Field(Field::RequestThroughput));
        let reports = self
            .0
            .into_iter()
            .map(|one| Report { problems: Vec::new(), ..one.draft.finish(Some(&one.name)) });
        reports.filter(|report| report.values.iter().any(|(key, _)| is_result(key))).collect()
    }
}

fn label(key: Key) -> Label {
    let is_count = matches!(
        key,
        Key::Field(Field::Successful | Field::Failed | Field::InputTokens | Field::OutputTokens)
    );
    let format = if is_count { Format::Count } else { Format::Fixed };
    let in_seconds = matches!(key, Key::Latency(Metric::E2el, _));
    Label { key, format, unit: number::unit(if in_seconds { "s" } else { "" }) }
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

    #[test]
    fn a_second_run_makes_reports_of_its_own() {
        assert_eq!(parse(&format!("{NEWER}\nagain\n{NEWER}")).len(), 4);
        assert_eq!(parse(&NEWER[..NEWER.find("ℹ Server").unwrap()]).len(), 2);
    }
}
