//! Plain tables and curves over several runs.

use serde::Serialize;
use serde_json::Value;

/// A table of the page.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Table {
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// Cells; `null` is shown as absent.
    pub rows: Vec<Vec<Value>>,
}

/// One plot with a point per run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Curve {
    /// Title of the plot.
    pub title: String,
    /// What the x axis says.
    pub x: String,
    /// What the y axis says.
    pub y: String,
    /// Names of the lines.
    pub names: Vec<String>,
    /// The x column, rising, and one column per line; `null` leaves a gap.
    pub columns: Vec<Vec<Option<f64>>>,
    /// Whether the first line is a cloud of points and the second its front.
    pub is_front: bool,
}

impl Curve {
    /// Points with their Pareto front: no other point is better in both directions.
    pub fn front(title: &str, [x, y]: [&str; 2], mut points: Vec<(f64, f64)>) -> Self {
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut best = f64::NEG_INFINITY;
        let mut on_front: Vec<bool> = points
            .iter()
            .rev()
            .map(|(_, y)| {
                let is_better = *y > best;
                best = best.max(*y);
                is_better
            })
            .collect();
        on_front.reverse();
        let front = points.iter().zip(&on_front).map(|((_, y), is_on)| is_on.then_some(*y));
        Self {
            title: title.to_owned(),
            x: x.to_owned(),
            y: y.to_owned(),
            names: vec!["point".into(), "front".into()],
            columns: vec![
                points.iter().map(|(x, _)| Some(*x)).collect(),
                points.iter().map(|(_, y)| Some(*y)).collect(),
                front.collect(),
            ],
            is_front: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_holds_points_that_no_other_beats_in_both_directions() {
        let points = vec![(1.0, 5.0), (2.0, 6.0), (3.0, 4.0), (4.0, 1.0), (3.5, 0.5)];
        let curve = Curve::front("t", ["x", "y"], points);
        assert_eq!(curve.columns[2], [None, Some(6.0), Some(4.0), None, Some(1.0)]);
    }
}
