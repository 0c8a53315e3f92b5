//! What cancelled requests cost the server.

use serde::{Deserialize, Serialize};
use tokometer_record::Timeline;

use crate::observe::Observed;
use crate::quantity::Quantity;
use crate::summary::Summary;
use crate::totals::Totals;

/// Requests that their user cancelled, and what the server's counters say of them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Cancelled {
    pub requests: u64,
    /// Those of them without a first token: TTFT lacks them.
    pub before_first_token: u64,
    /// Tokens of their answers that came. An event of unknown size counts as one.
    pub received_tokens: u64,
    /// By how much the server's counter of aborted requests rose.
    pub server_aborts: Option<f64>,
    /// Tokens that the server generated and that no answer of this run has, per cancelled request.
    /// `None` unless its counters cover the run and everything else is known.
    pub tokens_after_each: Option<f64>,
    /// How long the server went on with a cancelled request: these tokens, at the mean TPOT.
    pub stopped_after_ms: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CancelTally {
    requests: u64,
    before_first_token: u64,
    received_tokens: u64,
}

impl CancelTally {
    pub(crate) fn add(&mut self, timeline: &Timeline) {
        let content = timeline.events.iter().filter(|event| event.kind.is_generated());
        self.requests += 1;
        self.before_first_token += u64::from(timeline.first_content().is_none());
        self.received_tokens +=
            content.map(|event| u64::from(event.tokens().unwrap_or(1))).sum::<u64>();
    }

    pub(crate) fn figures(
        &self,
        summary: &Summary,
        totals: &Totals,
        observed: &Observed,
    ) -> Option<Cancelled> {
        let Self { requests, before_first_token, received_tokens } = *self;
        let counts = &summary.counts;
        let server = summary.server.as_ref().filter(|server| server.is_whole);
        let is_known =
            counts.failed + counts.abandoned + counts.retries == 0 && observed.side_unlimited == 0;
        let answered = if counts.succeeded > 0 { totals.output_tokens } else { Some(0) };
        let ours = answered.map(|tokens| tokens + received_tokens + observed.side_tokens);
        let generated = server.and_then(|server| server.generation_tokens);
        let tokens_after_each = generated
            .zip(ours.filter(|_| is_known))
            .map(|(theirs, ours)| (theirs - ours as f64) / requests as f64)
            .filter(|tokens| *tokens >= 0.0);
        let tpot = summary.mean(Quantity::Tpot.key());
        (requests > 0).then(|| Cancelled {
            requests,
            before_first_token,
            received_tokens,
            server_aborts: server.and_then(|server| server.aborted_requests),
            tokens_after_each,
            stopped_after_ms: tokens_after_each.zip(tpot).map(|(tokens, each)| tokens * each),
        })
    }
}
