//! What a calibration found, for the reader.

use std::fmt::Write as _;

use tokometer_twin::fit::{
    Accuracy, Calibration, FIGURES, HeldOut, MeasuredRow, RunCalibration, errors, main_errors,
};

use crate::Grid;

pub fn of_tables(calibration: &Calibration, rows: &[MeasuredRow]) -> String {
    let mut grid = Grid::new()
        .left("parameter")
        .right("value")
        .left("from the three starting points")
        .left("determined");
    for fitted in &calibration.parameters {
        let ends: Vec<String> = fitted.ends.iter().map(|end| figure(*end)).collect();
        grid.push([
            fitted.name.to_owned(),
            figure(fitted.value),
            ends.join("  "),
            if fitted.is_identified { "yes" } else { "no" }.to_owned(),
        ]);
    }
    let mut text = grid.text() + "\n";
    text.push_str(&accuracy("held-out error, two folds", rows, &calibration.held_out));
    if let Some(accuracy) = Accuracy::of(&main_errors(rows, &calibration.in_sample)) {
        let spread = calibration.candidate.spread;
        let answers = if spread > 0.0 {
            format!("with answers that spread by {spread:.2} of their mean")
        } else {
            "as means over the 20 seeds of `predict`".to_owned()
        };
        let _ = writeln!(
            text,
            "error on the rows of the fit, {answers}: median {:.1} % over {} cells",
            100.0 * accuracy.median,
            accuracy.cells
        );
    }
    let is_modelled = calibration.candidate.profile.cost.quantum_ms > 0.0;
    if let Some(quantum) = calibration.seen_quantum.filter(|_| !is_modelled) {
        let _ = writeln!(
            text,
            "steps seem to end at multiples of {quantum:.0} ms; a template with `cost.quantum_ms` models that"
        );
    }
    for left in &calibration.left_out {
        let label = rows.get(left.row).map_or("", |row| row.label.as_str());
        let _ = writeln!(text, "skipped: `{label}`: {}", left.reason);
    }
    text
}

pub fn of_runs(found: &RunCalibration, runs: usize) -> String {
    let mut grid =
        Grid::new().left("parameter").right("value").right("standard error").left("determined");
    for constant in &found.constants {
        grid.push([
            constant.name.to_owned(),
            figure(constant.value),
            constant.error.map_or("–".to_owned(), figure),
            if constant.is_identified { "yes" } else { "no" }.to_owned(),
        ]);
    }
    let mut text = grid.text();
    let _ = writeln!(
        text,
        "\n{} engine steps observed in {runs} runs, {} of them decode only",
        found.steps, found.decode_steps
    );
    let held_out = found.held_out_runs.map_or(
        ": unknown, because these runs are too few to leave any out".to_owned(),
        |accuracy| {
            format!(
                ", two folds: median {:.1} % over {} cells, {:.0} % within 10 %",
                100.0 * accuracy.median,
                accuracy.cells,
                100.0 * accuracy.within_10
            )
        },
    );
    let _ = writeln!(text, "held-out error of whole loads{held_out}");
    text
}

