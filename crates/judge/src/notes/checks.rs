//! The checks of the table: each returns what it found, with numbers, or `None`.

use tokometer_base::units::counted;
use tokometer_base::{IgnoreEos, Nanos};
use tokometer_record::{FailureKind, RunInfo, Stop};

use super::client_checks::has_moved;
use super::note::CheckInput;
use tokometer_figures::observe::Pair;
use tokometer_figures::statistics;
use tokometer_figures::steady::{LoadClass, Unsteady};
use tokometer_figures::summary::Ended;

type Found = Option<String>;

pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A duration as a share of the run's length.
pub(super) fn of_run(evidence: &CheckInput<'_>, span: Option<Nanos>) -> Option<f64> {
    let seconds = evidence.summary.duration_s.filter(|seconds| *seconds > 0.0)?;
    Some(span?.as_secs_f64() / seconds)
}

pub(super) fn no_success(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let counts = &evidence.summary.counts;
    (counts.succeeded == 0).then(|| format!("none of {} requests succeeded", counts.sent))
}

pub(super) fn lost_stamps(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let seen = evidence.observed;
    let all = seen.user_stamped + seen.kernel_stamped + seen.tls_stamped;
    let found = share(seen.user_stamped, all);
    (found > limit && seen.user_stamped < all)
        .then(|| format!("{} of {all} answers lack kernel timestamps", seen.user_stamped))
}

pub(super) fn user_stamps(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let seen = evidence.observed;
    (seen.user_stamped > 0 && seen.kernel_stamped + seen.tls_stamped == 0)
        .then(|| format!("all {} answers were timed in user space", seen.user_stamped))
}

pub(super) fn clock_step(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let steps = evidence.health?.clock_steps;
    (steps > 0).then(|| format!("the wall clock was stepped {steps} times"))
}

pub(super) fn clock_faults(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let (faults, sent) = (evidence.observed.clock_faults, evidence.summary.counts.sent);
    (share(faults, sent) > limit)
        .then(|| format!("{faults} of {sent} requests have an event that precedes its cause"))
}

fn disagreement(pair: &Pair, limit: f64, names: [&str; 2]) -> Found {
    let difference = pair.difference()?;
    let Pair { requests, left, right } = pair;
    (difference.abs() > limit).then(|| {
        let [left_name, right_name] = names;
        format!("{left_name} {left} tokens, {right_name} {right}, over {requests} requests")
    })
}

pub(super) fn events_disagree(evidence: &CheckInput<'_>, limit: f64) -> Found {
    disagreement(&evidence.observed.usage_and_events, limit, ["usage reports", "the events carry"])
}

pub(super) fn text_disagrees(evidence: &CheckInput<'_>, limit: f64) -> Found {
    disagreement(
        &evidence.observed.usage_and_text,
        limit,
        ["usage reports", "the retokenized text has"],
    )
}

pub(super) fn answer_length(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let lengths = &evidence.observed.answer_lengths;
    let is_meant = lengths.right < lengths.left && !is_eos_ignored(evidence);
    disagreement(lengths, limit, ["requested", "received"]).filter(|_| is_meant)
}

pub(super) fn ended_answers(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let lengths = &evidence.observed.answer_lengths;
    let is_meant = lengths.right < lengths.left && is_eos_ignored(evidence);
    disagreement(lengths, limit, ["requested", "received"]).filter(|_| is_meant)
}

/// Whether the requests set `ignore_eos`.
fn is_eos_ignored(evidence: &CheckInput<'_>) -> bool {
    evidence.info.ignore_eos().is_some_and(|rule| rule != IgnoreEos::Off)
}

pub(super) fn long_answers(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let lengths = &evidence.observed.answer_lengths;
    let is_longer = lengths.right > lengths.left;
    disagreement(lengths, limit, ["requested", "received"]).filter(|_| is_longer)
}

pub(super) fn server_counted_less(evidence: &CheckInput<'_>, limit: f64) -> Found {
    // A counter that was not scraped after the run, or was reset, covers only a part of it.
    let server = evidence.summary.server.as_ref().filter(|server| server.is_whole)?;
    let theirs = server.generation_tokens?;
    let ours = evidence.summary.figure("total_output_tokens").filter(|ours| *ours > 0.0)?;
    (theirs < ours * (1.0 - limit)).then(|| {
        format!("the server's counter rose by {theirs:.0} tokens, this client counted {ours:.0}")
    })
}

