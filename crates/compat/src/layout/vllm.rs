//! vLLM's `benchmark_serving.py` and `vllm bench serve`, from 0.4 to the newest.

use super::table::Format::{Count, Fixed};
use super::table::{CLASSIC, Element, LayoutTable, Stats, always, known, latency};
use crate::quantity::{Field, Metric, Stat};

pub(crate) const SUCCESSFUL: Element = always("Successful requests:", Field::Successful, Count);
pub(crate) const FAILED: Element = always("Failed requests:", Field::Failed, Count);
pub(crate) const DURATION: Element = always("Benchmark duration (s):", Field::Duration, Fixed);
pub(crate) const INPUT: Element = always("Total input tokens:", Field::InputTokens, Count);
pub(crate) const GENERATED: Element = always("Total generated tokens:", Field::OutputTokens, Count);
pub(crate) const REQUESTS: Element =
    always("Request throughput (req/s):", Field::RequestThroughput, Fixed);
pub(crate) const GOODPUT: Element = known("Request goodput (req/s):", Field::Goodput, Fixed);
pub(crate) const OUTPUT: Element =
    always("Output token throughput (tok/s):", Field::OutputThroughput, Fixed);
pub(crate) const PEAK_OUTPUT: Element =
    always("Peak output token throughput (tok/s):", Field::PeakOutputThroughput, Fixed);
pub(crate) const PEAK_CONCURRENCY: Element =
    always("Peak concurrent requests:", Field::PeakConcurrency, Fixed);
pub(crate) const TOTAL: Element =
    always("Total token throughput (tok/s):", Field::TotalThroughput, Fixed);
const TOTAL_CAPITAL: Element =
    always("Total Token throughput (tok/s):", Field::TotalThroughput, Fixed);

/// The load that was asked for, where it was limited.
pub(crate) const LOAD: Element = Element::Shared(&[
    known("Maximum request concurrency:", Field::MaxConcurrency, Count),
    known("Request rate configured (RPS):", Field::RateConfigured, Fixed),
]);

pub(crate) const TPOT_TITLE: &str = "Time per Output Token (excl. 1st token)";

/// The sections that `--percentile-metrics` chooses from.
pub(crate) const LATENCIES: Element = Element::Shared(&[
    latency("Time to First Token", Metric::Ttft, "TTFT", Stats::AsGiven),
    latency(TPOT_TITLE, Metric::Tpot, "TPOT", Stats::AsGiven),
    latency("Inter-token Latency", Metric::Itl, "ITL", Stats::AsGiven),
    latency("End-to-end Latency", Metric::E2el, "E2EL", Stats::AsGiven),
]);

/// What a server that speculates adds. Its rule is 50 wide even where the others are not.
pub(crate) const SPECULATION: Element = Element::Section {
    title: "Speculative Decoding",
    width: 50,
    rows: &[
        known("Acceptance rate (%):", Field::SpecAcceptanceRate, Fixed),
        known("Acceptance length:", Field::SpecAcceptanceLength, Fixed),
        known("Drafts:", Field::SpecDrafts, Count),
        known("Draft tokens:", Field::SpecDraftTokens, Count),
        known("Accepted tokens:", Field::SpecAcceptedTokens, Count),
        Element::Positions { heading: "Per-position acceptance (%):" },
    ],
};

const DIFFUSION: Element = Element::Section {
    title: "Diffusion Decoding",
    width: 50,
    rows: &[
        known("Committed throughput (tok/s):", Field::DiffusionThroughput, Fixed),
        known("Denoising steps per canvas:", Field::DiffusionStepsPerCanvas, Fixed),
        known("Committed per denoising step:", Field::DiffusionPerStep, Fixed),
        known("Committed tokens:", Field::DiffusionTokens, Count),
        known("Denoising steps:", Field::DiffusionSteps, Count),
        known("Canvas positions evaluated:", Field::DiffusionPositions, Count),
    ],
};

const PROBES: Element = Element::Section {
    title: "Probe Requests",
    width: 50,
    rows: &[
        known("Probe requests completed:", Field::ProbesCompleted, Count),
        known("Probe requests failed:", Field::ProbesFailed, Count),
        known("Median probe E2EL (ms):", Field::ProbeMedian, Fixed),
        known("P99 probe E2EL (ms):", Field::ProbeP99, Fixed),
        known("Max probe E2EL (ms):", Field::ProbeMax, Fixed),
    ],
};

const fn classic(rows: &'static [Element]) -> LayoutTable {
    LayoutTable { widths: CLASSIC, opening: "", rows, tail: None }
}

const OLD_STATS: Stats = Stats::Fixed(&[Stat::Mean, Stat::Median, Stat::P99]);

/// vLLM 0.4 and 0.5.
pub(crate) static V1: LayoutTable = classic(&[
    SUCCESSFUL,
    DURATION,
    INPUT,
    GENERATED,
    REQUESTS,
    always("Input token throughput (tok/s):", Field::InputThroughput, Fixed),
    OUTPUT,
    latency("Time to First Token", Metric::Ttft, "TTFT", OLD_STATS),
    latency(TPOT_TITLE, Metric::Tpot, "TPOT", OLD_STATS),
    latency("Inter-token Latency", Metric::Itl, "ITL", OLD_STATS),
]);

/// vLLM 0.6 to about 0.10, and the forks made from it.
pub(crate) static V2: LayoutTable = classic(&[
    SUCCESSFUL,
    DURATION,
    INPUT,
    GENERATED,
    REQUESTS,
    GOODPUT,
    OUTPUT,
    TOTAL_CAPITAL,
    LATENCIES,
]);

const SINCE_PEAKS: Element = Element::Shared(&[
    DURATION,
    INPUT,
    GENERATED,
    REQUESTS,
    GOODPUT,
    OUTPUT,
    PEAK_OUTPUT,
    PEAK_CONCURRENCY,
    TOTAL_CAPITAL,
    LATENCIES,
]);

/// vLLM in the autumn of 2025.
pub(crate) static V3: LayoutTable = classic(&[SUCCESSFUL, LOAD, SINCE_PEAKS]);

/// The same with failures shown.
pub(crate) static V35: LayoutTable = classic(&[SUCCESSFUL, FAILED, LOAD, SINCE_PEAKS]);

const V4_HEAD: Element = Element::Shared(&[
    SUCCESSFUL,
    FAILED,
    LOAD,
    DURATION,
    INPUT,
    GENERATED,
    REQUESTS,
    known("Input throughput (inputs/s):", Field::InputSequenceThroughput, Fixed),
    GOODPUT,
    OUTPUT,
    PEAK_OUTPUT,
    PEAK_CONCURRENCY,
    known("RTFx (Inverse Real-Time Factor):", Field::Rtfx, Fixed),
    TOTAL,
    PROBES,
    LATENCIES,
]);

/// vLLM since the end of 2025.
pub(crate) static V4: LayoutTable = classic(&[V4_HEAD, DIFFUSION, SPECULATION]);

/// vLLM since it shows the client's own queue.
pub(crate) static V5: LayoutTable = classic(&[
    V4_HEAD,
    latency("Client-side Queueing", Metric::ClientQueue, "Client Queue Time", Stats::AsGiven),
    latency(
        "Queue-inclusive End-to-end Latency",
        Metric::QueuedE2el,
        "E2EL incl. Client Queue",
        Stats::AsGiven,
    ),
    DIFFUSION,
    SPECULATION,
]);
