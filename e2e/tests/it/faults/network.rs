//! Connections that cannot be opened or do not last.

use super::case::Case;
use super::scripts::reset;
use crate::scripted::AfterResponse;

pub(super) const CASES: &[Case] = &[
    Case::closed("nothing listens on the port").says(&["cannot reach", "refused"]),
    Case::closed("nothing listens on the port and the model is named")
        .flags("--model m")
        .says(&["cannot reach"]),
    Case::raw("the server closes every connection at once", |_| AfterResponse::Close)
        .says(&["/v1/models"]),
    Case::raw("the server resets every connection", reset).says(&["/v1/models"]),
    Case::sim(
        "the server dies in the middle of the run",
        &["--faults", r#"{"die_after_requests":6}"#],
    )
    .flags("--num-prompts 400")
    .exit(3)
    .counts(6, 50)
    .says(&["the server became unreachable"]),
    Case::sim(
        "idle connections are closed by the server",
        &["--faults", r#"{"idle_close":30000000}"#],
    )
    .flags("--request-rate 10")
    .counts(3, 0)
    .says(&["3 of 3 succeeded"]),
    Case::sim(
        "connections are reset after two tokens",
        &["--faults", r#"{"reset_after_tokens":2}"#],
    )
    .counts(0, 3)
    .exit(7)
    .says(&["no request succeeded"]),
];
