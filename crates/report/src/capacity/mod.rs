//! What a search for capacity found, as text and as a page; a measured one and a predicted one.

mod page;
mod text;

pub use page::{CAPACITY, found, page, read};
pub use text::{
    PredictedCapacities, PredictedCapacity, PredictedChoice, course, forecast, no_estimate,
    predictions, second_stage, short_points, text, third_stage,
};
