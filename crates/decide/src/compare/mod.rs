//! Is B different from A? Sets of runs, and two targets measured in alternating blocks.
//!
//! In: runs with their figures and facts. Out: one row per figure with the difference, its interval,
//! the smallest difference that could have been shown, and a verdict; what makes the sides unlike
//! each other; and how rules such as `ttft p99 worse by 5%` came out.

mod ab_blocks;
mod comparison;
mod difference;
mod figures;
mod likeness;
#[cfg(test)]
mod reliability;
mod requests;
mod rule;
mod run;

pub use ab_blocks::{AbBlocks, Half, Pairs, Recorded, Spans};
pub use comparison::{ComparedFigure, Comparison, ENOUGH_RUNS, Side, counted};
pub use difference::{Basis, Conclusion, Difference, paired, unpaired};
pub use figures::{LATENCIES, compared, percentiles};
pub use likeness::{DifferingLine, Likeness, Warning, Weight};
pub use requests::{Request, block_values, last_attempts};
pub use rule::{Judged, Rule, RuleOutcome};
pub use run::{Facts, Run, throughput_blocks};
