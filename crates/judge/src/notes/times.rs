//! Notes about timestamps, and about what lies between the server and the reading of them.

use super::NoteCode;
use super::about::{ALL, About, CONNECT, E2E, GAPS, TTFT};
use super::note::{Found, has_moved, percent, share};
use super::rule::NoteJudgement::{ByEffect, Invalid, Remark, Suspect, SuspectByEffect};
use super::rule::NoteRule;
use crate::effects::Effects;
use crate::limits::OUTSIDE_SERVER;
use crate::shown::ShownFigure;
use tokometer_base::Nanos;
use tokometer_figures::Unjudged;
use tokometer_figures::steps::SHARED_READS_MAX;
use tokometer_figures::{Quantity, Summary};

pub(super) static TIMES: &[NoteRule] = &[
    NoteRule {
        code: NoteCode::LostStamps,
        severity: Invalid,
        about: GAPS,
        limit: 0.01,
        threshold: "more than {} %, but not all, of the answers lack kernel timestamps",
        why: "one distribution mixes two clocks of different quality",
        action: "repeat the run; if the note fires again, report a bug with the kernel version",
        check: lost_stamps,
    },
    NoteRule {
        code: NoteCode::ClockStep,
        severity: ByEffect,
        about: ALL,
        limit: 0.0,
        threshold: "the wall clock was stepped during the run",
        why: "kernel timestamps are wall-clock times: those of packets that lay unread at the step may be wrong by its size",
        action: "if figures are affected, stop time synchronisation from stepping the clock and repeat the run",
        check: clock_step,
    },
    NoteRule {
        code: NoteCode::ClockFaults,
        severity: Invalid,
        about: ALL,
        limit: 0.001,
        threshold: "more than {} % of the requests have an event that precedes its cause by over 100 µs",
        why: "kernel timestamps and the user-space clock disagree",
        action: "check the machine's clock source; repeat the run",
        check: clock_faults,
    },
    NoteRule {
        code: NoteCode::UserStamps,
        severity: Suspect,
        about: GAPS,
        limit: 0.0,
        threshold: "no answer has kernel timestamps",
        why: "times are taken after the read returns, so they include the client's own delay",
        action: "run on Linux with software timestamps allowed, without --stamps user",
        check: user_stamps,
    },
    NoteRule {
        code: NoteCode::SharedReads,
        severity: Suspect,
        about: About {
            concerns: |shown, summary| (GAPS.concerns)(shown, summary) && is_widely_shared(summary),
            ..GAPS
        },
        limit: SHARED_READS_MAX,
        threshold: "more than {} % of the content events arrived in the same read as the previous one, or such reads moved a figure by more than 1 %",
        why: "a server, a proxy or the network held tokens back and sent them together: the times between them are unknown, and the first and last tokens may be late",
        action: "look for a proxy that joins events, or a path that stalls",
        check: shared_reads,
    },
    NoteRule {
        code: NoteCode::MergedSegments,
        severity: Suspect,
        about: About { concerns: is_tail_merged, ..GAPS },
        limit: 0.005,
        threshold: "more than {} % of the content events, without the last of each answer, came in reads that merged segments",
        why: "their times are upper bounds: they arrived then or earlier (a last token merges with usage and the end mark, within the delay that `slow-reads` checks)",
        action: "use --socket-reads eager or fewer streams per client",
        check: merged_segments,
    },
    NoteRule {
        code: NoteCode::Retransmits,
        severity: SuspectByEffect,
        about: TTFT,
        limit: 0.01,
        threshold: "more than {} % of the requests had TCP retransmissions, or these may have moved a figure by more than 1 %",
        why: "the network lost packets: a retransmission adds 200 ms or more to a first token, or to the end of an answer",
        action: "check the network path between client and server",
        check: retransmits,
    },
    NoteRule {
        code: NoteCode::OutsideServer,
        severity: SuspectByEffect,
        about: E2E,
        limit: OUTSIDE_SERVER,
        threshold: "mean E2E is over {} %, or mean TTFT over 20 %, longer than the server's own mean and a round trip, and the server counted the same requests",
        why: "a proxy or the server's HTTP layer added this time to every answer",
        action: "measure without the proxy, or look for an HTTP layer that has no free core",
        check: outside_server,
    },
    NoteRule {
        code: NoteCode::RoundTripOutliers,
        severity: Remark,
        about: TTFT,
        limit: 10.0,
        threshold: "a round trip to a server on another host is above 10 ms and {} times the median",
        why: "single requests took a slow network path",
        action: "compare the requests named here with the others",
        check: round_trip_outliers,
    },
    NoteRule {
        code: NoteCode::CompressedStream,
        severity: Suspect,
        about: GAPS,
        limit: 0.0,
        threshold: "the server compressed an answer though it was asked not to",
        why: "the times of tokens inside a compressed block are unknown: all have the time of its end",
        action: "turn compression off in the server or in the proxy in front of it",
        check: compressed_stream,
    },
    NoteRule {
        code: NoteCode::Proxy,
        severity: Remark,
        about: ALL,
        limit: 0.0,
        threshold: "requests went through a proxy",
        why: "times include the proxy, and a proxy may hold events back",
        action: "use --no-proxy, or name the server in NO_PROXY, to measure it directly",
        check: proxy,
    },
    NoteRule {
        code: NoteCode::ReopenedConnections,
        severity: Remark,
        about: CONNECT,
        limit: 0.0,
        threshold: "the server had closed keep-alive connections, which were opened again",
        why: "the server had closed these keep-alive connections and acknowledged nothing; the requests were \
              sent again on a new one, and their times start there",
        action: "none needed; --connections per-request opens a connection for every request",
        check: reopened,
    },
];

