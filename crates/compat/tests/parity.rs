//! Our figures, blocks and result files against those of the other tools' own code.
//!
//! `fixtures/parity/make.py` plays the timelines of `fixtures/parity/timelines` to released versions of
//! vLLM's and SGLang's benchmark clients and keeps what they print and save. Here the same timelines
//! go through our definitions, and every number, line and key is compared.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails the test")]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use tokometer_base::Nanos;
use tokometer_compat::family::lenses;
use tokometer_compat::files::{Extent, ResultFile, sglang_line, vllm_json};
use tokometer_compat::{Layout, Metric, Selection, from_summary, print};
use tokometer_figures::{
    Collector, Details, FamilyFigures, ListStats, Objectives, Summary, SummaryOptions,
};
use tokometer_record::server::{SERVER_INFO_ACCEPT_LENGTH, Scrape};
use tokometer_record::{
    AttemptId, Event, EventKind, Failure, FailureKind, Health, Outcome, Phase, RecordedLoad,
    RequestedLengths, RunEnd, RunInfo, RunState, Stop, TargetInfo, Timeline, Usage,
};

/// A run that every tool is given; `fixtures/parity/timelines.py` says what its fields mean.
#[derive(Debug, Deserialize)]
struct Shared {
    route: String,
    request_rate: Option<f64>,
    max_concurrency: Option<u32>,
    metrics: Vec<String>,
    percentiles: Vec<f64>,
    goodput: Option<BTreeMap<String, f64>>,
    warmups: u64,
    begin_ns: u64,
    end_ns: u64,
    server_info: Option<Value>,
    metrics_text: Option<[String; 2]>,
    requests: Vec<Request>,
}

