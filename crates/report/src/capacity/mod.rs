//! What a search for capacity found, as text and as a page; a measured one and a predicted one.

mod page;
mod predicted;
mod text;

pub use page::{CAPACITY, found, page, read};
pub use predicted::{PredictedCapacities, PredictedCapacity, PredictedChoice};
pub use text::{
    course, forecast, no_estimate, point, predictions, second_stage, short_points, text,
};
