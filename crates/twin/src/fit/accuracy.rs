//! The error of predictions against measurements, by the measures of the project's goals.

use tokometer_figures::Figure;

use super::HeldOut;
use super::row::{FIGURES, MeasuredRow, is_main};

/// Errors of one set of cells. Shares lie between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    pub cells: usize,
    /// Median of the absolute relative error.
    pub median: f64,
    pub within_10: f64,
    pub within_25: f64,
}

/// Signed relative errors of one figure, row by row.
pub fn errors(rows: &[MeasuredRow], predicted: &[HeldOut], figure: Figure) -> Vec<f64> {
    let cells = predicted.iter().filter_map(|held| {
        let measured = rows[held.row].cells.get(figure).filter(|value| *value > 0.0)?;
        Some(held.predicted.get(figure)? / measured - 1.0)
    });
    cells.collect()
}

/// The errors of all figures for which the goal of 10 % is set.
pub fn main_errors(rows: &[MeasuredRow], predicted: &[HeldOut]) -> Vec<f64> {
    let main = FIGURES.into_iter().filter(|figure| is_main(*figure));
    main.flat_map(|figure| errors(rows, predicted, figure)).collect()
}

impl Accuracy {
    /// The accuracy of these signed relative errors; `None` without any.
    pub fn of(errors: &[f64]) -> Option<Self> {
        let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        tokometer_base::sort_numbers(&mut sizes);
        let (low, high) = (sizes.get((sizes.len().max(1) - 1) / 2)?, sizes.get(sizes.len() / 2)?);
        let median = f64::midpoint(*low, *high);
        let within = |most: f64| sizes.partition_point(|size| *size <= most) as f64;
        let share = |most: f64| within(most) / sizes.len() as f64;
        Some(Self { cells: errors.len(), median, within_10: share(0.10), within_25: share(0.25) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_both_signs() {
        let accuracy = Accuracy::of(&[-0.04, 0.08, -0.12, 0.4]).unwrap();
        assert!((accuracy.median - 0.10).abs() < 1e-12);
        assert_eq!((accuracy.within_10, accuracy.within_25), (0.5, 0.75));
        assert_eq!(Accuracy::of(&[]), None);
    }
}
