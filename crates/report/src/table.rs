//! Many reports as one table, a row per block.

use serde_json::{Map, Value};

use tokometer_compat::{Field, Key, Report, Scalar};
use tokometer_figures::Verdict;
use tokometer_figures::figure::{Figure, Quantity, Statistic};

use crate::grid::{Align, Grid};
use crate::rows::csv_text;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TableFormat {
    #[default]
    Text,
    Csv,
    Json,
    Markdown,
}

/// The reports of one source.
pub struct TableFile {
    pub name: String,
    pub reports: Vec<Report>,
    /// That of a run of our own; `None` for other tools' reports and for predictions.
    pub verdict: Option<Verdict>,
}

/// A report, and where it comes from.
struct TableRow<'a> {
    file: &'a TableFile,
    block: usize,
    report: &'a Report,
}

struct Column {
    /// For people.
    head: String,
    /// For programs.
    name: String,
    align: Align,
    cells: Vec<Option<Value>>,
}

const FIELDS: [(&str, &str, Field); 10] = [
    ("rate", "request_rate", Field::RateConfigured),
    ("cap", "max_concurrency", Field::MaxConcurrency),
    ("ok", "successful", Field::Successful),
    ("failed", "failed", Field::Failed),
    ("s", "duration_s", Field::Duration),
    ("tokens in", "input_tokens", Field::InputTokens),
    ("out", "output_tokens", Field::OutputTokens),
    ("req/s", Quantity::Requests.key(), Field::RequestThroughput),
    ("out tok/s", Quantity::Output.key(), Field::OutputThroughput),
    ("total tok/s", Quantity::Total.key(), Field::TotalThroughput),
];

