//! The evolution strategy with covariance matrix adaptation (CMA-ES): minimises a function of which
//! only values are known.
//!
//! Works in the unit cube, where every parameter spans its declared range; points outside are
//! evaluated at their reflection. Seeded and single-threaded, with `libm` only: the same bits
//! everywhere. Constants are the usual ones of Hansen's tutorial.

use base::Seed;
use base::seed::Generator;
use sim::cost::normal;
use tokometer_base as base;
use tokometer_sim as sim;

/// How long to search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// Generations.
    pub generations: usize,
    /// Candidates per generation.
    pub population: usize,
    /// Initial step, as a share of each parameter's range.
    pub sigma: f64,
}

/// The best point found.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// Its place in the unit cube.
    pub point: Vec<f64>,
    /// Its value.
    pub value: f64,
}

struct Strategy {
    size: usize,
    weights: Vec<f64>,
    mass: f64,
    cumulation: f64,
    damping: f64,
    path_rate: f64,
    rank_one: f64,
    rank_mu: f64,
    expected_norm: f64,
}

impl Strategy {
    fn new(size: usize, population: usize) -> Self {
        let n = size as f64;
        let parents = population / 2;
        let raw: Vec<f64> = (0..parents)
            .map(|rank| libm::log(parents as f64 + 0.5) - libm::log(rank as f64 + 1.0))
            .collect();
        let sum: f64 = raw.iter().sum();
        let weights: Vec<f64> = raw.iter().map(|weight| weight / sum).collect();
        let mass = 1.0 / weights.iter().map(|weight| weight * weight).sum::<f64>();
        let cumulation = (mass + 2.0) / (n + mass + 5.0);
        let excess = libm::sqrt((mass - 1.0) / (n + 1.0)) - 1.0;
        let rank_one = 2.0 / ((n + 1.3) * (n + 1.3) + mass);
        let rank_mu = 2.0 * (mass - 2.0 + 1.0 / mass) / ((n + 2.0) * (n + 2.0) + mass);
        Self {
            size,
            weights,
            mass,
            cumulation,
            damping: 1.0 + 2.0 * excess.max(0.0) + cumulation,
            path_rate: (4.0 + mass / n) / (n + 4.0 + 2.0 * mass / n),
            rank_one,
            rank_mu: rank_mu.min(1.0 - rank_one),
            expected_norm: libm::sqrt(n) * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n)),
        }
    }
}

struct State {
    mean: Vec<f64>,
    sigma: f64,
    covariance: Vec<Vec<f64>>,
    /// Columns are the axes.
    axes: Vec<Vec<f64>>,
    lengths: Vec<f64>,
    sigma_path: Vec<f64>,
    path: Vec<f64>,
}

/// Folds any number into the unit interval, like a ray between two mirrors.
pub(crate) fn reflect(value: f64) -> f64 {
    let turn = value - 2.0 * libm::floor(value / 2.0);
    if turn > 1.0 { 2.0 - turn } else { turn }
}

/// The lowest value of `function` that was found from `start`.
pub(crate) fn minimise(
    start: &[f64],
    effort: Effort,
    seed: Seed,
    mut function: impl FnMut(&[f64]) -> f64,
) -> Best {
    let size = start.len();
    let strategy = Strategy::new(size, effort.population.max(4));
    let mut generator = seed.stream("cma-es").at(0);
    let mut state = State {
        mean: start.to_vec(),
        sigma: effort.sigma,
        covariance: identity(size),
        axes: identity(size),
        lengths: vec![1.0; size],
        sigma_path: vec![0.0; size],
        path: vec![0.0; size],
    };
    let mut best = Best { point: start.to_vec(), value: function(start) };
    for generation in 0..effort.generations {
        let mut offspring: Vec<(f64, Vec<f64>)> = (0..effort.population.max(4))
            .map(|_| {
                let step = state.draw(&mut generator);
                let point: Vec<f64> =
                    (0..size).map(|at| reflect(state.mean[at] + state.sigma * step[at])).collect();
                let value = function(&point);
                let value = if value.is_nan() { f64::INFINITY } else { value };
                if value < best.value {
                    best = Best { point, value };
                }
                (value, step)
            })
            .collect();
        offspring.sort_by(|one, other| one.0.total_cmp(&other.0));
        state.update(&strategy, &offspring, generation);
        if state.sigma < 1e-5 {
            break;
        }
    }
    best
}

impl State {
    fn draw(&self, generator: &mut Generator) -> Vec<f64> {
        let sphere: Vec<f64> =
            self.lengths.iter().map(|length| length * normal(generator)).collect();
        multiply(&self.axes, &sphere)
    }

