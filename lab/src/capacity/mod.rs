//! `cargo lab capacity [SEARCHES] [budget=TIME] [from=SEED] [curve] [truth] [verbose] [case=N]`: the search of
//! `tokometer capacity` against known truths.

mod budget;
pub(crate) mod clock;
mod curve;
mod product;
pub(crate) mod search;
mod table;

pub(crate) use product::compare;
pub(crate) use table::run;
