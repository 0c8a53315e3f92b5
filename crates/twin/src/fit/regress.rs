//! Robust linear regression: least squares, repeated with less weight on what
//! lies far off.

use tokometer_figures::linear;

/// Coefficients and their standard errors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Regression {
    pub(crate) coefficients: Vec<f64>,
    pub(crate) errors: Vec<f64>,
}

const ROUNDS: usize = 12;
/// Residuals beyond this many median residuals lose weight.
const TOLERATED: f64 = 2.0;
/// A smaller pivot per sample means that the inputs do not determine a coefficient.
const LEAST_PIVOT: f64 = 1e-12;

/// Fits `targets[i] ≈ Σ coefficients[j] × inputs[i][j]`. `None` when the inputs do not determine the
/// coefficients.
pub(crate) fn regress(inputs: &[Vec<f64>], targets: &[f64]) -> Option<Regression> {
    let size = inputs.first()?.len();
    // Columns of very different size would lose digits in the elimination.
    let scales: Vec<f64> = (0..size)
        .map(|at| inputs.iter().map(|row| row[at].abs()).fold(0.0, f64::max))
        .map(|largest| if largest > 0.0 { largest } else { 1.0 })
        .collect();
    let mut weights = vec![1.0; targets.len()];
    let mut solution = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        solution = solve(inputs, targets, &weights, &scales)?;
        let residuals: Vec<f64> = inputs
            .iter()
            .zip(targets)
            .map(|(row, target)| (target - dot(row, &solution.0)).abs())
            .collect();
        let mut sorted = residuals.clone();
        tokometer_base::sort_numbers(&mut sorted);
        let typical = sorted[sorted.len() / 2].max(1e-9) * TOLERATED;
        for (weight, residual) in weights.iter_mut().zip(&residuals) {
            // Beyond the tolerated size the pull of a sample falls with the square of its distance.
            let far = (residual / typical).max(1.0);
            *weight = 1.0 / (far * far * far);
        }
    }
    let (coefficients, variances) = solution;
    let mass: f64 = weights.iter().sum();
    let freedom = (mass - size as f64).max(1.0);
    let spread: f64 = inputs
        .iter()
        .zip(targets)
        .zip(&weights)
        .map(|((row, target), weight)| {
            let residual = target - dot(row, &coefficients);
            weight * residual * residual
        })
        .sum();
    let errors =
        variances.iter().map(|variance| libm::sqrt((variance * spread / freedom).max(0.0)));
    Some(Regression { errors: errors.collect(), coefficients })
}

fn dot(row: &[f64], coefficients: &[f64]) -> f64 {
    row.iter().zip(coefficients).map(|(x, c)| x * c).sum()
}

/// Weighted normal equations: coefficients, and the diagonal of the inverse.
fn solve(
    inputs: &[Vec<f64>],
    targets: &[f64],
    weights: &[f64],
    scales: &[f64],
) -> Option<(Vec<f64>, Vec<f64>)> {
    let size = scales.len();
    let mut matrix = vec![vec![0.0; size]; size];
    let mut right = vec![0.0; size];
    for ((input, target), weight) in inputs.iter().zip(targets).zip(weights) {
        for (i, row) in matrix.iter_mut().enumerate() {
            let left = weight * input[i] / scales[i];
            for j in 0..size {
                row[j] += left * input[j] / scales[j];
            }
            right[i] += left * target;
        }
    }
    // The unit vectors beside the right side give the columns of the inverse.
    let unit = |at: usize| (0..size).map(|row| f64::from(u8::from(row == at))).collect();
    let rights = std::iter::once(right).chain((0..size).map(unit)).collect();
    let solved = linear::solve(matrix, rights, LEAST_PIVOT * inputs.len() as f64)?;
    let (coefficients, inverse) = solved.split_first()?;
    let coefficients = coefficients.iter().zip(scales).map(|(value, scale)| value / scale);
    let variances = (0..size).map(|at| inverse[at][at] / (scales[at] * scales[at]));
    Some((coefficients.collect(), variances.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_do_not_move_the_line() {
        let inputs: Vec<Vec<f64>> = (0..200).map(|i| vec![1.0, f64::from(i % 17)]).collect();
        let noise = |i: usize| f64::from(u32::try_from(i * 7_919 % 13).unwrap()) / 100.0 - 0.06;
        let targets: Vec<f64> = inputs
            .iter()
            .enumerate()
            .map(|(i, row)| 5.0 + 0.3 * row[1] + if i % 11 == 0 { 40.0 } else { noise(i) })
            .collect();
        let line = regress(&inputs, &targets).unwrap();
        assert!((line.coefficients[0] - 5.0).abs() < 0.05, "{line:?}");
        assert!((line.coefficients[1] - 0.3).abs() < 0.005, "{line:?}");
        assert!(line.errors[1] < 0.005, "{line:?}");
    }

    #[test]
    fn what_the_inputs_do_not_determine_is_refused() {
        let inputs: Vec<Vec<f64>> = (0..50).map(|_| vec![1.0, 3.0]).collect();
        assert_eq!(regress(&inputs, &vec![1.0; 50]), None);
        assert_eq!(regress(&[], &[]), None);
    }
}
