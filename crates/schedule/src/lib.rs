//! When requests should start, how many may be under way, and when to stop.
//!
//! In: a load as the plan states it and a seed. Out: offsets from the start of the measured phase,
//! one per request, each a pure function of (seed, index, load). Nothing here reads a clock, waits or
//! knows what a request is; any shard of a run computes the same times alone.
//!
//! [`arrivals`] is the process as the plan states it, in [`stage`]s, `gamma` its random gaps, [`offsets`] the times that
//! follow, `share` the part of them that one process sends, and [`limits`] how much there is to send.

pub mod arrivals;
mod gamma;
pub mod limits;
pub mod offsets;
mod share;
pub mod stage;

pub use arrivals::{Arrivals, Error, First, Pace};
pub use limits::{Limits, SendLimit};
pub use offsets::{Offsets, StageSpan, Upcoming};
pub use share::Share;
pub use stage::{Length, Stage, StageLoad};