fn columns(rows: &[TableRow<'_>]) -> Vec<Column> {
    let column = |head: &str, name: &str, cells: Vec<Option<Value>>| Column {
        head: head.to_owned(),
        name: name.to_owned(),
        align: Align::Right,
        cells,
    };
    let words = |name: &str, cell: fn(&TableRow<'_>) -> Option<Value>| Column {
        align: Align::Left,
        ..column(name, name, rows.iter().map(cell).collect())
    };
    let values = |key: Key| rows.iter().map(|row| value(row.report, key)).collect();
    let mut columns = vec![
        words("file", |row| Some(row.file.name.as_str().into())),
        column("#", "block", rows.iter().map(|row| Some(row.block.into())).collect()),
        words("heading", |row| row.report.context.heading.as_deref().map(Value::from)),
        words("layout", |row| row.report.layout.map(|layout| layout.name().into())),
    ];
    columns.extend(FIELDS.map(|(head, name, field)| column(head, name, values(Key::Field(field)))));
    for quantity in [Quantity::Ttft, Quantity::Tpot, Quantity::Itl, Quantity::E2e] {
        for statistic in [Statistic::Mean, Statistic::MEDIAN, Statistic::P99] {
            let figure = Figure::new(quantity, statistic);
            // The metric's name stands once, above its mean.
            let head = match statistic {
                Statistic::Mean => figure.metric_first(),
                other => other.to_string(),
            };
            // ITL is `itl_ms` here, by other tools' word, and not our `gap_ms`.
            let name = format!("{}_ms_{statistic}", quantity.label().to_lowercase());
            columns.extend(Key::of(figure).map(|key| column(&head, &name, values(key))));
        }
    }
    columns.push(words("verdict", |row| row.file.verdict.map(|verdict| verdict.name().into())));
    columns
}

fn value(report: &Report, key: Key) -> Option<Value> {
    if let Key::Latency(metric, stat) = key {
        return report.latency(metric, stat).map(Value::from);
    }
    Some(match report.values.get(key)?.scalar {
        Scalar::Count(count) => count.into(),
        Scalar::Number(number) => number.into(),
        Scalar::Words(ref words) => words.as_str().into(),
    })
}

/// The cell for people: two decimals at most.
fn shown(cell: Option<&Value>) -> String {
    match cell {
        None => String::new(),
        Some(Value::String(words)) => words.clone(),
        Some(Value::Number(number)) if number.is_f64() => {
            format!("{:.2}", number.as_f64().unwrap_or(f64::NAN))
        }
        Some(other) => other.to_string(),
    }
}

/// All reports of `files` in one table. Columns that no report fills are left out,
/// except in JSON, where a missing value is null. Where every name stands for a single report, people
/// read that the rows are runs; programs find the same columns always.
pub fn table(files: &[TableFile], format: TableFormat) -> String {
    let rows: Vec<TableRow<'_>> = files
        .iter()
        .flat_map(|file| {
            (1..).zip(&file.reports).map(move |(block, report)| TableRow { file, block, report })
        })
        .collect();
    let mut columns = columns(&rows);
    if format == TableFormat::Json {
        return json(&columns, rows.len());
    }
    columns.retain(|one| one.cells.iter().any(Option::is_some));
    if format == TableFormat::Csv {
        return csv(&columns, rows.len());
    }
    if files.iter().all(|file| file.reports.len() == 1) {
        columns.retain(|one| one.name != "block");
        columns.iter_mut().take(1).for_each(|file| "run".clone_into(&mut file.head));
    }
    let mut grid = columns.iter().fold(Grid::new(), |grid, one| grid.column(&one.head, one.align));
    for at in 0..rows.len() {
        grid.push(columns.iter().map(|one| shown(one.cells[at].as_ref())));
    }
    if format == TableFormat::Markdown { grid.markdown() } else { grid.text() }
}

/// Every column for programs, and whether it holds words.
#[cfg(test)]
pub(crate) fn column_kinds() -> Vec<(String, bool)> {
    columns(&[]).into_iter().map(|one| (one.name, one.align == Align::Left)).collect()
}

fn json(columns: &[Column], rows: usize) -> String {
    let object = |at: usize| {
        let cells = columns
            .iter()
            .map(|one| (one.name.clone(), one.cells[at].clone().unwrap_or(Value::Null)));
        Value::Object(cells.collect::<Map<String, Value>>())
    };
    format!("{:#}\n", Value::Array((0..rows).map(object).collect()))
}

fn csv(columns: &[Column], rows: usize) -> String {
    let exact = |cell: Option<&Value>| match cell {
        None => String::new(),
        Some(Value::String(words)) => csv_text(words.clone()),
        Some(other) => other.to_string(),
    };
    let mut out = csv::Writer::from_writer(Vec::new());
    let mut write = |cells: Vec<String>| {
        out.write_record(&cells).expect("writing to memory cannot fail");
    };
    write(columns.iter().map(|one| one.name.clone()).collect());
    for at in 0..rows {
        write(columns.iter().map(|one| exact(one.cells[at].as_ref())).collect());
    }
    let bytes = out.into_inner().expect("writing to memory cannot fail");
    String::from_utf8(bytes).expect("cells are text")
}

#[cfg(test)]
mod tests {
    use tokometer_compat::parse;

    use super::*;

    const PREFILL: &str = include_str!("../../../fixtures/seeds/001_64bb5876f73a2969.txt");

    fn file(name: &str, reports: Vec<Report>) -> TableFile {
        TableFile { name: name.to_owned(), reports, verdict: None }
    }

    fn files() -> Vec<TableFile> {
        vec![file("a, b.txt", parse(PREFILL))]
    }

    #[test]
    fn a_text_table_is_aligned_and_has_no_empty_columns() {
        insta::assert_snapshot!("table_text", table(&files(), TableFormat::Text));
    }

    #[test]
    fn a_markdown_table_has_the_same_cells() {
        insta::assert_snapshot!("table_markdown", table(&files(), TableFormat::Markdown));
    }

    /// Points of a sweep and run folders: no file holds them, and none has a second block.
    #[test]
    fn reports_that_stand_alone_are_runs_to_people_and_rows_alike_to_programs() {
        let mut reports = files().remove(0).reports;
        reports.truncate(1);
        let measured =
            TableFile { verdict: Some(Verdict::Valid), ..file("rate=2", reports.clone()) };
        let runs = [file("rate=1", reports), measured];
        let text = table(&runs, TableFormat::Text);
        let heads: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(heads[..3], ["run", "heading", "layout"]);
        assert!(table(&runs, TableFormat::Markdown).starts_with("| run | heading |"));
        let csv = table(&runs, TableFormat::Csv);
        assert!(csv.starts_with("file,block,heading,"));
        let ends: Vec<&str> = csv.lines().filter_map(|line| line.rsplit(',').next()).collect();
        assert_eq!(ends, ["verdict", "", "VALID"]);
    }

    #[test]
    fn csv_quotes_what_needs_it_and_keeps_all_digits() {
        let text = table(&files(), TableFormat::Csv);
        let mut lines = text.lines();
        assert!(lines.next().unwrap().starts_with("file,block,heading,layout,successful,failed,"));
        assert!(
            lines.next().unwrap().starts_with("\"a, b.txt\",1,Prefill,v4,512,0,50.87,4193792,")
        );
    }

    #[test]
    fn a_name_is_no_formula_in_a_spreadsheet() {
        let files = [file("=HYPERLINK(\"http://h\")", files().remove(0).reports)];
        let text = table(&files, TableFormat::Csv);
        assert!(text.contains("\n\"'=HYPERLINK(\"\"http://h\"\")\",1,"), "{text}");
    }

    #[test]
    fn json_has_a_null_where_a_report_has_nothing() {
        let rows: Value = serde_json::from_str(&table(&files(), TableFormat::Json)).unwrap();
        assert_eq!(rows[1]["heading"], "Decode");
        assert_eq!(rows[1]["tpot_ms_p99"], 7.45);
        assert_eq!(rows[1]["e2e_ms_mean"], Value::Null);
    }
}
