//! `cargo lab capacity [SEARCHES] [budget=TIME] [from=SEED] [truth] [verbose] [case=N]`: the search of
//! `tokometer capacity` against known truths.

mod case;
pub(crate) mod clock;
mod table;

pub(crate) use table::run;
