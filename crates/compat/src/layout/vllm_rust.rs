//! The console of vLLM's Rust client: V4's lines under wider rules, and a steady-state block.

use super::table::Format::{Count, Fixed, Words};
use super::table::{Element, LayoutTable, Section, Stats, Tail, Widths, known};
use super::vllm::{
    DURATION, FAILED, GENERATED, GOODPUT, INPUT, LATENCIES, LOAD, OUTPUT, PEAK_CONCURRENCY,
    PEAK_OUTPUT, REQUESTS, SPECULATION, SUCCESSFUL, TOTAL,
};
use crate::quantity::{Field, Metric, Percentile, Stat};

/// The tail's sections open with a bare rule, and its TPOT has a fixed list of statistics.
const STEADY_TTFT: Element = Element::Latency(Section {
    title: None,
    metric: Metric::SteadyTtft,
    name: "TTFT",
    stats: Stats::AsGiven,
});

const STEADY_TPOT: Element = Element::Latency(Section {
    title: None,
    metric: Metric::SteadyTpot,
    name: "TPOT",
    stats: Stats::Fixed(&[
        Stat::Mean,
        Stat::Median,
        Stat::Percentile(Percentile::whole(90)),
        Stat::P99,
    ]),
});

pub(crate) static VR: LayoutTable = LayoutTable {
    widths: Widths { header: 60, rule: 60, label: 40, value: 10 },
    opening: "",
    rows: &[
        SUCCESSFUL,
        FAILED,
        LOAD,
        DURATION,
        INPUT,
        GENERATED,
        REQUESTS,
        known("Input throughput (inputs/s):", Field::InputSequenceThroughput, Fixed),
        known("Input token throughput (tok/s):", Field::InputThroughput, Fixed),
        GOODPUT,
        OUTPUT,
        PEAK_OUTPUT,
        PEAK_CONCURRENCY,
        TOTAL,
        LATENCIES,
        SPECULATION,
    ],
    tail: Some(Tail {
        title: " Steady-State Metrics ",
        widths: Widths { header: 47, rule: 47, label: 35, value: 0 },
        rows: &[
            known("Concurrency threshold:", Field::SteadyThreshold, Words),
            known("Window:", Field::SteadyWindow, Words),
            known("Observed peak concurrency:", Field::SteadyPeakConcurrency, Count),
            known("Requests started in window:", Field::SteadyStarted, Words),
            known("Requests completed in window:", Field::SteadyCompleted, Count),
            Element::Rule,
            known("Request throughput (req/s):", Field::SteadyRequestThroughput, Fixed),
            known("Output token throughput (tok/s):", Field::SteadyOutputThroughput, Fixed),
            known("Input token throughput (tok/s):", Field::SteadyInputThroughput, Fixed),
            known("Total token throughput (tok/s):", Field::SteadyTotalThroughput, Fixed),
            STEADY_TTFT,
            STEADY_TPOT,
        ],
    }),
};
