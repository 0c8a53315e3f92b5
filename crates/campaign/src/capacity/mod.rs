//! A search for the highest load that meets objectives.
//!
//! Each point is a run of its own with fresh content and arrivals of its own. Which load comes next is decided
//! by [`tokometer_decide::search`] from the points alone, so an interrupted search goes on from its folders.

mod search;
mod start;
mod time;

pub use search::{Search, SearchBounds, SearchSetting};
pub use start::STAIRS;
