//! Linear regression that does not mind outliers: least squares, repeated with less weight on what
//! lies far off.

/// Coefficients and their standard errors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) coefficients: Vec<f64>,
    pub(crate) errors: Vec<f64>,
}

const ROUNDS: usize = 12;
/// Residuals beyond this many median residuals lose weight.
const TOLERATED: f64 = 2.0;

/// Fits `targets[i] ≈ Σ coefficients[j] × inputs[i][j]`. `None` when the inputs do not determine the
/// coefficients.
pub(crate) fn regress(inputs: &[Vec<f64>], targets: &[f64]) -> Option<Line> {
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
        sorted.sort_by(f64::total_cmp);
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
    Some(Line { errors: errors.collect(), coefficients })
}

fn dot(row: &[f64], coefficients: &[f64]) -> f64 {
    row.iter().zip(coefficients).map(|(x, c)| x * c).sum()
}

/// Weighted normal equations by elimination: coefficients, and the diagonal of the inverse.
fn solve(
    inputs: &[Vec<f64>],
    targets: &[f64],
    weights: &[f64],
    scales: &[f64],
) -> Option<(Vec<f64>, Vec<f64>)> {
    let size = scales.len();
    // Left the matrix, then its right side, then the unit matrix that becomes the inverse.
    let mut rows = vec![vec![0.0; 2 * size + 1]; size];
    for ((input, target), weight) in inputs.iter().zip(targets).zip(weights) {
        for (i, row) in rows.iter_mut().enumerate() {
            let left = weight * input[i] / scales[i];
            for j in 0..size {
                row[j] += left * input[j] / scales[j];
            }
            row[size] += left * target;
        }
    }
    for (at, row) in rows.iter_mut().enumerate() {
        row[size + 1 + at] = 1.0;
    }
    for pivot in 0..size {
        let best =
            (pivot..size).max_by(|a, b| rows[*a][pivot].abs().total_cmp(&rows[*b][pivot].abs()))?;
        rows.swap(pivot, best);
        let lead = rows[pivot][pivot];
        if lead.abs() < 1e-12 * inputs.len() as f64 {
            return None;
        }
        let unit: Vec<f64> = rows[pivot].iter().map(|value| value / lead).collect();
        for (at, row) in rows.iter_mut().enumerate() {
            let factor = if at == pivot { 0.0 } else { row[pivot] };
            for (value, one) in row.iter_mut().zip(&unit) {
                *value -= factor * one;
            }
        }
        rows[pivot] = unit;
    }
    let coefficients = (0..size).map(|at| rows[at][size] / scales[at]).collect();
    let variances = (0..size).map(|at| rows[at][size + 1 + at] / (scales[at] * scales[at]));
    Some((coefficients, variances.collect()))
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