#[derive(Debug, Deserialize)]
struct Request {
    arrival_ns: u64,
    start_ns: u64,
    prompt_tokens: u32,
    asked_tokens: u32,
    usage: Option<Usage>,
    status: u16,
    events: Vec<Told>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Told {
    Text(u64, String, String),
    Mark(u64, String),
}

/// What one release made of one timeline.
#[derive(Debug, Deserialize)]
struct Theirs {
    block: Vec<String>,
    keys: Vec<String>,
    result: Map<String, Value>,
}

fn fixture<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let path = format!("{}/../../fixtures/parity/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// The record that our client would have of a request.
fn timeline(index: u64, phase: Phase, request: &Request, shared: &Shared) -> Timeline {
    let start = Nanos(request.start_ns);
    let asked = RequestedLengths {
        prompt_tokens: Some(request.prompt_tokens),
        output_tokens: Some(request.asked_tokens),
        body_bytes: 0,
        items: None,
        audio: None,
        prompt_hash: None,
        prompt_script: None,
        session_recorded: None,
        possible_cached_tokens: None,
    };
    let mut timeline = Timeline::new(AttemptId::new(index, phase), asked, start);
    let arrival = Nanos(request.arrival_ns);
    timeline.times.intended = shared.request_rate.map(|_| arrival);
    timeline.times.first_byte_sent = Some(start);
    timeline.status = Some(request.status);
    timeline.usage = request.usage;
    timeline.outcome = Outcome::Success;
    let mut text = String::new();
    for (read, told) in (0..).zip(&request.events) {
        let (at, kind, words) = match told {
            Told::Text(at, kind, words) => (*at, kind.as_str(), words.as_str()),
            Told::Mark(at, kind) => (*at, kind.as_str(), ""),
        };
        let kind = match kind {
            "role" => EventKind::Role,
            "empty" => EventKind::Empty,
            "reasoning" => EventKind::Reasoning,
            "text" | "last" => EventKind::Text,
            "usage" => EventKind::Usage,
            "end" => EventKind::End,
            _ => {
                timeline.outcome = Outcome::Failed(Failure::new(FailureKind::Cut, "cut"));
                continue;
            }
        };
        let tokens = kind.has_choice().then(|| u32::try_from(words.chars().count()).unwrap());
        timeline.push(Event::new(Nanos(at), read, kind).with_tokens(tokens));
        text.push_str(words);
    }
    if request.status != 200 {
        timeline.outcome = Outcome::Failed(Failure::new(FailureKind::Status, "overloaded"));
    } else if timeline.is_success() && timeline.first_content().is_none() {
        timeline.outcome = Outcome::Failed(Failure::new(FailureKind::NoContent, "no content"));
    }
    timeline.times.end = timeline.events.last().map(|event| event.at);
    timeline.retokenized_tokens = Some(u32::try_from(text.chars().count()).unwrap());
    timeline.text = Some(text);
    timeline
}

fn info(shared: &Shared, tool: &str) -> RunInfo {
    let (endpoint, backend) = match (shared.route.as_str(), tool) {
        ("chat", "vllm") => ("/v1/chat/completions", "openai-chat"),
        ("chat", _) => ("/v1/chat/completions", "sglang-oai-chat"),
        ("native", _) => ("/generate", "sglang"),
        (_, "vllm") => ("/v1/completions", "openai"),
        _ => ("/v1/completions", "sglang-oai"),
    };
    let text = include_str!("../../../fixtures/run/info.json");
    let base: RunInfo = serde_json::from_str(text).unwrap();
    RunInfo {
        family: serde_json::from_value(tool.into()).unwrap(),
        targets: vec![TargetInfo {
            endpoint: endpoint.to_owned(),
            backend: backend.to_owned(),
            model: "model".to_owned(),
            ..base.targets[0].clone()
        }],
        load: RecordedLoad {
            request_rate: shared.request_rate,
            max_concurrency: shared.max_concurrency,
            max_sessions: None,
            planned_requests: Some(shared.requests.len() as u64),
            ..base.load.clone()
        },
        tokenizer: Some("model".to_owned()),
        ..base
    }
}

fn shown(shared: &Shared) -> Selection {
    let metrics = shared.metrics.iter().map(|name| match name.as_str() {
        "ttft" => Metric::Ttft,
        "tpot" => Metric::Tpot,
        "itl" => Metric::Itl,
        "e2el" => Metric::E2el,
        "client_queue_time" => Metric::ClientQueue,
        _ => Metric::QueuedE2el,
    });
    Selection { metrics: metrics.collect(), percentiles: shared.percentiles.clone() }
}

/// The scrapes before and after the run, as our client keeps them.
fn scrapes(shared: &Shared) -> Vec<Scrape> {
    let times = [shared.begin_ns - 1, shared.end_ns + 1].map(Nanos);
    let texts = shared.metrics_text.clone().unwrap_or_default();
    let mut scrapes: Vec<Scrape> = times
        .into_iter()
        .zip(texts)
        .map(|(at, text)| {
            let sample = |line: &str| {
                let (name, value) = line.rsplit_once(' ')?;
                Some((name.to_owned(), value.parse().ok()?))
            };
            let values = text.lines().filter_map(sample).collect();
            Scrape { at, endpoint: 0, values, error: None }
        })
        .filter(|_| shared.metrics_text.is_some())
        .collect();
    if let Some(length) = shared.server_info.as_ref().and_then(reported_accept_length) {
        let told = (SERVER_INFO_ACCEPT_LENGTH.to_owned(), length);
        let at = Nanos(shared.end_ns + 2);
        scrapes.push(Scrape { at, endpoint: 0, values: [told].into(), error: None });
    }
    scrapes
}

fn reported_accept_length(info: &Value) -> Option<f64> {
    info["internal_states"][0]["avg_spec_accept_length"].as_f64()
}

fn summary(shared: &Shared, info: &RunInfo, layout: Layout) -> Summary {
    let limit = |name: &str| shared.goodput.as_ref()?.get(name).copied();
    let options = SummaryOptions {
        percentiles: shown(shared).needed_percentiles(),
        objectives: Objectives {
            ttft_ms: limit("ttft"),
            tpot_ms: limit("tpot"),
            e2el_ms: limit("e2el"),
        },
        lenses: lenses(layout.family(), Details::Keep),
        ..SummaryOptions::default()
    };
    let mut collector = Collector::new(info, options);
    for warmup in 0..shared.warmups {
        collector.push(&timeline(warmup, Phase::Warmup, &shared.requests[0], shared));
    }
    for (index, request) in (0..).zip(&shared.requests) {
        collector.push(&timeline(index, Phase::Measure, request, shared));
    }
    for scrape in scrapes(shared) {
        collector.push_scrape(&scrape);
    }
    let state = RunState::Ended(Box::new(RunEnd {
        stop: Stop::Complete,
        measure_begin: Nanos(shared.begin_ns),
        measure_end: Nanos(shared.end_ns),
        abandoned: 0,
        never_sent: 0,
        health: Health::default(),
    }));
    collector.finish(&state).summary
}

/// Keys of a tool's result that hold no figure of the run, or one that is compared elsewhere.
const NO_FIGURES: [&str; 21] = [
    "tag",
    "endpoint_type",
    "backend",
    "label",
    "model_id",
    "tokenizer_id",
    "best_of",
    "num_prompts",
    "request_rate",
    "burstiness",
    "max_concurrency",
    "dataset_name",
    "sharegpt_output_len",
    "random_input_len",
    "random_output_len",
    "random_range_ratio",
    "goodput_slos_ms",
    "generated_texts",
    "has_error",
    "total_input_text_tokens",
    "total_input_vision_tokens",
];

/// Our figure under the tool's key; `None` for a key that holds no figure.
fn ours(figures: &FamilyFigures, key: &str) -> Option<f64> {
    Some(match key.trim_end_matches(':') {
        "duration" => figures.duration_s,
        "completed" => figures.completed as f64,
        "failed" => figures.failed as f64,
        "total_input_tokens" => figures.total_input as f64,
        "total_output_tokens" => figures.total_output as f64,
        "total_output_tokens_retokenized" => figures.retokenized? as f64,
        "request_throughput" => figures.request_throughput,
        "request_goodput" => figures.goodput?,
        "input_throughput" => figures.input_throughput,
        "output_throughput" => figures.output_throughput,
        "total_token_throughput" | "total_throughput" => figures.total_throughput,
        "max_output_tokens_per_s" => figures.peak_output_throughput,
        "max_concurrent_requests" => figures.peak_concurrent_requests as f64,
        "concurrency" => figures.concurrency,
        "slo_attainment" => figures.attainment.as_ref()?.all,
        "rtfx" => figures.rtfx,
        statistic => {
            let (stat, metric) = statistic.strip_suffix("_ms")?.split_once('_')?;
            let stats: &ListStats = match metric {
                "ttft" => &figures.ttft,
                "tpot" => &figures.tpot,
                "itl" => &figures.itl,
                "e2el" | "e2e_latency" => &figures.e2el,
                "client_queue_time" => &figures.client_queue,
                "e2el_including_client_queue" => &figures.e2el_with_queue,
                _ => return None,
            };
            match stat {
                "mean" => stats.mean,
                "median" => stats.median,
                "std" => stats.std,
                percentile => stats.percentile(percentile.strip_prefix('p')?.parse().ok()?)?,
            }
        }
    })
}

fn is_near(ours: f64, theirs: f64) -> bool {
    (ours - theirs).abs() <= 1e-9 * theirs.abs().max(1.0)
}

/// Numbers to within rounding, everything else as it is.
fn is_same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        _ => match (ours.as_f64(), theirs.as_f64()) {
            (Some(a), Some(b)) => is_near(a, b),
            _ => ours == theirs,
        },
    }
}

