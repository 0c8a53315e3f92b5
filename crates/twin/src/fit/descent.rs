//! Levenberg's and Marquardt's method: minimises how badly predicted figures miss measured ones.
//!
//! In: a start in the unit cube, where every parameter spans its declared range, and a function that says
//! for a point by how much each figure is missed. Out: the best point found. Slopes are differences over a
//! step that is wide at first and halves when it no longer helps, for the time of an engine step can move
//! in jumps. Nothing is random, and square roots come from `libm`: the same bits everywhere.

use tokometer_figures::linear::solve;

/// A smaller pivot leaves a direction undetermined; more damping is tried instead.
const LEAST_PIVOT: f64 = 1e-14;

/// By how much one figure is missed: the logarithm of predicted over measured, and how much it counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Miss {
    pub(crate) weight: f64,
    pub(crate) error: f64,
}

/// What keeps a parameter from moving for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Pull {
    /// Loss of a parameter at the far end of its range: a term must pay for itself.
    pub(crate) price: f64,
    /// Loss of a parameter that has moved by its whole range from where it began.
    pub(crate) hold: f64,
}

/// How long to search, and with how wide a step slopes are measured at first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rounds {
    pub(crate) most: usize,
    pub(crate) step: f64,
}

/// The best point found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Best {
    /// Its position in the unit cube.
    pub(crate) point: Vec<f64>,
    pub(crate) value: f64,
}

/// Errors well below this count by their square, errors well above it by their size, so that one hopeless
/// figure does not rule the fit.
const SMOOTH: f64 = 0.03;

/// The weighted mean of the smoothed sizes of all misses.
pub(crate) fn loss(misses: &[Miss]) -> f64 {
    let weight: f64 = misses.iter().map(|miss| miss.weight).sum();
    let sizes = misses.iter().map(|miss| miss.weight * (smoothed(miss.error) - SMOOTH));
    sizes.sum::<f64>() / weight
}

fn smoothed(error: f64) -> f64 {
    libm::sqrt(error * error + SMOOTH * SMOOTH)
}

/// A step shorter than this is noise.
const STEP_MIN: f64 = 1e-3;
/// Least gain of a round, as a share of the loss, that the step is kept for.
const GAIN_MIN: f64 = 1e-3;
/// The farthest that a parameter moves in one round.
const MOVE_MAX: f64 = 0.3;
/// Dampings that are tried in each round, relative to the one that was best before.
const DAMPINGS: [f64; 4] = [0.1, 1.0, 10.0, 100.0];

/// Goes down from `start`. A point where nothing can be predicted gives no misses and is never taken.
pub(crate) fn descend(
    start: &[f64],
    rounds: Rounds,
    pulls: &[Pull],
    misses: impl Fn(&[f64]) -> Option<Vec<Miss>>,
) -> Best {
    let descent = Descent { start, pulls, misses };
    let Some(mut here) = descent.at(start.to_vec()) else {
        return Best { point: start.to_vec(), value: f64::INFINITY };
    };
    let mut step = rounds.step;
    let mut damping = 1e-2;
    for _ in 0..rounds.most {
        let slopes = descent.slopes(&here, step);
        let (matrix, gradient) = descent.normal_equations(&here, &slopes);
        let trials = DAMPINGS.iter().filter_map(|factor| {
            let damping = damping * factor;
            let along =
                solve(damped(&matrix, damping), vec![gradient.clone()], LEAST_PIVOT)?.pop()?;
            let moves = here.point.iter().zip(&along);
            let point = moves.map(|(x, by)| (x - by.clamp(-MOVE_MAX, MOVE_MAX)).clamp(0.0, 1.0));
            Some((damping, descent.at(point.collect())?))
        });
        let best = trials.min_by(|(_, one), (_, other)| one.value.total_cmp(&other.value));
        if let Some((best, there)) = best.filter(|(_, there)| there.value < here.value) {
            if here.value - there.value < GAIN_MIN * here.value {
                step /= 2.0;
            }
            damping = best.clamp(1e-4, 10.0);
            here = there;
        } else {
            (step, damping) = (step / 2.0, damping * 3.0);
        }
        if step < STEP_MIN {
            break;
        }
    }
    Best { point: here.point, value: here.value }
}

struct Descent<'a, F> {
    start: &'a [f64],
    pulls: &'a [Pull],
    misses: F,
}

/// A point and all that is known of it.
struct EvaluatedPoint {
    point: Vec<f64>,
    misses: Vec<Miss>,
    value: f64,
}

