//! A predicted run as the record of a measured one, so that the same code makes the same reports.

use record::{
    AttemptId, Event, EventKind, Outcome, Phase, RequestedLengths, StampSource, Timeline, Usage,
};
use tokometer_base::Nanos;
use tokometer_record as record;

use crate::in_flight::{Active, SeenEvent};
use crate::sender::Due;

/// Keeps every request with every event.
#[derive(Debug, Default)]
pub(crate) struct Timelines {
    in_flight: Vec<Option<Timeline>>,
    pub(crate) ended: Vec<Timeline>,
}

impl Timelines {
    pub(crate) fn sent(&mut self, slot: usize, request: &Active, due: &Due) {
        let asked = RequestedLengths {
            prompt_tokens: Some(due.ask.prompt_tokens),
            output_tokens: Some(due.ask.output_limit.max(due.ask.output_tokens)),
            body_bytes: 0,
            items: None,
            audio: None,
            prompt_hash: None,
            prompt_script: None,
            session_recorded: due.ask.place.as_ref().and_then(|place| place.session_recorded),
            possible_cached_tokens: due.ask.possible_cached_tokens,
        };
        let mut identity = AttemptId::new(request.index, Phase::Measure);
        if let Some(place) = &due.ask.place {
            (identity.session, identity.turn) = (Some(place.session), place.turn);
            (identity.turns, identity.parents) = (Some(place.turns), Some(place.parents.clone()));
            identity.agent.clone_from(&place.agent);
        }
        let mut timeline = Timeline::new(identity, asked, request.sent);
        timeline.times.recorded = due.ask.place.as_ref().and_then(|place| place.recorded);
        timeline.times.intended = due.intended;
        timeline.times.first_byte_sent = Some(request.sent);
        timeline.times.last_byte_sent = Some(request.sent);
        // Virtual times carry no delay of a reader, which is what a kernel stamp promises.
        timeline.stamp_source = StampSource::Kernel;
        timeline.usage = Some(Usage {
            prompt_tokens: Some(due.ask.prompt_tokens),
            completion_tokens: Some(request.output_tokens),
            ..Usage::default()
        });
        timeline.status = Some(200);
        timeline.events.reserve_exact(request.output_tokens as usize + 1);
        if self.in_flight.len() <= slot {
            self.in_flight.resize_with(slot + 1, || None);
        }
        self.in_flight[slot] = Some(timeline);
    }

    pub(crate) fn event(&mut self, slot: usize, request: &Active, seen: SeenEvent) {
        let Some(timeline) = &mut self.in_flight[slot] else { return };
        // Events that travelled together came in one read.
        let shares_read = request.first.is_some() && request.last == seen.at;
        timeline.reads += u32::from(!shares_read);
        let kind = if seen.tokens > 0 { EventKind::Text } else { EventKind::Empty };
        let event = Event::new(seen.at, timeline.reads - 1, kind);
        timeline.push(event.with_tokens(Some(seen.tokens)));
    }

    /// Its user closed the connection at `at`, so that no count came.
    pub(crate) fn cancelled(&mut self, slot: usize, request: &Active, at: Nanos) {
        let Some(mut timeline) = self.in_flight[slot].take() else { return };
        timeline.times.headers = request.first;
        timeline.times.end = Some(at);
        timeline.usage = None;
        timeline.outcome = Outcome::Cancelled;
        self.ended.push(timeline);
    }

    pub(crate) fn ended(&mut self, slot: usize, request: &Active) {
        let Some(mut timeline) = self.in_flight[slot].take() else { return };
        timeline.times.headers = request.first;
        if let Some(usage) = &mut timeline.usage {
            usage.cached_tokens = request.cached_tokens;
        }
        timeline.times.end = Some(request.last);
        timeline.outcome = Outcome::Success;
        self.ended.push(timeline);
    }
}
