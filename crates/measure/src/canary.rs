//! Canaries: greedy prompts with known answers, one at a time beside the load, outside the gate.
//!
//! Each is a row of phase `canary` in the record with its text and is not part of the load's figures. Their
//! number follows the load: a share of the requests that have ended.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use serde_json::Value;
use tokometer_base::{Background, Clock, Message, Nanos, Prompt, PromptContent};
use tokometer_client::{Control, Dialect, Probe, Settings};
use tokometer_drive::{Live, LiveCounts, Notice};
use tokometer_plan::{CanaryPlan, CanaryRow};
use tokometer_record::{
    AttemptId, Event, EventKind, Failure, FailureKind, Outcome, Phase, RequestedLengths, Timeline,
};

use crate::Error;

/// Limit of an answer where the row has none.
const OUTPUT_TOKENS: u32 = 64;

/// How often the number of ended requests is looked at.
const LOOK: Nanos = Nanos::from_millis(20);

/// Running canaries. They stop when this is dropped.
pub(crate) struct CanaryThread {
    _thread: Background,
}

/// The requests and the client that sends them.
pub(crate) struct CanaryRequests {
    control: Control,
    dialect: Dialect,
    /// Each with the limit on its answer.
    requests: Vec<(Probe, u32)>,
    share: f64,
}

impl CanaryRequests {
    /// Prepares every row; an error for a row that the backend cannot send.
    pub(crate) fn new(
        plan: &CanaryPlan,
        control: &Control,
        dialect: Dialect,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let request = |(index, row): (usize, &CanaryRow)| {
            dialect
                .greedy(settings, &prompt(row))
                .map(|request| (request, limit(row)))
                .map_err(|why| Error::usage(format!("cannot send canary {}: {why}", index + 1), ""))
        };
        let requests = plan.rows.iter().enumerate().map(request).collect::<Result<_, _>>()?;
        Ok(Self { control: control.clone(), dialect, requests, share: plan.share })
    }

    /// Sends the first canary at once and the others in step with the load.
    pub(crate) fn start(
        self,
        live: Arc<Live>,
        notices: Sender<Notice>,
        clock: &Arc<dyn Clock>,
    ) -> CanaryThread {
        let clock = Arc::clone(clock);
        let thread = Background::start("canaries", move |stop| {
            let mut sent = 0;
            let mut pause = Nanos::ZERO;
            while !stop.is_raised_within(pause.to_duration()) {
                pause = LOOK;
                if !is_due(sent, ended(live.phase(), &live.counts()), self.share) {
                    continue;
                }
                pause = Nanos::ZERO;
                let ended = Notice::Ended(Box::new(self.ask(sent, &*clock)));
                sent += 1;
                if notices.send(ended).is_err() {
                    return;
                }
            }
        });
        CanaryThread { _thread: thread }
    }

    /// The request with this index, and its timeline before the answer.
    fn begin(&self, index: u64, begin: Nanos) -> (Option<&Probe>, Timeline) {
        let row = usize::try_from(index % self.requests.len().max(1) as u64).unwrap_or(0);
        let request = self.requests.get(row);
        let output_tokens = request.map(|(_, limit)| *limit);
        let requested = RequestedLengths { output_tokens, ..RequestedLengths::default() };
        let mut timeline = Timeline::new(AttemptId::new(index, Phase::Canary), requested, begin);
        timeline.times.first_byte_sent = Some(begin);
        (request.map(|(request, _)| request), timeline)
    }

