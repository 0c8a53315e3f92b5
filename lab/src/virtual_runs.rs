//! What studies in virtual time share: lengths, and threads.

use tokometer_base::Seed;
use tokometer_base::seed::unit_float;
use tokometer_twin::{Ask, RequestSource};

/// Lengths drawn evenly around their means.
pub(crate) struct Drawn {
    /// Mean lengths of prompts and answers; both vary by half.
    pub(crate) lengths: (u32, u32),
    pub(crate) count: u64,
    pub(crate) seed: Seed,
}

impl RequestSource for Drawn {
    fn count(&self) -> u64 {
        self.count
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between half and one and a half times a length"
    )]
    fn ask(&self, index: u64) -> Ask {
        let mut generator = self.seed.stream("lengths").at(index);
        let mut around =
            |mean: u32| (f64::from(mean) * (0.5 + unit_float(&mut generator))).round() as u32;
        Ask::new(around(self.lengths.0), around(self.lengths.1))
    }
}

/// Does `work` for 0, 1, … on as many threads as there are cores; results in that order.
pub(crate) fn in_parallel<T: Send>(count: u64, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let numbers: Vec<u64> = (0..count).collect();
    tokometer_twin::in_parallel(&numbers, cores, |number| work(*number))
}
