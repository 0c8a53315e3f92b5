//! vLLM's ready check: sends a prompt of the workload until it succeeds or the timeout ends.
//!
//! It has the lengths of the first prompt and other content, like warm-ups: the run must not start
//! with a prefix-cache hit. It uses the measured path, so it checks what will be measured. It is not
//! part of the record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use tokometer_base::{Conventions, Nanos};
use tokometer_client::KeepText;
use tokometer_drive::{self as drive, Interrupt, Live, Notice, Outlets, Prepare, QueuedRequest};
use tokometer_record::{Failure, FailureKind, Outcome};
use tokometer_schedule::{Limits, SendLimit};

use crate::preparer::RequestPreparer;
use crate::target::{BROKEN, Reached, key_advice, model_advice};
use crate::tools::Tools;
use crate::transcript;
use crate::{Error, ErrorKind};
use tokometer_plan::Plan;

/// Pause between attempts, as in vLLM's tool.
const PAUSE: Nanos = Nanos::from_secs(5);

/// Pause between checks for an interrupt.
const LOOK: Nanos = Nanos::from_millis(100);

/// A short timeout still allows this many attempts.
const LEAST_TRIES: f64 = 10.0;

/// Sends prompts of `first` to the target until one succeeds. Returns at once where the plan has no
/// ready check, or follows another tool's conventions.
pub(crate) fn prove(
    plan: &Plan,
    reached: &Reached,
    first: &RequestPreparer,
    wants_exchange: &AtomicBool,
    tools: &Tools,
) -> Result<(), Error> {
    let timeout_s = plan.phases.ready_timeout_s;
    if plan.conventions != Conventions::Vllm || timeout_s <= 0.0 {
        return Ok(());
    }
    let Tools { clock, observer, .. } = tools;
    let begun = clock.now();
    let deadline = begun + Nanos::from_secs_f64(timeout_s);
    let pause = PAUSE.min(Nanos::from_secs_f64(timeout_s / LEAST_TRIES));
    let mut answered = None;
    for attempt in 0.. {
        let left = deadline.max(clock.now()) - clock.now();
        observer.preparing("waiting for the response to a first prompt");
        let Err(failure) = try_once(reached, first, left, wants_exchange, tools)? else {
            return Ok(());
        };
        if observer.is_interrupted() {
            return Err(Error::new(ErrorKind::Interrupted, "interrupted during the ready check"));
        }
        let failure = telling(failure, &mut answered);
        let why = said(&failure);
        if is_final(&failure) {
            let message = format!("the server refused the first prompt: {why}");
            return Err(Error::new(ErrorKind::Target, message).hint(advice(&failure, reached)));
        }
        let is_broken = failure.status == Some(500) || failure.kind == FailureKind::InStream;
        if is_broken && clock.now() >= begun + BROKEN {
            let message = format!("the server failed the first prompt again and again: {why}");
            return Err(Error::new(ErrorKind::Target, message).hint("read the server's log"));
        }
        if clock.now() + pause >= deadline {
            let message =
                format!("the server did not complete the first prompt within {timeout_s} s: {why}");
            let hint = match failure.status {
                Some(429) => advice(&failure, reached),
                _ => {
                    "raise `--ready-check-timeout-sec`, or set it to 0 to skip the check".to_owned()
                }
            };
            return Err(Error::new(ErrorKind::Target, message).hint(hint));
        }
        if attempt == 0 {
            observer.remark(&format!(
                "the server is not ready yet ({why}); waiting up to {timeout_s} s"
            ));
        }
        let wakes = clock.now() + pause;
        while clock.now() < wakes && !observer.is_interrupted() {
            clock.sleep((wakes - clock.now()).min(LOOK));
        }
    }
    Ok(())
}

/// The failure to report. The deadline cuts the last attempt off: what the server answered before says more.
fn telling(failure: Failure, answered: &mut Option<Failure>) -> Failure {
    if failure.status.is_some() {
        *answered = Some(failure.clone());
    }
    let is_cut_off = failure.kind == FailureKind::Timeout;
    answered.clone().filter(|_| is_cut_off).unwrap_or(failure)
}

