//! Signals in every phase of a run.

use nix::sys::signal::Signal;

use super::case::{Case, Moment};
use super::scripts::{TOKEN, answer, good, hold};
use crate::scripted::{AfterResponse, ScriptedRequest};

const INT: Signal = Signal::SIGINT;
const STALL: &str = r#"{"stall":{"after_tokens":2,"span":3600000000000}}"#;

/// Two good answers, then one that goes on until the client gives it up.
fn endless_third(mut asked: ScriptedRequest<'_>) -> AfterResponse {
    if asked.number < 2 {
        return good(asked);
    }
    asked.start_stream();
    asked.event(TOKEN);
    asked.hold()
}

/// The first request is answered with 503 for ever, so the ready check goes on.
fn never_ready(asked: ScriptedRequest<'_>) -> AfterResponse {
    answer(asked, "503 Service Unavailable", "text/plain", "starting")
}

pub(super) const CASES: &[Case] = &[
    Case::raw("SIGINT while the list of models is awaited", hold)
        .signals(&[(Moment::Requests(1), INT)])
        .exit(130),
    Case::every("SIGINT while the ready check waits", never_ready)
        .flags("--ready-check-timeout-sec 600")
        .signals(&[(Moment::Requests(2), INT)])
        .no_figures()
        .exit(130),
    Case::sim("SIGINT once in a run without an end", &[])
        .flags("--num-prompts 1000000 --max-concurrency 2")
        .signals(&[(Moment::Recorded, INT)])
        .any_counts()
        .exit(130)
        .says(&["partial: interrupted"]),
    Case::sim("SIGTERM once in a run without an end", &[])
        .flags("--num-prompts 1000000 --max-concurrency 2")
        .signals(&[(Moment::Recorded, Signal::SIGTERM)])
        .any_counts()
        .exit(130)
        .says(&["partial: interrupted"]),
    Case::sim("SIGHUP once in a run without an end", &[])
        .flags("--num-prompts 1000000 --max-concurrency 2")
        .signals(&[(Moment::Recorded, Signal::SIGHUP)])
        .any_counts()
        .exit(130)
        .says(&["partial: interrupted"]),
    Case::sim("SIGINT twice while the first answers stand still", &["--faults", STALL])
        .signals(&[(Moment::Recorded, INT), (Moment::Recorded, INT)])
        .counts(0, 0)
        .exit(130)
        .says(&["partial: interrupted"]),
    Case::every("SIGINT twice in the middle of the third answer", endless_third)
        .signals(&[(Moment::Requests(3), INT), (Moment::Requests(3), INT)])
        .counts(2, 0)
        .exit(130)
        .says(&["partial: interrupted"]),
    Case::every("SIGTERM twice in the middle of the third answer", endless_third)
        .signals(&[(Moment::Requests(3), Signal::SIGTERM), (Moment::Requests(3), Signal::SIGTERM)])
        .counts(2, 0)
        .exit(130)
        .says(&["partial: interrupted"]),
    Case::sim("SIGINT in the first point of a sweep", &[])
        .flags("--num-prompts 1000000 --max-concurrency 1,2")
        .signals(&[(Moment::Recorded, INT)])
        .outcome("the requests until then")
        .exit(130)
        .says(&["partial: interrupted"]),
    Case::sim("SIGKILL in the middle of a run, then `report`", &["--faults", STALL])
        .signals(&[(Moment::Recorded, Signal::SIGKILL)])
        .then("report r")
        .exit(0)
        .outcome("the requests until then")
        .says(&["killed"]),
];
