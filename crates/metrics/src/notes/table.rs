//! The table of notes, and the page written from it.

use std::fmt::Write as _;

use super::checks;
use super::note::{Evidence, Note, Severity};

/// One row: when a note appears, which figures it affects, and what to do.
pub(crate) struct Rule {
    pub(crate) code: &'static str,
    pub(crate) severity: Severity,
    /// Key of the affected figure, or a group of figures.
    pub(crate) figure: &'static str,
    /// The number that replaces `{}` in `threshold`; the check gets it.
    pub(crate) limit: f64,
    pub(crate) threshold: &'static str,
    pub(crate) why: &'static str,
    pub(crate) action: &'static str,
    /// What was found, or nothing.
    pub(crate) check: fn(&Evidence<'_>, f64) -> Option<String>,
}

impl Rule {
    /// The threshold with its number. Shares below one are shown in percent.
    fn threshold_text(&self) -> String {
        let number = if self.threshold.contains("{} %") {
            format!("{}", (self.limit * 1e4).round() / 1e2)
        } else {
            format!("{}", self.limit)
        };
        self.threshold.replace("{}", &number)
    }
}

/// All notes of a run, worst first.
pub(crate) fn find(evidence: &Evidence<'_>) -> Vec<Note> {
    let mut notes: Vec<Note> = RULES
        .iter()
        .filter_map(|rule| {
            (rule.check)(evidence, rule.limit).map(|found| Note {
                code: rule.code.to_owned(),
                severity: rule.severity,
                figure: rule.figure.to_owned(),
                found,
                why: rule.why.to_owned(),
                action: rule.action.to_owned(),
            })
        })
        .collect();
    notes.sort_by_key(|note| std::cmp::Reverse(note.severity));
    notes
}

/// `docs/notes.md`.
pub fn notes_markdown() -> String {
    let mut page = String::from(
        "# Notes and the verdict\n\n\
         Generated from the program's table of notes; do not edit by hand. The worst note sets the verdict.\n\
         INVALID: the measurement failed. SUSPECT: the figures are correct but do not support the obvious\n\
         conclusion. VALID: no such note. A remark does not change the verdict.\n\n\
         | note | severity | affects | appears when | why | what to do |\n|---|---|---|---|---|---|\n",
    );
    for rule in RULES {
        let Rule { code, figure, why, action, .. } = rule;
        let (severity, threshold) = (rule.severity.name(), rule.threshold_text());
        // Writing to a string cannot fail.
        let _ =
            writeln!(page, "| `{code}` | {severity} | {figure} | {threshold} | {why} | {action} |");
    }
    page
}

use Severity::{Invalid, Remark, Suspect};

pub(crate) static RULES: &[Rule] = &[
    Rule {
        code: "no-success",
        severity: Invalid,
        figure: "all",
        limit: 0.0,
        threshold: "no request succeeded",
        why: "there is nothing to measure",
        action: "read the failures below; send one request by hand",
        check: checks::no_success,
    },
    Rule {
        code: "late-sends",
        severity: Invalid,
        figure: "ttft_from_intended_ms",
        limit: 0.01,
        threshold: "more than {} % of the requests were sent over 5 ms late",
        why: "the client was short of CPU: the load was not the requested one, and latencies from the intended time include the client's delay",
        action: "use a machine with free cores, fewer streams per client, or several clients",
        check: checks::late_sends,
    },
    Rule {
        code: "rate-missed",
        severity: Invalid,
        figure: "achieved_rate_per_s",
        limit: 0.05,
        threshold: "the achieved rate differs from the planned rate by more than {} %, without a concurrency cap",
        why: "the server was measured at another load than the requested one",
        action: "lower the rate or use several clients",
        check: checks::rate_missed,
    },
    Rule {
        code: "starved-client",
        severity: Invalid,
        figure: "all",
        limit: 0.2,
        threshold: "a worker thread was runnable but not running for more than {} % of the run",
        why: "the client waited for a CPU: it sent requests late, and segments merged before they were read",
        action: "free cores on this machine, or pin client and server to different cores",
        check: checks::starved,
    },
    Rule {
        code: "throttled-client",
        severity: Invalid,
        figure: "all",
        limit: 0.01,
        threshold: "a cgroup throttled the client for more than {} % of the run",
        why: "a throttled client neither sends nor reads",
        action: "raise the container's CPU limit",
        check: checks::throttled,
    },
    Rule {
        code: "lost-stamps",
        severity: Invalid,
        figure: "gap_ms",
        limit: 0.01,
        threshold: "more than {} %, but not all, of the answers lack kernel timestamps",
        why: "one distribution mixes two clocks of different quality",
        action: "repeat the run; if the note fires again, report a bug with the kernel version",
        check: checks::lost_stamps,
    },
    Rule {
        code: "clock-step",
        severity: Invalid,
        figure: "all",
        limit: 0.0,
        threshold: "the wall clock was stepped during the run",
        why: "kernel timestamps are wall-clock times: those around the step are wrong by its size",
        action: "stop time synchronisation from stepping the clock, then repeat the run",
        check: checks::clock_step,
    },
    Rule {
        code: "clock-faults",
        severity: Invalid,
        figure: "all",
        limit: 0.001,
        threshold: "more than {} % of the requests have an event that precedes its cause by over 100 µs",
        why: "kernel timestamps and the user-space clock disagree",
        action: "check the machine's clock source; repeat the run",
        check: checks::clock_faults,
    },
    Rule {
        code: "token-ids-disagree",
        severity: Invalid,
        figure: "output_tokens",
        limit: 0.01,
        threshold: "the token counts of the events differ from usage by more than {} %",
        why: "one of the two counts is wrong, and so are all per-token figures",
        action: "compare one answer by hand; update the server",
        check: checks::events_disagree,
    },
    Rule {
        code: "server-counted-less",
        severity: Suspect,
        figure: "output_tokens",
        limit: 0.02,
        threshold: "the server's token counter rose by over {} % less than this client counted",
        why: "the scraped server did not generate all counted tokens: a count is wrong, or a replica was not scraped",
        action: "pass every replica with --metrics-url",
        check: checks::server_counted_less,
    },
    Rule {
        code: "other-clients",
        severity: Suspect,
        figure: "all",
        limit: 0.2,
        threshold: "the server generated or held over {} % more than this client requested",
        why: "another client used the server during the run",
        action: "repeat the run on a server without other clients",
        check: checks::other_clients,
    },
    Rule {
        code: "text-disagrees",
        severity: Suspect,
        figure: "output_tokens",
        limit: 0.15,
        threshold: "the retokenized text differs from usage by more than {} %",
        why: "retokenizing is never exact, but at this difference the tokenizer is not the model's, or the server counts something else",
        action: "pass the model's own tokenizer; check whether reasoning is hidden",
        check: checks::text_disagrees,
    },
    Rule {
        code: "prompt-length",
        severity: Suspect,
        figure: "prompt_tokens",
        limit: 0.01,
        threshold: "usage.prompt_tokens differs from the planned length by more than {} % (without the chat template)",
        why: "the prompts do not have the requested length: the tokenizer differs, or the server adds special tokens",
        action: "pass the model's own tokenizer",
        check: checks::prompt_length,
    },
    Rule {
        code: "missing-usage",
        severity: Suspect,
        figure: "output_tokens",
        limit: 0.01,
        threshold: "more than {} % of the answers have neither usage nor token ids",
        why: "their length is estimated from the text, or unknown",
        action: "enable usage in streams on the server, or pass the model's tokenizer",
        check: checks::missing_usage,
    },
    Rule {
        code: "user-stamps",
        severity: Suspect,
        figure: "gap_ms",
        limit: 0.0,
        threshold: "no answer has kernel timestamps",
        why: "times are taken after the read returns, so they include the client's own delay",
        action: "run on Linux with software timestamps allowed, without --stamps user",
        check: checks::user_stamps,
    },
    Rule {
        code: "slow-reads",
        severity: Suspect,
        figure: "gap_ms",
        limit: 20.0,
        threshold: "1 % of the reads returned more than {} ms after the kernel received the bytes",
        why: "segments that wait for a read merge and lose their own timestamps",
        action: "use fewer streams per client, or --harvest eager",
        check: checks::slow_reads,
    },
    Rule {
        code: "shared-reads",
        severity: Suspect,
        figure: "gap_ms",
        limit: crate::collect::SHARED_READ_LIMIT,
        threshold: "more than {} % of the content events arrived in the same read as the previous one",
        why: "gaps inside one read are unknown; percentiles of gaps are withheld",
        action: "use TPOT instead; look for a proxy that joins events",
        check: checks::shared_reads,
    },
    Rule {
        code: "merged-segments",
        severity: Suspect,
        figure: "gap_ms",
        limit: 0.05,
        threshold: "more than {} % of the content events, without the last of each answer, came in reads that merged segments",
        why: "their times are upper bounds: they arrived then or earlier (a last token merges with usage and the end mark, within the delay that `slow-reads` checks)",
        action: "use --harvest eager or fewer streams per client",
        check: checks::merged_segments,
    },
    Rule {
        code: "busy-client",
        severity: Suspect,
        figure: "all",
        limit: 0.9,
        threshold: "a worker thread used more than {} % of a core",
        why: "the client is at its limit and may have reduced the load",
        action: "use more worker threads or several clients",
        check: checks::busy_client,
    },
    Rule {
        code: "stolen-time",
        severity: Suspect,
        figure: "all",
        limit: 0.05,
        threshold: "the hypervisor took more than {} % of the run from this machine (steal time)",
        why: "neither client nor server ran during that time, and no clock shows it",
        action: "repeat the run on a host with less load",
        check: checks::stolen_time,
    },
    Rule {
        code: "cpu-pressure",
        severity: Remark,
        figure: "all",
        limit: 0.4,
        threshold: "tasks on this machine waited for CPU during more than {} % of the run",
        why: "the machine was busy; the other notes show how this affected the client",
        action: "free cores on this machine",
        check: checks::cpu_pressure,
    },
    Rule {
        code: "cap-hits",
        severity: Suspect,
        figure: "achieved_rate_per_s",
        limit: 0.01,
        threshold: "more than {} % of the requests of an open loop waited for the concurrency cap",
        why: "the cap turned the open loop into a closed loop: latencies from the first byte leave out this wait",
        action: "use the latencies from the intended time, or raise --max-concurrency",
        check: checks::cap_hits,
    },
    Rule {
        code: "slow-refill",
        severity: Suspect,
        figure: "concurrency",
        limit: 10.0,
        threshold: "1 % of the slots of a closed loop stayed empty for more than {} ms",
        why: "the server had fewer requests than planned because the client was slow to send the next one",
        action: "use fewer streams per client, or --connections preopen",
        check: checks::slow_refill,
    },
    Rule {
        code: "retransmits",
        severity: Suspect,
        figure: "ttft_ms",
        limit: 0.01,
        threshold: "more than {} % of the requests had TCP retransmissions",
        why: "the network lost packets: a retransmission adds 200 ms or more",
        action: "check the network path between client and server",
        check: checks::retransmits,
    },
    Rule {
        code: "round-trip-outliers",
        severity: Remark,
        figure: "ttft_ms",
        limit: 10.0,
        threshold: "a round trip is above 10 ms and {} times the median",
        why: "single requests took a slow network path",
        action: "compare the requests named here with the others",
        check: checks::round_trip_outliers,
    },
    Rule {
        code: "descriptor-limit",
        severity: Suspect,
        figure: "peak_in_flight",
        limit: 0.9,
        threshold: "requests in flight reached {} % of the file-descriptor limit of this process",
        why: "connections beyond the limit fail or wait",
        action: "raise `ulimit -n`",
        check: checks::descriptor_limit,
    },
    Rule {
        code: "port-limit",
        severity: Suspect,
        figure: "all",
        limit: 0.8,
        threshold: "connections opened reached {} % of the local ports",
        why: "a closed connection keeps its port for a minute; without a free port, new connections fail",
        action: "keep connections open (--connections preopen)",
        check: checks::port_limit,
    },
    Rule {
        code: "warm-cache",
        severity: Suspect,
        figure: "ttft_ms",
        limit: 0.01,
        threshold: "at least {} % of the prompt tokens of a random workload were prefix-cache hits",
        why: "random prompts share no prefix unless they were sent before: TTFT is that of a warm cache",
        action: "omit --seed, or reset the server's prefix cache before the run",
        check: checks::warm_cache,
    },
    Rule {
        code: "few-samples",
        severity: Suspect,
        figure: "ttft_ms",
        limit: 0.0,
        threshold: "too few requests for the two-sided 95 % confidence interval of a requested percentile",
        why: "one or two requests decide the value",
        action: "send more requests or use a lower percentile",
        check: checks::few_samples,
    },
    Rule {
        code: "no-steady-state",
        severity: Suspect,
        figure: "output_tokens_per_s",
        limit: 0.0,
        threshold: "no trend-free stretch of at least 5× mean E2E at full load",
        why: "the figures mix ramp-up, full load and drain, and depend on the length of the run",
        action: "run longer",
        check: checks::no_steady_state,
    },
    Rule {
        code: "overloaded",
        severity: Suspect,
        figure: "ttft_ms",
        limit: 0.0,
        threshold: "the backlog of an open loop grew over the run",
        why: "the server cannot keep up: latency depends on how long the run is",
        action: "lower the rate; find the highest sustainable rate with `tokometer capacity`",
        check: checks::overloaded,
    },
    Rule {
        code: "burst",
        severity: Remark,
        figure: "ttft_ms",
        limit: 0.0,
        threshold: "all requests were sent at once without a cap",
        why: "TTFT is mostly the wait in the server's queue, and depends on the number of requests",
        action: "set --max-concurrency or --request-rate to measure a realistic load",
        check: checks::burst,
    },
    Rule {
        code: "failures",
        severity: Suspect,
        figure: "all",
        limit: 0.01,
        threshold: "at least {} % of the requests failed",
        why: "failed requests count as infinitely slow, and the server has less work",
        action: "read the failures by kind",
        check: checks::failures,
    },
    Rule {
        code: "few-failures",
        severity: Remark,
        figure: "all",
        limit: 0.01,
        threshold: "some requests failed, fewer than {} %",
        why: "failed requests count as infinitely slow",
        action: "read the failures by kind",
        check: checks::few_failures,
    },
    Rule {
        code: "partial-run",
        severity: Suspect,
        figure: "all",
        limit: 0.0,
        threshold: "the run ended early",
        why: "requests in flight at the end are missing, and these are the slow ones",
        action: "repeat the run and let it finish",
        check: checks::partial_run,
    },
    Rule {
        code: "hidden-reasoning",
        severity: Remark,
        figure: "tpot_ms",
        limit: 0.0,
        threshold: "the server counted reasoning tokens that it did not stream",
        why: "they count in throughput but not in TPOT, and TTFT includes the time to generate them",
        action: "configure the server to stream its reasoning",
        check: checks::hidden_reasoning,
    },
    Rule {
        code: "answer-length",
        severity: Remark,
        figure: "output_tokens",
        limit: 0.05,
        threshold: "answers were more than {} % shorter than requested",
        why: "runs with different answer lengths are not comparable",
        action: "use --ignore-eos if the server supports it",
        check: checks::answer_length,
    },
    Rule {
        code: "long-answers",
        severity: Suspect,
        figure: "output_tokens",
        limit: 0.05,
        threshold: "answers were more than {} % longer than requested",
        why: "the server ignores the requested length: throughput and E2E are those of another workload",
        action: "pass the length in the server's own field, such as --extra-body '{\"max_tokens\": 128}'",
        check: checks::long_answers,
    },
    Rule {
        code: "one-core",
        severity: Suspect,
        figure: "all",
        limit: 1.0,
        threshold: "this client can use only one core, and the server runs on the same host",
        why: "if they share that core, each waits while the other runs, and the server appears slower than it is",
        action: "give the client its own core, or measure from another host",
        check: checks::one_core,
    },
    Rule {
        code: "same-host",
        severity: Remark,
        figure: "all",
        limit: 0.0,
        threshold: "client and server run on one host",
        why: "they share CPUs, and no network is between them",
        action: "measure from another host to include the network",
        check: checks::same_host,
    },
    Rule {
        code: "simulated-target",
        severity: Remark,
        figure: "all",
        limit: 0.0,
        threshold: "the target was the embedded simulator",
        why: "the figures describe a model, not a server",
        action: "pass a server with --base-url",
        check: checks::simulated_target,
    },
    Rule {
        code: "dropped-fields",
        severity: Remark,
        figure: "all",
        limit: 0.0,
        threshold: "the server rejected optional fields, which were then omitted",
        why: "the requests differ slightly from the requested ones",
        action: "check whether the server has another name for them",
        check: checks::dropped_fields,
    },
    Rule {
        code: "reopened-connections",
        severity: Remark,
        figure: "connect_ms",
        limit: 0.0,
        threshold: "the server had closed keep-alive connections, which were opened again",
        why: "the server closes keep-alive connections, idle ones or after an answer; these requests were sent \
              again on a new one, and their times start there",
        action: "none needed; --connections per-request opens a connection for every request",
        check: checks::reopened,
    },
    Rule {
        code: "retries",
        severity: Remark,
        figure: "all",
        limit: 0.0,
        threshold: "requests were retried",
        why: "the figures include only the last attempt; earlier attempts are in the record",
        action: "read the attempts in the record",
        check: checks::retries,
    },
    Rule {
        code: "preemptions",
        severity: Remark,
        figure: "gap_ms",
        limit: 0.0,
        threshold: "the server preempted requests",
        why: "its KV cache was full: preempted requests stall and are recomputed",
        action: "lower the concurrency, or give the KV cache more memory",
        check: checks::preemptions,
    },
    Rule {
        code: "preparation",
        severity: Remark,
        figure: "all",
        limit: 0.0,
        threshold: "a preparation step of the run left a remark",
        why: "it describes how the command was executed",
        action: "none needed if this is intended",
        check: checks::preparation,
    },
];
