//! Our own summary of a run: the figures a decision needs, and how far to trust them.
//!
//! [`print_screen`] is the first screen of `bench`; [`print_summary`] is everything, for `--details`.
//! Aligned text, none wider than a terminal. A figure that the client or its machine moved has a `!` (INVALID)
//! or a `~` (SUSPECT), and a line below the table says by how much. Notes follow in full. What was not measured has no line; a percentile that the sample cannot support has a
//! `?`, and one that falls among failed requests is shown as a lower bound.

mod affected;
mod data;
mod failures;
pub(crate) mod fold;
mod inside;
mod intervals;
mod latencies;
mod markdown;
pub(crate) mod parts;
mod screen;
mod sessions;

use tokometer_base::Conventions;
use tokometer_base::backend::ServerKind;
use tokometer_base::digits::brief;
use tokometer_base::units::nearest_count;
use tokometer_compat::differences::{ClientTime, client_time};
use tokometer_compat::{Report, differences, prints_withheld_gaps};
use tokometer_figures::figure::{Quantity, Statistic};
use tokometer_figures::goodput::Goodput;
use tokometer_figures::quality::Quality;
use tokometer_figures::steady::LoadClass;
use tokometer_figures::summary::Ended;
use tokometer_figures::{AddressShare, Distribution, Note, Severity, Summary};
use tokometer_record::{RecordedRamp, RunInfo, TargetInfo};

use crate::sparkline::sparkline;
use crate::style::{Style, Tone};

pub(crate) use affected::{doubtful_codes, groups, mark};
pub use data::{SummaryFile, summary_csv, summary_json};
pub use failures::failure_lines;
use fold::folded;
pub(crate) use inside::bucket;
pub use markdown::summary_markdown;
pub use screen::print_screen;
pub(crate) use sessions::{DEPTH_HEADS, depth_cells, ends};

/// Addresses of a server that are shown.
const MOST_ADDRESSES: usize = 8;
/// Width of labels, and of the cells of the table of latencies, with the blanks before what follows.
const LABEL: usize = 13;
const CELL: usize = 11;
const SPARKS: usize = 50;
/// Columns of a terminal.
const WIDTH: usize = 80;

/// Rows of the table of latencies: label and key.
const LATENCIES: [(&str, &str); 17] = [
    ("TTFT", Quantity::Ttft.key()),
    ("first event", "first_event_ms"),
    ("first answer", "first_answer_ms"),
    ("TPOT", Quantity::Tpot.key()),
    ("ITL", Quantity::Itl.key()),
    ("E2E", Quantity::E2e.key()),
    ("E2E per item", Quantity::E2ePerItem.key()),
    ("TTFT planned", Quantity::TtftFromIntended.key()),
    ("E2E planned", Quantity::E2eFromIntended.key()),
    ("client queue", Quantity::ClientQueue.key()),
    ("late send", "send_lateness_ms"),
    ("connect", "connect_ms"),
    ("trace lag", Quantity::TraceLag.key()),
    ("session", Quantity::Session.key()),
    ("  in model", Quantity::SessionModel.key()),
    ("  in tools", Quantity::SessionTools.key()),
    ("  in client", Quantity::SessionClient.key()),
];

const COLUMNS: [Statistic; 5] =
    [Statistic::Mean, Statistic::MEDIAN, Statistic::P90, Statistic::P99, Statistic::Max];

/// The summary. `beside` is the report that is printed above it, whose differing figures are then
/// explained.
pub fn print_summary(
    summary: &Summary,
    info: &RunInfo,
    beside: Option<&Report>,
    style: Style,
) -> String {
    let page = SummaryPage { summary, info, style };
    let mut lines = page.head();
    lines.extend(page.requests());
    lines.extend(page.cancelled());
    lines.extend(page.throughput());
    lines.extend(page.tokens());
    lines.extend(page.addresses());
    lines.extend(page.latencies());
    lines.extend(page.sessions());
    lines.extend(page.affected());
    lines.extend(page.intervals());
    lines.extend(page.goodput());
    lines.extend(page.quality());
    lines.extend(page.canaries());
    lines.extend(page.steady());
    lines.extend(parts::lines(summary, info));
    lines.extend(page.ttft_split());
    lines.extend(page.steps());
    lines.extend(page.server());
    lines.extend(page.server_ttft());
    lines.extend(page.speculation());
    lines.extend(page.gpu());
    lines.extend(page.course());
    lines.extend(page.wrapped_failures());
    lines.extend(page.differences(beside));
    lines.extend(page.notes());
    lines.push(page.verdict());
    let lines: Vec<String> = lines.iter().flat_map(|line| folded(line)).collect();
    lines.join("\n") + "\n"
}

