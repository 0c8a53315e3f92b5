//! What was predicted in virtual time: the lines under its report, and the block of a large run.

mod block;
mod explanation;
mod page;

pub use block::block;
pub use page::{PredictionPage, beyond_text};
