//! One fixed run that feeds every view's test.

use std::collections::BTreeMap;

use serde_json::json;
use tokometer_base::{Nanos, Seed, WallNanos};
use tokometer_metrics::anatomy::{Known, Part, Stage};
use tokometer_metrics::figures::{Detail, Probe, SteadyWindow};
use tokometer_metrics::goodput::{Goodput, Objectives};
use tokometer_metrics::server::{BucketQuantile, GpuFigures, ServerFigures, Speculation};
use tokometer_metrics::steady::{LoadClass, Steady};
use tokometer_metrics::steps::{Stalls, StepFigures, Steps};
use tokometer_metrics::summary::{Counts, FailureGroup};
use tokometer_metrics::windows::Window;
use tokometer_metrics::{
    Distribution, Family, FamilyFigures, Note, Percentile, Severity, Stats, Summary, Verdict,
};
use tokometer_record::{FailureKind, Load, RunInfo, Target};

pub(crate) fn info() -> RunInfo {
    RunInfo {
        schema: 1,
        version: "0.1.0".to_owned(),
        name: "nightly".to_owned(),
        started: WallNanos(1_760_000_000_000_000_000),
        origin: Nanos::ZERO,
        seed: Seed(7),
        salt: 1,
        family: "vllm".to_owned(),
        targets: vec![Target {
            base_url: "http://127.0.0.1:8000".to_owned(),
            endpoint: "/v1/completions".to_owned(),
            backend: "vllm".to_owned(),
            model: "org/model-8b".to_owned(),
            is_simulated: false,
            server: Some("vllm 0.11".to_owned()),
        }],
        load: Load {
            request_rate: Some(20.0),
            burstiness: 1.0,
            max_concurrency: Some(64),
            planned_requests: Some(1_000),
            duration: None,
            is_traced: false,
            ramp: None,
        },
        dataset: "random".to_owned(),
        tokenizer: Some("org/model-8b".to_owned()),
        plan: json!({}),
        environment: json!({}),
        remarks: Vec::new(),
    }
}

fn stats(mean: f64) -> Stats {
    Stats {
        count: 988,
        mean,
        median: mean * 0.9,
        std: mean * 0.25,
        max: mean * 4.0,
        percentiles: vec![
            (99.0, mean * 3.0),
            (50.0, mean * 0.9),
            (90.0, mean * 1.5),
            (95.0, mean * 2.0),
        ],
    }
}

fn family_figures() -> FamilyFigures {
    FamilyFigures {
        completed: 988,
        failed: 12,
        duration_s: 52.5,
        total_input: 1_011_712,
        total_output: 126_464,
        retokenized: Some(126_001),
        request_throughput: 988.0 / 52.5,
        goodput: Some(17.25),
        output_throughput: 126_464.0 / 52.5,
        input_throughput: 1_011_712.0 / 52.5,
        total_throughput: 1_138_176.0 / 52.5,
        peak_output_throughput: 3_021.0,
        peak_concurrent_requests: 71,
        concurrency: 31.5,
        ttft: stats(120.5),
        tpot: stats(12.345),
        itl: stats(12.1),
        e2el: stats(1_688.3),
        client_queue: stats(3.25),
        e2el_with_queue: stats(1_691.5),
        probe: Some(Probe { completed: 50, failed: 1, median: 25.5, p99: 80.25, max: 99.0 }),
        steady: Some(steady_window()),
        detail: Some(Detail {
            input_lens: vec![1024, 1024],
            output_lens: vec![2, 0],
            ttfts: vec![0.125, 0.0],
            itls: vec![vec![0.0125], vec![]],
            start_times: vec![10.5, 10.75],
            latencies: vec![0.1375, 0.0],
            queue_times: vec![0.0, 0.001],
            generated_texts: vec!["grüß dich".to_owned(), String::new()],
            errors: vec![String::new(), "Service Unavailable".to_owned()],
            cached_tokens: vec![Some(16), None],
        }),
    }
}

fn steady_window() -> SteadyWindow {
    SteadyWindow {
        threshold: 0.95,
        max_concurrency: 64,
        threshold_requests: 61,
        begin_s: 1.2,
        end_s: 45.6,
        is_short: false,
        observed_peak: 64,
        started: 850,
        total: 988,
        completed: 840,
        request_throughput: 18.9,
        output_throughput: 2_420.5,
        input_throughput: 19_400.25,
        total_throughput: 21_820.75,
        ttft: stats(121.0),
        tpot: stats(12.5),
    }
}

fn distribution(mean: f64) -> Distribution {
    let percentile = |percent: f64, value: Option<f64>| Percentile {
        percent,
        value,
        above: Some(60_000.0),
        low: value,
        high: value,
        is_supported: percent < 99.5,
    };
    Distribution {
        count: 1_000,
        infinite: 12,
        mean: Some(mean),
        mean_margin: Some(mean * 0.02),
        std: Some(mean * 0.25),
        min: Some(mean * 0.5),
        max: Some(mean * 4.0),
        percentiles: vec![
            percentile(50.0, Some(mean * 0.9)),
            percentile(90.0, Some(mean * 1.5)),
            percentile(99.0, None),
        ],
        is_withheld: false,
    }
}

/// A distribution of successful requests alone, too few for their P99.
fn small(mean: f64) -> Distribution {
    let mut values = distribution(mean);
    (values.count, values.infinite) = (200, 0);
    for percentile in &mut values.percentiles {
        percentile.value = percentile.value.or(Some(mean * 3.0));
        percentile.is_supported = percentile.percent < 99.0;
    }
    values
}

fn note(code: &str, severity: Severity, figure: &str) -> Note {
    Note {
        code: code.to_owned(),
        severity,
        figure: figure.to_owned(),
        found: "412 of 1000 requests left more than 5 ms after their time (worst 38 ms)".to_owned(),
        why: "the generator was short of CPU".to_owned(),
        action: "use fewer connections".to_owned(),
    }
}