/// A release, the layouts of ours that print as it does, and the timelines it was given.
struct Release {
    name: &'static str,
    layout: Layout,
    timelines: &'static [&'static str],
}

/// vLLM 0.32 has the sections of the client's queue, which only V5 knows.
const RELEASES: [Release; 9] = [
    Release {
        name: "vllm-0.32.0",
        layout: Layout::V5,
        timelines: &[
            "plain",
            "speculation",
            "chat",
            "capped",
            "capped-burst",
            "failures",
            "only-failures",
        ],
    },
    Release {
        name: "vllm-0.28.0",
        layout: Layout::V4,
        timelines: &["plain", "speculation", "capped", "capped-burst", "failures"],
    },
    Release {
        name: "vllm-0.11.2",
        layout: Layout::V35,
        timelines: &["plain", "capped", "failures"],
    },
    Release {
        name: "vllm-0.11.0",
        layout: Layout::V3,
        timelines: &["plain", "capped", "failures"],
    },
    Release {
        name: "vllm-0.6.6",
        layout: Layout::V2,
        timelines: &["plain", "capped", "failures", "chat-without-reasoning"],
    },
    Release {
        name: "sglang-0.5.23",
        layout: Layout::S3,
        timelines: &[
            "plain",
            "speculation",
            "chat",
            "capped",
            "capped-burst",
            "failures",
            "native",
        ],
    },
    Release {
        name: "sglang-0.5.5.post3",
        layout: Layout::S2,
        timelines: &[
            "plain",
            "speculation",
            "chat-without-reasoning",
            "capped",
            "capped-burst",
            "failures",
            "native",
        ],
    },
    Release {
        name: "sglang-0.5.1",
        layout: Layout::S1,
        timelines: &[
            "plain",
            "chat-without-reasoning",
            "capped",
            "capped-burst",
            "failures",
            "native",
        ],
    },
    Release {
        name: "sglang-0.4.1",
        layout: Layout::S0,
        timelines: &["plain", "capped", "capped-burst"],
    },
];

