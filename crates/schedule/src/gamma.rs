//! Gamma variates, the same bits on every machine.
//!
//! Marsaglia and Tsang's squeeze over a normal from Box and Muller. Logarithms and powers come from
//! `libm`, since the platform's own differ in their last bit and a run must be repeatable elsewhere.

use rand::RngCore;
use tokometer_base::seed::{exponential, normal, unit_float};

/// A number in `0.0..=1.0` that is never zero, for logarithms.
fn open_unit(generator: &mut impl RngCore) -> f64 {
    1.0 - unit_float(generator)
}

/// One draw with mean `shape` and variance `shape`. A shape of 1 is the unit exponential, drawn
/// directly.
pub(crate) fn draw(generator: &mut impl RngCore, shape: f64) -> f64 {
    if (shape - 1.0).abs() < f64::EPSILON {
        return exponential(generator);
    }
    if shape < 1.0 {
        // The method needs a shape of one or more; this product has the smaller one exactly.
        let boost = libm::pow(open_unit(generator), 1.0 / shape);
        return boost * squeeze(generator, shape + 1.0);
    }
    squeeze(generator, shape)
}

fn squeeze(generator: &mut impl RngCore, shape: f64) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = normal(generator);
        let cube = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x);
        let log_unit = libm::log(open_unit(generator));
        if cube > 0.0 && log_unit < 0.5 * x * x + d * (1.0 - cube + libm::log(cube)) {
            return d * cube;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokometer_base::Seed;

    use super::*;

    /// The sample mean of n draws has the deviation sqrt(shape / n); the sample variance has about
    /// sqrt((2 + 6 / shape) / n) × shape. Five deviations fail once in two million tries, and the
    /// seed is fixed.
    #[test]
    fn mean_and_variance_are_those_of_the_gamma_distribution() {
        let count = 20_000_u32;
        let n = f64::from(count);
        for shape in [0.2, 0.5, 1.0, 2.0, 7.5] {
            let stream = Seed(11).stream("gamma");
            let draws: Vec<f64> =
                (0..count).map(|index| draw(&mut stream.at(u64::from(index)), shape)).collect();
            let mean = draws.iter().sum::<f64>() / n;
            let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
            let mean_tolerance = 5.0 * (shape / n).sqrt();
            let variance_tolerance = 5.0 * shape * ((2.0 + 6.0 / shape) / n).sqrt();
            assert!((mean - shape).abs() < mean_tolerance, "mean {mean} of shape {shape}");
            assert!(
                (variance - shape).abs() < variance_tolerance,
                "variance {variance} of {shape}"
            );
        }
    }

    /// Kolmogorov's statistic times sqrt(n) exceeds 1.95 once in a thousand samples.
    #[test]
    fn a_shape_of_one_is_the_exponential_distribution() {
        let stream = Seed(5).stream("gamma");
        let mut draws: Vec<f64> =
            (0..5_000).map(|index| draw(&mut stream.at(index), 1.0)).collect();
        tokometer_base::sort_numbers(&mut draws);
        let n = draws.len() as f64;
        let distance = draws
            .iter()
            .enumerate()
            .map(|(rank, x)| ((1.0 - (-x).exp()) - (rank as f64 + 0.5) / n).abs())
            .fold(0.0, f64::max);
        assert!(distance * n.sqrt() < 1.95, "{distance}");
    }
}
