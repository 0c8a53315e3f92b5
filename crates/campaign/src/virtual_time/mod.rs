//! Runs against an engine model in virtual time.

mod alternating;
mod asks;
mod executor;
mod point;
mod record;

pub use executor::Virtual;
pub use point::{EXACT_TOKENS_MAX, PredictedDetail, PredictedPoint, PredictionDepth};
pub use record::write;
