//! What vLLM 0.32 printed and saved for routes that generate nothing, and for newer sections of its
//! report, against ours.
//!
//! `fixtures/reports` holds the printed block and the result file of real runs. The values per request
//! of a file go through our definitions, and the block must come out byte for byte.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails the test")]

use serde_json::{Map, Value, json};
use tokometer_base::Nanos;
use tokometer_compat::family::lenses;
use tokometer_compat::files::{self, Extent, ResultFile, vllm_json};
use tokometer_compat::{Field, Key, Layout, Metric, Selection, from_summary, parse, print};
use tokometer_figures::{Collector, Details, Family, Summary, SummaryOptions};
use tokometer_record::{
    AttemptId, Event, EventKind, Health, Outcome, Phase, RecordedLoad, RequestedLengths, RunEnd,
    RunInfo, RunState, Stop, TargetInfo, Timeline, Usage,
};

/// Each report with the inputs of its requests.
const POOLING: [(&str, &[u32]); 5] = [
    ("vllm-embeddings", &[1; 20]),
    ("vllm-embeddings-batch2", &[2; 10]),
    ("vllm-embeddings-chat", &[1; 20]),
    ("vllm-pooling", &[1; 20]),
    ("vllm-rerank", &[3, 3, 3, 3, 3, 3, 2]),
];

const GENERATING: [&str; 3] = ["vllm-queue", "vllm-random-mm", "vllm-responses"];

fn text(name: &str, ending: &str) -> String {
    let path = format!("{}/../../fixtures/reports/{name}.{ending}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"))
}

fn object(name: &str) -> Map<String, Value> {
    serde_json::from_str(&text(name, "json")).unwrap()
}

/// The block itself, without the lines that vLLM's client prints before it.
fn block(name: &str) -> String {
    let all = text(name, "txt");
    let begin = all.find("============ Serving").unwrap();
    all[begin..].trim_end_matches('\n').to_owned() + "\n"
}

fn seconds(value: &Value) -> Nanos {
    Nanos::from_secs_f64(value.as_f64().unwrap())
}

fn info(file: &Map<String, Value>) -> RunInfo {
    let word = |key: &str| file[key].as_str().unwrap().to_owned();
    let base = fixed_info();
    RunInfo {
        targets: vec![TargetInfo {
            endpoint: "/v1/embeddings".to_owned(),
            backend: word("backend"),
            model: word("model_id"),
            ..base.targets[0].clone()
        }],
        load: RecordedLoad {
            request_rate: None,
            max_concurrency: Some(4),
            max_sessions: None,
            planned_requests: file["num_prompts"].as_u64(),
            ..base.load.clone()
        },
        tokenizer: Some(word("tokenizer_id")),
        ..base
    }
}

/// The run that tests of several crates share.
fn fixed_info() -> RunInfo {
    serde_json::from_str(include_str!("../../../fixtures/run/info.json")).unwrap()
}

fn timeline(index: usize, file: &Map<String, Value>, items: u32) -> Timeline {
    let start = seconds(&file["queue_times"][index]);
    let end = start + seconds(&file["latencies"][index]);
    let requested = RequestedLengths { items: Some(items), ..RequestedLengths::default() };
    let identity = AttemptId::new(index as u64, Phase::Measure);
    let mut timeline = Timeline::new(identity, requested, start);
    timeline.times.first_byte_sent = Some(start);
    timeline.times.end = Some(end);
    timeline.push(Event::new(end, 0, EventKind::Result));
    let tokens = file["input_lens"][index].as_u64().unwrap();
    let tokens = Some(u32::try_from(tokens).unwrap());
    timeline.usage = Some(Usage { prompt_tokens: tokens, ..Usage::default() });
    timeline.status = Some(200);
    timeline.outcome = Outcome::Success;
    timeline
}

fn summary(file: &Map<String, Value>, items: &[u32], info: &RunInfo) -> Summary {
    let options = SummaryOptions {
        lenses: lenses([Family::Vllm, Family::Sglang], Details::Keep),
        ..SummaryOptions::default()
    };
    let mut collector = Collector::new(info, options);
    for (index, items) in items.iter().enumerate() {
        collector.push(&timeline(index, file, *items));
    }
    let state = RunState::Ended(Box::new(RunEnd {
        stop: Stop::Complete,
        measure_begin: Nanos::ZERO,
        measure_end: seconds(&file["duration"]),
        abandoned: 0,
        never_sent: 0,
        health: Health::default(),
    }));
    tokometer_judge::judge(collector.finish(&state))
}

fn shown() -> Selection {
    Selection { metrics: vec![Metric::E2el], percentiles: vec![99.0] }
}

