//! Side probes: one small request at a time beside the load, outside the gate.
//!
//! They measure what an additional user would experience under the load. Each is a row of phase
//! `probe` in the record and is not part of the load's figures.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use tokometer_base::{Background, Clock, Nanos};
use tokometer_client::{Control, Probe};
use tokometer_drive::Notice;
use tokometer_record::{
    AttemptId, Event, EventKind, Failure, FailureKind, Outcome, Phase, RequestedLengths, Timeline,
};

/// Running probes. They stop when this is dropped.
pub(crate) struct Probes {
    _thread: Background,
}

/// A probe request and the client that sends it.
pub(crate) struct ProbeRequest {
    pub(crate) control: Control,
    pub(crate) probe: Probe,
}

impl Probes {
    /// Sends a probe, waits for its response, pauses for `1 / rate`, and repeats.
    pub(crate) fn start(
        question: ProbeRequest,
        rate: f64,
        notices: Sender<Notice>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let pause = Nanos::from_secs_f64(1.0 / rate).to_duration();
        let clock = Arc::clone(clock);
        let thread = Background::start("probes", move |stop| {
            for index in 0.. {
                let ended = Notice::Ended(Box::new(asked(&question, index, &*clock)));
                if notices.send(ended).is_err() || stop.is_raised_within(pause) {
                    return;
                }
            }
        });
        Self { _thread: thread }
    }
}

fn asked(question: &ProbeRequest, index: u64, clock: &dyn Clock) -> Timeline {
    let asked = RequestedLengths {
        prompt_tokens: Some(1),
        output_tokens: Some(1),
        ..RequestedLengths::default()
    };
    let begin = clock.now();
    let mut timeline = Timeline::new(AttemptId::new(index, Phase::Probe), asked, begin);
    timeline.times.first_byte_sent = Some(begin);
    let answer = question.control.post(&question.probe.path, Some(&question.probe.body));
    let end = clock.now();
    timeline.times.end = Some(end);
    timeline.outcome = match answer {
        Ok(answer) if answer.status == 200 => {
            timeline.status = Some(200);
            timeline.push(Event::new(end, 0, EventKind::Text).with_tokens(Some(1)));
            Outcome::Success
        }
        Ok(answer) => {
            timeline.status = Some(answer.status);
            let mut failure =
                Failure::new(FailureKind::Status, "the server rejected a probe request");
            failure.status = Some(answer.status);
            Outcome::Failed(failure)
        }
        Err(why) => Outcome::Failed(Failure::new(FailureKind::Connect, why.to_string())),
    };
    timeline
}
