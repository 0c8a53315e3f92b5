//! The one list of our own metrics.
//!
//! The collector computes from [`METRICS`], figures are named by it, verdicts are about its results, and
//! `docs/metrics.md` is generated from it. A new metric is one row here and one formula.

use std::fmt::Write as _;

use tokometer_base::Nanos;
use tokometer_record::Timeline;

use crate::measure::{self, Gap, at, span};
use crate::quantity::Quantity;
use crate::sessions::SessionTimes;
use crate::totals::Totals;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds; formulas return nanoseconds.
    Millis,
    Seconds,
    Tokens,
    TokensPerSecond,
    RequestsPerSecond,
    Requests,
    /// Inputs or documents of requests that generate nothing.
    Items,
    ItemsPerSecond,
    /// From 0 to 1.
    Share,
    Turns,
    SessionsPerHour,
    /// A multiple, such as seconds of audio per second.
    Times,
}

impl Unit {
    /// As printed after a value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Millis => "ms",
            Self::Seconds => "s",
            Self::Tokens => "tokens",
            Self::TokensPerSecond => "tok/s",
            Self::RequestsPerSecond => "req/s",
            Self::Requests => "requests",
            Self::Items => "items",
            Self::ItemsPerSecond => "items/s",
            Self::Share => "share",
            Self::Turns => "turns",
            Self::SessionsPerHour => "sessions/h",
            Self::Times => "x",
        }
    }

    /// A formula's value is divided by this to get the unit.
    pub fn divisor(self) -> f64 {
        if self == Self::Millis { 1e6 } else { 1.0 }
    }
}

#[derive(Clone, Copy)]
pub enum Formula {
    /// One value per successful request; a failed one counts as infinitely slow.
    Latency(fn(&Timeline) -> Option<f64>),
    /// One value per successful request; a failed one has none.
    Value(fn(&Timeline) -> Option<f64>),
    /// A value with its weight per gap of a successful request.
    Stream(fn(&Gap) -> Option<(f64, u32)>),
    /// One value per session: one that the run cut off has a larger one, a failed one is infinitely slow.
    Session(fn(&SessionTimes) -> Option<f64>),
    Run(fn(&Totals) -> Option<f64>),
}

impl Formula {
    fn section(&self) -> &'static str {
        match self {
            Self::Latency(_) | Self::Value(_) => "Per request",
            Self::Stream(_) => "Per event",
            Self::Session(_) => "Per session",
            Self::Run(_) => "Per run",
        }
    }

    fn failed_requests(&self) -> &'static str {
        match self {
            Self::Latency(_) | Self::Session(_) => "infinitely slow",
            Self::Value(_) | Self::Stream(_) => "excluded",
            Self::Run(_) => "as defined",
        }
    }
}

#[derive(Clone, Copy)]
pub struct Definition {
    /// Name in JSON, with the unit last.
    pub key: &'static str,
    pub label: &'static str,
    pub unit: Unit,
    pub definition: &'static str,
    /// Returns nanoseconds for a metric in milliseconds.
    pub formula: Formula,
    /// What flags, rules and tables call it; `None` for a metric that these cannot name.
    pub names: Option<Names>,
    /// In vLLM's flags and result files, such as `e2el`; `None` without a section in its report.
    pub section: Option<&'static str>,
    /// Whether it is a result of a run, which a verdict is about. Others explain results.
    pub is_result: bool,
    /// The latency of a request that it is, or that it moves with.
    pub behind: Option<Latency>,
    /// What it repeats unless something sets them apart; reports then leave it out.
    pub repeats: Option<Quantity>,
}

#[derive(Debug, Clone, Copy)]
pub struct Names {
    pub quantity: Quantity,
    /// Short, for people: `TTFT`.
    pub label: &'static str,
    /// Other spellings, in lower case with single spaces, without a unit `ms`.
    pub words: &'static [&'static str],
}

#[expect(clippy::unnecessary_wraps, reason = "as the field of a row has it")]
const fn names(
    quantity: Quantity,
    label: &'static str,
    words: &'static [&'static str],
) -> Option<Names> {
    Some(Names { quantity, label, words })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    Ttft,
    Tpot,
    E2e,
}

