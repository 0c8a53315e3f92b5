//! `tokometer calibrate`: an engine profile from what was measured of a server.
//!
//! In: printed reports and result files (rows of a table), saved run folders (token times), or both.
//! Out: a profile that `predict` and `sim` read, and an account of it: each constant with whether the
//! data determine it, the error on what a fit had not seen, and what was left out and why. Run folders
//! say more than tables, so where both are given the runs make the profile and the tables check it.

mod command;
mod rows;

pub(crate) use command::calibrate;
