//! Reports in tables: one value per row, one report per row, or statistics of metrics in a grid. Tables
//! are drawn with bars, or have comma-separated values.

use tokometer_base::printable;

use super::decimal::DecimalMark;
use super::fit::{nearest_layout, unread};
use super::labels::{self, Label};
use super::lines::TextLine;
use super::loose;
use super::number;
use crate::model::{Context, Key, Metric, Printed, Problem, Report};

/// Fewer labelled values than this are taken for an ordinary table.
const FEWEST: usize = 3;

/// Wider tables hold no report, and reading one costs columns times rows.
const MOST_COLUMNS: usize = 64;

/// A row of a table.
struct Row<'a> {
    line: TextLine<'a>,
    cells: Vec<&'a str>,
}

/// Names of a column that say nothing about the run in it.
const PLAIN_HEADS: [&str; 3] = ["value", "values", "result"];

/// The reports in the tables of a text. Commas also stand in sentences, so they are tried last.
pub(super) fn reports(lines: &[TextLine<'_>]) -> Vec<Report> {
    let read = |tables: Vec<Vec<Row<'_>>>| -> Vec<Report> {
        tables.iter().flat_map(|table| read_table(table)).collect()
    };
    let drawn = read(drawn_tables(lines));
    if !drawn.is_empty() {
        return drawn;
    }
    let mut separated = read(separated_tables(lines));
    separated.retain(|report| !report.values.is_empty());
    separated
}

fn drawn_tables<'a>(lines: &[TextLine<'a>]) -> Vec<Vec<Row<'a>>> {
    let mut tables = vec![Vec::new()];
    for line in lines {
        match cells(line.text) {
            Some(cells) => push_row(&mut tables, Row { line: *line, cells }),
            None if is_border(line.text) => {}
            None => tables.push(Vec::new()),
        }
    }
    tables
}

/// Tables of values between commas or semicolons. A blank line parts sections of one table; another
/// table begins where the head comes again.
fn separated_tables<'a>(lines: &[TextLine<'a>]) -> Vec<Vec<Row<'a>>> {
    let mut tables: Vec<Vec<Row<'a>>> = vec![Vec::new()];
    for line in lines.iter().filter(|line| !line.text.trim().is_empty()) {
        let Some(cells) = separated(line.text) else {
            tables.push(Vec::new());
            continue;
        };
        let head = tables.last().and_then(|table| table.first());
        if head.is_some_and(|head| head.cells == cells) {
            tables.push(Vec::new());
        }
        push_row(&mut tables, Row { line: *line, cells });
    }
    tables
}

fn push_row<'a>(tables: &mut [Vec<Row<'a>>], row: Row<'a>) {
    if let Some(table) = tables.last_mut() {
        table.push(row);
    }
}

/// The cells of a line of separated values; `None` for one without a separator.
fn separated(text: &str) -> Option<Vec<&str>> {
    let outside = |separator: char| {
        let mut is_quoted = false;
        move |letter: char| {
            is_quoted ^= letter == '"';
            letter == separator && !is_quoted
        }
    };
    // Where commas are decimal points, semicolons separate.
    let separator = if text.contains(outside(';')) { ';' } else { ',' };
    let cells: Vec<&str> = text
        .split(outside(separator))
        .map(|cell| cell.trim().trim_matches('"').trim())
        .take(MOST_COLUMNS)
        .collect();
    (cells.len() >= 2).then_some(cells)
}

/// The cells of a table's line; `None` for any other line, and for the rule below a head.
fn cells(text: &str) -> Option<Vec<&str>> {
    if is_border(text) {
        return None;
    }
    let text = text.trim().trim_start_matches(['>', ' ']);
    let inner = text.strip_prefix(loose::is_bar).unwrap_or(text);
    let inner = inner.strip_suffix(loose::is_bar).unwrap_or(inner);
    let cells: Vec<&str> = inner
        .split(loose::is_bar)
        .map(|cell| cell.trim().trim_matches(['*', '`']).trim())
        .take(MOST_COLUMNS)
        .collect();
    (cells.len() >= 2 && inner.len() < text.len()).then_some(cells)
}