    fn update(&mut self, strategy: &Strategy, offspring: &[(f64, Vec<f64>)], generation: usize) {
        let size = strategy.size;
        let mut step = vec![0.0; size];
        for (weight, (_, child)) in strategy.weights.iter().zip(offspring) {
            for (sum, value) in step.iter_mut().zip(child) {
                *sum += weight * value;
            }
        }
        for (mean, value) in self.mean.iter_mut().zip(&step) {
            *mean += self.sigma * value;
        }
        let whitened = self.whiten(&step);
        let rate = strategy.cumulation;
        let gain = libm::sqrt(rate * (2.0 - rate) * strategy.mass);
        for (path, value) in self.sigma_path.iter_mut().zip(&whitened) {
            *path = (1.0 - rate) * *path + gain * value;
        }
        let norm = libm::sqrt(self.sigma_path.iter().map(|value| value * value).sum());
        let decay = 1.0 - libm::pow(1.0 - rate, 2.0 * (generation + 1) as f64);
        let is_straight =
            norm / libm::sqrt(decay) / strategy.expected_norm < 1.4 + 2.0 / (size as f64 + 1.0);
        let rate = strategy.path_rate;
        let gain = if is_straight { libm::sqrt(rate * (2.0 - rate) * strategy.mass) } else { 0.0 };
        for (path, value) in self.path.iter_mut().zip(&step) {
            *path = (1.0 - rate) * *path + gain * value;
        }
        self.adapt(strategy, offspring);
        let growth = strategy.cumulation / strategy.damping * (norm / strategy.expected_norm - 1.0);
        self.sigma = (self.sigma * libm::exp(growth)).min(1.0);
        if generation.is_multiple_of(4) {
            self.decompose();
        }
    }

    fn adapt(&mut self, strategy: &Strategy, offspring: &[(f64, Vec<f64>)]) {
        let keep = 1.0 - strategy.rank_one - strategy.rank_mu;
        for row in 0..strategy.size {
            for column in 0..strategy.size {
                let one = self.path[row] * self.path[column];
                let many: f64 = strategy
                    .weights
                    .iter()
                    .zip(offspring)
                    .map(|(weight, (_, child))| weight * child[row] * child[column])
                    .sum();
                let value = &mut self.covariance[row][column];
                *value = keep * *value + strategy.rank_one * one + strategy.rank_mu * many;
            }
        }
    }

    fn whiten(&self, step: &[f64]) -> Vec<f64> {
        let size = step.len();
        let along: Vec<f64> = (0..size)
            .map(|axis| {
                let length: f64 = (0..size).map(|at| self.axes[at][axis] * step[at]).sum();
                length / self.lengths[axis]
            })
            .collect();
        multiply(&self.axes, &along)
    }

    /// Axes and lengths of the covariance, by Jacobi's rotations.
    fn decompose(&mut self) {
        let size = self.mean.len();
        let mut matrix = self.covariance.clone();
        let mut axes = identity(size);
        for _sweep in 0..12 {
            let off: f64 = (0..size)
                .flat_map(|row| (0..row).map(move |column| (row, column)))
                .map(|(row, column)| matrix[row][column] * matrix[row][column])
                .sum();
            if off < 1e-24 {
                break;
            }
            for row in 1..size {
                for column in 0..row {
                    rotate(&mut matrix, &mut axes, row, column);
                }
            }
        }
        self.lengths = (0..size).map(|at| libm::sqrt(matrix[at][at].max(1e-14))).collect();
        self.axes = axes;
    }
}

fn identity(size: usize) -> Vec<Vec<f64>> {
    (0..size).map(|row| (0..size).map(|column| f64::from(row == column)).collect()).collect()
}

fn multiply(matrix: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum()).collect()
}

/// One rotation that makes the entry at (`p`, `q`) vanish.
fn rotate(matrix: &mut [Vec<f64>], axes: &mut [Vec<f64>], p: usize, q: usize) {
    if matrix[p][q].abs() < 1e-300 {
        return;
    }
    let theta = (matrix[q][q] - matrix[p][p]) / (2.0 * matrix[p][q]);
    let root = libm::sqrt(theta * theta + 1.0);
    let tangent = if theta >= 0.0 { 1.0 / (theta + root) } else { 1.0 / (theta - root) };
    let cosine = 1.0 / libm::sqrt(tangent * tangent + 1.0);
    let sine = tangent * cosine;
    for row in matrix.iter_mut() {
        let (a, b) = (row[p], row[q]);
        row[p] = cosine * a - sine * b;
        row[q] = sine * a + cosine * b;
    }
    let (row_p, row_q) = (matrix[p].clone(), matrix[q].clone());
    for (column, (a, b)) in row_p.into_iter().zip(row_q).enumerate() {
        matrix[p][column] = cosine * a - sine * b;
        matrix[q][column] = sine * a + cosine * b;
    }
    for row in axes.iter_mut() {
        let (a, b) = (row[p], row[q]);
        row[p] = cosine * a - sine * b;
        row[q] = sine * a + cosine * b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_the_bottom_of_a_narrow_curved_valley() {
        let rosenbrock = |point: &[f64]| {
            let scaled: Vec<f64> = point.iter().map(|value| value * 4.0 - 2.0).collect();
            scaled
                .windows(2)
                .map(|pair| {
                    let bend = pair[1] - pair[0] * pair[0];
                    100.0 * bend * bend + (1.0 - pair[0]) * (1.0 - pair[0])
                })
                .sum::<f64>()
        };
        let effort = Effort { generations: 400, population: 12, sigma: 0.2 };
        let best = minimise(&[0.2; 5], effort, Seed(1), rosenbrock);
        assert!(best.value < 1e-6, "{best:?}");
        let again = minimise(&[0.2; 5], effort, Seed(1), rosenbrock);
        assert_eq!(best, again);
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
