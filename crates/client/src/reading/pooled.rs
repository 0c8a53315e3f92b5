//! Reads answers of vectors, scores or classes.

use tokometer_record::{EventKind, Failure, FailureKind, Timeline};

use super::{EventArrival, ResponseReading, merge, push};
use crate::dialect::WholeAnswer;
use crate::scan::{Marks, PooledAnswer, scan_pooled};
use crate::server_message::error_message;

impl ResponseReading {
    /// Processes vectors as plain bytes. What they are stands in `metadata`, in the same words as in an
    /// answer of JSON; without it (`bytes_only`) the number of vectors and the prompt's count are
    /// unknown.
    pub(crate) fn on_octets(
        &mut self,
        metadata: Option<&[u8]>,
        arrival: EventArrival,
        timeline: &mut Timeline,
    ) {
        if let Some(metadata) = metadata {
            return self.on_pooled(metadata, arrival, timeline);
        }
        self.state.seen.set(Marks::CONTENT);
        push(timeline, arrival, EventKind::Result, None);
    }

    /// Processes an answer without text.
    pub(super) fn on_pooled(
        &mut self,
        data: &[u8],
        arrival: EventArrival,
        timeline: &mut Timeline,
    ) {
        let found = scan_pooled(data);
        let Ok(PooledAnswer { results, empty, repeated, usage, is_error }) = found else {
            return self.on_no_json_body(data, arrival, timeline);
        };
        if is_error || (results.is_none() && error_message(data).is_some()) {
            self.fail(FailureKind::InStream, "", data);
            return push(timeline, arrival, EventKind::Error, None);
        }
        if let Some(usage) = usage {
            merge(timeline.usage.get_or_insert_default(), usage);
        }
        let found = results.unwrap_or(0);
        let is_ranking = matches!(self.rules.whole, WholeAnswer::Ranking);
        let is_wrong = |asked: &u32| {
            let is_limited = is_ranking && self.has_result_limit && found < *asked;
            results.is_some() && found != *asked && !is_limited
        };
        let message = if let Some(asked) = timeline.requested.items.filter(is_wrong) {
            let inputs = if is_ranking { "documents" } else { "inputs" };
            Some(format!("the answer has {found} results for {asked} {inputs}"))
        } else if repeated > 0 {
            Some(format!("{repeated} of {found} results have the index of another one"))
        } else {
            (empty > 0).then(|| format!("{empty} of {found} results have no numeric value"))
        };
        if let Some(message) = message {
            self.failure.get_or_insert(Failure::new(FailureKind::Protocol, message));
        }
        let kind = if found > 0 { EventKind::Result } else { EventKind::Other };
        if found > 0 {
            self.state.seen.set(Marks::CONTENT);
        }
        push(timeline, arrival, kind, None);
    }
}