pub(super) fn other_clients(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let server = evidence.summary.server.as_ref()?;
    // Failed and abandoned requests generated tokens too, so only a complete run can be compared.
    let counts = &evidence.summary.counts;
    let is_whole = counts.failed == 0 && counts.abandoned == 0 && counts.retries == 0;
    let is_bounded = evidence.observed.side_unlimited == 0;
    let ours = evidence.summary.figure("total_output_tokens").filter(|_| is_whole && is_bounded);
    let ours = ours.map(|load| load + evidence.observed.side_tokens as f64);
    if let (Some(theirs), Some(ours)) = (server.generation_tokens, ours)
        && theirs > ours * (1.0 + limit)
    {
        return Some(format!(
            "the server generated {theirs:.0} tokens, {ours:.0} of them for this client"
        ));
    }
    // Each choice of a response, and each input of a batch, is a request inside the server.
    let has_items = evidence.summary.figure("total_items").is_some();
    if evidence.observed.several_choices > 0 || has_items {
        return None;
    }
    let (present, peak) = (server.present_max?, evidence.summary.figure("peak_in_flight")?);
    (present > peak * (1.0 + limit) + 2.0).then(|| {
        format!("the server held {present:.0} requests, at most {peak:.0} of them from this client")
    })
}

pub(super) fn prompt_length(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let Pair { requests, left, right } = evidence.observed.prompt_lengths;
    let surplus = evidence.observed.least_surplus.unwrap_or(0).max(0).unsigned_abs();
    let counted = right.saturating_sub(surplus.saturating_mul(requests));
    if left == 0 || (counted as f64 / left as f64 - 1.0).abs() <= limit {
        return None;
    }
    let template = match surplus {
        0 => String::new(),
        tokens => format!(" plus {tokens} chat-template tokens per request"),
    };
    Some(format!("{left} prompt tokens were planned, the server counted {counted}{template}"))
}

pub(super) fn missing_usage(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let seen = evidence.observed;
    let from_text = seen.count_sources.get("retokenized").copied().unwrap_or(0);
    let succeeded = evidence.summary.counts.succeeded;
    (share(from_text + seen.uncounted, succeeded) > limit).then(|| {
        format!(
            "{from_text} of {succeeded} answers were counted from their text, {} could not be counted",
            seen.uncounted
        )
    })
}

pub(super) fn usage_contradicts(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let (found, succeeded) = (evidence.observed.contradictions, evidence.summary.counts.succeeded);
    (share(found, succeeded) > limit)
        .then(|| format!("{found} of {succeeded} answers have more content events than tokens"))
}

pub(super) fn impossible_numbers(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let of_answers = evidence.observed.ignored.iter();
    let of_answers = of_answers.map(|(name, answers)| format!("{name} of {answers} answers"));
    let server = evidence.summary.server.as_ref();
    let of_server = server.into_iter().flat_map(|server| server.ignored.iter().cloned());
    let all: Vec<String> = of_answers.chain(of_server).collect();
    (!all.is_empty()).then(|| format!("ignored: {}", all.join(", ")))
}

pub(super) fn shared_reads(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let found = evidence.summary.figure("shared_read_share")?;
    (found > limit || has_moved(evidence, "shared-reads")).then(|| {
        format!(
            "{} of the content events arrived in the same read as the previous one",
            percent(found)
        )
    })
}

pub(super) fn merged_segments(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let found = evidence.summary.figure("merged_inner_share")?;
    (found > limit).then(|| {
        format!(
            "{} of the content events have only an upper-bound time and are not their answer's last",
            percent(found)
        )
    })
}

pub(super) fn cap_hits(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let waits = evidence.health?.cap_waits;
    let sent = evidence.summary.counts.sent;
    let is_open = evidence.summary.load_class == LoadClass::Open;
    (is_open && share(waits, sent) > limit)
        .then(|| format!("{waits} of {sent} requests waited for the concurrency cap"))
}

pub(super) fn retransmits(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let seen = evidence.observed;
    let is_frequent = share(seen.retransmitting, seen.network_views) > limit;
    (is_frequent || has_moved(evidence, "retransmits")).then(|| {
        format!(
            "{} of {} requests had TCP retransmissions",
            seen.retransmitting, seen.network_views
        )
    })
}

