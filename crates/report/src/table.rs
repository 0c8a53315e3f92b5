//! Many reports as one table, a row per block.

use serde_json::{Map, Value};

use tokometer_compat::{Field, Key, Report, Scalar};
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

#[derive(Debug, Clone, Copy)]
enum Column {
    File,
    Block,
    Heading,
    Layout,
    Value(Key),
}

#[derive(Debug, Clone)]
struct NamedColumn {
    /// Its head for people.
    head: String,
    /// Its name for programs.
    name: String,
    column: Column,
}

fn named(head: &str, name: &str, column: Column) -> NamedColumn {
    NamedColumn { head: head.to_owned(), name: name.to_owned(), column }
}

fn field(head: &str, name: &str, field: Field) -> NamedColumn {
    named(head, name, Column::Value(Key::Field(field)))
}

/// Mean, median and p99 of each metric. The metric's name stands once, above its mean.
fn latencies() -> impl Iterator<Item = NamedColumn> {
    const STATISTICS: [Statistic; 3] = [Statistic::Mean, Statistic::MEDIAN, Statistic::P99];
    let quantities = [Quantity::Ttft, Quantity::Tpot, Quantity::Itl, Quantity::E2e];
    quantities.into_iter().flat_map(|quantity| {
        STATISTICS.into_iter().filter_map(move |statistic| {
            let figure = Figure::new(quantity, statistic);
            let head = match statistic {
                Statistic::Mean => figure.metric_first(),
                other => other.to_string(),
            };
            // ITL is `itl_ms` here, by other tools' word, and not our `gap_ms`.
            let name = format!("{}_ms_{statistic}", quantity.label().to_lowercase());
            Some(NamedColumn { head, name, column: Column::Value(Key::of(figure)?) })
        })
    })
}

fn columns() -> Vec<NamedColumn> {
    let whole = [
        named("file", "file", Column::File),
        named("#", "block", Column::Block),
        named("heading", "heading", Column::Heading),
        named("layout", "layout", Column::Layout),
        field("ok", "successful", Field::Successful),
        field("failed", "failed", Field::Failed),
        field("s", "duration_s", Field::Duration),
        field("tokens in", "input_tokens", Field::InputTokens),
        field("out", "output_tokens", Field::OutputTokens),
        field("req/s", Quantity::Requests.key(), Field::RequestThroughput),
        field("out tok/s", Quantity::Output.key(), Field::OutputThroughput),
        field("total tok/s", Quantity::Total.key(), Field::TotalThroughput),
    ];
    whole.into_iter().chain(latencies()).collect()
}

struct TableRow<'a> {
    file: &'a str,
    block: usize,
    report: &'a Report,
}

impl TableRow<'_> {
    fn cell(&self, column: Column) -> Option<Value> {
        match column {
            Column::File => Some(self.file.into()),
            Column::Block => Some(self.block.into()),
            Column::Heading => self.report.context.heading.as_deref().map(Value::from),
            Column::Layout => self.report.layout.map(|layout| layout.name().into()),
            Column::Value(Key::Latency(metric, stat)) => {
                self.report.latency(metric, stat).map(Value::from)
            }
            Column::Value(key) => match self.report.values.get(key)?.scalar {
                Scalar::Count(count) => Some(count.into()),
                Scalar::Number(number) => Some(number.into()),
                Scalar::Words(ref words) => Some(words.as_str().into()),
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
    let rows: Vec<TableRow<'_>> = files
        .iter()
        .flat_map(|(file, reports)| {
            reports.iter().enumerate().map(|(index, report)| TableRow {
                file,
                block: index + 1,
                report,
            })
        })
        .collect();
    if format == TableFormat::Json {
        return json(&rows);
    }
    let is_single = files.iter().all(|(_, reports)| reports.len() == 1);
    let shown = |one: NamedColumn| match (one.column, format) {
        (Column::File, _) if is_single => Some(NamedColumn { head: "run".to_owned(), ..one }),
        (Column::Block, TableFormat::Text | TableFormat::Markdown) if is_single => None,
        _ => Some(one),
    };
    let is_used = |one: &NamedColumn| rows.iter().any(|row| row.cell(one.column).is_some());
    let columns: Vec<NamedColumn> =
        columns().into_iter().filter(is_used).filter_map(shown).collect();
    match format {
        TableFormat::Csv => csv(&columns, &rows),
        TableFormat::Markdown => grid(&columns, &rows).markdown(),
        TableFormat::Text | TableFormat::Json => grid(&columns, &rows).text(),
    }
}

fn json(rows: &[TableRow<'_>]) -> String {
    let columns = columns();
    let object = |row: &TableRow<'_>| {
        let cells = columns
            .iter()
            .map(|one| (one.name.clone(), row.cell(one.column).unwrap_or(Value::Null)));
        Value::Object(cells.collect::<Map<String, Value>>())
    };
    format!("{:#}\n", Value::Array(rows.iter().map(object).collect()))
}

fn csv(columns: &[NamedColumn], rows: &[TableRow<'_>]) -> String {
    let exact = |row: &TableRow<'_>, column: Column| match row.cell(column) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(words)) => csv_text(words),
        Some(other) => other.to_string(),
    };
    let mut out = csv::Writer::from_writer(Vec::new());
    let mut write = |cells: Vec<String>| {
        out.write_record(&cells).expect("writing to memory cannot fail");
    };
    write(columns.iter().map(|one| one.name.clone()).collect());
    for row in rows {
        write(columns.iter().map(|one| exact(row, one.column)).collect());
    }
    let bytes = out.into_inner().expect("writing to memory cannot fail");
    String::from_utf8(bytes).expect("cells are text")
}

fn is_text(column: Column) -> bool {
    matches!(column, Column::File | Column::Heading | Column::Layout)
}

fn grid(columns: &[NamedColumn], rows: &[TableRow<'_>]) -> Grid {
    let mut grid = Grid::new();
    for one in columns {
        let align = if is_text(one.column) { Align::Left } else { Align::Right };
        grid = grid.column(one.head.as_str(), align);
    }
    for row in rows {
        grid.push(columns.iter().map(|one| row.shown(one.column)));
    }
    grid
}

#[cfg(test)]
mod tests {
    use tokometer_compat::parse;

    use super::*;

    const PREFILL: &str = include_str!("../../../fixtures/seeds/001_64bb5876f73a2969.txt");

    fn files() -> Vec<(String, Vec<Report>)> {
        vec![("a, b.txt".to_owned(), parse(PREFILL))]
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
    fn a_name_is_no_formula_in_a_spreadsheet() {
        let (_, reports) = files().remove(0);
        let files = [("=HYPERLINK(\"http://h\")".to_owned(), reports)];
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
