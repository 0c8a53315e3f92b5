//! Blocks of printed reports as rows of a table that an engine can be fitted to.

use tokometer_base::Refusal;
use tokometer_base::units::nearest_count;
use tokometer_compat::{Field, Report};

use super::{Cells, FIGURES, MeasuredRow};

/// A block that is no row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableBlock {
    pub name: String,
    pub reason: String,
}

/// Rows that can be used, and blocks that cannot.
#[derive(Debug, Default)]
pub struct CalibrationTable {
    pub rows: Vec<MeasuredRow>,
    pub unusable: Vec<UnusableBlock>,
    backends: Vec<String>,
}

impl CalibrationTable {
    /// Adds the blocks of one file. `limit` is the longest output where a block does not state it.
    pub fn add(
        &mut self,
        file: &str,
        reports: &[Report],
        limit: Option<u32>,
    ) -> Result<(), Refusal> {
        for (number, report) in reports.iter().enumerate() {
            let name = format!("{file}#{}", number + 1);
            match row(report, limit) {
                Ok(row) => self.rows.push(row),
                Err(reason) => self.unusable.push(UnusableBlock { name: name.clone(), reason }),
            }
            let Some(backend) = report.words(Field::Backend) else { continue };
            if let Some(other) = self.backends.iter().find(|other| *other != backend) {
                return Err(Refusal::usage(
                    format!(
                        "cannot calibrate one engine from `{name}` together with those before it: `{backend}` is not `{other}`"
                    ),
                    "calibrate each engine from its own reports",
                ));
            }
            self.backends.push(backend.to_owned());
        }
        Ok(())
    }
}

/// One block as a row; the error says why it is none.
fn row(report: &Report, limit: Option<u32>) -> Result<MeasuredRow, String> {
    if report.is_cut() {
        return Err("the block is truncated".to_owned());
    }
    let count = |field: Field, what: &str| {
        let number = report.number(field).filter(|number| *number >= 1.0);
        number.map(nearest_count).ok_or_else(|| format!("it does not state its {what}"))
    };
    let requests = count(Field::Successful, "successful requests")?;
    let input_tokens = count(Field::InputTokens, "input tokens")?;
    let output_tokens = count(Field::OutputTokens, "generated tokens")?;
    if report.number(Field::Failed).is_some_and(|failed| failed > 0.0) {
        return Err("some of its requests failed, so the engine's load is unknown".to_owned());
    }
    let mut cells = Cells::default();
    for figure in FIGURES {
        cells.set(figure, report.measured(figure));
    }
    if cells == Cells::default() {
        return Err("it has none of the figures that a fit uses".to_owned());
    }
    Ok(MeasuredRow {
        label: MeasuredRow::label_of(requests, input_tokens),
        requests,
        input_tokens,
        output_tokens,
        duration_s: report.number(Field::Duration).unwrap_or(0.0),
        output_limit: report.context.output_limit().or(limit),
        request_rate: report.request_rate().filter(|rate| rate.is_finite()),
        max_concurrency: report.max_concurrency(),
        cells,
    })
}

#[cfg(test)]
mod tests {
    use tokometer_figures::{Figure, Quantity};

    use super::*;
    use tokometer_compat::files;

    fn seed(text: &str) -> Vec<Report> {
        files::read(text).unwrap()
    }

    #[test]
    fn every_block_of_a_seed_table_is_a_row() {
        let text = include_str!("../../../../fixtures/seeds/002_902df92d1b3a4732.txt");
        let mut table = CalibrationTable::default();
        table.add("002", &seed(text), Some(150)).unwrap();
        assert_eq!((table.rows.len(), table.unusable.len()), (23, 0));
        let first = &table.rows[0];
        assert_eq!((first.requests, first.input_tokens, first.output_tokens), (1, 80, 85));
        assert_eq!(first.label, "1 x 80");
        assert_eq!(first.output_limit, Some(150));
        assert_eq!(first.cells.get(Figure::whole(Quantity::Output)), Some(18.75));
        assert_eq!(first.cells.get(Figure::percentile(Quantity::Itl, 99)), Some(94.22));
        assert_eq!((first.request_rate, first.max_concurrency), (None, None));
    }

    #[test]
    fn loads_are_read_from_the_block() {
        let text = include_str!("../../../../fixtures/seeds/004_8163290e84c3957c.txt");
        let rows: Vec<MeasuredRow> =
            seed(text).iter().filter_map(|report| row(report, None).ok()).collect();
        assert!(rows.iter().all(|row| row.request_rate == Some(20.0)), "{rows:?}");
        assert!(rows.iter().all(|row| row.max_concurrency == Some(20)));
    }

    /// A grid without a known column of figures was fitted to nothing, and the profile was saved.
    #[test]
    fn a_row_without_figures_is_no_row() {
        let head = "completed,duration_s,total_input_tokens,total_output_tokens";
        let text = format!("{head},speed\n40,31.1,40960,5120,9\n80,34.8,81920,10240,9\n");
        let mut table = CalibrationTable::default();
        table.add("grid.csv", &seed(&text), None).unwrap();
        assert_eq!((table.rows.len(), table.unusable.len()), (0, 2));
        let reason = &table.unusable[0].reason;
        assert_eq!(reason, "it has none of the figures that a fit uses");
        let text = text.replace("speed", "ttft_ms_p50");
        let mut table = CalibrationTable::default();
        table.add("grid.csv", &seed(&text), None).unwrap();
        let p50 = Figure::percentile(Quantity::Ttft, 50);
        assert_eq!(table.rows[0].cells.get(p50), Some(9.0));
    }

    #[test]
    fn blocks_that_are_no_rows_are_named_and_two_backends_are_refused() {
        let text = include_str!("../../../../fixtures/seeds/000_659e43dd1329acd2.txt");
        let whole = seed(text);
        let cut: String = text.lines().take(12).collect::<Vec<_>>().join("\n");
        let mut table = CalibrationTable::default();
        table.add("cut", &seed(&cut), None).unwrap();
        let unusable = &table.unusable[0];
        assert_eq!(
            (unusable.name.as_str(), unusable.reason.as_str()),
            ("cut#1", "the block is truncated")
        );
        let mut one = whole[0].clone();
        one.set_words(Field::Backend, "vllm");
        let mut other = one.clone();
        other.set_words(Field::Backend, "sglang");
        let refusal =
            CalibrationTable::default().add("mixed", &[one, other], None).unwrap_err().to_string();
        assert!(refusal.contains("`sglang` is not `vllm`"), "{refusal}");
    }
}
