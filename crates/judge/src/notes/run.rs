//! Notes about the run as a whole: its load, its length, its failures and its target.

use super::NoteCode;
use super::about::{ALL, About, GAPS, OUTPUT_RATE, TTFT};
use super::note::{Found, share};
use super::rule::NoteJudgement::{Cell, Invalid, Remark, Suspect};
use super::rule::NoteRule;
use crate::effects::Effects;
use crate::shown::{ShownFigure, is_too_few};
use tokometer_base::units::counted;
use tokometer_figures::Unjudged;
use tokometer_figures::steady::{LoadClass, MissingLength, Unsteady, missing_length};
use tokometer_figures::summary::Ended;
use tokometer_figures::{Quantity, Summary, statistics};
use tokometer_record::{FailureKind, Stop};

pub(super) static RUN: &[NoteRule] = &[
    NoteRule {
        code: NoteCode::NoSuccess,
        severity: Invalid,
        about: ALL,
        limit: 0.0,
        threshold: "no request succeeded",
        why: "there is nothing to measure",
        action: "read the causes of the failures; `--debug` shows one request and its answer",
        check: no_success,
    },
    NoteRule {
        code: NoteCode::OtherClients,
        severity: Suspect,
        about: About {
            key: "all",
            // The rate of an open loop is the plan's, whoever else uses the server.
            concerns: |shown, summary| summary.load_class != LoadClass::Open || !shown.is_rate(),
        },
        limit: 0.05,
        threshold: "the server generated or held over {} % more than this client requested",
        why: "another client used the server during the run",
        action: "repeat the run on a server without other clients",
        check: other_clients,
    },
    NoteRule {
        code: NoteCode::FewSamples,
        severity: Cell,
        about: About { concerns: is_unsupported, ..TTFT },
        limit: 0.0,
        threshold: "too few effective requests for the two-sided 95 % confidence interval of a requested percentile, or a run that is too short for it; requests that are slow together count as fewer",
        why: "one or two slow moments decide the value",
        action: "run longer or use a lower percentile",
        check: few_samples,
    },
    NoteRule {
        code: NoteCode::NoSteadyState,
        severity: Suspect,
        about: About {
            key: "output_tokens_per_s",
            // Where the load is the plan's, a trend is one of the latencies.
            concerns: |shown, summary| match summary.load_class {
                LoadClass::Open => shown.depends_on_load(),
                _ => shown.is_rate(),
            },
        },
        limit: 0.0,
        threshold: "no trend-free stretch of at least 3× mean E2E at full load",
        why: "the figures mix ramp-up, full load and drain, and depend on the length of the run",
        action: "run longer",
        check: no_steady_state,
    },
    NoteRule {
        code: NoteCode::ShortSteadyState,
        severity: Remark,
        about: OUTPUT_RATE,
        limit: 5.0,
        threshold: "the steady part is shorter than {}× mean E2E",
        why: "a trend of that length is hard to see",
        action: "run longer",
        check: short_steady_state,
    },
    NoteRule {
        code: NoteCode::Overloaded,
        severity: Suspect,
        about: About {
            // What waits ever longer for its first token also ends ever later.
            concerns: |shown, _| {
                shown.metric.key.starts_with("ttft_") || shown.metric.key.starts_with("e2e_")
            },
            ..TTFT
        },
        limit: 0.0,
        threshold: "the backlog of an open loop grew over the run, by 5 % of the arrivals or, without a steady part, by a quarter of itself",
        why: "the server does not keep up: latency depends on how long the run is",
        action: "lower the rate; find the highest sustainable rate with `tokometer capacity`",
        check: overloaded,
    },
    NoteRule {
        code: NoteCode::Burst,
        severity: Remark,
        about: TTFT,
        limit: 0.0,
        threshold: "all requests were sent at once without a cap",
        why: "TTFT is mostly the wait in the server's queue, and depends on the number of requests",
        action: "set --max-concurrency or --request-rate to measure a realistic load",
        check: burst,
    },
    NoteRule {
        code: NoteCode::Failures,
        severity: Suspect,
        about: ALL,
        limit: 0.01,
        threshold: "at least {} % of the requests failed",
        why: "failed requests count as infinitely slow, and the server has less work",
        action: "read the failures by kind",
        check: failures,
    },
    NoteRule {
        code: NoteCode::FewFailures,
        severity: Remark,
        about: ALL,
        limit: 0.01,
        threshold: "some requests failed, fewer than {} %",
        why: "failed requests count as infinitely slow",
        action: "read the failures by kind",
        check: few_failures,
    },
    NoteRule {
        code: NoteCode::PartialRun,
        severity: Suspect,
        about: ALL,
        limit: 0.0,
        threshold: "the run ended early",
        why: "the figures are those of a part of the planned load",
        action: "repeat the run and let it finish",
        check: partial_run,
    },
    NoteRule {
        code: NoteCode::SimulatedTarget,
        severity: Remark,
        about: ALL,
        limit: 0.0,
        threshold: "the target was the embedded simulator",
        why: "the figures describe a model, not a server",
        action: "pass a server with --base-url",
        check: simulated_target,
    },
    NoteRule {
        code: NoteCode::DroppedFields,
        severity: Remark,
        about: ALL,
        limit: 0.0,
        threshold: "the server rejected optional fields, which were then omitted",
        why: "the requests differ slightly from the requested ones",
        action: "check whether the server has another name for them",
        check: dropped_fields,
    },
    NoteRule {
        code: NoteCode::Retries,
        severity: Remark,
        about: ALL,
        limit: 0.0,
        threshold: "requests were retried",
        why: "the figures include only the last attempt; earlier attempts are in the record",
        action: "read the attempts in the record",
        check: retries,
    },
    NoteRule {
        code: NoteCode::Preemptions,
        severity: Remark,
        about: GAPS,
        limit: 0.0,
        threshold: "the server preempted requests",
        why: "its KV cache was full: preempted requests stall and are recomputed",
        action: "lower the concurrency, or give the KV cache more memory",
        check: preemptions,
    },
    NoteRule {
        code: NoteCode::Preparation,
        severity: Remark,
        about: ALL,
        limit: 0.0,
        threshold: "a preparation step of the run left a remark",
        why: "it describes how the command was executed",
        action: "none needed if this is intended",
        check: preparation,
    },
];

