//! The spread of a prediction over seeds.
//!
//! One run is one draw of arrivals, lengths and step times. The same prediction over several seeds says
//! how much of a figure is chance; it says nothing of the model's own error, which the profile states.

use base::Seed;
use sim::Profile;
use tokometer_base as base;
use tokometer_figures::{Figure, statistics};
use tokometer_sim as sim;

use crate::Error;
use crate::fit::{FIGURES, cells_of};
use crate::parallel::in_parallel;
use crate::predict::{PredictOptions, Seeds, predict};
use crate::virtual_time::KeptDetail;
use crate::workload::RequestLoad;

/// Seeds over which a prediction is usually repeated.
pub const SEEDS: u64 = 20;

/// A figure over several seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeedInterval {
    pub figure: Figure,
    pub mean: f64,
    /// The lower end: a twentieth of the runs lies below.
    pub low: f64,
    /// The upper end: a twentieth of the runs lies above.
    pub high: f64,
}

impl SeedInterval {
    /// The mean less and plus this share of it.
    pub fn around(&self, share: f64) -> (f64, f64) {
        (self.mean * (1.0 - share), self.mean * (1.0 + share))
    }
}

/// Predicts a run for each seed, with the workload that `workload` makes for it, and says how far each
/// figure ranges. A figure that no run has, such as the TPOT of single tokens, is left out. The runs are
/// spread over `options.threads` threads.
pub fn intervals(
    profile: &Profile,
    workload: &(dyn Fn(Seed) -> RequestLoad + Sync),
    seeds: Seeds,
    options: PredictOptions,
) -> Result<Vec<SeedInterval>, Error> {
    let all: Vec<Seed> = seeds.iter().collect();
    let one_thread = PredictOptions { threads: 1, keep: KeptDetail::Figures, ..options };
    let runs = in_parallel(&all, options.threads, |seed| {
        let prediction = predict(profile, &workload(*seed), *seed, one_thread)?;
        Ok(cells_of(&prediction.figures))
    });
    let runs = runs.into_iter().collect::<Result<Vec<_>, Error>>()?;
    let interval = |figure: Figure| {
        let mut values: Vec<f64> = runs.iter().filter_map(|cells| cells.get(figure)).collect();
        tokometer_base::sort_numbers(&mut values);
        let mean = statistics::mean(&values)?;
        let tail = values.len() / 20;
        let (low, high) = (values[tail], values[values.len() - 1 - tail]);
        Some(SeedInterval { figure, mean, low, high })
    };
    Ok(FIGURES.into_iter().filter_map(interval).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ask;
    use tokometer_figures::Quantity;
    use tokometer_schedule::Arrivals;

    #[test]
    fn a_share_lies_on_both_sides_of_the_mean() {
        let figure = Figure::mean(Quantity::Ttft);
        let interval = SeedInterval { figure, mean: 20.0, low: 18.0, high: 23.5 };
        assert_eq!(interval.around(0.5), (10.0, 30.0));
    }

    #[test]
    fn chance_moves_the_tail_more_than_the_mean_and_threads_move_nothing() {
        let workload = |_: Seed| {
            let asks: Vec<Ask> = (0..200).map(|index| Ask::new(100, 10 + index % 50)).collect();
            RequestLoad::burst(asks).arriving(Arrivals::poisson(20.0))
        };
        let run = |threads| {
            let options = PredictOptions { threads, ..PredictOptions::default() };
            let seeds = Seeds { first: Seed(1), count: 20 };
            intervals(&Profile::default(), &workload, seeds, options).unwrap()
        };
        let found = run(1);
        assert_eq!(found, run(3));
        let width = |figure: Figure| {
            let one = found.iter().find(|one| one.figure == figure).unwrap();
            assert!(one.low <= one.mean && one.mean <= one.high, "{one:?}");
            (one.high - one.low) / one.mean
        };
        assert!(
            width(Figure::percentile(Quantity::Ttft, 99)) > width(Figure::mean(Quantity::Ttft))
        );
        assert!(width(Figure::mean(Quantity::Ttft)) > 0.0);
    }

    /// Answers of one token have no time between tokens. It was predicted as zero.
    #[test]
    fn a_figure_that_no_run_has_is_left_out() {
        let workload = |_: Seed| RequestLoad::burst(vec![Ask::new(100, 1); 4]);
        let seeds = Seeds { first: Seed(1), count: 3 };
        let found = intervals(&Profile::default(), &workload, seeds, PredictOptions::default());
        let quantities: Vec<Quantity> =
            found.unwrap().iter().map(|one| one.figure.quantity).collect();
        assert_eq!(quantities, [Quantity::Output, Quantity::Ttft, Quantity::Ttft, Quantity::Ttft]);
    }
}
