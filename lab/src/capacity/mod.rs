//! `cargo lab capacity [SEARCHES] [truth] [verbose] [case=N]`: the search of `tokometer capacity` against known truths.

pub(crate) mod clock;
pub(crate) mod search;
mod table;

pub(crate) use table::run;