fn lost_stamps(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let seen = &run.observed;
    let all = seen.user_stamped + seen.kernel_stamped + seen.tls_stamped;
    let found = share(seen.user_stamped, all);
    (found > limit && seen.user_stamped < all)
        .then(|| format!("{} of {all} answers lack kernel timestamps", seen.user_stamped))
}

fn clock_step(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let steps = run.health.as_ref()?.clock_steps;
    (steps > 0).then(|| format!("the wall clock was stepped {steps} times"))
}

fn clock_faults(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let (faults, sent) = (run.observed.clock_faults, run.summary.counts.sent);
    (share(faults, sent) > limit)
        .then(|| format!("{faults} of {sent} requests have an event that precedes its cause"))
}

fn user_stamps(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let seen = &run.observed;
    (seen.user_stamped > 0 && seen.kernel_stamped + seen.tls_stamped == 0)
        .then(|| format!("all {} answers were timed in user space", seen.user_stamped))
}

fn shared_reads(run: &Unjudged, effects: &Effects, limit: f64) -> Found {
    let found = run.summary.figure("shared_read_share")?;
    (found > limit || has_moved(effects, NoteCode::SharedReads)).then(|| {
        format!(
            "{} of the content events arrived in the same read as the previous one",
            percent(found)
        )
    })
}

fn merged_segments(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let found = run.summary.figure("merged_inner_share")?;
    (found > limit).then(|| {
        format!(
            "{} of the content events have only an upper-bound time and are not their answer's last",
            percent(found)
        )
    })
}

fn retransmits(run: &Unjudged, effects: &Effects, limit: f64) -> Found {
    let seen = &run.observed;
    let is_frequent = share(seen.retransmitting, seen.network_views) > limit;
    (is_frequent || has_moved(effects, NoteCode::Retransmits)).then(|| {
        format!(
            "{} of {} requests had TCP retransmissions",
            seen.retransmitting, seen.network_views
        )
    })
}

fn outside_server(run: &Unjudged, effects: &Effects, limit: f64) -> Found {
    effects.of_note(NoteCode::OutsideServer).filter(|(_, share)| *share > limit)?;
    let server = run.summary.server.as_ref()?;
    let beside = |quantity: Quantity, theirs: Option<f64>| {
        let (name, ours) = (quantity.label(), run.summary.mean(quantity)?);
        Some(format!("mean {name} is {ours:.1} ms here and {:.1} ms in the server", theirs?))
    };
    let both =
        [beside(Quantity::Ttft, server.ttft_ms_mean), beside(Quantity::E2e, server.e2e_ms_mean)];
    Some(both.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn round_trip_outliers(run: &Unjudged, _: &Effects, times: f64) -> Found {
    const NAMED: usize = 3;
    // On one host no path is slow: the machine was busy, which has notes of its own.
    run.health.as_ref().filter(|health| health.is_same_host != Some(true))?;
    let mut trips = run.observed.round_trips.clone();
    trips.sort_unstable();
    let median = trips.get(trips.len() / 2)?.0;
    let is_slow = |trip: Nanos| {
        trip > Nanos::from_millis(10) && trip.as_secs_f64() > times * median.as_secs_f64()
    };
    let slow: Vec<_> = trips.iter().rev().take_while(|(trip, _)| is_slow(*trip)).collect();
    let named: Vec<_> =
        slow.iter().take(NAMED).map(|(trip, index)| format!("request {index}: {trip}")).collect();
    (!slow.is_empty()).then(|| {
        format!("slow round trips: {}; the median is {median} ({})", slow.len(), named.join(", "))
    })
}

fn compressed_stream(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let answers = run.health.as_ref()?.compressed_answers;
    (answers > 0).then(|| format!("the server compressed {answers} answers"))
}

fn proxy(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let proxy = run.info.targets.iter().find_map(|target| target.proxy.as_ref())?;
    Some(format!("requests went through the proxy {proxy}"))
}

fn reopened(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let reopened = run.observed.reopened;
    (reopened > 0).then(|| {
        format!("{reopened} requests were sent on a connection that the server had closed")
    })
}

/// Whether so many events shared a read that the distances between them are unknown.
fn is_widely_shared(summary: &Summary) -> bool {
    summary.figure("shared_read_share").is_some_and(|share| share > SHARED_READS_MAX)
}

/// A late stamp moves one gap up and the next one down: their mean stays, and a percentile follows once
/// such gaps are half of what lies beyond it.
fn is_tail_merged(shown: &ShownFigure, summary: &Summary) -> bool {
    let merged = summary.figure("merged_inner_share").unwrap_or(0.0);
    (GAPS.concerns)(shown, summary)
        && shown.statistic.percentile().is_some_and(|one| 2.0 * merged > one.tail())
}
