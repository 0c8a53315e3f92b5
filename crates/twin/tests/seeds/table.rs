//! Reads the printed blocks of a seed table. The program itself reads reports with the crate `classic`, which
//! this one may not import. The study `seeds` in `lab/` includes this file by its path.

use tokometer_twin::fit::{Cells, FIGURES, MeasuredRow};

/// The printed label of each figure, in the order of [`FIGURES`].
const LABELS: [&str; 10] = [
    "Output token throughput (tok/s):",
    "Mean TTFT (ms):",
    "Median TTFT (ms):",
    "P99 TTFT (ms):",
    "Mean TPOT (ms):",
    "Median TPOT (ms):",
    "P99 TPOT (ms):",
    "Mean ITL (ms):",
    "Median ITL (ms):",
    "P99 ITL (ms):",
];

fn value(block: &str, label: &str) -> Option<f64> {
    let line = block.lines().find(|line| line.starts_with(label))?;
    line[label.len()..].trim().parse().ok()
}

fn count(block: &str, label: &str) -> u64 {
    let line = block.lines().find(|line| line.starts_with(label));
    line.and_then(|line| line[label.len()..].trim().parse().ok()).unwrap_or(0)
}

/// The rows of a printed table.
pub(crate) fn rows(text: &str) -> Vec<MeasuredRow> {
    let blocks = text.split("Serving Benchmark Result").skip(1);
    blocks
        .map(|block| {
            let requests = count(block, "Successful requests:");
            let input_tokens = count(block, "Total input tokens:");
            let mut cells = Cells::default();
            for (figure, label) in FIGURES.into_iter().zip(LABELS) {
                cells.set(figure, value(block, label));
            }
            MeasuredRow {
                label: format!("{requests} x {}", input_tokens / requests.max(1)),
                requests,
                input_tokens,
                output_tokens: count(block, "Total generated tokens:"),
                duration_s: value(block, "Benchmark duration (s):").unwrap_or(0.0),
                output_limit: Some(150),
                cells,
                ..MeasuredRow::default()
            }
        })
        .collect()
}
