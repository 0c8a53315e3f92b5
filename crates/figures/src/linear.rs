//! Linear systems, by Gaussian elimination with partial pivoting.

/// Solves `matrix × x = right` for every right side. `None` where a pivot is smaller than
/// `least_pivot`: the system then has no unique solution, or an inaccurate one.
pub fn solve(
    mut matrix: Vec<Vec<f64>>,
    mut rights: Vec<Vec<f64>>,
    least_pivot: f64,
) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    for pivot in 0..size {
        let magnitude = |row: usize| matrix[row][pivot].abs();
        let best = (pivot..size).max_by(|a, b| magnitude(*a).total_cmp(&magnitude(*b)))?;
        matrix.swap(pivot, best);
        for right in &mut rights {
            right.swap(pivot, best);
        }
        let lead = matrix[pivot].clone();
        if lead[pivot].abs() < least_pivot {
            return None;
        }
        for row in pivot + 1..size {
            let factor = matrix[row][pivot] / lead[pivot];
            for (value, above) in matrix[row].iter_mut().zip(&lead).skip(pivot) {
                *value -= factor * above;
            }
            for right in &mut rights {
                right[row] -= factor * right[pivot];
            }
        }
    }
    for right in &mut rights {
        for row in (0..size).rev() {
            let known: f64 = (row + 1..size).map(|at| matrix[row][at] * right[at]).sum();
            right[row] = (right[row] - known) / matrix[row][row];
        }
    }
    Some(rights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_solved_for_every_right_side() {
        // The first pivot is zero, so rows must be exchanged. Its inverse is known.
        let matrix = vec![vec![0.0, 2.0], vec![4.0, 2.0]];
        let rights = vec![vec![2.0, 6.0], vec![1.0, 0.0], vec![0.0, 1.0]];
        let found = solve(matrix, rights, 1e-12).unwrap();
        assert_eq!(found, [[1.0, 1.0], [-0.25, 0.5], [0.25, 0.0]]);
    }

    #[test]
    fn a_system_without_a_unique_solution_is_refused() {
        let singular = vec![vec![1.0, 2.0], vec![2.0, 4.0]];
        assert_eq!(solve(singular, vec![vec![1.0, 2.0]], 1e-12), None);
    }
}
