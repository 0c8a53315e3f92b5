//! One attempt of one request inside a worker.

use tokometer_base::{CancelAfter, Nanos};
use tokometer_client::{PreparedRequest, refused_field};
use tokometer_record::{Failure, FailureKind, Outcome, Phase, Timeline};

use crate::config::RunConfig;
use crate::item::QueuedRequest;
use crate::transcript::Transcript;

/// A request in progress, with what is needed to send it again.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) request: PreparedRequest,
    pub(crate) timeline: Timeline,
    pub(crate) written: usize,
    /// Whether a byte of the response has arrived: from then on a dead connection is a failure of the
    /// server.
    pub(crate) has_response: bool,
    pub(crate) progress: SendProgress,
    pub(crate) tries_left: u32,
    pub(crate) retry_after: Option<Nanos>,
    /// When the request ended whose slot in the gate this one took.
    pub(crate) slot_freed: Option<Nanos>,
    /// When its user cancels it. `None`: never.
    pub(crate) cancel_after: Option<CancelAfter>,
    /// The time of that, once its last byte was sent. `None` where tokens are counted instead.
    pub(crate) cancel_at: Option<Nanos>,
    /// Its bytes, where they are to be reported.
    pub(crate) transcript: Option<Box<Transcript>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendProgress {
    /// It waits for the start of the first wave.
    Held,
    Waiting,
    /// Its start was reported. That is done once, even when it is sent again on another connection.
    Reported,
}

/// First wait between attempts; it doubles, unless the server sends `Retry-After`.
const FIRST_RETRY_WAIT: Nanos = Nanos::from_millis(500);
const LONGEST_BACKOFF: Nanos = Nanos::from_secs(30);

impl Flight {
    pub(crate) fn new(
        item: QueuedRequest,
        intended: Option<Nanos>,
        config: &RunConfig,
    ) -> Box<Self> {
        let is_measured = item.identity.phase == Phase::Measure;
        let cancel_after = config.cancelled_after(&item.identity);
        let mut timeline = Timeline::new(item.identity, item.request.requested, Nanos::ZERO);
        timeline.own_tools.clone_from(&item.request.own_tools);
        (timeline.times.intended, timeline.times.recorded) = (intended, item.recorded);
        let tries_left = if is_measured { config.retries } else { 0 };
        let mut flight = Self::unsent(item.request, timeline, tries_left);
        flight.cancel_after = cancel_after;
        flight
    }

    fn unsent(request: PreparedRequest, timeline: Timeline, tries_left: u32) -> Box<Self> {
        Box::new(Self {
            request,
            timeline,
            written: 0,
            has_response: false,
            progress: SendProgress::Waiting,
            tries_left,
            retry_after: None,
            slot_freed: None,
            cancel_after: None,
            cancel_at: None,
            transcript: None,
        })
    }

    pub(crate) fn is_held(&self) -> bool {
        self.progress == SendProgress::Held
    }

    pub(crate) fn target(&self) -> u16 {
        self.timeline.identity.target
    }

    /// Whether the request's bytes may be needed again: for a retry, for a dead connection, or
    /// because the server refuses a field.
    pub(crate) fn may_be_resent(&self) -> bool {
        let is_accepted = self.timeline.status.is_some_and(|status| (200..300).contains(&status));
        self.tries_left > 0 || !self.has_response || !is_accepted
    }

    /// The field, added by the client, that the server refused this attempt for.
    pub(crate) fn refused_field(&self) -> Option<&'static str> {
        refused_field(self.failure()?, &self.request.optional_fields)
    }

    /// Removes or renames a field of the request. Returns false when neither is possible.
    pub(crate) fn omit(&mut self, field: &str) -> bool {
        let Some(request) = self.request.without(field) else { return false };
        self.timeline.requested = request.requested;
        self.request = request;
        true
    }

    /// Starts over after a refusal, as if the refused request had not been sent. Its admission time
    /// becomes the time of the refusal: the server's time for refusing is not lateness of the client.
    pub(crate) fn start_over(&mut self) {
        let identity = self.timeline.identity.clone();
        let before = std::mem::replace(
            &mut self.timeline,
            Timeline::new(identity, self.request.requested, Nanos::ZERO),
        );
        self.timeline.own_tools = before.own_tools;
        self.timeline.times.intended = before.times.intended;
        self.timeline.times.recorded = before.times.recorded;
        self.timeline.times.admitted = before.times.end.unwrap_or(before.times.admitted);
        self.slot_freed = None;
        self.has_response = false;
        self.written = 0;
    }

    /// Bytes that this item holds in memory while it waits.
    pub(crate) fn weight(&self) -> u64 {
        self.request.bytes.len() as u64 + size_of::<Self>() as u64
    }

    /// Whether so many tokens have come that its user cancels it. What the answer's own length ends is
    /// complete.
    pub(crate) fn is_cancelled_by_tokens(&self) -> bool {
        let Some(after @ CancelAfter::Tokens(wanted)) = self.cancel_after else { return false };
        let is_beyond =
            self.timeline.requested.output_tokens.is_some_and(|all| after.is_beyond(all));
        !is_beyond && self.received_tokens() >= u64::from(wanted)
    }

    /// Tokens that have come, an event of unknown size counted as one.
    pub(crate) fn received_tokens(&self) -> u64 {
        let contents = self.timeline.events.iter().filter(|event| event.kind.is_generated());
        contents.map(|event| u64::from(event.tokens().unwrap_or(1))).sum()
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        match &self.timeline.outcome {
            Outcome::Failed(failure) => Some(failure),
            Outcome::Success | Outcome::Cancelled | Outcome::Abandoned => None,
        }
    }

    pub(crate) fn wants_retry(&self) -> bool {
        self.tries_left > 0 && self.failure().is_some_and(is_worth_retrying)
    }

    /// The wait before the next attempt: the server's own, where it named one. `longest` limits both.
    pub(crate) fn retry_wait(&self, longest: Nanos) -> Nanos {
        let doublings = self.timeline.identity.attempt.min(16);
        let backoff = || Nanos(FIRST_RETRY_WAIT.0 << doublings).min(LONGEST_BACKOFF);
        self.retry_after.unwrap_or_else(backoff).min(longest)
    }

    /// The next attempt of the same request. `timeline` stays with this one.
    pub(crate) fn next_attempt(&mut self) -> Box<Self> {
        let mut identity = self.timeline.identity.clone();
        identity.attempt += 1;
        let mut timeline = Timeline::new(identity, self.timeline.requested, Nanos::ZERO);
        timeline.own_tools.clone_from(&self.timeline.own_tools);
        timeline.times.intended = self.timeline.times.intended;
        timeline.times.recorded = self.timeline.times.recorded;
        let request = std::mem::take(&mut self.request);
        let mut next = Self::unsent(request, timeline, self.tries_left.saturating_sub(1));
        next.cancel_after = self.cancel_after;
        next
    }

    /// Prepares for sending again on another connection. The record keeps the time of the first send;
    /// all other times will be those of the second.
    pub(crate) fn rewind(&mut self) {
        self.written = 0;
        self.timeline.connection.reopened += 1;
        let times = &mut self.timeline.times;
        times.lost_send = times.first_byte_sent.take();
        times.last_byte_sent = None;
    }
}