impl Definition {
    pub fn is_distribution(&self) -> bool {
        !matches!(self.formula, Formula::Run(_))
    }

    /// Whether a request has its value as soon as its first token has come.
    pub fn is_of_first_token(&self) -> bool {
        self.behind == Some(Latency::Ttft) && matches!(self.formula, Formula::Latency(_))
    }

    /// The values of a successful request with their weights, not yet divided by the unit.
    pub fn each(&self, timeline: &Timeline, add: &mut dyn FnMut(f64, u32)) {
        self.each_at(timeline, Nanos::ZERO, &mut |_, value, weight| add(value, weight));
    }

    /// The same with their times: a gap has that of its end, other values have `start`.
    pub(crate) fn each_at(
        &self,
        timeline: &Timeline,
        start: Nanos,
        add: &mut dyn FnMut(Nanos, f64, u32),
    ) {
        match self.formula {
            Formula::Latency(value) | Formula::Value(value) => {
                if let Some(value) = value(timeline) {
                    add(start, value, 1);
                }
            }
            Formula::Stream(value) => {
                for (gap, count) in measure::gap_runs(timeline) {
                    if let Some((value, weight)) = value(&gap) {
                        add(gap.at, value, weight.saturating_mul(count));
                    }
                }
            }
            Formula::Session(_) | Formula::Run(_) => {}
        }
    }
}

/// What most rows have in common.
const METRIC: Definition = Definition {
    key: "",
    label: "",
    unit: Unit::Millis,
    definition: "",
    formula: Formula::Run(|_| None),
    names: None,
    section: None,
    is_result: false,
    behind: None,
    repeats: None,
};

pub fn metric(key: &str) -> Option<&'static Definition> {
    METRICS.iter().find(|metric| metric.key == key)
}

/// The key of the mean wait of conversations' later turns.
pub const TURN_WAIT: &str = "turn_wait_ms";

