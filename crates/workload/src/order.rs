//! In which order rows are used.

use tokometer_base::Seed;
use tokometer_base::seed::{shuffle, whole_between};

use crate::{DatasetContext, RowOrder};

/// The numbers `0..count`, shuffled by the seed.
pub(crate) fn shuffled(count: usize, seed: Seed, name: &str) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    shuffle(&mut order, &mut seed.stream(name).at(0));
    order
}

/// The rows of a file in the order in which they are used.
pub(crate) fn of_rows(count: usize, context: &DatasetContext) -> Vec<usize> {
    match context.row_order {
        RowOrder::Shuffled => shuffled(count, context.seed, "rows"),
        RowOrder::AsInFile => (0..count).collect(),
    }
}

/// A row for prompt `index` of a file with too few: any of `count`, by the seed.
pub(crate) fn repeated(index: u64, count: usize, seed: Seed) -> usize {
    let mut generator = seed.stream("oversample").at(index);
    let row = whole_between(&mut generator, 0, (count as u64).saturating_sub(1));
    usize::try_from(row).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_loses_nothing_and_depends_on_the_seed() {
        let order = shuffled(100, Seed(1), "rows");
        assert_eq!(order, shuffled(100, Seed(1), "rows"));
        assert_ne!(order, shuffled(100, Seed(2), "rows"));
        let mut sorted = order;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }
}
