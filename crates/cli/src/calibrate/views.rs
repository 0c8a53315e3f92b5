//! What a calibration found, for the reader.

use std::fmt::Write as _;

use tokometer_twin::fit::{
    Accuracy, Calibration, HeldOut, Metric, Row, RunCalibration, errors, main_errors,
};

/// What a table of reports gave.
pub(crate) fn of_tables(calibration: &Calibration, rows: &[Row]) -> String {
    let mut text = String::from(
        "parameter                                        value  from the three starts            determined\n",
    );
    for fitted in &calibration.parameters {
        let ends: Vec<String> = fitted.ends.iter().map(|end| figure(*end)).collect();
        let _written = writeln!(
            text,
            "{:<42} {:>11}  {:<32} {}",
            fitted.name,
            figure(fitted.value),
            ends.join("  "),
            if fitted.is_identified { "yes" } else { "no" }
        );
    }
    text.push('\n');
    text.push_str(&accuracy("held-out error, two folds", rows, &calibration.held_out));
    let is_modelled = calibration.candidate.profile.cost.quantum_ms > 0.0;
    if let Some(quantum) = calibration.seen_quantum.filter(|_| !is_modelled) {
        let _written = writeln!(
            text,
            "steps seem to end at multiples of {quantum:.0} ms; a template with `cost.quantum_ms` models that"
        );
    }
    for left in &calibration.left_out {
        let label = rows.get(left.row).map_or("", |row| row.label.as_str());
        let _written = writeln!(text, "left out: `{label}`: {}", left.reason);
    }
    text
}

/// What recorded runs gave.
pub(crate) fn of_runs(found: &RunCalibration, runs: usize) -> String {
    let mut text = String::from(
        "parameter                                        value  standard error  determined\n",
    );
    for constant in &found.constants {
        let error = constant.error.map_or("–".to_owned(), figure);
        let _written = writeln!(
            text,
            "{:<42} {:>11}  {error:>14}  {}",
            constant.name,
            figure(constant.value),
            if constant.is_identified { "yes" } else { "no" }
        );
    }
    let _written = writeln!(
        text,
        "\n{} engine steps seen in {runs} runs, {} of them decoding only; held-out error of their durations: median {:.1} %",
        found.steps,
        found.decode_steps,
        100.0 * found.held_out_median
    );
    if let Some(accuracy) = found.held_out_runs {
        let _written = writeln!(
            text,
            "held-out error of whole runs, half of them at a time: median {:.1} % over {} cells, {:.0} % within 10 %",
            100.0 * accuracy.median,
            accuracy.cells,
            100.0 * accuracy.within_10
        );
    }
    text
}

/// Errors per metric, and of the seven main ones together.
pub(crate) fn accuracy(title: &str, rows: &[Row], predicted: &[HeldOut]) -> String {
    let mut text =
        format!("{title:<42} {:>6}  {:>7}  {:>6}  {:>6}\n", "cells", "median", "≤ 10 %", "≤ 25 %");
    let mut line = |name: &str, errors: &[f64]| {
        let Some(accuracy) = Accuracy::of(errors) else { return };
        let _written = writeln!(
            text,
            "{name:<42} {:>6}  {:>5.1} %  {:>4.0} %  {:>4.0} %",
            accuracy.cells,
            100.0 * accuracy.median,
            100.0 * accuracy.within_10,
            100.0 * accuracy.within_25
        );
    };
    for metric in Metric::ALL {
        line(metric.name(), &errors(rows, predicted, metric));
    }
    line("the seven main metrics", &main_errors(rows, predicted));
    text
}

/// Three significant digits of any size.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.01 => format!("{value:.3}"),
        size if size > 0.0 => format!("{value:.2e}"),
        _ => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokometer_twin::fit::Cells;

    #[test]
    fn errors_are_shown_per_metric_and_only_where_there_are_cells() {
        let mut measured = Cells::default();
        measured.set(Metric::TtftMean, Some(100.0));
        measured.set(Metric::TpotP99, Some(10.0));
        let rows = [Row { label: "1 x 1".to_owned(), cells: measured, ..Row::default() }];
        let mut predicted = Cells::default();
        predicted.set(Metric::TtftMean, Some(104.0));
        predicted.set(Metric::TpotP99, Some(8.0));
        let text = accuracy("held out", &rows, &[HeldOut { row: 0, predicted }]);
        insta::assert_snapshot!(text, @r"
        held out                                    cells   median  ≤ 10 %  ≤ 25 %
        TTFT mean                                       1    4.0 %   100 %   100 %
        TPOT P99                                        1   20.0 %     0 %   100 %
        the seven main metrics                          1    4.0 %   100 %   100 %
        ");
    }

    #[test]
    fn figures_keep_three_digits_of_any_size() {
        let shown = [0.0, 1.5e-4, 0.25, 51.33, 65_536.4].map(figure);
        assert_eq!(shown, ["0", "1.50e-4", "0.250", "51.3", "65536"]);
    }
}
