//! SGLang's `bench_serving`, from 0.4 to the newest.

use super::table::Format::{Count, CountOrWords, Fixed, Percent, Words};
use super::table::{CLASSIC, Element, LayoutTable, Stats, always, known, latency};
use super::vllm::{
    DURATION, GENERATED, INPUT, OUTPUT, PEAK_OUTPUT, REQUESTS, SUCCESSFUL, TOTAL, TPOT_TITLE,
};
use crate::quantity::{Field, Metric, Percentile, Stat};

const P90: Stat = Stat::Percentile(Percentile::whole(90));
const P95: Stat = Stat::Percentile(Percentile::whole(95));

const BACKEND: Element = always("Backend:", Field::Backend, Words);
const RATE: Element = always("Traffic request rate:", Field::TrafficRate, Words);
const CONCURRENCY_CAP: Element =
    always("Max request concurrency:", Field::MaxConcurrency, CountOrWords);
const TEXT: Element = always("Total input text tokens:", Field::InputTextTokens, Count);
const RETOKENIZED: Element =
    always("Total generated tokens (retokenized):", Field::RetokenizedTokens, Count);
const INPUT_RATE: Element =
    always("Input token throughput (tok/s):", Field::InputThroughput, Fixed);
const CONCURRENCY: Element = always("Concurrency:", Field::Concurrency, Fixed);
const ACCEPT: Element = known("Accept length:", Field::AcceptLength, Fixed);

const TWO: Stats = Stats::Fixed(&[Stat::Mean, Stat::Median]);
const THREE: Stats = Stats::Fixed(&[Stat::Mean, Stat::Median, Stat::P99]);
const GAPS: Stats = Stats::Fixed(&[Stat::Mean, Stat::Median, P95, Stat::P99, Stat::Max]);
const FIVE: Stats = Stats::Fixed(&[Stat::Mean, Stat::Median, P90, P95, Stat::P99]);
const SIX: Stats = Stats::Fixed(&[Stat::Mean, Stat::Median, P90, P95, Stat::P99, Stat::Max]);

const fn e2e(stats: Stats) -> Element {
    latency("End-to-End Latency", Metric::E2el, "E2E Latency", stats)
}

const fn ttft(stats: Stats) -> Element {
    latency("Time to First Token", Metric::Ttft, "TTFT", stats)
}

const fn tpot(stats: Stats) -> Element {
    latency(TPOT_TITLE, Metric::Tpot, "TPOT", stats)
}

const fn itl(stats: Stats) -> Element {
    latency("Inter-Token Latency", Metric::Itl, "ITL", stats)
}

const fn sglang(rows: &'static [Element]) -> LayoutTable {
    LayoutTable { widths: CLASSIC, opening: "\n", rows, tail: None }
}

/// SGLang 0.4.1; the misspelt label is its own.
pub(crate) static S0: LayoutTable = sglang(&[
    BACKEND,
    RATE,
    always("Max reqeuest concurrency:", Field::MaxConcurrency, CountOrWords),
    SUCCESSFUL,
    DURATION,
    INPUT,
    GENERATED,
    RETOKENIZED,
    REQUESTS,
    INPUT_RATE,
    OUTPUT,
    TOTAL,
    e2e(TWO),
    ttft(THREE),
    tpot(THREE),
    latency("Inter-token Latency", Metric::Itl, "ITL", THREE),
]);

/// SGLang until the autumn of 2025.
pub(crate) static S1: LayoutTable = sglang(&[
    BACKEND,
    RATE,
    CONCURRENCY_CAP,
    SUCCESSFUL,
    DURATION,
    INPUT,
    GENERATED,
    RETOKENIZED,
    REQUESTS,
    INPUT_RATE,
    OUTPUT,
    TOTAL,
    CONCURRENCY,
    ACCEPT,
    e2e(TWO),
    ttft(THREE),
    itl(GAPS),
]);

/// SGLang at the end of 2025.
pub(crate) static S2: LayoutTable = sglang(&[
    BACKEND,
    RATE,
    CONCURRENCY_CAP,
    SUCCESSFUL,
    DURATION,
    INPUT,
    TEXT,
    always("Total input vision tokens:", Field::InputVisionTokens, Count),
    GENERATED,
    RETOKENIZED,
    REQUESTS,
    INPUT_RATE,
    OUTPUT,
    TOTAL,
    CONCURRENCY,
    ACCEPT,
    e2e(TWO),
    ttft(THREE),
    tpot(THREE),
    itl(GAPS),
]);

const CACHE: Element = Element::Section {
    title: "Cache Hit Details",
    width: 50,
    rows: &[
        known("Total prompt tokens:", Field::CachePromptTokens, Count),
        known("Total cached tokens:", Field::CachedTokens, Count),
        known("  Device:", Field::CachedDevice, Count),
        known("  Host:", Field::CachedHost, Count),
        known("Cache hit rate:", Field::CacheHitRate, Percent),
        known("  Device:", Field::CacheHitDevice, Percent),
        known("  Host:", Field::CacheHitHost, Percent),
    ],
};

const ATTAINMENT: Element = Element::Section {
    title: "Goodput",
    width: 50,
    rows: &[
        known("SLOs (ms):", Field::GoodputLimits, Words),
        known("Request goodput (req/s):", Field::Goodput, Fixed),
        known("SLO attainment (%):", Field::Attainment, Fixed),
        known("TTFT SLO attainment (%):", Field::TtftAttainment, Fixed),
        known("TPOT SLO attainment (%):", Field::TpotAttainment, Fixed),
        known("E2EL SLO attainment (%):", Field::E2elAttainment, Fixed),
    ],
};

/// The newest SGLang.
pub(crate) static S3: LayoutTable = sglang(&[
    BACKEND,
    RATE,
    CONCURRENCY_CAP,
    SUCCESSFUL,
    DURATION,
    INPUT,
    TEXT,
    known("Total input vision tokens:", Field::InputVisionTokens, Count),
    GENERATED,
    RETOKENIZED,
    REQUESTS,
    INPUT_RATE,
    OUTPUT,
    PEAK_OUTPUT,
    // A whole number here, where vLLM prints two decimals.
    always("Peak concurrent requests:", Field::PeakConcurrency, Count),
    TOTAL,
    CONCURRENCY,
    ACCEPT,
    ATTAINMENT,
    e2e(FIVE),
    ttft(FIVE),
    tpot(FIVE),
    itl(SIX),
    CACHE,
]);
