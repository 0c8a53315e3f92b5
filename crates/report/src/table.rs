//! Many reports as one table, a row per block.

use serde_json::{Map, Value};

use tokometer_classic::{Field, Key, Metric, Quantity, Report, Stat};

/// What a table is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TableFormat {
    /// Aligned columns.
    #[default]
    Text,
    /// Comma-separated values with a header line.
    Csv,
    /// A list of objects.
    Json,
    /// A pipe table.
    Markdown,
}

/// What a column shows.
#[derive(Debug, Clone, Copy)]
enum Column {
    File,
    Block,
    Heading,
    Layout,
    Value(Key),
}

/// Head of the column for people, its name for programs, and what it shows.
type ColumnRow = (&'static str, &'static str, Column);

const fn field(field: Field) -> Column {
    Column::Value(Key::Field(field))
}

const fn latency(metric: Metric, stat: Stat) -> Column {
    Column::Value(Key::Latency(metric, stat))
}

const COLUMNS: [ColumnRow; 24] = [
    ("file", "file", Column::File),
    ("#", "block", Column::Block),
    ("heading", "heading", Column::Heading),
    ("layout", "layout", Column::Layout),
    ("ok", "successful", field(Field::Successful)),
    ("failed", "failed", field(Field::Failed)),
    ("s", "duration_s", field(Field::Duration)),
    ("tokens in", "input_tokens", field(Field::InputTokens)),
    ("out", "output_tokens", field(Field::OutputTokens)),
    ("req/s", "requests_per_s", field(Field::RequestThroughput)),
    ("out tok/s", "output_tokens_per_s", field(Field::OutputThroughput)),
    ("total tok/s", "total_tokens_per_s", field(Field::TotalThroughput)),
    ("TTFT mean", "ttft_ms_mean", latency(Metric::Ttft, Stat::Mean)),
    ("p50", "ttft_ms_p50", latency(Metric::Ttft, Stat::Median)),
    ("p99", "ttft_ms_p99", latency(Metric::Ttft, Stat::P99)),
    ("TPOT mean", "tpot_ms_mean", latency(Metric::Tpot, Stat::Mean)),
    ("p50", "tpot_ms_p50", latency(Metric::Tpot, Stat::Median)),
    ("p99", "tpot_ms_p99", latency(Metric::Tpot, Stat::P99)),
    ("ITL mean", "itl_ms_mean", latency(Metric::Itl, Stat::Mean)),
    ("p50", "itl_ms_p50", latency(Metric::Itl, Stat::Median)),
    ("p99", "itl_ms_p99", latency(Metric::Itl, Stat::P99)),
    ("E2E mean", "e2e_ms_mean", latency(Metric::E2el, Stat::Mean)),
    ("p50", "e2e_ms_p50", latency(Metric::E2el, Stat::Median)),
    ("p99", "e2e_ms_p99", latency(Metric::E2el, Stat::P99)),
];

/// One row: where a report comes from, and the report.
struct Row<'a> {
    file: &'a str,
    block: usize,
    report: &'a Report,
}

impl Row<'_> {
    fn cell(&self, column: Column) -> Option<Value> {
        match column {
            Column::File => Some(self.file.into()),
            Column::Block => Some(self.block.into()),
            Column::Heading => self.report.context.heading.as_deref().map(Value::from),
            Column::Layout => self.report.layout.map(|layout| layout.name().into()),
            Column::Value(Key::Latency(metric, stat)) => {
                self.report.latency(metric, stat).map(Value::from)
            }
            Column::Value(key) => match self.report.values.get(key)?.quantity {
                Quantity::Count(count) => Some(count.into()),
                Quantity::Number(number) => Some(number.into()),
                Quantity::Words(ref words) => Some(words.as_str().into()),
            },
        }
    }

    /// The cell for people: two decimals at most.
    fn shown(&self, column: Column) -> String {
        match self.cell(column) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(words)) => words,
            Some(Value::Number(number)) if number.is_f64() => {
                format!("{:.2}", number.as_f64().unwrap_or(f64::NAN))
            }
            Some(other) => other.to_string(),
        }
    }
}