/// In the order of a report.
pub static METRICS: &[Definition] = &[
    Definition {
        key: "ttft_ms",
        label: "Time to first token",
        definition: "First content (text, reasoning or a tool call) minus first request byte. An event that carries only a role, only counts, or nothing does not count as a token.",
        formula: Formula::Latency(measure::ttft),
        names: names(Quantity::Ttft, "TTFT", &["time to first token"]),
        section: Some("ttft"),
        is_result: true,
        behind: Some(Latency::Ttft),
        ..METRIC
    },
    Definition {
        key: "first_event_ms",
        label: "Time to first event",
        definition: "First event of any kind but the end mark, minus first request byte. Other tools often report this as the time to first token.",
        formula: Formula::Latency(|t| span(t.times.first_byte_sent, at(t.first_event()))),
        is_result: true,
        behind: Some(Latency::Ttft),
        repeats: Some(Quantity::Ttft),
        ..METRIC
    },
    Definition {
        key: "first_answer_ms",
        label: "Time to first answer token",
        definition: "First content that is not reasoning, minus first request byte. Differs from TTFT only if the server streams its reasoning separately.",
        formula: Formula::Latency(|t| span(t.times.first_byte_sent, at(t.first_answer()))),
        is_result: true,
        behind: Some(Latency::Ttft),
        repeats: Some(Quantity::Ttft),
        ..METRIC
    },
    Definition {
        key: "tpot_ms",
        label: "Time per output token",
        definition: "(Last content minus first content) / (output tokens minus those of the first content event), per request. The first event has the tokens that the server states for it, else one; hidden tokens are left out. Absent for answers in one event, and for several choices unless events report their tokens.",
        formula: Formula::Latency(measure::tpot),
        names: names(Quantity::Tpot, "TPOT", &["time per output token"]),
        section: Some("tpot"),
        is_result: true,
        behind: Some(Latency::Tpot),
        ..METRIC
    },
    Definition {
        key: "gap_ms",
        label: "Inter-token latency",
        definition: "Time between consecutive content events of one answer, pooled over all answers: what a reader of the stream sees (keys say `gap`). An event may hold several tokens. Percentiles are withheld when more than 5 % of the content events arrived in the same read as the previous one.",
        formula: Formula::Stream(Gap::whole),
        names: names(Quantity::Itl, "ITL", &["inter token latency", "inter chunk latency"]),
        section: Some("itl"),
        is_result: true,
        behind: Some(Latency::Tpot),
        ..METRIC
    },
    Definition {
        key: "token_gap_ms",
        label: "ITL per token",
        definition: "Each ITL divided by the number of tokens in the event that ends it, counted once per token. Only events with a known token count are used.",
        formula: Formula::Stream(Gap::per_token),
        ..METRIC
    },
    Definition {
        key: "e2e_ms",
        label: "End-to-end latency",
        definition: "Last content minus first request byte. For vectors, scores and classes, which come in one piece: the end of that piece.",
        formula: Formula::Latency(measure::e2e),
        names: names(
            Quantity::E2e,
            "E2E",
            &["e2el", "latency", "e2e latency", "end to end latency"],
        ),
        section: Some("e2el"),
        is_result: true,
        behind: Some(Latency::E2e),
        ..METRIC
    },
    Definition {
        key: "e2e_per_item_ms",
        label: "End-to-end latency per item",
        definition: "E2E divided by the inputs or documents of the request. Absent for requests that generate text.",
        formula: Formula::Latency(|t| Some(measure::e2e(t)? / measure::items(t)?)),
        names: names(Quantity::E2ePerItem, "E2E per item", &["latency per item"]),
        is_result: true,
        behind: Some(Latency::E2e),
        ..METRIC
    },
    Definition {
        key: "end_of_stream_ms",
        label: "End of stream",
        definition: "Last byte of the answer minus first request byte: E2E plus the counts and the end mark that follow the last content.",
        formula: Formula::Latency(|t| span(t.times.first_byte_sent, t.times.end)),
        ..METRIC
    },
    Definition {
        key: "ttft_from_intended_ms",
        label: "TTFT from the intended time",
        definition: "First content minus the planned send time: TTFT plus every wait inside the client. Absent if there is no schedule (infinite rate).",
        formula: Formula::Latency(|t| span(t.times.intended, at(t.first_content()))),
        names: names(Quantity::TtftFromIntended, "TTFT from intended", &[]),
        is_result: true,
        behind: Some(Latency::Ttft),
        repeats: Some(Quantity::Ttft),
        ..METRIC
    },
    Definition {
        key: "e2e_from_intended_ms",
        label: "E2E from the intended time",
        definition: "Last content minus the planned send time. Absent at infinite rate.",
        formula: Formula::Latency(|t| span(t.times.intended, at(measure::last_generated(t)))),
        names: names(
            Quantity::E2eFromIntended,
            "E2E from intended",
            &["e2el from intended", "e2el including client queue"],
        ),
        section: Some("e2el_including_client_queue"),
        is_result: true,
        behind: Some(Latency::E2e),
        repeats: Some(Quantity::E2e),
        ..METRIC
    },
    Definition {
        key: "client_queue_ms",
        label: "Client queue",
        definition: "Admission time minus planned send time: the wait for the concurrency cap and for the pacer. Absent at infinite rate.",
        formula: Formula::Value(|t| span(t.times.intended, Some(t.times.admitted))),
        names: names(Quantity::ClientQueue, "client queue", &["queue", "client queue time"]),
        section: Some("client_queue_time"),
        ..METRIC
    },
    Definition {
        key: "trace_lag_ms",
        label: "Lag behind the trace",
        definition: "First request byte minus the recorded time of the request, from the start of the run. Grows along a session whose answers take longer than the recorded ones, and is negative where they take less. Absent without recorded times.",
        formula: Formula::Value(measure::trace_lag),
        names: names(Quantity::TraceLag, "trace lag", &["lag", "lag behind the trace"]),
        ..METRIC
    },
    Definition {
        key: "send_lateness_ms",
        label: "Send lateness",
        definition: "First request byte minus admission time, without the time spent connecting.",
        formula: Formula::Value(measure::send_lateness),
        ..METRIC
    },
    Definition {
        key: "connect_ms",
        label: "Connect",
        definition: "From the start of connecting to the established TCP connection. Absent on a reused connection.",
        formula: Formula::Value(|t| span(t.times.connect_begin, t.times.connect_end)),
        ..METRIC
    },
    Definition {
        key: "tls_ms",
        label: "TLS handshake",
        definition: "From the established TCP connection to the end of the TLS handshake. Absent on a reused connection and on plain TCP.",
        formula: Formula::Value(|t| span(t.times.connect_end, t.times.tls_end)),
        ..METRIC
    },
    Definition {
        key: "upload_ms",
        label: "Request upload",
        definition: "Time from handing the first byte of the request to the kernel to handing over the last. It is part of TTFT.",
        formula: Formula::Value(|t| span(t.times.first_byte_sent, t.times.last_byte_sent)),
        ..METRIC
    },
    Definition {
        key: "tokens_per_s_per_user",
        label: "Speed per user",
        unit: Unit::TokensPerSecond,
        definition: "One token / TPOT, per request: the speed that one user sees.",
        formula: Formula::Value(measure::tokens_per_s_per_user),
        names: names(Quantity::UserSpeed, "speed per user", &["user speed", "tok s per user"]),
        ..METRIC
    },
    Definition {
        key: "prompt_tokens",
        label: "Prompt length",
        unit: Unit::Tokens,
        definition: "Tokens of the prompt: the server's count, otherwise the workload's.",
        formula: Formula::Value(|t| t.prompt_tokens().map(f64::from)),
        ..METRIC
    },
    Definition {
        key: "output_tokens",
        label: "Answer length",
        unit: Unit::Tokens,
        definition: "Tokens of the answer: the server's usage, otherwise the counts of the events (token ids, continuous usage, one event per token), otherwise the retokenized text. The summary shows how many requests were counted by each method.",
        formula: Formula::Value(|t| t.output_tokens().map(|(tokens, _)| f64::from(tokens))),
        ..METRIC
    },
    Definition {
        key: "items",
        label: "Items per request",
        unit: Unit::Items,
        definition: "Inputs or documents of a request, each of which gets a vector, a class or a score. Absent for requests that generate text.",
        formula: Formula::Value(measure::items),
        ..METRIC
    },
    Definition {
        key: "session_ms",
        label: "Session time",
        definition: "End of the last answer of a session minus the first byte of its first request. Sessions of one turn count where others have several.",
        formula: Formula::Session(|session| Some(session.length().0 as f64)),
        names: names(
            Quantity::Session,
            "session",
            &["session time", "session duration", "time to finish"],
        ),
        is_result: true,
        ..METRIC
    },
    Definition {
        key: "session_stretch",
        label: "Session stretch",
        unit: Unit::Times,
        definition: "Session time / the time that the session took when it was recorded. Absent where that is unknown.",
        formula: Formula::Session(|session| {
            let recorded = session.recorded.filter(|time| *time > Nanos::ZERO)?;
            Some(session.length().as_secs_f64() / recorded.as_secs_f64())
        }),
        names: names(Quantity::SessionStretch, "session stretch", &["stretch"]),
        ..METRIC
    },
    Definition {
        key: "session_model_ms",
        label: "Session time in the model",
        definition: "Time from first request bytes to ends of answers on the session's critical path: from its last turn back through the parent that ended last before each.",
        formula: Formula::Session(|session| Some(session.model.0 as f64)),
        names: names(Quantity::SessionModel, "session in model", &["session model"]),
        ..METRIC
    },
    Definition {
        key: "session_tools_ms",
        label: "Session time in tools",
        definition: "Pauses between answers and next turns on the session's critical path: of tools, or of a user who thinks.",
        formula: Formula::Session(|session| Some(session.tools.0 as f64)),
        names: names(Quantity::SessionTools, "session in tools", &["session tools"]),
        ..METRIC
    },
    Definition {
        key: "session_client_ms",
        label: "Session time in the client",
        definition: "Time from when turns on the session's critical path were due to their first request bytes: this client's own delay and its limit on requests in flight.",
        formula: Formula::Session(|session| Some(session.client.0 as f64)),
        names: names(Quantity::SessionClient, "session in client", &["session client"]),
        ..METRIC
    },
    Definition {
        key: "session_turns",
        label: "Turns per session",
        unit: Unit::Turns,
        definition: "Answered turns of a session.",
        formula: Formula::Session(|session| Some(f64::from(session.turns))),
        ..METRIC
    },
    Definition {
        key: "sessions_per_h",
        label: "Session throughput",
        unit: Unit::SessionsPerHour,
        definition: "Finished sessions / duration of the measured phase. Absent where no session has several turns.",
        formula: Formula::Run(|totals| Some(totals.per_second(totals.sessions? as f64)? * 3_600.0)),
        names: names(
            Quantity::Sessions,
            "Session throughput",
            &["sessions", "sessions h", "sessions per hour"],
        ),
        is_result: true,
        ..METRIC
    },
    Definition {
        key: "requests_per_s",
        label: "Request throughput",
        unit: Unit::RequestsPerSecond,
        definition: "Successful requests / duration of the measured phase, which runs from just before the first planned send to the end of the last request.",
        formula: Formula::Run(|totals| totals.per_second(totals.succeeded as f64)),
        names: names(
            Quantity::Requests,
            "Request throughput",
            &["requests", "req s", "requests s"],
        ),
        is_result: true,
        ..METRIC
    },
    Definition {
        key: "output_tokens_per_s",
        label: "Output throughput",
        unit: Unit::TokensPerSecond,
        definition: "Output tokens of successful requests / duration of the measured phase.",
        formula: Formula::Run(|totals| totals.per_second(totals.output_tokens? as f64)),
        names: names(
            Quantity::Output,
            "Output throughput",
            &["output", "throughput", "output token throughput", "output tok s", "tok s"],
        ),
        is_result: true,
        ..METRIC
    },
    Definition {
        key: "prompt_tokens_per_s",
        label: "Prompt throughput",
        unit: Unit::TokensPerSecond,
        definition: "Prompt tokens of successful requests / duration of the measured phase.",
        formula: Formula::Run(|totals| totals.per_second(totals.prompt_tokens? as f64)),
        names: names(
            Quantity::Prompt,
            "Prompt throughput",
            &[
                "input throughput",
                "prompt token throughput",
                "input token throughput",
                "prompt tok s",
            ],
        ),
        ..METRIC
    },
    Definition {
        key: "total_tokens_per_s",
        label: "Total throughput",
        unit: Unit::TokensPerSecond,
        definition: "Prompt and output tokens of successful requests / duration of the measured phase.",
        formula: Formula::Run(|totals| {
            totals.per_second((totals.prompt_tokens? + totals.output_tokens?) as f64)
        }),
        names: names(
            Quantity::Total,
            "Total throughput",
            &["total", "total token throughput", "total tok s"],
        ),
        is_result: true,
        ..METRIC
    },
    Definition {
        key: "items_per_s",
        label: "Item throughput",
        unit: Unit::ItemsPerSecond,
        definition: "Inputs or documents of successful requests / duration of the measured phase. Absent for requests that generate text.",
        formula: Formula::Run(|totals| totals.per_second(totals.items? as f64)),
        names: names(
            Quantity::Items,
            "Item throughput",
            &["items s", "inputs s", "input sequence throughput"],
        ),
        is_result: true,
        ..METRIC
    },
    Definition {
        key: "peak_output_tokens_per_s",
        label: "Peak output throughput",
        unit: Unit::TokensPerSecond,
        definition: "Most output tokens that arrived within one second of the measured phase, including failed requests. Events are weighted by their tokens; if an event does not report its tokens, the answer's tokens are spread evenly over its events.",
        formula: Formula::Run(|totals| totals.peak_output_tokens_per_s),
        names: names(
            Quantity::PeakOutput,
            "Peak output throughput",
            &["max output tokens per s", "peak output token throughput"],
        ),
        ..METRIC
    },
    Definition {
        key: "total_prompt_tokens",
        label: "Prompt tokens",
        unit: Unit::Tokens,
        definition: "Prompt tokens of successful requests.",
        formula: Formula::Run(|totals| totals.prompt_tokens.map(|tokens| tokens as f64)),
        is_result: true,
        ..METRIC
    },
    Definition {
        key: "total_output_tokens",
        label: "Output tokens",
        unit: Unit::Tokens,
        definition: "Output tokens of successful requests; absent when some could not be counted.",
        formula: Formula::Run(|totals| totals.output_tokens.map(|tokens| tokens as f64)),
        is_result: true,
        ..METRIC
    },
    Definition {
        key: "total_items",
        label: "Items",
        unit: Unit::Items,
        definition: "Inputs or documents of successful requests. Absent for requests that generate text.",
        formula: Formula::Run(|totals| totals.items.map(|items| items as f64)),
        is_result: true,
        ..METRIC
    },
    Definition {
        key: "rtfx",
        label: "Inverse real-time factor",
        unit: Unit::Times,
        definition: "Playing time of the audio of successful requests / duration of the measured phase. Absent where a request has no audio or audio of unknown length.",
        formula: Formula::Run(|totals| totals.per_second(totals.audio?.as_secs_f64())),
        ..METRIC
    },
    Definition {
        key: "total_audio_s",
        label: "Audio",
        unit: Unit::Seconds,
        definition: "Playing time of the audio of successful requests. Absent where a request has no audio or audio of unknown length.",
        formula: Formula::Run(|totals| totals.audio.map(Nanos::as_secs_f64)),
        ..METRIC
    },
    Definition {
        key: "hidden_tokens",
        label: "Hidden tokens",
        unit: Unit::Tokens,
        definition: "Reasoning tokens that the server counted in answers without streamed reasoning, as far as the content events leave tokens for them. They count in throughput but not in TPOT.",
        formula: Formula::Run(|totals| Some(totals.hidden_tokens as f64)),
        ..METRIC
    },
    Definition {
        key: "token_gap_ms_mean",
        label: "Mean ITL per token",
        definition: "Sum of all ITLs / tokens of the events that ended them. Only events with a known token count are used.",
        formula: Formula::Run(|totals| {
            (totals.gap_tokens > 0).then(|| totals.gap_nanos / totals.gap_tokens as f64)
        }),
        ..METRIC
    },
    Definition {
        key: "concurrency",
        label: "Mean requests in flight",
        unit: Unit::Requests,
        definition: "Time from first request byte to end of stream, summed over all requests (including failed ones) / duration of the measured phase (Little's law).",
        formula: Formula::Run(|totals| totals.per_second(totals.in_flight_nanos / 1e9)),
        is_result: true,
        ..METRIC
    },
    Definition {
        key: "peak_in_flight",
        label: "Peak requests in flight",
        unit: Unit::Requests,
        definition: "Most requests in flight at any instant, by an exact sweep over first request bytes and ends.",
        formula: Formula::Run(|totals| totals.peak_in_flight),
        ..METRIC
    },
    Definition {
        key: "requested_rate_per_s",
        label: "Requested rate",
        unit: Unit::RequestsPerSecond,
        definition: "Planned requests per second. Absent at infinite rate and where the rate changes.",
        formula: Formula::Run(|totals| totals.requested_rate),
        ..METRIC
    },
    Definition {
        key: "achieved_rate_per_s",
        label: "Achieved rate",
        unit: Unit::RequestsPerSecond,
        definition: "Requests sent after the first / time from the first send to the last.",
        formula: Formula::Run(|totals| totals.achieved_rate),
        ..METRIC
    },
    Definition {
        key: "goodput_share",
        label: "Goodput",
        unit: Unit::Share,
        definition: "Requests that met every objective / all planned requests, without those that their user cancelled. A request that failed or was never sent does not meet them. Absent without objectives.",
        formula: Formula::Run(|totals| totals.goodput.and_then(|goodput| goodput.share)),
        names: names(Quantity::Goodput, "Goodput", &[]),
        is_result: true,
        ..METRIC
    },
    Definition {
        key: "goodput_requests_per_s",
        label: "Goodput rate",
        unit: Unit::RequestsPerSecond,
        definition: "Requests that met every objective / duration of the measured phase. Absent without objectives.",
        formula: Formula::Run(|totals| totals.goodput.and_then(|goodput| goodput.requests_per_s)),
        names: names(Quantity::GoodputRate, "Request goodput", &["goodput rate", "goodput req s"]),
        is_result: true,
        ..METRIC
    },
    Definition {
        key: "shared_read_share",
        label: "Events that shared a read",
        unit: Unit::Share,
        definition: "Content events that arrived in the same read as the previous content event / all content events. Their ITL is unknown and is recorded as zero.",
        formula: Formula::Run(|totals| totals.event_share(totals.shared_events)),
        ..METRIC
    },
    Definition {
        key: "merged_share",
        label: "Events with an upper-bound time",
        unit: Unit::Share,
        definition: "Content events whose read merged network segments / all content events. They may have arrived earlier than recorded.",
        formula: Formula::Run(|totals| totals.event_share(totals.merged_events)),
        ..METRIC
    },
    Definition {
        key: "merged_inner_share",
        label: "Of these, before the answer's last",
        unit: Unit::Share,
        definition: "The same, without the last content event of each answer, / all content events. Servers send that last event together with usage and the end mark.",
        formula: Formula::Run(|totals| totals.event_share(totals.merged_inner_events)),
        ..METRIC
    },
    Definition {
        key: TURN_WAIT,
        label: "Wait of next turns",
        definition: "Mean time from the end of the answers that a turn waits for, and the pause after them, until it is admitted. Absent without conversations of several turns.",
        formula: Formula::Run(|totals| totals.turn_wait),
        ..METRIC
    },
    Definition {
        key: "refill_delay_ms_p99",
        label: "Refill delay, P99",
        definition: "In a closed loop, the time from the end of one request to the first byte of the next in its slot. 99 % were at most this long (upper bound within a factor of two).",
        formula: Formula::Run(|totals| totals.refill_delay_p99),
        ..METRIC
    },
];

