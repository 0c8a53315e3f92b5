//! `cargo lab capacity [SEARCHES] [truth] [verbose]`: the search of `tokometer capacity` against known truths.

mod search;
mod table;

pub(crate) use table::run;