struct SummaryPage<'a> {
    summary: &'a Summary,
    info: &'a RunInfo,
    style: Style,
}

/// A count with thin groups of three digits, for reading.
fn count(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<String> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| group.iter().map(|byte| char::from(*byte)).collect())
        .collect();
    groups.join(",")
}

pub(crate) fn whole(value: f64) -> String {
    count(nearest_count(value))
}

/// Three digits, as a person reads them, and all of a larger number, in groups of three.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        size if size < 999.5 => format!("{value:.0}"),
        _ => whole(value),
    }
}

/// A rate with the digits that matter.
fn rate(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { whole(value) }
}

fn line(label: &str, text: &str) -> String {
    format!("{label:<LABEL$}{text}")
}

impl SummaryPage<'_> {
    fn head(&self) -> Vec<String> {
        let kind = if self.info.is_prediction() { "PREDICTION, not measured:" } else { "run" };
        let title = self.style.paint(Tone::Strong, &format!("{kind} {}", self.info.name));
        let mut lines = vec![title];
        for target in &self.info.targets {
            let what = if let Some(engine) = target.predicted_engine() {
                format!("none, predicted from the engine profile `{engine}`")
            } else if target.is_simulated {
                format!("embedded simulator ({}, {})", target.backend, target.model)
            } else {
                let server =
                    target.server.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
                format!("{} ({}, {}{server})", target.route_url(), target.backend, target.model)
            };
            lines.push(format!("target: {what}"));
        }
        lines.extend(self.conventions());
        lines.extend(self.partial());
        lines
    }

    /// Why a run ended early, and what its figures then cover.
    fn partial(&self) -> Option<String> {
        let why = match self.summary.ended {
            Ended::Early(stop) => stop.reason(),
            Ended::Killed => "the program was killed",
            Ended::Complete => return None,
        };
        let what = if self.summary.is_unmeasured() {
            "nothing was measured"
        } else {
            "the figures cover the requests until then"
        };
        Some(self.style.paint(Tone::Doubtful, &format!("partial: {why}; {what}")))
    }

    /// The tool whose conventions the run followed, where that is not the default or the backend's name
    /// does not show it: SGLang's tool has a backend `vllm-chat`, too.
    fn conventions(&self) -> Option<String> {
        let is_sglang = |target: &TargetInfo| {
            target.backend().is_some_and(|backend| backend.server() == ServerKind::Sglang)
        };
        let (whose, other) = match self.info.family {
            Conventions::Sglang => ("SGLang's", "`--conventions vllm` follows vLLM's"),
            Conventions::Vllm if self.info.targets.iter().any(is_sglang) => {
                ("vLLM's", "`--conventions sglang` follows SGLang's")
            }
            Conventions::Vllm => return None,
        };
        Some(format!("conventions: {whose} for prompts, arrivals and connections; {other}"))
    }

    fn requests(&self) -> Vec<String> {
        let counts = self.summary.counts;
        // A run that ends by time has no number of requests but those whose time came.
        let due = if self.info.load.duration.is_some() { " due" } else { "" };
        let (succeeded, planned) = (count(counts.succeeded), count(counts.planned));
        let mut parts = vec![format!("{succeeded} of {planned}{due} succeeded")];
        let fates = [
            (counts.failed, "failed"),
            (counts.cancelled, "cancelled"),
            (counts.abandoned, "abandoned"),
            (counts.never_sent, "never sent"),
            (counts.retries, "retried"),
        ];
        let others = fates.iter().filter(|(number, _)| *number > 0);
        parts.extend(others.map(|(number, word)| format!("{} {word}", count(*number))));
        let time = self.summary.duration_s.map(|seconds| format!(" in {seconds:.1} s"));
        let text = parts.join(", ") + &time.unwrap_or_default();
        let load = load_text(self.info, self.summary);
        vec![line("requests", &text), line("load", &load)]
    }

    fn throughput(&self) -> Option<String> {
        let figure = |key: &str, unit: &str| {
            self.summary.figure(key).map(|value| format!("{} {unit}", rate(value)))
        };
        let parts: Vec<String> = [
            figure(Quantity::Requests.key(), "req/s"),
            figure(Quantity::Items.key(), "items/s"),
            figure("rtfx", "x real time"),
            figure(Quantity::Output.key(), "output tok/s"),
            figure(Quantity::Total.key(), "total tok/s"),
            self.prompt_rate(),
            figure("concurrency", "in flight"),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!parts.is_empty()).then(|| line("throughput", &parts.join(" · ")))
    }

    fn tokens(&self) -> Option<String> {
        let input = self.summary.figure("total_prompt_tokens");
        let output = self.summary.figure("total_output_tokens");
        let mut by_source: Vec<_> =
            self.summary.count_sources.iter().filter(|(_, requests)| **requests > 0).collect();
        by_source.sort_by_key(|(_, requests)| std::cmp::Reverse(**requests));
        let sources: Vec<String> = by_source
            .iter()
            .map(|(source, requests)| format!("{source} ({} requests)", count(**requests)))
            .collect();
        let mut parts = Vec::new();
        parts.extend(input.map(|tokens| format!("{} in", whole(tokens))));
        let items = self.summary.figure("total_items");
        parts.extend(items.map(|items| format!("{} items", whole(items))));
        let audio = self.summary.figure("total_audio_s");
        parts.extend(audio.map(|seconds| format!("{} s of audio", rate(seconds))));
        parts.extend(output.map(|tokens| format!("{} out", whole(tokens))));
        if !sources.is_empty() {
            parts.push(format!("counted by {}", sources.join(", ")));
        }
        (!parts.is_empty()).then(|| line("tokens", &parts.join(" · ")))
    }

    /// Prompt tokens per second, where nothing is generated.
    fn prompt_rate(&self) -> Option<String> {
        let rate_of = |quantity: Quantity| self.summary.figure(quantity);
        let prompt = rate_of(Quantity::Items).and(rate_of(Quantity::Prompt))?;
        Some(format!("{} prompt tok/s", rate(prompt)))
    }

    /// Whether the answers are vectors, scores or classes.
    fn is_pooling(&self) -> bool {
        self.summary.figure("total_items").is_some()
    }

    /// How the requests were spread over the server's addresses, where it has several.
    fn addresses(&self) -> Option<String> {
        let shares = &self.summary.addresses;
        let one = |share: &AddressShare| {
            format!("{} ({} requests)", share.address, count(share.requests))
        };
        let mut parts: Vec<String> = shares.iter().take(MOST_ADDRESSES).map(one).collect();
        if shares.len() > MOST_ADDRESSES {
            parts.push(format!("{} more", shares.len() - MOST_ADDRESSES));
        }
        (!parts.is_empty()).then(|| line("addresses", &parts.join(" · ")))
    }

    /// Whether answers are what was asked for, where that can be checked.
    fn quality(&self) -> Option<String> {
        let Quality { judged, empty, repeated, wrong_script, json, valid, tool_calls } =
            self.summary.quality?;
        let share = |number: u64, all: u64, what: &str| {
            let percent = number as f64 / all as f64 * 100.0;
            format!("{} of {} {what} ({percent:.1} %)", count(number), count(all))
        };
        let of = |number: u64, what: &str| share(number, judged, what);
        let mut parts = Vec::new();
        if let Some(calls) = tool_calls.filter(|calls| calls.judged > 0) {
            parts.push(share(calls.valid, calls.judged, "tool calls are valid"));
            let faults = [
                (calls.missing, "without a call"),
                (calls.not_json, "not JSON"),
                (calls.unknown_tool, "of an unknown tool"),
                (calls.not_allowed, "of a tool that the choice excludes"),
                (calls.misfit, "unlike the schema"),
                (calls.unchecked, "with a schema that cannot be checked"),
            ];
            let faults = faults.into_iter().filter(|(number, _)| *number > 0);
            parts.extend(faults.map(|(number, what)| format!("{} {what}", count(number))));
        }
        parts.extend(valid.map(|valid| of(valid, "fit the schema")));
        parts.extend(json.map(|json| of(json, "are JSON")));
        parts.extend((empty > 0).then(|| of(empty, "are empty")));
        parts.extend((repeated > 0).then(|| of(repeated, "repeat one word")));
        parts.extend((wrong_script > 0).then(|| of(wrong_script, "are in another script")));
        (!parts.is_empty()).then(|| line("answers", &parts.join(" · ")))
    }

    /// How many prompts with known answers were answered as expected.
    fn canaries(&self) -> Option<String> {
        let canaries = self.summary.canaries.as_ref()?;
        let (sent, good) = (count(canaries.sent), count(canaries.as_expected));
        Some(line("canaries", &format!("{good} of {sent} as expected")))
    }

    fn goodput(&self) -> Option<String> {
        let Goodput { objectives, good, share, requests_per_s } = self.summary.goodput?;
        let limit = |(one, limit): (Quantity, f64)| format!("{} ≤ {limit} ms", one.label());
        let limits: Vec<String> = objectives.limits().map(limit).collect();
        let mut parts = vec![format!("{} requests met {}", count(good), limits.join(", "))];
        parts.extend(share.map(|share| format!("{:.1} % of the planned requests", share * 100.0)));
        parts.extend(requests_per_s.map(|good| format!("{} req/s", rate(good))));
        Some(line("goodput", &parts.join(" · ")))
    }

    fn steady(&self) -> Option<String> {
        let steady = self.summary.steady.as_ref()?;
        let p99 = |quantity: Quantity, values: &Distribution| {
            format!("{} {}", quantity.label(), self.percentile(values, 99.0).trim())
        };
        let mut parts = vec![format!("{} req/s", rate(steady.requests_per_s))];
        if !self.is_pooling() {
            parts.push(format!("{} output tok/s", rate(steady.output_tokens_per_s)));
        }
        parts.push(format!("{:.1} in flight", steady.concurrency));
        let streamed = [(Quantity::Ttft, &steady.ttft_ms), (Quantity::Tpot, &steady.tpot_ms)];
        let streamed = streamed.into_iter().filter(|_| !self.is_pooling());
        let latencies = streamed.chain([(Quantity::E2e, &steady.e2e_ms)]);
        let latencies: Vec<String> = latencies.map(|(one, values)| p99(one, values)).collect();
        parts.push(format!("{} {}", Statistic::P99, latencies.join(" · ")));
        let span = format!("{:.1} s to {:.1} s", steady.begin_s, steady.end_s);
        Some(line("steady state", &format!("{span}: {}", parts.join(" · "))))
    }

    /// The run's course: requests in flight and output tokens by the second.
    fn course(&self) -> Vec<String> {
        if self.summary.windows.len() < 5 {
            return Vec::new();
        }
        let series = |of: fn(&tokometer_figures::windows::Window) -> f64| -> Vec<f64> {
            self.summary.windows.iter().map(of).collect()
        };
        let in_flight = line("in flight", &sparkline(&series(|window| window.in_flight), SPARKS));
        let output = sparkline(&series(|window| window.output_tokens), SPARKS);
        let output = (!self.is_pooling()).then(|| line("output tok/s", &output));
        std::iter::once(in_flight).chain(output).collect()
    }

    fn differences(&self, beside: Option<&Report>) -> Vec<String> {
        let Some(block) = beside else { return Vec::new() };
        let said = |number: f64, unit: &str| match unit {
            "ms" => format!("{} ms", self.style.millis(number)),
            "" => whole(number),
            "requests" => format!("{} requests", whole(number)),
            unit => format!("{} {unit}", rate(number)),
        };
        let withheld = prints_withheld_gaps(self.summary, block).then(|| {
            let text = "its percentiles of ITL are printed as that tool prints them; ours are withheld (shared-reads)";
            line("block above", &self.style.paint(Tone::Faint, text))
        });
        let client = client_time(self.summary, block)
            .map(|one| line("block above", &self.style.paint(Tone::Faint, &self.client_time(one))));
        differences(self.summary, block)
            .iter()
            .map(|one| {
                let text = format!(
                    "{} {}, ours {}: {}",
                    one.label,
                    said(one.theirs, one.unit),
                    said(one.ours, one.unit),
                    one.why
                );
                line("block above", &self.style.paint(Tone::Faint, &text))
            })
            .chain(client)
            .chain(withheld)
            .collect()
    }

    fn client_time(&self, ClientTime { ttft_ms, connecting_ms, queue_ms }: ClientTime) -> String {
        let said = |ms: f64| {
            let share = if ttft_ms > 0.0 { ms / ttft_ms * 100.0 } else { 0.0 };
            format!("{} ms ({share:.1} %)", self.style.millis(ms))
        };
        let within = if connecting_ms > 0.0 {
            format!("{} of its mean TTFT is connecting", said(connecting_ms))
        } else {
            "its TTFT begins when a request is sent".to_owned()
        };
        format!("{within}; before that, requests waited {} in this client's queue", said(queue_ms))
    }

    fn notes(&self) -> Vec<String> {
        self.summary.notes.iter().flat_map(|note| self.note(note)).collect()
    }

    fn note(&self, note: &Note) -> [String; 2] {
        let tone = match note.severity {
            Severity::Remark => Tone::Faint,
            Severity::Suspect => Tone::Doubtful,
            Severity::Invalid => Tone::Bad,
        };
        let code = self.style.paint(tone, &format!("note[{}]", note.code));
        let advice =
            if note.action.is_empty() { String::new() } else { format!("; {}", note.action) };
        [format!("{code}: {}", note.found), format!("  {}{advice}", note.why)]
    }

    /// A prediction has none: there is no measurement to trust.
    fn verdict(&self) -> String {
        if self.info.is_prediction() {
            return "verdict: none, nothing was measured".to_owned();
        }
        let verdict = self.summary.verdict;
        let codes = doubtful_codes(self.summary);
        let name = self.style.paint(affected::tone(verdict), verdict.name());
        if codes.is_empty() {
            format!("verdict: {name}")
        } else {
            format!("verdict: {name} ({codes})")
        }
    }
}