/// All reports of `files` (name, reports) in one table. Columns that no report fills are left out,
/// except in JSON, where a missing value is null. Where every name stands for a single report, people
/// read that the rows are runs; programs find the same columns always.
pub fn table(files: &[(String, Vec<Report>)], format: TableFormat) -> String {
    let rows: Vec<Row<'_>> = files
        .iter()
        .flat_map(|(file, reports)| {
            reports.iter().enumerate().map(|(index, report)| Row { file, block: index + 1, report })
        })
        .collect();
    if format == TableFormat::Json {
        return json(&rows);
    }
    let is_single = files.iter().all(|(_, reports)| reports.len() == 1);
    let named = |(head, name, column): ColumnRow| match (column, format) {
        (Column::File, _) if is_single => Some(("run", name, column)),
        (Column::Block, TableFormat::Text | TableFormat::Markdown) if is_single => None,
        _ => Some((head, name, column)),
    };
    let is_used = |row: &ColumnRow| rows.iter().any(|one| one.cell(row.2).is_some());
    let columns: Vec<ColumnRow> = COLUMNS.into_iter().filter(is_used).filter_map(named).collect();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| columns.iter().map(|(.., column)| row.shown(*column)).collect())
        .collect();
    match format {
        TableFormat::Csv => csv(&columns, &rows),
        TableFormat::Markdown => markdown(&columns, &cells),
        TableFormat::Text | TableFormat::Json => text(&columns, &cells),
    }
}

fn json(rows: &[Row<'_>]) -> String {
    let object = |row: &Row<'_>| {
        let cells = COLUMNS.iter().map(|(_, name, column)| {
            ((*name).to_owned(), row.cell(*column).unwrap_or(Value::Null))
        });
        Value::Object(cells.collect::<Map<String, Value>>())
    };
    format!("{:#}\n", Value::Array(rows.iter().map(object).collect()))
}

fn csv(columns: &[ColumnRow], rows: &[Row<'_>]) -> String {
    let names = columns.iter().map(|(_, name, _)| (*name).to_owned()).collect();
    let exact = |row: &Row<'_>, column: Column| match row.cell(column) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(words)) => words,
        Some(other) => other.to_string(),
    };
    let cells = rows
        .iter()
        .map(|row| columns.iter().map(|(.., column)| exact(row, *column)).collect::<Vec<_>>());
    std::iter::once(names)
        .chain(cells)
        .map(|line| line.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n")
        .collect()
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

fn markdown(columns: &[ColumnRow], cells: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let heads: Vec<String> = columns.iter().map(|(head, ..)| (*head).to_owned()).collect();
    let rules: Vec<String> = columns
        .iter()
        .map(|(.., column)| if is_text(*column) { "---".to_owned() } else { "---:".to_owned() })
        .collect();
    let escaped = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        line(&cells)
    };
    line(&heads) + &line(&rules) + &cells.iter().map(escaped).collect::<String>()
}

fn is_text(column: Column) -> bool {
    matches!(column, Column::File | Column::Heading | Column::Layout)
}

fn text(columns: &[ColumnRow], cells: &[Vec<String>]) -> String {
    let heads: Vec<String> = columns.iter().map(|(head, ..)| (*head).to_owned()).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&heads).chain(cells).collect();
    let width = |at: usize| all.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |row: &&Vec<String>| {
        let cells = row.iter().zip(&widths).zip(columns).map(|((cell, width), (.., column))| {
            if is_text(*column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    all.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use tokometer_classic::parse;

    use super::*;

    const PREFILL: &str = include_str!("../../../fixtures/seeds/001_64bb5876f73a2969.txt");

    fn files() -> Vec<(String, Vec<Report>)> {
        vec![("a, b.txt".to_owned(), parse(PREFILL).unwrap())]
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
        let mut reports = files().remove(0).1;
        reports.truncate(1);
        let runs = [("rate=1".to_owned(), reports.clone()), ("rate=2".to_owned(), reports)];
        let text = table(&runs, TableFormat::Text);
        let heads: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(heads[..3], ["run", "heading", "layout"]);
        assert!(table(&runs, TableFormat::Markdown).starts_with("| run | heading |"));
        assert!(table(&runs, TableFormat::Csv).starts_with("file,block,heading,"));
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
    fn json_has_a_null_where_a_report_has_nothing() {
        let rows: Value = serde_json::from_str(&table(&files(), TableFormat::Json)).unwrap();
        assert_eq!(rows[1]["heading"], "Decode");
        assert_eq!(rows[1]["tpot_ms_p99"], 7.45);
        assert_eq!(rows[1]["e2e_ms_mean"], Value::Null);
    }
}