fn no_success(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let counts = &run.summary.counts;
    (counts.succeeded + counts.cancelled == 0)
        .then(|| format!("none of {} requests succeeded", counts.sent))
}

fn other_clients(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let server = run.summary.server.as_ref()?;
    // Requests that did not succeed generated tokens too, so only a complete run can be compared.
    let counts = &run.summary.counts;
    let is_whole = counts.failed + counts.cancelled + counts.abandoned + counts.retries == 0;
    let is_bounded = run.observed.side_unlimited == 0;
    let ours = run.summary.figure("total_output_tokens").filter(|_| is_whole && is_bounded);
    let ours = ours.map(|load| load + run.observed.side_tokens as f64);
    if let (Some(theirs), Some(ours)) = (server.generation_tokens, ours)
        && theirs > ours * (1.0 + limit)
    {
        return Some(format!(
            "the server generated {theirs:.0} tokens, {ours:.0} of them for this client"
        ));
    }
    // Each choice of a response, and each input of a batch, is a request inside the server.
    let has_items = run.summary.figure("total_items").is_some();
    if run.observed.several_choices > 0 || has_items {
        return None;
    }
    let (present, peak) = (server.present_max?, run.summary.figure("peak_in_flight")?);
    (present > peak * (1.0 + limit) + 2.0).then(|| {
        format!("the server held {present:.0} requests, at most {peak:.0} of them from this client")
    })
}

fn few_samples(run: &Unjudged, _: &Effects, _: f64) -> Found {
    // Overload has its own note: no length of a run is enough then.
    if run.overload.is_some() {
        return None;
    }
    let doubtful = |quantity: Quantity| {
        let values = run.summary.distribution(quantity).filter(|values| !values.is_withheld)?;
        let worst = values.percentiles.iter().rfind(|one| one.is_doubtful())?;
        Some((quantity, values, worst))
    };
    let (quantity, values, worst) = Quantity::LATENCIES.into_iter().find_map(doubtful)?;
    let needed = statistics::needed_samples(worst.percent)?;
    let what = format!("P{} {}", worst.percent, quantity.label());
    let count = values.count;
    if count < needed {
        return Some(format!("{what} needs {needed} requests, the run has {count}"));
    }
    let long = values.times_as_long(worst.percent).map_or(String::new(), |times| {
        format!(": about {:.0} times its length would do", times.ceil())
    });
    Some(if worst.is_supported {
        format!(
            "the run is too short for the interval of {what}, as requests were slow together{long}"
        )
    } else {
        format!("the slowest of {count} requests came together, too few moments for {what}{long}")
    })
}