    fn ask(&self, index: u64, clock: &dyn Clock) -> Timeline {
        let (request, mut timeline) = self.begin(index, clock.now());
        let Some(request) = request else { return timeline };
        let answer = self.control.post(&request.path, Some(&request.body));
        let end = clock.now();
        timeline.times.end = Some(end);
        timeline.outcome = match answer {
            Ok(answer) if (200..300).contains(&answer.status) => {
                timeline.status = Some(answer.status);
                timeline.push(Event::new(end, 0, EventKind::Text));
                timeline.text = Some(self.dialect.text_of(&answer.body));
                Outcome::Success
            }
            Ok(answer) => {
                timeline.status = Some(answer.status);
                let message = "the server rejected a canary";
                let mut failure = Failure::new(FailureKind::Status, message);
                failure.status = Some(answer.status);
                Outcome::Failed(failure)
            }
            Err(why) => Outcome::Failed(Failure::new(FailureKind::Connect, why.to_string())),
        };
        timeline
    }
}

/// Requests of the load that have ended. Those of the warm-up are no load: the counters keep them until
/// the measured phase begins.
fn ended(phase: Option<Phase>, counts: &LiveCounts) -> u64 {
    if phase == Some(Phase::Measure) { counts.ended() } else { 0 }
}

/// Whether another canary is due after `ended` requests of the load.
fn is_due(sent: u64, ended: u64, share: f64) -> bool {
    sent == 0 || (sent as f64) < ended as f64 * share
}

fn limit(row: &CanaryRow) -> u32 {
    row.output_tokens.unwrap_or(OUTPUT_TOKENS)
}

fn prompt(row: &CanaryRow) -> Prompt {
    let text = row.prompt.clone().unwrap_or_default();
    let message = |message: &Value| {
        let word = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
        let verbatim = Some(message.to_string());
        Message { verbatim, ..Message::new(word("role"), word("content")) }
    };
    let content = match &row.messages {
        Some(messages) => PromptContent::Messages(messages.iter().map(message).collect()),
        None => PromptContent::Text(text),
    };
    Prompt { content, output_tokens: Some(limit(row)), ..Prompt::text("") }
}

#[cfg(test)]
mod tests {
    use tokometer_base::MonotonicClock;
    use tokometer_client::Url;

    use super::*;

    #[test]
    fn canaries_follow_the_load_by_their_share() {
        let due = |ended: u64, share: f64| {
            let mut sent = 0;
            while is_due(sent, ended, share) {
                sent += 1;
            }
            sent
        };
        assert_eq!(due(0, 0.02), 1, "the first is sent at once");
        assert_eq!(due(50, 0.02), 1);
        assert_eq!(due(1_000, 0.02), 20);
        assert_eq!(due(1_000, 0.0), 1);
    }

    #[test]
    fn failures_are_load_and_the_warm_up_and_requests_in_flight_are_not() {
        let counts = LiveCounts { sent: 20, succeeded: 4, failed: 3, ..LiveCounts::default() };
        assert_eq!(ended(Some(Phase::Measure), &counts), 7);
        assert_eq!(ended(Some(Phase::Warmup), &counts), 0);
        assert_eq!(ended(None, &counts), 0);
    }

    /// The record had no limit, so that an answer that ended at it looked like one that was too short.
    #[test]
    fn a_request_and_its_row_in_the_record_have_the_same_limit() {
        let row = |output_tokens| CanaryRow { output_tokens, ..CanaryRow::default() };
        let plan = CanaryPlan { rows: vec![row(Some(4)), row(None)], share: 0.02 };
        let settings = Settings::new(Url::http("127.0.0.1", 8000), "tiny");
        let clock = Arc::new(MonotonicClock);
        let control = Control::new(&settings, Arc::default(), Nanos::from_secs(1), clock);
        let dialect = Dialect::named("openai").unwrap();
        let canaries = CanaryRequests::new(&plan, &control, dialect, &settings).unwrap();
        for (index, limit) in [(0, 4), (1, 64), (2, 4)] {
            let (request, timeline) = canaries.begin(index, Nanos::ZERO);
            assert_eq!(request.unwrap().body["max_tokens"], limit, "{index}");
            assert_eq!(timeline.requested.output_tokens, Some(limit), "{index}");
        }
    }
}
