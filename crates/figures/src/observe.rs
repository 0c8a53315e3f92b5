//! What the requests show about the client, the network and the token counts.
//!
//! Sums and counts only, updated per request; the notes judge them.

use std::collections::BTreeMap;

use tokometer_base::Nanos;
use tokometer_record::{CountSource, EventKind, Phase, StampSource, Timeline};

use crate::measure;
use crate::outside::TpotSums;
use crate::reported;
use crate::route::Route;
use crate::sends::Sends;
use crate::tail::Tails;

/// Two sums that should agree, over the requests that have both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pair {
    pub requests: u64,
    pub left: u64,
    pub right: u64,
}

impl Pair {
    fn add(&mut self, left: Option<u32>, right: Option<u32>) {
        if let (Some(left), Some(right)) = (left, right) {
            self.requests += 1;
            self.left += u64::from(left);
            self.right += u64::from(right);
        }
    }

    /// Difference of the right sum from the left one, as a share of the left. `None` without data.
    pub fn difference(&self) -> Option<f64> {
        (self.left > 0).then(|| self.right as f64 / self.left as f64 - 1.0)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Observed {
    pub sends: Sends,
    pub turns: u64,
    /// Answers whose events have the kernel's timestamps.
    pub kernel_stamped: u64,
    /// The same, of records below TLS.
    pub tls_stamped: u64,
    /// Answers that were timed after the read.
    pub user_stamped: u64,
    /// Requests with an inversion between clocks above the tolerance.
    pub clock_faults: u64,
    pub network_views: u64,
    /// Those among them with a retransmission.
    pub retransmitting: u64,
    /// Smoothed round trips, with the index of the request.
    pub round_trips: Vec<(Nanos, u64)>,
    pub usage_and_events: Pair,
    pub usage_and_text: Pair,
    /// Planned prompt length against the server's.
    pub prompt_lengths: Pair,
    /// Smallest surplus of the server's prompt count: what a chat template adds to every prompt.
    pub least_surplus: Option<i64>,
    /// Requested output length against the one received.
    pub answer_lengths: Pair,
    /// Prompt tokens against prefix-cache hits, first turns only: a later turn repeats its history.
    pub cached: Pair,
    pub later_turns: u64,
    /// Later turns that repeat real answers, so that nobody knew their length.
    pub live_turns: u64,
    /// The answers of turns in sessions: requested length against the one received.
    pub session_answers: Pair,
    pub several_choices: u64,
    pub open_bodies: u64,
    pub several_tokens: u64,
    /// Those among them that came in one event.
    pub unstreamed: u64,
    /// Tokens without text behind the text of answers.
    pub tails: Tails,
    /// TPOT as defined, and as the streams let it appear.
    pub tpot: TpotSums,
    /// Most tokens of side requests: canaries and probes.
    pub side_tokens: u64,
    /// Side requests without a limit on their tokens.
    pub side_unlimited: u64,
    pub uncounted: u64,
    /// Responses whose usage contradicts their content events.
    pub contradictions: u64,
    pub ignored: reported::Ignored,
    pub count_sources: BTreeMap<String, u64>,
    /// Requests that were sent again on a new connection.
    pub reopened: u64,
    /// Of first attempts, like the next three.
    pub first_send: Option<Nanos>,
    pub last_send: Option<Nanos>,
    pub first_due: Option<Nanos>,
    pub last_due: Option<Nanos>,
}

/// Limit on the round trips that are kept: a note names a few outliers.
const KEPT_ROUND_TRIPS: usize = 1 << 16;

impl Observed {
    /// Adds a side request, with the limit on its tokens; a probe has one token.
    pub fn add_side_request(&mut self, timeline: &Timeline) {
        let limit = match timeline.identity.phase {
            Phase::Measure | Phase::Warmup => return,
            Phase::Probe => Some(1),
            Phase::Canary => timeline.requested.output_tokens,
        };
        self.side_tokens += limit.map_or(0, u64::from);
        self.side_unlimited += u64::from(limit.is_none());
    }

    /// Adds one measured attempt, however it ended.
    pub fn add(&mut self, timeline: &Timeline, cap: Option<u32>) {
        self.add_send(timeline, cap);
        self.turns += u64::from(timeline.identity.session.is_some());
        if !timeline.events.is_empty() {
            let counter = match timeline.stamp_source {
                StampSource::Kernel => &mut self.kernel_stamped,
                StampSource::KernelBelowTls => &mut self.tls_stamped,
                StampSource::User => &mut self.user_stamped,
            };
            *counter += 1;
        }
        self.clock_faults += u64::from(timeline.clock_faults > 0);
        self.reopened += u64::from(timeline.connection.reopened > 0);
        self.open_bodies += u64::from(timeline.times.freed.is_some());
        if let Some(network) = timeline.network {
            self.network_views += 1;
            self.retransmitting += u64::from(network.retransmits > 0);
            if self.round_trips.len() < KEPT_ROUND_TRIPS {
                self.round_trips.push((network.round_trip, timeline.identity.index));
            }
        }
    }

    fn add_send(&mut self, timeline: &Timeline, cap: Option<u32>) {
        // A retry keeps the intended time of the first attempt: the server caused its wait.
        if timeline.identity.attempt > 0 {
            return;
        }
        let times = &timeline.times;
        let Some(sent) = times.first_byte_sent else { return };
        self.sends.add(timeline, cap);
        let earlier =
            |known: Option<Nanos>, new: Nanos| Some(known.map_or(new, |old| old.min(new)));
        self.first_send = earlier(self.first_send, sent);
        self.last_send = self.last_send.max(Some(sent));
        if let Some(due) = times.intended {
            self.first_due = earlier(self.first_due, due);
            self.last_due = self.last_due.max(Some(due));
        }
    }

    pub fn add_counts(&mut self, timeline: &Timeline, route: Route) {
        let usage = timeline.usage.unwrap_or_default();
        if route == Route::Pooling {
            // There is no answer to count.
            return self.prompt_lengths.add(timeline.requested.prompt_tokens, usage.prompt_tokens);
        }
        self.tails.add(timeline);
        self.tpot.add(timeline);
        let has_several = measure::streamed_tokens(timeline).is_some_and(|tokens| tokens > 1);
        self.several_tokens += u64::from(has_several);
        self.unstreamed += u64::from(has_several && is_in_one_event(timeline));
        self.contradictions += u64::from(reported::contradicts_stream(timeline));
        reported::count_ignored(timeline, &mut self.ignored);
        self.usage_and_events.add(usage.completion_tokens, timeline.event_tokens());
        let has_further_choices = timeline.has_further_choices();
        self.several_choices += u64::from(has_further_choices);
        // The text is that of the first choice; usage covers all.
        if !has_further_choices {
            self.usage_and_text.add(usage.completion_tokens, timeline.retokenized_tokens);
        }
        self.prompt_lengths.add(timeline.requested.prompt_tokens, usage.prompt_tokens);
        if timeline.identity.turn == 0 {
            self.cached.add(usage.prompt_tokens, reported::cached_tokens(timeline));
        } else {
            self.later_turns += 1;
            self.live_turns += u64::from(timeline.requested.prompt_tokens.is_none());
        }
        let counted = timeline.output_tokens();
        if !has_further_choices {
            let came = counted.map(|(tokens, _)| tokens);
            self.answer_lengths.add(timeline.requested.output_tokens, came);
            let in_session = timeline.identity.session.and(came);
            self.session_answers.add(timeline.requested.output_tokens, in_session);
        }
        if let (Some(asked), Some(reported)) =
            (timeline.requested.prompt_tokens, usage.prompt_tokens)
        {
            let surplus = if matches!(route, Route::Chat | Route::Responses) {
                i64::from(reported) - i64::from(asked)
            } else {
                0
            };
            self.least_surplus = Some(self.least_surplus.map_or(surplus, |old| old.min(surplus)));
        }
        match counted {
            Some((_, source)) => {
                *self.count_sources.entry(source_name(source).to_owned()).or_default() += 1;
            }
            None => self.uncounted += 1,
        }
    }

    /// Requests per second between the first and the last send, not counting the first.
    pub fn achieved_rate(&self) -> Option<f64> {
        rate(self.sends.judged, self.first_send, self.last_send)
    }

    /// The same for intended times.
    pub fn due_rate(&self) -> Option<f64> {
        rate(self.sends.judged, self.first_due, self.last_due)
    }
}

/// Whether all of an answer's tokens came in one event. Events without text may hold tokens too.
fn is_in_one_event(timeline: &Timeline) -> bool {
    let count = |wanted: fn(EventKind) -> bool| {
        timeline.events.iter().filter(|event| wanted(event.kind)).count()
    };
    let empties = count(|kind| kind == EventKind::Empty);
    let tokens = measure::streamed_tokens(timeline).unwrap_or(0) as usize;
    count(EventKind::is_content) == 1 && 1 + empties < tokens
}

fn rate(count: u64, first: Option<Nanos>, last: Option<Nanos>) -> Option<f64> {
    let span = (last? - first?).as_secs_f64();
    (span > 0.0 && count > 1).then(|| (count - 1) as f64 / span)
}

fn source_name(source: CountSource) -> &'static str {
    match source {
        CountSource::Usage => "usage",
        CountSource::Events => "events",
        CountSource::Retokenized => "retokenized",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// A later turn repeats its history, so its prefix-cache hits are expected.
    #[test]
    fn only_first_turns_tell_of_a_warm_cache() {
        let mut observed = Observed::default();
        for (turn, cached) in [(0, 0), (1, 90)] {
            let mut timeline = testing::answer(0, 0, &[]);
            timeline.identity.turn = turn;
            timeline.usage = Some(tokometer_record::Usage {
                cached_tokens: Some(cached),
                ..testing::usage(100, 1)
            });
            observed.add_counts(&timeline, Route::Chat);
        }
        assert_eq!(observed.cached, Pair { requests: 1, left: 100, right: 0 });
        assert_eq!(observed.later_turns, 1);
    }

    #[test]
    fn an_answer_in_one_event_has_others_only_without_tokens() {
        use EventKind::{Empty, Role, Text, Usage};
        let check = |kinds: &[EventKind], tokens: u32, expected: bool| {
            let events: Vec<_> = (1_u64..).zip(kinds.iter().copied()).collect();
            let mut timeline = testing::answer(0, 0, &events);
            timeline.usage = Some(testing::usage(7, tokens));
            assert_eq!(is_in_one_event(&timeline), expected, "{kinds:?}, {tokens} tokens");
        };
        check(&[Text], 20, true);
        check(&[Role, Text, Empty, Usage], 20, true);
        check(&[Text, Text], 20, false);
        check(&[Text], 1, false);
        // A model that goes on with special tokens behind its first word.
        check(&[Text, Empty, Empty, Empty, Usage], 4, false);
    }

    #[test]
    fn what_a_chat_template_adds_is_the_smallest_surplus() {
        let mut observed = Observed::default();
        for (asked, reported) in [(100, 112), (200, 210), (300, 311)] {
            let mut timeline = testing::answer(0, 0, &[]);
            timeline.requested.prompt_tokens = Some(asked);
            timeline.usage = Some(testing::usage(reported, 1));
            observed.add_counts(&timeline, Route::Chat);
        }
        assert_eq!(observed.least_surplus, Some(10));
        assert_eq!(observed.prompt_lengths, Pair { requests: 3, left: 600, right: 633 });
    }
}