/// Whether a retry may succeed: the server is overloaded, restarting or unreachable.
fn is_worth_retrying(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Status => matches!(failure.status, Some(408 | 429 | 500 | 502 | 503 | 504)),
        FailureKind::Connect
        | FailureKind::Client
        | FailureKind::ConnectTimeout
        | FailureKind::Tls
        | FailureKind::Send
        | FailureKind::Stall
        | FailureKind::Cut => true,
        FailureKind::Timeout
        | FailureKind::Protocol
        | FailureKind::InStream
        | FailureKind::NoContent => false,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use tokometer_record::AttemptId;
    use tokometer_schedule::Limits;

    use super::*;

    pub(crate) fn flight(index: u64) -> Box<Flight> {
        let bytes = b"GET / HTTP/1.1\r\n\r\n".to_vec();
        let request = PreparedRequest { bytes, ..PreparedRequest::default() };
        let identity = AttemptId::new(index, Phase::Measure);
        let config = RunConfig { retries: 1, ..RunConfig::new(Vec::new(), Limits::default()) };
        Flight::new(
            QueuedRequest { request, identity, due: None, recorded: None },
            Some(Nanos(index)),
            &config,
        )
    }

    #[test]
    fn a_retry_takes_the_bytes_and_keeps_the_intended_time() {
        let mut first = flight(7);
        let second = first.next_attempt();
        assert!(first.request.bytes.is_empty() && !second.request.bytes.is_empty());
        assert_eq!((second.timeline.identity.attempt, second.tries_left), (1, 0));
        assert_eq!(second.timeline.times.intended, Some(Nanos(7)));
    }

    /// A server that took 99 ms to refuse a field made every first request of a run look late, and the
    /// run INVALID.
    #[test]
    fn the_time_of_a_refusal_is_not_the_clients_lateness() {
        let mut flight = flight(7);
        flight.slot_freed = Some(Nanos(8));
        flight.timeline.times.admitted = Nanos(9);
        flight.timeline.times.end = Some(Nanos::from_millis(99));
        flight.start_over();
        assert_eq!(flight.timeline.times.admitted, Nanos::from_millis(99));
        assert_eq!(flight.timeline.times.intended, Some(Nanos(7)));
        assert_eq!(flight.slot_freed, None, "nothing is known of the refill");
    }

    #[test]
    fn only_temporary_failures_are_retried() {
        let check = |kind, status, expected| {
            let mut flight = flight(0);
            flight.timeline.outcome =
                Outcome::Failed(Failure { kind, status, message: String::new() });
            assert_eq!(flight.wants_retry(), expected, "{kind:?} {status:?}");
            flight.tries_left = 0;
            assert!(!flight.wants_retry());
        };
        check(FailureKind::Status, Some(429), true);
        check(FailureKind::Status, Some(404), false);
        check(FailureKind::Connect, None, true);
        check(FailureKind::Timeout, None, false);
    }

    #[test]
    fn waits_between_attempts_double_up_to_a_limit() {
        let mut flight = flight(0);
        let mut wait = |attempt| {
            flight.timeline.identity.attempt = attempt;
            flight.retry_wait(Nanos::from_secs(60))
        };
        assert_eq!(wait(0), Nanos::from_millis(500));
        assert_eq!(wait(2), Nanos::from_secs(2));
        assert_eq!(wait(1_000), LONGEST_BACKOFF);
    }
}