pub(super) fn outside_server(evidence: &CheckInput<'_>, limit: f64) -> Found {
    evidence.effects.of_note("outside-server").filter(|(_, share)| *share > limit)?;
    let server = evidence.summary.server.as_ref()?;
    let beside = |name: &str, key: &str, theirs: Option<f64>| {
        let ours = evidence.summary.distribution(key)?.mean?;
        Some(format!("mean {name} is {ours:.1} ms here and {:.1} ms in the server", theirs?))
    };
    let both = [
        beside("TTFT", "ttft_ms", server.ttft_ms_mean),
        beside("E2E", "e2e_ms", server.e2e_ms_mean),
    ];
    Some(both.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

pub(super) fn round_trip_outliers(evidence: &CheckInput<'_>, times: f64) -> Found {
    const NAMED: usize = 3;
    let mut trips = evidence.observed.round_trips.clone();
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

pub(super) fn descriptor_limit(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let allowed = evidence.health?.descriptor_limit.filter(|allowed| *allowed > 0)?;
    let peak = evidence.summary.figure("peak_in_flight")?;
    (peak >= limit * allowed as f64).then(|| {
        format!("{peak:.0} requests were in flight, the file-descriptor limit is {allowed}")
    })
}

pub(super) fn port_limit(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let health = evidence.health?;
    let ports = health.port_limit.filter(|ports| *ports > 0)?;
    let opened = health.connections_opened;
    (opened as f64 >= limit * f64::from(ports))
        .then(|| format!("{opened} connections were opened, there are {ports} local ports"))
}

/// Datasets whose prompts have no common prefix, unless the plan asks for one.
const UNSHARED: [&str; 6] = ["random", "random-ids", "random-mm", "image", "burstgpt", "book"];
/// Tokens that every prompt of a tokenizer may begin with: a cache that compares token by token finds
/// them again.
const SPECIAL_TOKENS: u64 = 1;
/// Datasets whose planned prompt length is that of the text alone.
const WITH_MEDIA: [&str; 2] = ["random-mm", "image"];
/// Most tokens of a chat template. With media the surplus of a prompt is mostly theirs.
const TEMPLATE_MOST: u64 = 128;

fn promises_unshared_prompts(info: &RunInfo) -> bool {
    let option = |key: &str| info.plan.get("workload").and_then(|workload| workload.get(key));
    let prefix = option("prefix_len").and_then(serde_json::Value::as_u64);
    // Blank images are all alike.
    let is_blank = option("image_content").is_some_and(|content| content == "blank");
    UNSHARED.contains(&info.dataset.as_str()) && prefix.unwrap_or(0) == 0 && !is_blank
}

pub(super) fn warm_cache(evidence: &CheckInput<'_>, limit: f64) -> Found {
    if !promises_unshared_prompts(evidence.info) {
        return None;
    }
    let seen = evidence.observed;
    // All prompts begin with the same part of the chat template.
    let surplus = seen.least_surplus.unwrap_or(0).max(0).unsigned_abs();
    let has_media = WITH_MEDIA.contains(&evidence.info.dataset.as_str());
    let template = if has_media { surplus.min(TEMPLATE_MOST) } else { surplus } + SPECIAL_TOKENS;
    let Pair { requests, left, right } = seen.cached;
    let unexplained = right.saturating_sub(template * requests);
    let reported = (left > 0).then(|| unexplained as f64 / left as f64);
    let server = evidence.summary.server.as_ref().filter(|_| seen.later_turns == 0);
    let explained = share(template * seen.prompt_lengths.requests, seen.prompt_lengths.right);
    let scraped = server.and_then(|server| server.prefix_hit_share).map(|hits| hits - explained);
    let found = reported.or(scraped)?;
    (found >= limit).then(|| {
        let beyond = if seen.least_surplus > Some(0) { " beyond the chat template" } else { "" };
        format!("{} of the prompt tokens were prefix-cache hits{beyond}", percent(found))
    })
}

pub(super) fn few_samples(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let distribution = |key: &str| evidence.summary.distribution(key);
    let found = distribution("ttft_ms").or_else(|| distribution("e2e_ms"))?;
    let worst = found.percentiles.iter().rfind(|percentile| !percentile.is_supported)?;
    let needed = statistics::needed_samples(worst.percent)?;
    let few = format!("P{} needs {needed} requests, the run has {}", worst.percent, found.count);
    let together = if found.count < needed { "" } else { ", and the slowest came together" };
    Some(few + together)
}

pub(super) fn no_steady_state(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    // Overload has its own note.
    if evidence.overload.is_some() || evidence.summary.counts.succeeded == 0 {
        return None;
    }
    match evidence.unsteady? {
        Unsteady::Designed => None,
        Unsteady::NeverFull => Some("the concurrency cap was never reached".to_owned()),
        Unsteady::TooShort => Some("the part at full load is shorter than 3× mean E2E".to_owned()),
        Unsteady::Sloping => {
            Some("requests in flight or completions kept rising or falling".to_owned())
        }
    }
}

pub(super) fn short_steady_state(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let stays = evidence.summary.steady.as_ref()?.mean_stays?;
    (stays < limit).then(|| format!("the steady part lasts {stays:.1}× mean E2E"))
}

pub(super) fn overloaded(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let found = evidence.overload?;
    Some(format!(
        "the backlog grew by {:.2} requests per second, to {} at the last arrival",
        found.growth_per_s, found.backlog
    ))
}

pub(super) fn burst(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let sent = evidence.summary.counts.sent;
    (evidence.summary.load_class == LoadClass::Burst && sent > 1)
        .then(|| format!("{sent} requests were sent at once"))
}

/// Requests that failed for the server's sake, and all that ended.
fn failed(evidence: &CheckInput<'_>) -> (u64, u64) {
    let counts = &evidence.summary.counts;
    let by_server = counts.failed.saturating_sub(failed_here(evidence));
    (by_server, counts.failed + counts.succeeded)
}

/// Requests that failed for the sake of this machine.
fn failed_here(evidence: &CheckInput<'_>) -> u64 {
    let groups = evidence.summary.failures.iter();
    groups.filter(|group| group.kind == FailureKind::Client).map(|group| group.count).sum()
}

pub(super) fn client_limit(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let failed = failed_here(evidence);
    let mut groups = evidence.summary.failures.iter();
    let group = groups.find(|group| group.kind == FailureKind::Client)?;
    Some(format!("{failed} requests could not be sent: {}", group.example))
}

pub(super) fn failures(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let (failed, ended) = failed(evidence);
    (failed > 0 && share(failed, ended) >= limit)
        .then(|| format!("{failed} of {ended} requests failed"))
}

pub(super) fn few_failures(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let (failed, ended) = failed(evidence);
    (failed > 0 && share(failed, ended) < limit)
        .then(|| format!("{failed} of {ended} requests failed"))
}

pub(super) fn partial_run(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let counts = &evidence.summary.counts;
    let reason = match evidence.summary.ended {
        Ended::Complete => return None,
        Ended::Killed => "the program was killed",
        Ended::Early(Stop::DiskFull) => {
            let why = evidence.health.and_then(|health| health.write_failure.as_deref());
            why.unwrap_or(Stop::DiskFull.reason())
        }
        Ended::Early(stop) => stop.reason(),
    };
    let (abandoned, never) = (counts.abandoned, counts.never_sent);
    let unwritten = evidence.health.map_or(0, |health| health.rows_unwritten);
    let missing = match unwritten {
        0 => String::new(),
        count => format!(", {count} ended and are missing from the record"),
    };
    let in_flight = counted(abandoned, "request");
    let was = if abandoned == 1 { "was" } else { "were" };
    Some(format!("{reason}: {in_flight} {was} in flight, {never} never sent{missing}"))
}

pub(super) fn slow_disk(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let health = evidence.health?;
    let wait = health.disk_wait.filter(|wait| wait.as_secs_f64() >= limit)?;
    let rows = health.rows_waiting_max;
    let seconds = wait.as_secs_f64();
    Some(format!(
        "the disk took {seconds:.1} s for one write, and up to {rows} rows waited in memory"
    ))
}

pub(super) fn same_host(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let is_simulated = evidence.info.targets.iter().any(|target| target.is_simulated);
    let health = evidence.health?;
    // One core is the more severe form of the same remark.
    (health.is_same_host == Some(true) && !is_simulated && health.cores != Some(1))
        .then(|| "client and server share this host".to_owned())
}

pub(super) fn one_core(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let health = evidence.health?;
    let is_alone = f64::from(health.cores?) <= limit;
    (is_alone && health.is_same_host == Some(true))
        .then(|| "this client has one core, and the server runs on the same host".to_owned())
}

pub(super) fn simulated_target(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let mut targets = evidence.info.targets.iter();
    let target = targets.find(|target| target.is_simulated)?;
    Some(match target.predicted_engine() {
        Some(engine) => format!("target: none, predicted from the engine profile `{engine}`"),
        None => "target: embedded simulator".to_owned(),
    })
}

pub(super) fn proxy(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let proxy = evidence.info.targets.iter().find_map(|target| target.proxy.as_ref())?;
    Some(format!("requests went through the proxy {proxy}"))
}

pub(super) fn dropped_fields(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let fields = &evidence.health?.dropped_fields;
    (!fields.is_empty()).then(|| format!("omitted: {}", fields.join(", ")))
}

pub(super) fn reopened(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let reopened = evidence.observed.reopened;
    (reopened > 0).then(|| {
        format!("{reopened} requests were sent on a connection that the server had closed")
    })
}

pub(super) fn retries(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let retries = evidence.summary.counts.retries;
    (retries > 0).then(|| format!("{retries} attempts were retried"))
}

pub(super) fn preemptions(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let found = evidence.summary.server.as_ref()?.preemptions?;
    (found > 0.0).then(|| format!("the server preempted requests {found:.0} times"))
}

pub(super) fn preparation(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let remarks = &evidence.info.remarks;
    (!remarks.is_empty()).then(|| remarks.join("; "))
}
