//! The table of notes, and the page written from it.

use std::fmt::Write as _;

use super::checks;
use super::note::{Evidence, Note, Severity};

/// One row: when a note appears, what it spoils, and what to do.
pub(crate) struct Rule {
    pub(crate) code: &'static str,
    pub(crate) severity: Severity,
    /// Key of the spoilt figure, or a group of figures.
    pub(crate) figure: &'static str,
    /// The number that `threshold` speaks of as `{}`; the check gets it.
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

/// All notes that a run deserves, worst first.
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
         Written by the program from its table of notes; do not edit by hand. The worst note decides:\n\
         INVALID when the instrument failed, SUSPECT when the figures are right but do not support the\n\
         conclusion a reader would draw, VALID otherwise. A remark spoils nothing.\n\n\
         | note | severity | spoils | appears when | why | what to do |\n|---|---|---|---|---|---|\n",
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
        action: "look at the failures below; try one request by hand",
        check: checks::no_success,
    },
    Rule {
        code: "late-sends",
        severity: Invalid,
        figure: "ttft_from_intended_ms",
        limit: 0.01,
        threshold: "more than {} % of the requests left over 5 ms after their time",
        why: "the generator was short of CPU; the load was not the one asked for, and latency from the intended time includes the client's own wait",
        action: "use a machine with free cores, fewer streams, or several clients",
        check: checks::late_sends,
    },
    Rule {
        code: "rate-missed",
        severity: Invalid,
        figure: "achieved_rate_per_s",
        limit: 0.05,
        threshold: "the achieved rate is more than {} % off the plan's, without a cap",
        why: "the server was measured under another load than the one named",
        action: "lower the rate or use several clients",
        check: checks::rate_missed,
    },
    Rule {
        code: "starved-client",
        severity: Invalid,
        figure: "all",
        limit: 0.2,
        threshold: "a worker thread was ready to run but not running for more than {} % of the run",
        why: "the client waited for a CPU; its sends and refills were late and segments merged before they were read",
        action: "free the machine's cores or pin client and server to different ones",
        check: checks::starved,
    },
    Rule {
        code: "throttled-client",
        severity: Invalid,
        figure: "all",
        limit: 0.01,
        threshold: "a control group stopped the client for more than {} % of the run",
        why: "while stopped the client neither sends nor reads",
        action: "raise the container's CPU limit",
        check: checks::throttled,
    },
    Rule {
        code: "lost-stamps",
        severity: Invalid,
        figure: "gap_ms",
        limit: 0.01,
        threshold: "more than {} % but not all of the answers lack kernel stamps",
        why: "two clocks of different quality are mixed in one distribution",
        action: "repeat the run; if it stays, report the kernel version",
        check: checks::lost_stamps,
    },
    Rule {
        code: "clock-step",
        severity: Invalid,
        figure: "all",
        limit: 0.0,
        threshold: "the wall clock was stepped during the run",
        why: "kernel stamps are wall-clock times: those around the step are off by its size",
        action: "stop time synchronisation from stepping and repeat",
        check: checks::clock_step,
    },
    Rule {
        code: "clock-faults",
        severity: Invalid,
        figure: "all",
        limit: 0.001,
        threshold: "more than {} % of the requests have events before their cause by over 100 µs",
        why: "stamps and the user's clock disagree",
        action: "check the machine's clock source; repeat the run",
        check: checks::clock_faults,
    },
    Rule {
        code: "token-ids-disagree",
        severity: Invalid,
        figure: "output_tokens",
        limit: 0.01,
        threshold: "counts told by the events differ from usage by more than {} %",
        why: "one of the two counts is wrong, and all per-token figures with it",
        action: "compare one answer by hand; update the server",
        check: checks::events_disagree,
    },
    Rule {
        code: "server-counted-less",
        severity: Suspect,
        figure: "output_tokens",
        limit: 0.02,
        threshold: "the server's counter rose by more than {} % less than the tokens we counted",
        why: "tokens were counted that the scraped server did not write: a wrong count, or a replica that was not scraped",
        action: "name every replica with --metrics-url",
        check: checks::server_counted_less,
    },
    Rule {
        code: "other-clients",
        severity: Suspect,
        figure: "all",
        limit: 0.2,
        threshold: "the server wrote or held more than {} % more than we asked of it",
        why: "somebody else used the server during the run",
        action: "repeat on a server of your own",
        check: checks::other_clients,
    },
    Rule {
        code: "text-disagrees",
        severity: Suspect,
        figure: "output_tokens",
        limit: 0.15,
        threshold: "the text tokenized again differs from usage by more than {} %",
        why: "retokenizing is never exact, but this far off the server counts something else, or the tokenizer is not the model's",
        action: "pass the model's own tokenizer; see whether reasoning is hidden",
        check: checks::text_disagrees,
    },
    Rule {
        code: "prompt-length",
        severity: Suspect,
        figure: "prompt_tokens",
        limit: 0.01,
        threshold: "usage.prompt_tokens differs from the planned length by more than {} % (a chat template counted apart)",
        why: "the prompts were not as long as asked: another tokenizer, or special tokens that were not expected",
        action: "pass the model's own tokenizer",
        check: checks::prompt_length,
    },
    Rule {
        code: "missing-usage",
        severity: Suspect,
        figure: "output_tokens",
        limit: 0.01,
        threshold: "more than {} % of the answers have neither usage nor token ids",
        why: "their length was estimated from the text, or is unknown",
        action: "turn on usage in streams on the server, or pass its tokenizer",
        check: checks::missing_usage,
    },
    Rule {
        code: "user-stamps",
        severity: Suspect,
        figure: "gap_ms",
        limit: 0.0,
        threshold: "no answer has kernel stamps",
        why: "times were taken after the read returned: they include the client's own delay",
        action: "run on Linux with software timestamps allowed, without --stamps user",
        check: checks::user_stamps,
    },
    Rule {
        code: "slow-reads",
        severity: Suspect,
        figure: "gap_ms",
        limit: 20.0,
        threshold: "1 % of the reads returned more than {} ms after the kernel had the bytes",
        why: "segments that wait for a read merge and lose their own stamps",
        action: "fewer streams per client, or --harvest eager",
        check: checks::slow_reads,
    },
    Rule {
        code: "shared-reads",
        severity: Suspect,
        figure: "gap_ms",
        limit: crate::collect::SHARED_READ_LIMIT,
        threshold: "more than {} % of the content events shared a read with the one before",
        why: "the gap inside a read is unknown; percentiles of gaps are withheld",
        action: "read TPOT instead; look for a proxy that joins events",
        check: checks::shared_reads,
    },
    Rule {
        code: "merged-segments",
        severity: Suspect,
        figure: "gap_ms",
        limit: 0.05,
        threshold: "more than {} % of the content events, the last of each answer apart, came in reads that merged segments",
        why: "their times are upper bounds: they arrived then or earlier (a last token merges with usage and end mark, within the delay that `slow-reads` watches)",
        action: "--harvest eager, fewer streams per client",
        check: checks::merged_segments,
    },
    Rule {
        code: "busy-client",
        severity: Suspect,
        figure: "all",
        limit: 0.9,
        threshold: "a worker thread used more than {} % of a core",
        why: "the client is at its limit and may have slowed the load",
        action: "more worker threads, or several clients",
        check: checks::busy_client,
    },
    Rule {
        code: "stolen-time",
        severity: Suspect,
        figure: "all",
        limit: 0.05,
        threshold: "the hypervisor kept more than {} % of the run from this machine",
        why: "neither client nor server ran during that time, and no clock shows it",
        action: "repeat on a quieter host",
        check: checks::stolen_time,
    },
    Rule {
        code: "cpu-pressure",
        severity: Remark,
        figure: "all",
        limit: 0.4,
        threshold: "tasks of this machine waited for CPU during more than {} % of the run",
        why: "the machine was busy; what that did to the client is in the other notes",
        action: "free the machine's cores",
        check: checks::cpu_pressure,
    },
    Rule {
        code: "cap-hits",
        severity: Suspect,
        figure: "achieved_rate_per_s",
        limit: 0.01,
        threshold: "more than {} % of the requests of an open loop waited for the cap",
        why: "the cap turned arrivals into a closed loop: latency from first byte hides that wait",
        action: "read the latencies from the intended time, or raise --max-concurrency",
        check: checks::cap_hits,
    },
    Rule {
        code: "slow-refill",
        severity: Suspect,
        figure: "concurrency",
        limit: 10.0,
        threshold: "1 % of the places of a closed loop stayed empty for more than {} ms",
        why: "the server idled while the client was slow to send the next request",
        action: "fewer streams per client, --connections preopen",
        check: checks::slow_refill,
    },
    Rule {
        code: "retransmits",
        severity: Suspect,
        figure: "ttft_ms",
        limit: 0.01,
        threshold: "more than {} % of the requests had segments sent again",
        why: "the network lost packets: a retransmission adds 200 ms or more",
        action: "look at the path between client and server",
        check: checks::retransmits,
    },
    Rule {
        code: "round-trip-outliers",
        severity: Remark,
        figure: "ttft_ms",
        limit: 10.0,
        threshold: "a round trip above 10 ms and {} times the median",
        why: "single requests met a slow path",
        action: "compare the requests named here with the rest",
        check: checks::round_trip_outliers,
    },
    Rule {
        code: "descriptor-limit",
        severity: Suspect,
        figure: "peak_in_flight",
        limit: 0.9,
        threshold: "requests in flight reached {} % of the descriptors this process may open",
        why: "connections beyond the limit fail or wait",
        action: "raise ulimit -n",
        check: checks::descriptor_limit,
    },
    Rule {
        code: "port-limit",
        severity: Suspect,
        figure: "all",
        limit: 0.8,
        threshold: "connections opened reached {} % of the local ports",
        why: "closed connections hold their port for a minute; new ones then fail",
        action: "keep connections open (--connections preopen)",
        check: checks::port_limit,
    },
    Rule {
        code: "warm-cache",
        severity: Suspect,
        figure: "ttft_ms",
        limit: 0.01,
        threshold: "at least {} % of the prompt tokens of a random workload came from the prefix cache",
        why: "random prompts share nothing unless they were sent before: TTFT is that of a warm cache",
        action: "drop --seed, or reset the server's prefix cache before the run",
        check: checks::warm_cache,
    },
    Rule {
        code: "few-samples",
        severity: Suspect,
        figure: "ttft_ms",
        limit: 0.0,
        threshold: "too few requests for the two-sided 95 % interval of an asked percentile",
        why: "the value is decided by one or two requests",
        action: "send more requests or read a lower percentile",
        check: checks::few_samples,
    },
    Rule {
        code: "no-steady-state",
        severity: Suspect,
        figure: "output_tokens_per_s",
        limit: 0.0,
        threshold: "no part of at least five mean E2E without a slope after the load was reached",
        why: "the figures mix start, load and drain, and depend on the run's length",
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
        action: "lower the rate; use `capacity` to find the highest that holds",
        check: checks::overloaded,
    },
    Rule {
        code: "burst",
        severity: Remark,
        figure: "ttft_ms",
        limit: 0.0,
        threshold: "all requests were sent at once without a cap",
        why: "TTFT is mostly the wait in the server's queue, and depends on the number of requests",
        action: "set --max-concurrency or --request-rate to measure a load that users make",
        check: checks::burst,
    },
    Rule {
        code: "failures",
        severity: Suspect,
        figure: "all",
        limit: 0.01,
        threshold: "at least {} % of the requests failed",
        why: "failed requests count as infinitely slow and leave the server idle",
        action: "look at the failures by kind",
        check: checks::failures,
    },
    Rule {
        code: "few-failures",
        severity: Remark,
        figure: "all",
        limit: 0.01,
        threshold: "some requests failed, fewer than {} %",
        why: "failed requests count as infinitely slow",
        action: "look at the failures by kind",
        check: checks::few_failures,
    },
    Rule {
        code: "partial-run",
        severity: Suspect,
        figure: "all",
        limit: 0.0,
        threshold: "the run ended early",
        why: "requests that were in flight are missing, and these are the slow ones",
        action: "repeat the run to its end",
        check: checks::partial_run,
    },
    Rule {
        code: "hidden-reasoning",
        severity: Remark,
        figure: "tpot_ms",
        limit: 0.0,
        threshold: "the server counted reasoning tokens that it did not stream",
        why: "they are in the throughput and not in TPOT, and TTFT waits for them",
        action: "ask the server to stream its reasoning",
        check: checks::hidden_reasoning,
    },
    Rule {
        code: "answer-length",
        severity: Remark,
        figure: "output_tokens",
        limit: 0.05,
        threshold: "answers were more than {} % shorter than asked",
        why: "runs with other lengths do not compare",
        action: "--ignore-eos where the server knows it",
        check: checks::answer_length,
    },
    Rule {
        code: "long-answers",
        severity: Suspect,
        figure: "output_tokens",
        limit: 0.05,
        threshold: "answers were more than {} % longer than asked",
        why: "the server does not heed the asked length: throughput and E2E are those of another workload",
        action: "name the length by the server's own field, such as --extra-body '{\"max_tokens\": 128}'",
        check: checks::long_answers,
    },
    Rule {
        code: "one-core",
        severity: Suspect,
        figure: "all",
        limit: 1.0,
        threshold: "this client may use one core, and the server runs on the same host",
        why: "if they share that core, each waits while the other runs, and the server is measured slower than it is",
        action: "give the client a core of its own, or measure from another host",
        check: checks::one_core,
    },
    Rule {
        code: "same-host",
        severity: Remark,
        figure: "all",
        limit: 0.0,
        threshold: "client and server run on one host",
        why: "they share its CPUs, and no network lies between them",
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
        action: "name a server with --base-url",
        check: checks::simulated_target,
    },
    Rule {
        code: "dropped-fields",
        severity: Remark,
        figure: "all",
        limit: 0.0,
        threshold: "the server refused optional fields, which were then left out",
        why: "the requests were not quite the ones asked for",
        action: "look up whether the server has another name for them",
        check: checks::dropped_fields,
    },
    Rule {
        code: "reopened-connections",
        severity: Remark,
        figure: "connect_ms",
        limit: 0.0,
        threshold: "kept connections turned out dead and were opened again",
        why: "the server closes kept connections, idle ones or behind an answer; these requests were sent \
              again on a new one, and their times begin there",
        action: "nothing, or --connections per-request to pay always",
        check: checks::reopened,
    },
    Rule {
        code: "retries",
        severity: Remark,
        figure: "all",
        limit: 0.0,
        threshold: "requests were tried again",
        why: "only the last attempt is in the figures; earlier ones are in the record",
        action: "read the attempts in the record",
        check: checks::retries,
    },
    Rule {
        code: "preemptions",
        severity: Remark,
        figure: "gap_ms",
        limit: 0.0,
        threshold: "the server preempted requests",
        why: "its KV cache was full: preempted answers stall and are computed again",
        action: "fewer requests in flight, or more KV memory",
        check: checks::preemptions,
    },
    Rule {
        code: "preparation",
        severity: Remark,
        figure: "all",
        limit: 0.0,
        threshold: "the preparation of the run had something to say",
        why: "this is how the command was carried out",
        action: "nothing, if it is what was meant",
        check: checks::preparation,
    },
];
