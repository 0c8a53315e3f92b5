//! Sums over a run, from which whole-run figures are computed.

use tokometer_base::Nanos;
use tokometer_record::{Event, EventKind, Timeline};

use crate::goodput::Goodput;
use crate::measure;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Totals {
    /// Length of the measured phase; `None` when no request was sent.
    pub duration: Option<Nanos>,
    pub succeeded: u64,
    /// Of successful requests; `None` when some could not be counted.
    pub prompt_tokens: Option<u64>,
    /// Of successful requests; `None` when some could not be counted.
    pub output_tokens: Option<u64>,
    /// Output tokens among them that were never streamed.
    pub hidden_tokens: u64,
    /// Inputs or documents of successful requests; `None` for requests that generate text.
    pub items: Option<u64>,
    /// Playing time of the audio of successful requests; `None` when some have none or one of unknown length.
    pub audio: Option<Nanos>,
    /// Sum of gaps whose tokens are known, in nanoseconds.
    pub gap_nanos: f64,
    /// Tokens of the events that ended these gaps.
    pub gap_tokens: u64,
    pub content_events: u64,
    /// Content events in the same read as the previous one.
    pub shared_events: u64,
    /// Content events whose read merged segments.
    pub merged_events: u64,
    /// Those among them that were not the last of their response.
    pub merged_inner_events: u64,
    /// Time in flight of all requests, in nanoseconds.
    pub in_flight_nanos: f64,
    pub peak_in_flight: Option<f64>,
    pub peak_output_tokens_per_s: Option<f64>,
    pub requested_rate: Option<f64>,
    pub achieved_rate: Option<f64>,
    pub goodput: Option<Goodput>,
    /// 99 % of the refill delays were at most this long, in nanoseconds.
    pub refill_delay_p99: Option<f64>,
    /// Mean wait of turns after the first of a conversation, in nanoseconds.
    pub turn_wait: Option<f64>,
    /// Finished sessions; `None` where none has several turns.
    pub sessions: Option<u64>,
}

impl Totals {
    /// `amount` divided by the length of the measured phase in seconds.
    pub fn per_second(&self, amount: f64) -> Option<f64> {
        let seconds = self.duration?.as_secs_f64();
        (seconds > 0.0).then(|| amount / seconds)
    }

    /// A number of content events as a share of all.
    pub fn event_share(&self, events: u64) -> Option<f64> {
        (self.content_events > 0).then(|| events as f64 / self.content_events as f64)
    }

    pub(crate) fn add_success(&mut self, timeline: &Timeline) {
        let plus = |sum: Option<u64>, tokens: Option<u32>| {
            sum.zip(tokens).map(|(sum, tokens)| sum + u64::from(tokens))
        };
        if self.succeeded == 0 {
            (self.prompt_tokens, self.output_tokens) = (Some(0), Some(0));
            self.audio = Some(Nanos::ZERO);
        }
        self.succeeded += 1;
        self.prompt_tokens = plus(self.prompt_tokens, timeline.prompt_tokens());
        self.output_tokens =
            plus(self.output_tokens, timeline.output_tokens().map(|(tokens, _)| tokens));
        let audio = self.audio.zip(timeline.requested.audio);
        self.audio = audio.map(|(sum, length)| sum + length);
        if let Some(items) = timeline.requested.items {
            self.items = Some(self.items.unwrap_or(0) + u64::from(items));
        }
        self.hidden_tokens += u64::from(measure::hidden_tokens(timeline));
        for gap in measure::gaps(timeline) {
            if let Some(tokens) = gap.tokens {
                self.gap_nanos += gap.length.0 as f64;
                self.gap_tokens += u64::from(tokens);
            }
        }
        self.add_reads(timeline);
    }

    fn add_reads(&mut self, timeline: &Timeline) {
        let mut last: Option<&Event> = None;
        for event in timeline.events.iter().filter(|event| EventKind::is_content(event.kind)) {
            self.content_events += 1;
            self.shared_events += u64::from(last.is_some_and(|last| last.read == event.read));
            self.merged_events += u64::from(event.is_upper_bound());
            self.merged_inner_events += u64::from(last.is_some_and(Event::is_upper_bound));
            last = Some(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokometer_record::{AttemptId, Phase, RequestedLengths};

    use super::*;

    /// A server writes the last token, the usage and the end mark together, so they merge in every
    /// response. That is no sign of a slow client, while a merged token in the middle is.
    #[test]
    fn the_last_token_of_an_answer_is_told_apart_among_merged_ones() {
        let check = |merged: [bool; 3], all: u64, inner: u64| {
            let identity = AttemptId::new(0, Phase::Measure);
            let mut timeline = Timeline::new(identity, RequestedLengths::default(), Nanos(0));
            for (read, merged) in (0..).zip(merged) {
                let event = Event::new(Nanos(7), read, EventKind::Text);
                timeline.events.push(event.with_upper_bound(merged));
            }
            timeline.events.push(Event::new(Nanos(9), 2, EventKind::End));
            let mut totals = Totals::default();
            totals.add_reads(&timeline);
            assert_eq!((totals.merged_events, totals.merged_inner_events), (all, inner));
        };
        check([false, false, true], 1, 0);
        check([false, true, true], 2, 1);
        check([true, false, false], 1, 1);
    }
}