/// Visits each timeline of each release with what that release made of it.
fn each(mut visit: impl FnMut(&Release, &str, &Shared, &Theirs)) {
    #[derive(Deserialize)]
    struct File {
        version: String,
        cases: BTreeMap<String, Theirs>,
    }
    for release in &RELEASES {
        let file: File = fixture(release.name);
        assert!(release.name.ends_with(&file.version));
        assert_eq!(file.cases.len(), release.timelines.len(), "{}", release.name);
        for name in release.timelines {
            let shared: Shared = fixture(&format!("timelines/{name}"));
            visit(release, name, &shared, &file.cases[*name]);
        }
    }
}

fn tool(release: &Release) -> &'static str {
    release.name.split_once('-').unwrap().0
}

#[test]
fn every_figure_is_the_tools_own() {
    let mut wrong = Vec::new();
    let mut compared = 0;
    each(|release, name, shared, theirs| {
        let info = info(shared, tool(release));
        let summary = summary(shared, &info, release.layout);
        let figures = &summary.families[&release.layout.family().unwrap()];
        for (key, value) in &theirs.result {
            let Some(value) = value.as_f64() else { continue };
            match ours(figures, key) {
                Some(found) if is_near(found, value) => compared += 1,
                Some(found) => {
                    wrong.push(format!("{} {name}: {key} {found}, not {value}", release.name));
                }
                None if NO_FIGURES.contains(&key.as_str()) => {}
                None if key == "accept_length" || key.starts_with("spec_decode") => {}
                None => wrong.push(format!("{} {name}: {key} is not compared", release.name)),
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(compared, 1_305);
}

#[test]
fn every_block_is_the_tools_own_byte_for_byte() {
    let mut wrong = Vec::new();
    each(|release, name, shared, theirs| {
        let info = info(shared, tool(release));
        let summary = summary(shared, &info, release.layout);
        let report = from_summary(&summary, &info, release.layout, &shown(shared)).unwrap();
        let block = print(&report, release.layout).unwrap();
        let theirs = theirs.block.join("\n");
        if block != theirs {
            let lines = theirs.lines().zip(block.lines()).filter(|(theirs, ours)| theirs != ours);
            let lines: Vec<String> =
                lines.take(6).map(|(theirs, ours)| format!("  {theirs}|\n  {ours}|\n")).collect();
            wrong.push(format!("{} {name}\n{}", release.name, lines.concat()));
        }
    });
    assert!(wrong.is_empty(), "theirs above, ours below\n{}", wrong.concat());
}

#[test]
fn a_result_file_has_the_newest_releases_keys_and_values() {
    let mut wrong = Vec::new();
    each(|release, name, shared, theirs| {
        let write = match release.name {
            "vllm-0.32.0" => vllm_json,
            "sglang-0.5.23" => sglang_line,
            _ => return,
        };
        let info = info(shared, tool(release));
        let summary = summary(shared, &info, release.layout);
        let line = write(&ResultFile {
            summary: &summary,
            info: &info,
            label: None,
            metadata: &[],
            shown: &shown(shared),
            workload: &[],
            extent: Extent::Requests,
        });
        let mut found: Map<String, Value> = serde_json::from_str(&line.unwrap()).unwrap();
        let errors = found["errors"].as_array().unwrap().clone();
        let has_error = errors.iter().map(|error| Value::Bool(error != "")).collect();
        found.insert("has_error".to_owned(), Value::Array(has_error));
        for (key, value) in &theirs.result {
            // A record keeps reasoning with the text, as SGLang does; vLLM leaves it out.
            if key == "generated_texts" && (tool(release), name) == ("vllm", "chat") {
                continue;
            }
            let ours = found.get(key).unwrap_or(&Value::String("missing".into())).clone();
            if !is_same(&ours, value) {
                wrong.push(format!("{} {name}: {key} {ours}, not {value}", release.name));
            }
        }
        let is_ours = |key: &str| ["tokometer", "has_error"].contains(&key);
        for key in found.keys().filter(|key| !is_ours(key) && !theirs.keys.contains(key)) {
            wrong.push(format!("{} {name}: {key} is not theirs", release.name));
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