pub fn metrics_markdown() -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         What does each number mean? Generated from the program's table of definitions; do not edit by hand. The summary, the JSON and\n\
         the record use these definitions. A block in another tool's layout follows that tool's definitions\n\
         instead: [Metrics across tools](parity.md).\n\n\
         Percentiles interpolate linearly between ranks (rank = p / 100 × (n − 1)). Their\n\
         confidence intervals are two-sided at 95 %. Requests that share a queue are slow together, so all\n\
         intervals come from how blocks of time scatter ([Percentiles and confidence intervals](intervals.md)). P99 needs 368\n\
         values, P99.9 needs 3,688; with fewer, a value is shown with `?`. Where requests depend on each\n\
         other, an interval needs twice as many effective values. The last column says how failed\n\
         requests count. *Infinitely slow*: a percentile that falls among the failed requests is\n\
         shown as a lower bound in its unit, such as `> 60000` (ms), and the mean covers the successful\n\
         requests only. All figures use only requests\n\
         of the measured phase, and only the last attempt of a retried request. A request that its user\n\
         cancelled (`--cancel`) counts in latencies up to its first token, and in nothing else. A missing value is absent,\n\
         never zero.\n\n\
         A session that the end of the run cut off counts as longer than it was seen (Kaplan-Meier), since only\n\
         short ones would remain without it. Intervals of session figures take sessions as independent.\n",
    );
    for title in ["Per request", "Per event", "Per session", "Per run"] {
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "\n## {title}\n\n| key | name | unit | definition | failed requests |\n|---|---|---|---|---|"
        );
        for metric in METRICS.iter().filter(|metric| metric.formula.section() == title) {
            let Definition { key, label, definition, formula, .. } = metric;
            let (unit, failed) = (metric.unit.name(), formula.failed_requests());
            let _ = writeln!(page, "| `{key}` | {label} | {unit} | {definition} | {failed} |");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_key_has_one_meaning_and_names_its_unit() {
        let keys: BTreeSet<_> = METRICS.iter().map(|metric| metric.key).collect();
        assert_eq!(keys.len(), METRICS.len());
        for metric in METRICS {
            let has_unit = metric.key.contains("_ms");
            assert_eq!(has_unit, metric.unit == Unit::Millis, "{}", metric.key);
            assert!(metric.definition.ends_with('.'), "{}", metric.key);
        }
        assert_eq!(metric("ttft_ms").map(|metric| metric.label), Some("Time to first token"));
    }

    #[test]
    fn the_page_of_metrics_has_a_row_for_each() {
        let page = metrics_markdown();
        for metric in METRICS {
            assert!(page.contains(&format!("| `{}` | {} |", metric.key, metric.label)));
        }
    }
}
