//! The client that printed a table, found after the engine.
//!
//! A serial client stamps the events of one step one after the other, so with many streams its work per
//! event is part of what it printed. That needs every event of a run, which is too slow for a search; so
//! the engine is fitted without it, and then the cost that describes the rows best is taken. A profile carries
//! it, so that predictions with it are those whose errors are stated.

use super::{Candidate, Fitted, IDENTIFIED_RATIO, Prepared};

/// Costs per event that are looked at, in milliseconds.
const EVENT_COSTS_MS: [f64; 8] = [0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6];

/// The candidate with the client that describes these rows best. A client that was given is kept.
pub(super) fn with_client(
    prepared: &Prepared<'_>,
    candidate: &Candidate,
    set: &[usize],
) -> Candidate {
    if candidate.client.event_ms > 0.0 {
        return candidate.clone();
    }
    let layered = EVENT_COSTS_MS.into_iter().map(|event_ms| {
        let mut layered = candidate.clone();
        layered.client.event_ms = event_ms;
        (prepared.loss(&layered, set), layered)
    });
    let best = layered.min_by(|one, other| one.0.total_cmp(&other.0));
    best.map_or_else(|| candidate.clone(), |(_, layered)| layered)
}

/// The cost per event as a fitted number; its ends are those of the two folds.
pub(super) fn fitted(candidate: &Candidate, folds: [&Candidate; 2]) -> Fitted {
    let ends = folds.map(|fold| fold.client.event_ms);
    let value = candidate.client.event_ms;
    let dearest = EVENT_COSTS_MS.into_iter().fold(0.0, f64::max);
    let is_near = |end: &f64| {
        end.max(value) <= end.min(value) * IDENTIFIED_RATIO && value.max(*end) < dearest
    };
    Fitted {
        name: "the table's client, per event",
        value,
        is_identified: ends.iter().all(is_near),
        ends: ends.to_vec(),
    }
}