fn figures() -> BTreeMap<String, Option<f64>> {
    [
        ("requests_per_s", Some(988.0 / 52.5)),
        ("output_tokens_per_s", Some(126_464.0 / 52.5)),
        ("total_tokens_per_s", Some(1_138_176.0 / 52.5)),
        ("concurrency", Some(31.5)),
        ("total_prompt_tokens", Some(1_011_712.0)),
        ("total_output_tokens", Some(126_464.0)),
        ("peak_output_tokens_per_s", Some(3_890.0)),
        ("peak_in_flight", Some(64.0)),
        ("goodput_share", None),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn window(second: u32) -> Window {
    let in_flight = f64::from(second.min(9 - second));
    Window {
        at_s: f64::from(second),
        in_flight,
        output_tokens: in_flight * 50.0,
        ..Window::default()
    }
}

fn server() -> ServerFigures {
    let speculation = Speculation {
        drafts: 1_000.0,
        draft_tokens: 4_000.0,
        accepted_tokens: 2_500.0,
        acceptance_rate_percent: 62.5,
        acceptance_length: 3.5,
        per_position: vec![0.8, 0.6],
    };
    ServerFigures {
        engine: Some("vllm".to_owned()),
        scrapes: 50,
        running_max: Some(64.0),
        waiting_max: Some(5.0),
        kv_use_max: Some(0.42),
        prefix_hit_share: Some(0.03),
        is_whole: true,
        ttft_ms_mean: Some(118.0),
        ttft_p50: Some(BucketQuantile {
            value_ms: Some(112.5),
            low_ms: 100.0,
            high_ms: Some(250.0),
        }),
        ttft_p99: Some(BucketQuantile {
            value_ms: Some(487.5),
            low_ms: 250.0,
            high_ms: Some(500.0),
        }),
        gpu: Some(GpuFigures {
            source: "DCGM".to_owned(),
            devices: 1,
            unused_devices: 1,
            utilisation_percent_mean: Some(87.4),
            memory_mib_max: Some(40_960.0),
            power_w_mean: Some(412.0),
            energy_j: Some(21_630.0),
            is_energy_from_power: false,
            energy_j_per_output_token: Some(0.171),
        }),
        speculation: Some(speculation),
        ..ServerFigures::default()
    }
}

fn steps() -> Steps {
    Steps::Seen(StepFigures {
        steps: 3_120,
        kept_share: 1.0,
        span_ms_p50: Some(11.9),
        span_ms_p99: Some(45.25),
        batch_p50: Some(31.0),
        batch_max: 64,
        together: Some(0.97),
        stalls: Some(Stalls { count: 85, longest_ms: 92.5, time_share: 0.061 }),
    })
}

fn ttft_parts() -> Vec<Part> {
    let part = |name: &str, mean_ms: f64, known: Known, stage: Stage| Part {
        name: name.to_owned(),
        mean_ms,
        stage,
        known,
    };
    vec![
        part("client queue", 3.25, Known::Measured, Stage::Before),
        part("sending the request", 0.05, Known::Measured, Stage::Within),
        part("network round trip", 0.2, Known::Inferred, Stage::Within),
        part("prefill", 90.5, Known::Told, Stage::Within),
        part("rest in the server", 59.5, Known::Inferred, Stage::Within),
    ]
}

/// A run with something of everything: failures, notes, a steady part, all families.
pub(crate) fn summary() -> Summary {
    let families = [Family::Vllm, Family::OldVllm, Family::VllmRust, Family::Sglang];
    let distributions = [
        ("ttft_ms", distribution(150.25)),
        ("first_event_ms", distribution(120.5)),
        ("tpot_ms", small(12.3)),
        ("gap_ms", small(12.1)),
        ("e2e_ms", distribution(1_688.3)),
        ("e2e_from_intended_ms", distribution(1_991.5)),
        ("client_queue_ms", small(3.25)),
    ];
    Summary {
        counts: Counts {
            planned: 1_000,
            sent: 1_000,
            succeeded: 988,
            failed: 12,
            ..Counts::default()
        },
        duration_s: Some(52.5),
        figures: figures(),
        distributions: distributions.map(|(key, values)| (key.to_owned(), values)).into(),
        count_sources: [("usage".to_owned(), 980), ("retokenized".to_owned(), 8)].into(),
        failures: vec![FailureGroup {
            kind: FailureKind::Status,
            status: Some(503),
            count: 12,
            example: "{\"error\": \"engine\n  overloaded\"}".to_owned(),
        }],
        goodput: Some(Goodput {
            objectives: Objectives { ttft_ms: Some(200.0), tpot_ms: Some(50.0), e2el_ms: None },
            good: 906,
            share: Some(0.906),
            requests_per_s: Some(17.25),
        }),
        load_class: LoadClass::Open,
        steady: Some(Steady {
            begin_s: 3.0,
            end_s: 49.5,
            started: 900,
            completed: 890,
            concurrency: 33.2,
            requests_per_s: 19.1,
            output_tokens_per_s: 2_444.0,
            ttft_ms: small(140.0),
            tpot_ms: small(12.4),
            e2e_ms: small(1_700.0),
        }),
        server: Some(server()),
        steps: Some(steps()),
        ttft_parts: ttft_parts(),
        families: families.map(|family| (family, family_figures())).into(),
        notes: vec![
            note("late-sends", Severity::Suspect, "e2e_ms"),
            note("user-stamps", Severity::Remark, "all"),
        ],
        verdict: Verdict::Suspect,
        windows: (0..10).map(window).collect(),
        ..Summary::default()
    }
}
