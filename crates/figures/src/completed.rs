//! Completed requests and tokens by blocks of time, for confidence intervals of throughputs.

use std::collections::BTreeMap;

use tokometer_base::Nanos;
use tokometer_record::Timeline;

use crate::blocks::{BlockContent, TimeBlocks};
use crate::figure::Quantity;
use crate::interval::{self, BlockPart, ConfidenceInterval, NoInterval};
use crate::rows::TimeSpan;

/// What successful requests completed.
///
/// In an open loop it is counted at the sends: the arrivals vary, and the first and the last answers,
/// while the server fills and drains, do not look like variation. In a closed loop it is counted at the
/// ends, because all slots are filled at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct CompletedWork {
    blocks: TimeBlocks<Amounts>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Amounts {
    requests: f64,
    prompt_tokens: f64,
    output_tokens: f64,
    items: f64,
}

impl BlockContent for Amounts {
    fn join(&mut self, other: &Self) {
        self.requests += other.requests;
        self.prompt_tokens += other.prompt_tokens;
        self.output_tokens += other.output_tokens;
        self.items += other.items;
    }
}

type Amount = fn(&Amounts) -> f64;

const RATES: [(Quantity, Amount); 5] = [
    (Quantity::Requests, |one| one.requests),
    (Quantity::Output, |one| one.output_tokens),
    (Quantity::Prompt, |one| one.prompt_tokens),
    (Quantity::Total, |one| one.prompt_tokens + one.output_tokens),
    (Quantity::Items, |one| one.items),
];

impl CompletedWork {
    /// Adds a successful request that counts at `at`.
    pub(crate) fn add(&mut self, timeline: &Timeline, at: Nanos) {
        let tokens = |count: Option<u32>| f64::from(count.unwrap_or(0));
        let now = self.blocks.at(at);
        now.requests += 1.0;
        now.prompt_tokens += tokens(timeline.prompt_tokens());
        now.output_tokens += tokens(timeline.output_tokens().map(|(tokens, _)| tokens));
        now.items += tokens(timeline.requested.items);
    }

    /// Intervals of those throughputs of the run that have a value. `span` is the time in which work
    /// is counted.
    pub(crate) fn intervals(
        mut self,
        figures: &BTreeMap<String, Option<f64>>,
        span: Option<TimeSpan>,
        no_interval: Option<NoInterval>,
    ) -> BTreeMap<String, ConfidenceInterval> {
        let Some(span) = span else { return BTreeMap::new() };
        // The time before the first completion counts.
        let _ = self.blocks.at(span.begin);
        let interval = |amount: Amount, rate: f64| {
            let part = |(begin, end, block): (Nanos, Nanos, &Amounts)| BlockPart {
                amount: amount(block),
                weight: (end.min(span.end) - begin.max(span.begin)).as_secs_f64(),
            };
            let parts: Vec<BlockPart> = self.blocks.timed().map(part).collect();
            no_interval.map_or_else(|| interval::rate(&parts, rate), ConfidenceInterval::Unknown)
        };
        let known = |(quantity, amount): (Quantity, Amount)| {
            let rate = figures.get(quantity.key()).copied().flatten()?;
            Some((quantity.key().to_owned(), interval(amount, rate)))
        };
        RATES.into_iter().filter_map(known).collect()
    }
}