/// Whether the server refused the request itself, which waiting does not change.
fn is_final(failure: &Failure) -> bool {
    let is_of_route = matches!(failure.status, Some(204 | 205 | 300..400 | 501));
    let is_refused = drive::Refusals::OfTheClient.has(failure.status);
    is_of_route || is_refused || matches!(failure.kind, FailureKind::Tls | FailureKind::Protocol)
}

/// What to try about a refusal of the first prompt.
fn advice(failure: &Failure, reached: &Reached) -> String {
    let route = &reached.described.endpoint;
    let backend = reached.dialect.name();
    let model = || model_advice(&reached.settings.model, &failure.message, &reached.remarks);
    match failure.status {
        Some(401 | 403) => key_advice(&reached.settings).to_owned(),
        Some(400 | 404) if let Some(advice) = model() => advice,
        Some(404 | 405 | 410 | 501) => format!(
            "the server does not accept `POST {route}`: check `--endpoint`, `--base-url` and `--backend {backend}`"
        ),
        Some(413) => "the prompt is larger than the server accepts: shorten it, or raise the limit of the server or of the proxy in front of it".to_owned(),
        Some(415 | 422) => format!(
            "the server does not understand the request: check `--backend {backend}` and `--extra-body`"
        ),
        Some(400) => "check the lengths, the model and `--extra-body` against the server's message".to_owned(),
        Some(429) => "the server limits its requests: wait, or raise its limit; `--retries` repeats refused requests".to_owned(),
        _ => String::new(),
    }
}

fn said(failure: &Failure) -> String {
    match failure.status {
        Some(status) => format!("it responded with status {status}: {}", failure.message),
        None => failure.message.clone(),
    }
}

/// Sends one request and returns its outcome.
fn try_once(
    reached: &Reached,
    first: &RequestPreparer,
    left: Nanos,
    wants_exchange: &AtomicBool,
    tools: &Tools,
) -> Result<Result<(), Failure>, Error> {
    let unmade = |why: drive::PrepareError| Error::usage(why.to_string(), "");
    let item = first.ready_check().map_err(unmade)?;
    let target = drive::TargetServer {
        endpoint: reached.endpoint.clone(),
        dialect: reached.dialect,
        settings: Arc::clone(&reached.settings),
        keep_text: KeepText::No,
    };
    let extent = SendLimit { count: Some(1), duration: None };
    let limits = Limits { max_concurrency: Some(1), extent, warmups: 0 };
    let mut config = drive::RunConfig::new(vec![target], limits);
    config.connections = drive::Connections::PerRequest;
    config.timeouts.total = Some(left);
    config.keeps_transcript = wants_exchange.swap(false, Ordering::Relaxed);
    let interrupt = Arc::new(Interrupt::default());
    let (notices, ended) = channel();
    let outlets = Outlets {
        notices,
        live: Arc::new(Live::default()),
        interrupt: Arc::clone(&interrupt),
        between: None,
        start: None,
    };
    let interrupts = tools.observer.route_interrupts(&interrupt);
    let _end = drive::run(config, Box::new(Once(Some(item))), outlets)
        .map_err(|why| Error::usage(why.to_string(), ""))?;
    drop(interrupts);
    // A request whose optional field was refused ends twice; the last end counts.
    let outcome = ended.iter().filter_map(|notice| match notice {
        Notice::Ended(timeline) => Some(timeline.outcome),
        Notice::Exchanged(transcript) => {
            tools.observer.remark(&transcript::shown(&transcript, &tools.secrets));
            None
        }
        Notice::Started { .. } => None,
    });
    Ok(match outcome.last() {
        Some(Outcome::Success) => Ok(()),
        Some(Outcome::Failed(failure)) => Err(failure),
        _ => Err(Failure::new(FailureKind::Connect, "the response did not end")),
    })
}

/// A source of one request.
struct Once(Option<QueuedRequest>);

impl Prepare for Once {
    fn prepare(&mut self) -> Result<Option<QueuedRequest>, drive::PrepareError> {
        Ok(self.0.take())
    }
}
