//! Side probes: one tiny request at a time beside the load, past the gate.
//!
//! They tell what an idle user would feel while the load is on. Each is a row of its own phase in
//! the record and enters no figure of the load.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use tokometer_base::{Clock, MonotonicClock, Nanos};
use tokometer_client::{Control, Dialect, Settings};
use tokometer_drive::Notice;
use tokometer_record::{
    Asked, Event, EventKind, Failure, FailureKind, Identity, Outcome, Phase, Timeline,
};

/// Probes under way. They stop when this is dropped.
pub(crate) struct Probes {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What a probe asks, and where.
pub(crate) struct Question {
    /// For sending it.
    pub(crate) control: Control,
    /// The measured route.
    pub(crate) path: String,
    /// Its body.
    pub(crate) body: serde_json::Value,
}

impl Question {
    /// `Hi`, answered with one token.
    pub(crate) fn new(
        control: Control,
        path: String,
        settings: &Settings,
        dialect: &Dialect,
    ) -> Self {
        let mut body = serde_json::json!({ "model": settings.model, "max_tokens": 1 });
        if dialect.is_chat() {
            body["messages"] = serde_json::json!([{ "role": "user", "content": "Hi" }]);
        } else {
            body["prompt"] = "Hi".into();
        }
        Self { control, path, body }
    }
}

impl Probes {
    /// Asks, waits for the answer, pauses for `1 / rate`, and again.
    pub(crate) fn start(question: Question, rate: f64, notices: Sender<Notice>) -> Self {
        let (stop, stopped) = channel::<()>();
        let pause = Nanos::from_secs_f64(1.0 / rate);
        let ask = move || {
            for index in 0.. {
                if notices.send(Notice::Ended(Box::new(asked(&question, index)))).is_err() {
                    return;
                }
                if stopped.recv_timeout(pause.to_duration()) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("probes".to_owned()).spawn(ask).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

fn asked(question: &Question, index: u64) -> Timeline {
    let clock = MonotonicClock;
    let asked = Asked { prompt_tokens: Some(1), output_tokens: Some(1), body_bytes: 0 };
    let begin = clock.now();
    let mut timeline = Timeline::new(Identity::new(index, Phase::Probe), asked, begin);
    timeline.times.first_byte_sent = Some(begin);
    let answer = question.control.post(&question.path, Some(&question.body));
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
            let mut failure = Failure::new(FailureKind::Status, "a side probe was refused");
            failure.status = Some(answer.status);
            Outcome::Failed(failure)
        }
        Err(why) => Outcome::Failed(Failure::new(FailureKind::Connect, why.to_string())),
    };
    timeline
}