#[test]
fn the_block_of_a_pooling_run_is_vllm_s_byte_for_byte() {
    for (name, items) in POOLING {
        let file = object(name);
        let info = info(&file);
        let summary = summary(&file, items, &info);
        let report = from_summary(&summary, &info, Layout::V4, &shown()).unwrap();
        assert_eq!(print(&report, Layout::V4).unwrap(), block(name), "{name}");
    }
}

#[test]
fn the_file_of_a_pooling_run_has_vllm_s_keys_and_values() {
    for (name, items) in POOLING {
        let theirs = object(name);
        let info = info(&theirs);
        let summary = summary(&theirs, items, &info);
        let file = ResultFile {
            summary: &summary,
            info: &info,
            label: None,
            metadata: &[],
            shown: &shown(),
            workload: &[],
            extent: Extent::Requests,
        };
        let ours: Map<String, Value> = serde_json::from_str(&vllm_json(&file).unwrap()).unwrap();
        for (key, theirs) in &theirs {
            let ours = ours.get(key).unwrap_or_else(|| panic!("{name}: no `{key}`"));
            let is_same = match (ours.as_f64(), theirs.as_f64()) {
                (Some(ours), Some(theirs)) => (ours - theirs).abs() <= 1e-6 * theirs.abs(),
                _ if key == "date" || key == "latencies" || key == "queue_times" => true,
                _ => ours == theirs,
            };
            assert!(is_same, "{name}, {key}: {ours} is not {theirs}");
        }
        // The client's queue is always saved where something could wait; vLLM saves it when asked.
        let extra = ["tokometer", "request_goodput"];
        let is_known = |key: &String| {
            theirs.contains_key(key) || extra.contains(&&**key) || key.contains("client_queue")
        };
        assert!(ours.keys().all(is_known), "{name}: {:?}", ours.keys());
    }
}

/// A time that no answer had must not be shown as zero.
#[test]
fn a_run_without_streams_has_no_times_of_tokens() {
    let file = object("vllm-embeddings-batch2");
    let info = info(&file);
    let summary = summary(&file, &[2; 10], &info);
    for key in ["ttft_ms", "tpot_ms", "gap_ms", "first_event_ms", "tokens_per_s_per_user"] {
        assert!(summary.distribution(key).is_none(), "{key}");
    }
    for key in ["output_tokens_per_s", "total_output_tokens", "peak_output_tokens_per_s"] {
        assert_eq!(summary.figure(key), None, "{key}");
    }
    let mean = |key: &str| summary.distribution(key).unwrap().mean.unwrap();
    assert!((mean("e2e_ms") - 31.484_633).abs() < 1e-3);
    assert!((mean("e2e_per_item_ms") * 2.0 - mean("e2e_ms")).abs() < 1e-9);
    assert_eq!(summary.figure("total_items"), Some(20.0));
    assert!((summary.figure("items_per_s").unwrap() - 223.98).abs() < 0.01);
    let codes: Vec<&str> = summary.notes.iter().map(|note| note.code.as_str()).collect();
    assert!(!codes.contains(&"missing-usage"), "{codes:?}");
    let sglang = from_summary(&summary, &info, Layout::S3, &shown()).unwrap();
    let printed = print(&sglang, Layout::S3).unwrap();
    for label in ["generated", "Output", "Total token", "TTFT", "TPOT", "ITL"] {
        assert!(!printed.contains(label), "{label}: {printed}");
    }
    assert!(printed.contains("Mean E2E Latency (ms):"), "{printed}");
}

#[test]
fn newer_blocks_and_files_are_read_back() {
    for name in POOLING.iter().map(|(name, _)| *name).chain(GENERATING) {
        let read = parse(&text(name, "txt")).remove(0);
        let layout = read.layout.unwrap();
        let expected = if name == "vllm-queue" { Layout::V5 } else { Layout::V4 };
        assert_eq!(layout, expected, "{name}");
        assert_eq!(print(&read, layout).unwrap(), block(name), "{name}");
        let saved = files::read(&text(name, "json")).unwrap().remove(0);
        for (key, value) in read.values.iter() {
            let is_saved = key != Key::Field(Field::Failed) || !name.starts_with("vllm-r");
            let Some(printed) = value.scalar.as_f64().filter(|_| is_saved) else { continue };
            if let Some(kept) = saved.values.get(key).and_then(|value| value.scalar.as_f64()) {
                assert!((kept - printed).abs() < 0.006, "{name}, {key:?}: {kept} is not {printed}");
            } else {
                assert_eq!(key, Key::Field(Field::Failed), "{name}");
            }
        }
    }
    let queue = files::read(&text("vllm-queue", "json")).unwrap().remove(0);
    let mean = Key::Latency(Metric::QueuedE2el, tokometer_compat::Stat::Mean);
    assert_eq!(json!(queue.values.get(mean).unwrap().scalar.as_f64()), 1_185.199_061_549_974_4);
}