impl<F: Fn(&[f64]) -> Option<Vec<Miss>>> Descent<'_, F> {
    fn at(&self, point: Vec<f64>) -> Option<EvaluatedPoint> {
        let misses = (self.misses)(&point)?;
        let value = loss(&misses) + pulled(self.pulls, &point, self.start);
        value.is_finite().then_some(EvaluatedPoint { point, misses, value })
    }

    /// How each miss changes with each parameter. One that cannot be moved changes nothing.
    fn slopes(&self, here: &EvaluatedPoint, step: f64) -> Vec<Vec<f64>> {
        let slope = |at: usize| {
            let mut point = here.point.clone();
            let by = if point[at] + step > 0.99 { -step } else { step };
            point[at] += by;
            let Some(there) = (self.misses)(&point) else { return vec![0.0; here.misses.len()] };
            let changes = there.iter().zip(&here.misses);
            changes.map(|(there, here)| (there.error - here.error) / by).collect()
        };
        (0..here.point.len()).map(slope).collect()
    }

    /// The curvature of the loss as far as slopes show it, and its gradient.
    fn normal_equations(
        &self,
        here: &EvaluatedPoint,
        slopes: &[Vec<f64>],
    ) -> (Vec<Vec<f64>>, Vec<f64>) {
        let total: f64 = here.misses.iter().map(|miss| miss.weight).sum();
        let weights: Vec<f64> =
            here.misses.iter().map(|miss| miss.weight / total / smoothed(miss.error)).collect();
        let products = |one: &[f64], other: &[f64]| -> f64 {
            weights.iter().zip(one.iter().zip(other)).map(|(weight, (a, b))| weight * a * b).sum()
        };
        let errors: Vec<f64> = here.misses.iter().map(|miss| miss.error).collect();
        let mut matrix: Vec<Vec<f64>> = slopes
            .iter()
            .map(|one| slopes.iter().map(|other| products(one, other)).collect())
            .collect();
        let mut gradient: Vec<f64> = slopes.iter().map(|one| products(one, &errors)).collect();
        for (at, pull) in self.pulls.iter().enumerate() {
            matrix[at][at] += 2.0 * pull.hold;
            gradient[at] += pull.price + 2.0 * pull.hold * (here.point[at] - self.start[at]);
        }
        (matrix, gradient)
    }
}

/// What the position of the parameters costs by itself.
pub(crate) fn pulled(pulls: &[Pull], point: &[f64], start: &[f64]) -> f64 {
    let pulled = pulls.iter().zip(point.iter().zip(start));
    pulled.map(|(pull, (x, from))| pull.price * x + pull.hold * (x - from) * (x - from)).sum()
}

fn damped(matrix: &[Vec<f64>], damping: f64) -> Vec<Vec<f64>> {
    let mut damped = matrix.to_vec();
    for (at, row) in damped.iter_mut().enumerate() {
        row[at] += damping;
    }
    damped
}

/// Folds any number into the unit interval, like a ray between two mirrors.
pub(crate) fn reflect(value: f64) -> f64 {
    let turn = value - 2.0 * libm::floor(value / 2.0);
    if turn > 1.0 { 2.0 - turn } else { turn }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn miss(error: f64) -> Miss {
        Miss { weight: 1.0, error }
    }

    /// Three figures of two parameters, one of which is missed by a factor whatever is tried.
    fn valley(point: &[f64]) -> Vec<Miss> {
        let (x, y) = (point[0], point[1]);
        vec![miss(3.0 * (x - 0.3)), miss(10.0 * (y - x * x)), miss(0.9 + 0.01 * x)]
    }

    const LONG: Rounds = Rounds { most: 40, step: 0.05 };

    #[test]
    fn it_finds_the_bottom_of_a_curved_valley_beside_a_hopeless_figure() {
        let free = [Pull::default(); 2];
        let best = descend(&[0.9, 0.1], LONG, &free, |point| Some(valley(point)));
        assert!((best.point[0] - 0.3).abs() < 0.01, "{best:?}");
        assert!((best.point[1] - 0.09).abs() < 0.01, "{best:?}");
        assert_eq!(best, descend(&[0.9, 0.1], LONG, &free, |point| Some(valley(point))));
    }

    #[test]
    fn a_term_that_saves_nothing_goes_to_zero_and_one_that_is_held_stays() {
        let figures = |point: &[f64]| Some(vec![miss(2.0 * (point[0] - 0.5))]);
        let priced = [Pull::default(), Pull { price: 1e-3, hold: 0.0 }];
        let best = descend(&[0.2, 0.6], LONG, &priced, figures);
        assert!((best.point[0] - 0.5).abs() < 0.01 && best.point[1] < 0.01, "{best:?}");
        let held = [Pull { price: 0.0, hold: 1e3 }, Pull::default()];
        let best = descend(&[0.2, 0.6], LONG, &held, figures);
        assert!((best.point[0] - 0.2).abs() < 0.01, "{best:?}");
    }

    #[test]
    fn points_where_nothing_can_be_predicted_are_not_taken() {
        let figures = |point: &[f64]| (point[0] < 0.4).then(|| vec![miss(point[0] - 0.8)]);
        let best = descend(&[0.1], LONG, &[Pull::default()], figures);
        assert!(best.point[0] < 0.4 && best.point[0] > 0.3, "{best:?}");
        assert!(descend(&[0.7], LONG, &[Pull::default()], figures).value.is_infinite());
    }

    #[test]
    fn points_outside_the_cube_are_mirrored_into_it() {
        let check = |value: f64, expected: f64| {
            assert!((reflect(value) - expected).abs() < 1e-12, "{value}");
        };
        check(0.3, 0.3);
        check(1.25, 0.75);
        check(-0.25, 0.25);
        check(2.5, 0.5);
    }
}
