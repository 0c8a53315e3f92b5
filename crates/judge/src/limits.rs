//! Every threshold of the verdict, in one table. Its rows in [`markdown`] say what each means.

use std::fmt::Write as _;

use tokometer_base::Nanos;

use tokometer_figures::Severity;
use tokometer_figures::sends::LATE;

pub const INVALID_ABOVE: f64 = 0.05;
pub const SUSPECT_ABOVE: f64 = 0.01;
pub const NO_BOUND_FROM: f64 = 1.0;
/// Change of a latency per change of the load, as shares. The study `verdicts` of `lab/` found 0.0 to 0.4.
pub const LATENCY_PER_LOAD: f64 = 0.5;
pub const LEFT_OUT_ABOVE: Nanos = LATE;
pub const LEFT_OUT_MOST: f64 = 0.5;
pub const TAIL_PERCENT: f64 = 90.0;
/// What a retransmission adds at least, where no later packet shows the loss: Linux's shortest timeout.
pub const RETRANSMISSION: Nanos = Nanos::from_millis(200);
/// Share of the server's own mean E2E by which ours may exceed it and a round trip. The HTTP layer of vLLM on one
/// H200 took 0.2 to 3.2 %.
pub const OUTSIDE_SERVER: f64 = 0.05;
/// The same of mean TTFT, of which it took 2 to 13 %.
pub const OUTSIDE_SERVER_TTFT: f64 = 0.2;
/// Parts of a run, the worst of which decides about the tail.
pub const PARTS: usize = 10;

pub fn severity(effect: f64) -> Severity {
    match effect {
        effect if effect > INVALID_ABOVE => Severity::Invalid,
        effect if effect > SUSPECT_ABOVE => Severity::Suspect,
        _ => Severity::Remark,
    }
}

/// The table of thresholds, for `docs/notes.md`.
pub fn markdown() -> String {
    let percent = |share: f64| format!("{} %", share * 100.0);
    let rows = [
        (percent(INVALID_ABOVE), "effect on a figure above which it is INVALID"),
        (percent(SUSPECT_ABOVE), "effect on a figure above which it is SUSPECT"),
        (
            percent(NO_BOUND_FROM),
            "effect from which on no bound is stated: the record does not show what the figure would have been",
        ),
        (
            percent(LATENCY_PER_LOAD),
            "change of a latency, as a share of the change of the load that causes it",
        ),
        (
            LEFT_OUT_ABOVE.to_string(),
            "delay above which the overlapping requests are left out and the figure is computed again; \
             shorter delays are bounded by their sum",
        ),
        (
            percent(LEFT_OUT_MOST),
            "most requests that are left out; beyond it the limit of the delay is doubled",
        ),
        (
            format!("P{TAIL_PERCENT}"),
            "percentiles from here on follow the worst tenth of the run instead of its mean",
        ),
        (RETRANSMISSION.to_string(), "time that a retransmission adds to a request, at least"),
        (
            percent(OUTSIDE_SERVER),
            "share by which mean E2E exceeds the server's own mean and a round trip, from which on it is an effect",
        ),
        (percent(OUTSIDE_SERVER_TTFT), "the same of mean TTFT"),
    ];
    let mut page = String::from("| threshold | meaning |\n|---|---|\n");
    for (value, meaning) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "| {value} | {meaning} |");
    }
    page
}