fn no_steady_state(run: &Unjudged, _: &Effects, _: f64) -> Found {
    // Overload has its own note.
    if run.overload.is_some() || run.summary.counts.succeeded == 0 {
        return None;
    }
    match run.unsteady? {
        Unsteady::Designed => None,
        Unsteady::NeverFull => Some("the concurrency cap was never reached".to_owned()),
        Unsteady::TooShort => {
            let missing = missing_length(&run.rows, &run.info.load);
            Some(missing.map_or("the run is too short".to_owned(), too_short))
        }
        Unsteady::Sloping => {
            Some("requests in flight or completions kept rising or falling".to_owned())
        }
    }
}

fn too_short(missing: MissingLength) -> String {
    let MissingLength { stays, needed, more } = missing;
    let seconds = more.as_secs_f64().ceil().max(1.0);
    format!(
        "{stays:.1}× mean E2E are left at full load, and {needed}× are needed: {seconds:.0} s more"
    )
}

fn short_steady_state(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let stays = run.summary.steady.as_ref()?.mean_stays?;
    (stays < limit).then(|| format!("the steady part lasts {stays:.1}× mean E2E"))
}

fn overloaded(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let found = run.overload?;
    Some(format!(
        "the backlog grew by {:.2} requests per second, to {} at the last arrival",
        found.growth_per_s, found.backlog
    ))
}

fn burst(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let sent = run.summary.counts.sent;
    (run.summary.load_class == LoadClass::Burst && sent > 1)
        .then(|| format!("{sent} requests were sent at once"))
}

fn failures(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let (failed, ended) = failed(run);
    (failed > 0 && share(failed, ended) >= limit)
        .then(|| format!("{failed} of {ended} requests failed"))
}

fn few_failures(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let (failed, ended) = failed(run);
    (failed > 0 && share(failed, ended) < limit)
        .then(|| format!("{failed} of {ended} requests failed"))
}

fn partial_run(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let counts = &run.summary.counts;
    let reason = match run.summary.ended {
        Ended::Complete => return None,
        Ended::Killed => "the program was killed",
        Ended::Early(Stop::DiskFull) => {
            let why = run.health.as_ref().and_then(|health| health.write_failure.as_deref());
            why.unwrap_or(Stop::DiskFull.reason())
        }
        Ended::Early(stop) => stop.reason(),
    };
    let unwritten = run.health.as_ref().map_or(0, |health| health.rows_unwritten);
    let parts = [
        (counts.abandoned, "in flight, so the slowest are missing"),
        (counts.never_sent, "never sent"),
        (unwritten, "ended and missing from the record"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| {
        let was = if count == 1 { "was" } else { "were" };
        format!("{} {was} {what}", counted(count, "request"))
    });
    let missing = parts.collect::<Vec<_>>().join("; ");
    let missing =
        if missing.is_empty() { "every request that was sent is counted" } else { &missing };
    Some(format!("{reason}: {missing}"))
}

fn simulated_target(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let mut targets = run.info.targets.iter();
    let target = targets.find(|target| target.is_simulated)?;
    Some(match target.predicted_engine() {
        Some(engine) => format!("target: none, predicted from the engine profile `{engine}`"),
        None => "target: embedded simulator".to_owned(),
    })
}

fn dropped_fields(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let fields = &run.health.as_ref()?.dropped_fields;
    (!fields.is_empty()).then(|| format!("omitted: {}", fields.join(", ")))
}

fn retries(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let retries = run.summary.counts.retries;
    (retries > 0).then(|| format!("{retries} attempts were retried"))
}

fn preemptions(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let found = run.summary.server.as_ref()?.preemptions?;
    (found > 0.0).then(|| format!("the server preempted requests {found:.0} times"))
}

fn preparation(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let remarks = &run.info.remarks;
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

/// Requests that failed for the server's sake, and all that ended.
fn failed(run: &Unjudged) -> (u64, u64) {
    let counts = &run.summary.counts;
    let by_server = counts.failed.saturating_sub(failed_here(run));
    (by_server, counts.failed + counts.succeeded)
}

/// Requests that failed for the sake of this machine.
pub(super) fn failed_here(run: &Unjudged) -> u64 {
    let groups = run.summary.failures.iter();
    groups.filter(|group| group.kind == FailureKind::Client).map(|group| group.count).sum()
}

fn is_unsupported(shown: &ShownFigure, summary: &Summary) -> bool {
    let values = summary.distribution(shown.metric.key);
    values.zip(shown.statistic.percentile()).is_some_and(|(values, one)| is_too_few(values, one))
}
