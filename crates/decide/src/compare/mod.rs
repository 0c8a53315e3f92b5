//! Compares sets of runs, and two targets measured in A/B blocks.
//!
//! In: runs with their figures and facts. Out: one row per figure with the difference, its confidence
//! interval, the smallest detectable difference and a conclusion; differences between the conditions
//! of both sides; and the results of rules such as `ttft p99 worse by 5%`.

mod ab_blocks;
mod answers;
mod comparison;
mod difference;
mod failures;
mod figures;
mod likeness;
#[cfg(test)]
mod reliability_tests;
mod requests;
mod restarts;
mod rule;
mod run;

pub use ab_blocks::{AbBlocks, BlockChange, BlockOrder, Half, PairedValues, Pairs};
pub use answers::{AnswerComparison, DifferingAnswers, GoodAnswers, GreedyAnswers, QualityRow};
pub use comparison::{ComparedFigure, Comparison, Criteria, ENOUGH_RUNS, Side};
pub use difference::{
    Basis, Conclusion, Difference, DifferenceRule, Equivalence, LOOKED_FOR, paired, unpaired,
};
pub use failures::{Failures, MOST_FAILED};
pub use figures::{compared, percentiles};
pub use likeness::{DifferingLine, Likeness, Warning, Weight};
pub use requests::{ComparedRequest, block_values, last_attempts};
pub use rule::{FailRule, RuleOutcome, RuleResult};
pub use run::{Facts, Run, throughput_blocks, without_success};