/// Errors per metric, and of the seven main ones together.
pub fn accuracy(title: &str, rows: &[MeasuredRow], predicted: &[HeldOut]) -> String {
    let mut grid = Grid::new().left(title);
    for head in ["cells", "median", "≤ 10 %", "≤ 25 %"] {
        grid = grid.right(head);
    }
    let mut line = |name: &str, errors: &[f64]| {
        let Some(accuracy) = Accuracy::of(errors) else { return };
        grid.push([
            name.to_owned(),
            accuracy.cells.to_string(),
            format!("{:.1} %", 100.0 * accuracy.median),
            format!("{:.0} %", 100.0 * accuracy.within_10),
            format!("{:.0} %", 100.0 * accuracy.within_25),
        ]);
    };
    for figure in FIGURES {
        line(&figure.label(), &errors(rows, predicted, figure));
    }
    line("the seven main metrics", &main_errors(rows, predicted));
    grid.text()
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
    use tokometer_sim::Profile;
    use tokometer_twin::OldClient;
    use tokometer_twin::fit::{Candidate, Cells, Fitted, LeftOut, MeasuredConstant};

    use tokometer_figures::{Figure, Quantity};

    use super::*;

    #[test]
    fn errors_are_shown_per_metric_and_only_where_there_are_cells() {
        let mut measured = Cells::default();
        measured.set(Figure::mean(Quantity::Ttft), Some(100.0));
        measured.set(Figure::percentile(Quantity::Tpot, 99), Some(10.0));
        let rows =
            [MeasuredRow { label: "1 x 1".to_owned(), cells: measured, ..MeasuredRow::default() }];
        let mut predicted = Cells::default();
        predicted.set(Figure::mean(Quantity::Ttft), Some(104.0));
        predicted.set(Figure::percentile(Quantity::Tpot, 99), Some(8.0));
        let text = accuracy("held out", &rows, &[HeldOut { row: 0, predicted }]);
        insta::assert_snapshot!(text, @r"
        held out                cells  median  ≤ 10 %  ≤ 25 %
        mean TTFT                   1   4.0 %   100 %   100 %
        p99 TPOT                    1  20.0 %     0 %   100 %
        the seven main metrics      1   4.0 %   100 %   100 %
        ");
    }

    #[test]
    fn constants_from_runs_stand_with_their_errors() {
        let constant = |name, value, error, is_identified| MeasuredConstant {
            name,
            value,
            error,
            is_identified,
        };
        let found = RunCalibration {
            profile: Profile::default(),
            constants: vec![
                constant("cost.step_ms", 6.123, Some(0.021), true),
                constant("cost.kv_us_per_1k_tokens", 1_234.5, None, false),
            ],
            steps: 3_120,
            decode_steps: 2_900,
            held_out_runs: None,
        };
        insta::assert_snapshot!(of_runs(&found, 4), @r"
        parameter                 value  standard error  determined
        cost.step_ms              6.123           0.021  yes
        cost.kv_us_per_1k_tokens   1234               –  no

        3120 engine steps observed in 4 runs, 2900 of them decode only
        held-out error of whole loads: unknown, because these runs are too few to leave any out
        ");
    }

    #[test]
    fn parameters_from_tables_stand_with_the_ends_of_their_fits() {
        let candidate =
            Candidate { spread: 0.0, client: OldClient::default(), profile: Profile::default() };
        let fitted = |name, value, ends: [f64; 3], is_identified| Fitted {
            name,
            value,
            ends: ends.to_vec(),
            is_identified,
        };
        let found = Calibration {
            candidate,
            parameters: vec![
                fitted("cost.step_ms", 6.123, [6.1, 6.12, 6.2], true),
                fitted("cost.cliff_ms", 51.33, [3.0, 51.33, 1_200.0], false),
            ],
            held_out: Vec::new(),
            in_sample: Vec::new(),
            kinds: None,
            left_out: vec![LeftOut { row: 0, reason: "a stall".to_owned() }],
            seen_quantum: Some(100.0),
        };
        let rows = [MeasuredRow { label: "1 x 1".to_owned(), ..MeasuredRow::default() }];
        insta::assert_snapshot!(of_tables(&found, &rows), @r"
        parameter      value  from the three starting points  determined
        cost.step_ms   6.123  6.100  6.120  6.200             yes
        cost.cliff_ms   51.3  3.000  51.3  1200               no

        held-out error, two folds  cells  median  ≤ 10 %  ≤ 25 %
        steps seem to end at multiples of 100 ms; a template with `cost.quantum_ms` models that
        skipped: `1 x 1`: a stall
        ");
    }

    #[test]
    fn figures_keep_three_digits_of_any_size() {
        let shown = [0.0, 1.5e-4, 0.25, 51.33, 65_536.4].map(figure);
        assert_eq!(shown, ["0", "1.50e-4", "0.250", "51.3", "65536"]);
    }
}
