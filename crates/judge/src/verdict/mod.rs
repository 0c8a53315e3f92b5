//! A verdict per figure, from the effect that the client and its machine may have had on it.
//!
//! In: the rows of a run, what the client recorded about itself, the summary and its notes. Out: for
//! each shown figure the bound of the effect, its causes and a verdict; the run's verdict is the worst
//! among the figures that are results. Causes alone do not judge: a client that was late everywhere and
//! moved no figure gets a remark. `docs/verdict.md` has the rules and the proof.

mod judge;

#[cfg(test)]
mod tests;

pub(crate) use judge::{judge, of_run};