pub(crate) fn load_text(info: &RunInfo, summary: &Summary) -> String {
    let (load, class) = (&info.load, summary.load_class);
    // Later turns follow the answers: a rate counts the first ones.
    let is_of_turns = summary.sessions.is_some();
    let unit = if is_of_turns { "conversations/s" } else { "req/s" };
    let rate = match (load.ramp(), load.request_rate) {
        (Some(RecordedRamp { shape, from, to }), _) => {
            format!("{shape} ramp from {} to {} {unit}", brief(from), brief(to))
        }
        (None, _) if !load.stages.is_empty() => {
            let stages: Vec<&str> = load.stages.iter().map(|stage| stage.text.as_str()).collect();
            stages.join(", ")
        }
        (None, _) if load.is_traced => "arrival times from a trace".to_owned(),
        (None, Some(rate)) => format!("{} {unit}", brief(rate)),
        (None, None) => match class {
            LoadClass::Burst => "all at once".to_owned(),
            _ => "no rate limit".to_owned(),
        },
    };
    let class = match class {
        LoadClass::Burst => "burst",
        LoadClass::Closed => "closed loop",
        LoadClass::Open => "open loop",
        LoadClass::Staged => "stages",
    };
    let cap = load.max_concurrency.map(|cap| format!(", at most {cap} in flight"));
    let sessions = load.max_sessions.map(|most| format!(", at most {most} sessions"));
    format!("{class}: {rate}{}{}", sessions.unwrap_or_default(), cap.unwrap_or_default())
}

#[cfg(test)]
mod tests;
