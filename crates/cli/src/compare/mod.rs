//! Is B different from A? Sets of runs, and two targets measured in turn.
//!
//! In: run folders, other tools' result files, printed reports. Out: one row per figure with the
//! difference, its interval, the smallest difference that could have been shown, and a verdict;
//! what makes the sides unlike each other; and an exit code for rules. Only `load` and `command`
//! touch files, everything else is a pure function.

mod command;
mod comparison;
mod figure;
mod likeness;
mod load;
#[cfg(test)]
mod reliability;
mod requests;
mod rule;
mod run;
mod turns;
mod views;

pub(crate) use command::{CompareArgs, compare, of_run};
pub(crate) use comparison::Comparison;
pub(crate) use turns::{Half, Turns, halves};
pub(crate) use views::text;
