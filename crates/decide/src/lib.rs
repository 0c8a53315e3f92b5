//! Decides from measurements: searches, objectives, sequential stops, comparisons.
//!
//! In: a record or its [`tokometer_figures::Summary`]. Out: the load to measure next, whether
//! objectives are met, whether a run may end, whether B differs from A. Pure: no clock, no I/O, no
//! flags. The same points give the same decision, so an interrupted search can be resumed from its
//! run folders.
//!
//! - [`slo`]: objectives, and the result of a run by each of them.
//! - [`search`]: the highest load that meets all of them; [`capacity`] is its result. [`staircase`]: where more
//!   requests in flight stop to bring more throughput.
//! - [`sequential`]: whether a run may end, or must.
//! - [`compare`]: whether B differs from A, over runs or A/B blocks.

pub mod capacity;
pub mod compare;
mod error;
pub mod search;
pub mod sequential;
pub mod slo;
pub mod staircase;

pub use compare::AbBlocks;
pub use error::Error;
pub use slo::Slo;
