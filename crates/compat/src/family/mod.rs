//! Other tools' definitions, each applied to the same timelines.
//!
//! A lens returns what one tool would have recorded for one request: start, first token, gaps,
//! latency, token counts and success. Sums and statistics over requests are the same for all tools
//! and are in `aggregate`. A new family is one file with a `see` function and one match arm here.

mod aggregate;
mod buckets;
mod lens;
mod old_vllm;
mod pooling;
mod probe;
mod rust_steady;
mod sglang;
mod vllm;
mod vllm_rust;

#[cfg(test)]
mod tests;

use tokometer_figures::{Details, Family, LensChoice, Route};
use tokometer_record::Timeline;

use aggregate::FamilyCollector;
use lens::ToolView;

/// The lenses of some families, for the options of a summary.
pub fn lenses(families: impl IntoIterator<Item = Family>, details: Details) -> Vec<LensChoice> {
    let lens = |family| LensChoice {
        family,
        details,
        make: |family, details, origin| Box::new(FamilyCollector::new(family, origin, details)),
    };
    families.into_iter().map(lens).collect()
}

/// What a family's tool would have recorded for a request.
fn see(family: Family, timeline: &Timeline, route: Route) -> ToolView {
    match family {
        _ if route == Route::Pooling => pooling::see(timeline, family),
        Family::Vllm => vllm::see(timeline, route),
        Family::OldVllm => old_vllm::see(timeline, route),
        Family::VllmRust => vllm_rust::see(timeline, route),
        Family::Sglang => sglang::see(timeline, route),
    }
}
