//! A campaign as one of several processes that make its runs together.
//!
//! [`tokometer_shards`] talks to the other processes, [`tokometer_measure`] makes this one's part; here both
//! meet. A process joins the others ([`JoinSetting::join`]) and gets a [`Role`]. [`Sharded`] wraps the executor
//! that makes its part of each run: shard 0 hands the run out before and merges the records after. The others
//! follow ([`Following`]).

mod coordination;
mod following;
mod join;
mod lending;
mod order;
mod sharded;

pub use coordination::Interrupted;
pub use following::Following;
pub use join::{JoinSetting, LeaderSetting};
pub use order::Varied;
pub use sharded::{Role, Sharded, merge, merge_quietly};
