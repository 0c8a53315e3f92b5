//! Runs against an engine model in virtual time.

mod asks;
mod executor;
mod point;
mod record;

pub use asks::Asks;
pub use executor::Virtual;
pub use point::{
    EXACT_TOKENS_MAX, PredictedDetail, PredictedPoint, PredictionSetting, predict, run_once,
};
pub use record::{end, info, write};