fn is_border(text: &str) -> bool {
    let is_part = |letter: char| {
        letter.is_whitespace()
            || "-=:>".contains(letter)
            || loose::is_corner(letter)
            || matches!(letter, '─' | '━' | '═')
    };
    text.contains(['-', '─', '━', '═', '=']) && text.chars().all(is_part)
}

/// How a table is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrangement {
    /// The first column has labels, each other one is a report.
    LabelsDown,
    /// The first row has labels, each other one is a report.
    LabelsAcross,
    /// Metrics one way, statistics the other: one report.
    Crossed,
}

fn read_table(table: &[Row<'_>]) -> Vec<Report> {
    let Some((head, body)) = table.split_first() else { return Vec::new() };
    let down = table.iter().filter(|row| labels::label(row.cells[0], None).is_some()).count();
    let across = head.cells.iter().filter(|cell| labels::label(cell, None).is_some()).count();
    let pairs = body
        .iter()
        .take(FEWEST)
        .flat_map(|row| head.cells.iter().map(move |cell| (cell, row.cells[0])));
    let crossed = pairs.filter(|(cell, first)| crossed_label(cell, first).is_some()).count();
    let choices = [
        (down, Arrangement::LabelsDown),
        (across, Arrangement::LabelsAcross),
        (crossed, Arrangement::Crossed),
    ];
    let mark = DecimalMark::of(table.iter().flat_map(|row| row.cells.iter().copied()));
    let best = choices.into_iter().rev().max_by_key(|(count, _)| *count);
    match best.filter(|(count, _)| *count >= FEWEST) {
        Some((_, Arrangement::LabelsDown)) => labels_down(table, mark),
        Some((_, Arrangement::LabelsAcross)) => {
            body.iter().map(|row| labels_across(&head.cells, row, mark)).collect()
        }
        Some((_, Arrangement::Crossed)) => vec![crossed_report(&head.cells, body, mark)],
        None => Vec::new(),
    }
}

/// `p99` above and `TTFT (ms)` at the left, or the other way round. A count or a rate has one value,
/// which stands below the mean.
fn crossed_label(above: &str, left: &str) -> Option<Label> {
    if above.is_empty() || left.is_empty() || above == left {
        return None;
    }
    let is_field = |found: &Label| matches!(found.key, Key::Field(_)) && labels::is_mean(above);
    labels::label(&format!("{above} {left}"), None)
        .or_else(|| labels::label(left, None).filter(is_field))
}

/// `AIPerf` and GenAI-Perf call a request's mean time per output token its inter-token latency. Their
/// tables are known by their word for E2E, and have no other time per token.
fn has_tpot_as_itl(body: &[Row<'_>]) -> bool {
    let has = |metric| body.iter().any(|row| labels::names_metric(row.cells[0], metric));
    body.iter().any(|row| labels::is_request_latency(row.cells[0])) && !has(Metric::Tpot)
}

fn labels_down(table: &[Row<'_>], mark: DecimalMark) -> Vec<Report> {
    let head = &table[0].cells;
    let has_head = labels::label(head[0], None).is_none();
    let unit_column = head
        .iter()
        .position(|cell| has_head && ["unit", "units"].contains(&cell.to_lowercase().as_str()));
    let columns = table.iter().map(|row| row.cells.len()).max().unwrap_or(0);
    let column = |at: usize| {
        let mut report = ReportDraft::with(mark);
        for Row { line, cells } in table {
            let found = labels::label(cells[0], None);
            let unit = unit_column.and_then(|at| number::unit(cells.get(at)?));
            if let (Some(found), Some(text)) = (found, cells.get(at)) {
                report.take(*line, cells[0], Label { unit: found.unit.or(unit), ..found }, text);
            }
        }
        let is_plain = |cell: &str| PLAIN_HEADS.contains(&cell.to_lowercase().as_str());
        let heading = head.get(at).filter(|cell| has_head && !cell.is_empty() && !is_plain(cell));
        // A column of changes or of units has hardly a value that is one.
        report.is_mostly_read().then(|| report.finish(heading.copied()))
    };
    (1..columns).filter(|at| Some(*at) != unit_column).filter_map(column).collect()
}

fn labels_across(head: &[&str], Row { line, cells }: &Row<'_>, mark: DecimalMark) -> Report {
    let mut report = ReportDraft::with(mark);
    for (name, text) in head.iter().zip(cells) {
        if let Some(found) = labels::label(name, None) {
            report.take(*line, name, found, text);
        }
    }
    let is_named = head.first().is_some_and(|name| labels::label(name, None).is_none());
    report.finish(cells.first().copied().filter(|_| is_named))
}

fn crossed_report(head: &[&str], body: &[Row<'_>], mark: DecimalMark) -> Report {
    let mut report = ReportDraft::with(mark);
    let is_tpot = has_tpot_as_itl(body);
    for Row { line, cells } in body {
        for (above, text) in head.iter().zip(cells).skip(1) {
            if let Some(mut found) = crossed_label(above, cells[0]) {
                if let (Key::Latency(Metric::Itl, stat), true) = (found.key, is_tpot) {
                    found.key = Key::Latency(Metric::Tpot, stat);
                }
                report.take(*line, &format!("{above} {}", cells[0]), found, text);
            }
        }
    }
    report.finish(None)
}

/// A report while its cells are read.
#[derive(Default)]
pub(super) struct ReportDraft {
    report: Report,
    mark: DecimalMark,
    first_line: usize,
    texts: Vec<String>,
}

impl ReportDraft {
    pub(super) fn with(mark: DecimalMark) -> Self {
        Self { mark, ..Self::default() }
    }

    /// Reads a cell. The value of an earlier cell stays.
    pub(super) fn take(&mut self, line: TextLine<'_>, name: &str, found: Label, text: &str) {
        if self.first_line == 0 {
            self.first_line = line.number;
        }
        if self.texts.last().is_none_or(|last| last != line.text) {
            self.texts.push(line.text.to_owned());
        }
        let mut value = loose::value(name, found, text);
        value.read_with(self.mark);
        match value.reading {
            Some(reading) if !self.has(found.key) => {
                self.report.values.set(found.key, reading.written(value.text));
            }
            Some(_) => {}
            None => self.report.unread.push(unread(line, name, value.text)),
        }
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.report.values.get(key).is_some()
    }

    fn is_mostly_read(&self) -> bool {
        let read = self.report.values.iter().count();
        read >= FEWEST.min(2) && read > self.report.unread.len()
    }

    pub(super) fn finish(self, heading: Option<&str>) -> Report {
        Report {
            layout: nearest_layout(&self.report.values),
            context: Context { heading: heading.map(printable::short), ..Context::default() },
            printed: Some(Printed::loose(self.first_line, self.texts)),
            problems: vec![Problem::NoHeader { line: self.first_line }],
            ..self.report
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{Field, Metric, Percentile, Stat};
    use crate::{Report, parse};

    const P99: Stat = Stat::P99;

    fn latency(report: &Report, metric: Metric, stat: Stat) -> Option<f64> {
        report.latency(metric, stat)
    }

    /// `AIPerf`'s table, shortened. Its inter-token latency is one value per request.
    const AIPERF: &str = "\
           NVIDIA AIPerf | LLM Metrics
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━┳━━━━━━━━┳━━━━━━━━━┓
┃                               Metric ┃       avg ┃    min ┃     p99 ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━╇━━━━━━━━╇━━━━━━━━━┩
│             Time to First Token (ms) │     18.26 │  11.22 │   68.82 │
│                 Request Latency (ms) │  1,487.30 │ 267.07 │  715.99 │
│             Inter Token Latency (ms) │     11.23 │   8.80 │   12.48 │
│     Output Token Throughput Per User │     89.23 │  75.93 │  102.28 │
│                    (tokens/sec/user) │           │        │         │
│ Output Token Throughput (tokens/sec) │ 10,944.03 │    N/A │     N/A │
│    Request Throughput (requests/sec) │    255.54 │    N/A │     N/A │
│             Request Count (requests) │    711.00 │    N/A │     N/A │
└──────────────────────────────────────┴───────────┴────────┴─────────┘
";

    #[test]
    fn a_table_of_statistics_has_its_counts_and_rates_below_the_mean() {
        let reports = parse(AIPERF);
        assert_eq!(reports.len(), 1);
        let report = &reports[0];
        assert_eq!(latency(report, Metric::Ttft, Stat::Mean), Some(18.26));
        assert_eq!(latency(report, Metric::E2el, Stat::Mean), Some(1_487.3));
        assert_eq!(latency(report, Metric::Tpot, P99), Some(12.48));
        assert_eq!(latency(report, Metric::Itl, P99), None);
        assert_eq!(report.number(Field::OutputThroughput), Some(10_944.03));
        assert_eq!(report.number(Field::RequestThroughput), Some(255.54));
        assert_eq!(report.number(Field::Successful), Some(711.0));
        assert!(report.unread.is_empty(), "{:?}", report.unread);
    }

    #[test]
    fn an_inter_token_latency_beside_a_tpot_is_one() {
        let text = "| | mean | p50 | p99 |\n|---|---|---|---|\n| Request Latency (s) | 2.5 | 2.4 | 3 |\n\
            | ITL (ms) | 9.7 | 9.6 | 11 |\n| TPOT (ms) | 9.5 | 9.4 | 10 |\n";
        let report = &parse(text)[0];
        assert_eq!(latency(report, Metric::Itl, Stat::Mean), Some(9.7));
        assert_eq!(latency(report, Metric::Tpot, Stat::Mean), Some(9.5));
        assert_eq!(latency(report, Metric::E2el, Stat::Mean), Some(2_500.0));
    }

    #[test]
    fn separated_values_are_read_in_every_arrangement() {
        let pairs = "metric,value\r\nSuccessful requests,3000\r\nBenchmark duration (s),1055.18\r\n\
            \"Mean TTFT (ms)\",\"1,463.85\"\r\n";
        let [report] = &parse(pairs)[..] else { panic!("one report") };
        assert_eq!(report.number(Field::Successful), Some(3_000.0));
        assert_eq!(latency(report, Metric::Ttft, Stat::Mean), Some(1_463.85));
        assert_eq!(report.context.heading, None);
        let rows = "name;completed;duration;mean_ttft_ms\na;10;2,5;463,85\nb;20;2,6;464,85\n";
        let reports = parse(rows);
        let means: Vec<_> =
            reports.iter().map(|report| latency(report, Metric::Ttft, Stat::Mean)).collect();
        assert_eq!(means, [Some(463.85), Some(464.85)]);
        assert_eq!(reports[1].context.heading.as_deref(), Some("b"));
    }

    /// The file of GenAI-Perf: statistics, and after a blank line what has one value.
    #[test]
    fn sections_of_one_file_are_one_report_and_a_second_head_begins_another() {
        let file = "Metric,avg,min,p99,p50\nTime To First Token (ms),\"1,234.50\",100.00,1990.00,1200.00\n\
            Request Latency (ms),5000.00,4000.00,5990.00,5000.00\nInter Token Latency (ms),30.00,20.00,39.00,30.00\n\n\
            Metric,Value\nOutput Token Throughput (per sec),500.00\nRequest Throughput (per sec),2.00\n";
        let reports = parse(&format!("{file}\n{file}"));
        assert_eq!(reports.len(), 2);
        let p50 = Stat::Percentile(Percentile::parse("50").unwrap());
        for report in &reports {
            assert_eq!(latency(report, Metric::Ttft, p50), Some(1_200.0));
            assert_eq!(latency(report, Metric::Tpot, Stat::Mean), Some(30.0));
            assert_eq!(report.number(Field::OutputThroughput), Some(500.0));
            assert_eq!(report.number(Field::RequestThroughput), Some(2.0));
        }
    }

    #[test]
    fn commas_in_sentences_and_numbers_make_no_table() {
        assert!(parse("duration, failed, completed\nwell, then, so\n").is_empty());
        let lines =
            "Successful requests: 3,000\nMean TTFT (ms): 1,463.85\nP99 TTFT (ms): 2,463.85\n";
        let report = &parse(lines)[0];
        assert_eq!(report.number(Field::Successful), Some(3_000.0));
        assert_eq!(latency(report, Metric::Ttft, P99), Some(2_463.85));
    }
}
