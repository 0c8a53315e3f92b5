//! What went on inside the server, for the page: its own metrics, its GPUs, its steps as seen from
//! outside, and where the time to the first token went.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokometer_base::Nanos;
use tokometer_figures::anatomy::{Part, PartSource, PartStage};
use tokometer_figures::figure::{Figure, Quantity, Statistic};
use tokometer_figures::server::{self, BucketQuantile, GpuFigures, GpuGauges, ServerFigures};
use tokometer_figures::steps::{SeenStep, Stalls, StepCollector, StepFigures, Steps};
use tokometer_figures::summary::Summary;
use tokometer_record::server::Scrape;

use crate::summary::{bucket, short, whole};

/// More points than this cannot be distinguished on a screen.
const POINTS_MAX: usize = 1_000;

/// Values of all sources at one time.
#[derive(Debug, Clone, Copy, Default)]
struct Gauges {
    running: Option<f64>,
    waiting: Option<f64>,
    kv_use: Option<f64>,
    gpu: GpuGauges,
}

type Line = (&'static str, fn(&Gauges) -> Option<f64>);

/// Plots: title, unit, lines.
const GAUGES: [(&str, &str, &[Line]); 5] = [
    (
        "Server: requests running and waiting",
        "requests",
        &[("running", |row| row.running), ("waiting", |row| row.waiting)],
    ),
    ("Server: KV cache in use", "share", &[("in use", |row| row.kv_use)]),
    ("GPU: utilisation", "%", &[("in use", |row| row.gpu.utilisation_percent)]),
    ("GPU: memory in use", "MiB", &[("in use", |row| row.gpu.memory_mib)]),
    ("GPU: power", "W", &[("power", |row| row.gpu.power_w)]),
];

/// Gauges over time, summed over replicas.
pub(super) fn gauges(scrapes: &[Scrape], begin: Nanos) -> Vec<Value> {
    let rows = rows(scrapes);
    let plot = |(title, unit, lines): &(&str, &str, &[Line])| {
        let is_reported =
            |row: &&(Nanos, Gauges)| lines.iter().any(|(_, value)| value(&row.1).is_some());
        let reported: Vec<&(Nanos, Gauges)> = rows.iter().filter(is_reported).collect();
        let reported = thinned(&reported);
        let seconds = |at: Nanos| rounded(at.signed_since(begin) as f64 / 1e9);
        (!reported.is_empty()).then(|| {
            json!({
                "label": title,
                "unit": unit,
                "series": lines.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
                "at": reported.iter().map(|(at, _)| seconds(*at)).collect::<Vec<_>>(),
                "values": lines.iter().map(|(_, value)| {
                    reported.iter().map(|(_, row)| value(row).map(rounded)).collect::<Vec<_>>()
                }).collect::<Vec<_>>(),
            })
        })
    };
    GAUGES.iter().filter_map(plot).collect()
}

/// Evenly spaced rows, where there are too many.
fn thinned<'a, T>(rows: &[&'a T]) -> Vec<&'a T> {
    let stride = rows.len().div_ceil(POINTS_MAX).max(1);
    rows.iter().step_by(stride).copied().collect()
}

/// Of each source its latest reading, whenever one of them was read.
fn rows(scrapes: &[Scrape]) -> Vec<(Nanos, Gauges)> {
    let mut latest: BTreeMap<u16, Gauges> = BTreeMap::new();
    let mut rows = Vec::new();
    let mut sorted: Vec<&Scrape> = scrapes.iter().collect();
    sorted.sort_by_key(|scrape| scrape.at);
    for scrape in sorted {
        let engine = server::read(scrape);
        let gpu = server::gauges(scrape);
        if engine.is_none() && gpu.is_none() {
            // A source that fails at this time has no value at this time.
            latest.remove(&scrape.endpoint);
            continue;
        }
        let row = Gauges {
            running: engine.as_ref().and_then(|reading| reading.running),
            waiting: engine.as_ref().and_then(|reading| reading.waiting),
            kv_use: engine.as_ref().and_then(|reading| reading.kv_use),
            gpu: gpu.unwrap_or_default(),
        };
        latest.insert(scrape.endpoint, row);
        rows.push((scrape.at, latest.values().copied().fold(Gauges::default(), joined)));
    }
    rows
}

fn joined(one: Gauges, other: Gauges) -> Gauges {
    let sum = |a: Option<f64>, b: Option<f64>| a.map_or(b, |a| Some(a + b.unwrap_or(0.0)));
    let most = |a: Option<f64>, b: Option<f64>| a.map_or(b, |a| Some(a.max(b.unwrap_or(a))));
    Gauges {
        running: sum(one.running, other.running),
        waiting: sum(one.waiting, other.waiting),
        kv_use: most(one.kv_use, other.kv_use),
        gpu: GpuGauges {
            utilisation_percent: most(one.gpu.utilisation_percent, other.gpu.utilisation_percent),
            memory_mib: sum(one.gpu.memory_mib, other.gpu.memory_mib),
            power_w: sum(one.gpu.power_w, other.gpu.power_w),
        },
    }
}

fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// The engine's steps over time: `null` where nothing was streamed, a reason where they are not seen.
pub(super) fn steps(found: Option<&Steps>, collected: StepCollector, begin: Nanos) -> Value {
    let figures = match found {
        None => return Value::Null,
        Some(Steps::Refused { why }) => return json!({ "refused": why }),
        Some(Steps::Seen(figures)) => figures,
    };
    let Ok(seen) = collected.seen() else { return Value::Null };
    let timed: Vec<&SeenStep> =
        seen.steps.iter().filter(|step| step.decodes > 0 && step.span > Nanos::ZERO).collect();
    // Each point stands for several steps of a long run: the usual one and the longest.
    let group = timed.len().div_ceil(POINTS_MAX).max(1);
    let point = |steps: &[&SeenStep]| {
        let mut spans: Vec<f64> = steps.iter().map(|step| step.span.as_millis_f64()).collect();
        tokometer_base::sort_numbers(&mut spans);
        let at = steps.first().map_or(begin, |step| step.at);
        let batch: u32 = steps.iter().map(|step| step.batch()).sum();
        json!([
            rounded(at.signed_since(begin) as f64 / 1e9),
            rounded(spans[spans.len() / 2]),
            rounded(spans[spans.len() - 1]),
            rounded(f64::from(batch) / steps.len() as f64),
        ])
    };
    json!({
        "remark": step_remark(figures, group),
        "is_grouped": group > 1,
        "points": timed.chunks(group).map(point).collect::<Vec<_>>(),
    })
}

fn step_remark(figures: &StepFigures, group: usize) -> String {
    let mut parts = vec![format!(
        "Tokens of one engine step reach all streams together. The streams show {} steps, without access to the server.",
        whole(figures.steps as f64)
    )];
    if figures.joined > 0 {
        parts.push(format!(
            "The tokens of {} of them came together with those of a later step.",
            whole(figures.joined as f64)
        ));
    }
    if let (Some(p50), Some(p99), Some(batch)) =
        (figures.span_ms_p50, figures.span_ms_p99, figures.batch_p50)
    {
        parts.push(format!(
            "A step takes {} ms at p50 and {} ms at p99. It serves {batch:.0} streams at p50 and at most {}.",
            short(p50),
            short(p99),
            figures.batch_max
        ));
    }
    match figures.stalls {
        Some(Stalls { count: 0, .. }) => {
            parts.push("No prefill stalled the other streams.".to_owned());
        }
        Some(Stalls { count, longest_ms, time_share }) => parts.push(format!(
            "{} steps stalled streams during a prefill, for up to {} ms, {:.1} % of the time.",
            whole(count as f64),
            short(longest_ms),
            time_share * 100.0
        )),
        None => {}
    }
    if let Some(together) = figures.together {
        parts.push(format!("A step reaches {:.0} % of the active streams.", together * 100.0));
    }
    if figures.kept_share < 1.0 {
        parts.push(format!("The steps cover {:.0} % of the time.", figures.kept_share * 100.0));
    }
    if group > 1 {
        parts.push(format!("Each point is a group of {group} steps."));
    }
    parts.join(" ")
}

/// Mean parts of the time to first token, with how each is known.
pub(super) fn split(parts: &[Part]) -> Vec<Value> {
    let known = |known: PartSource| match known {
        PartSource::Measured => "measured",
        PartSource::Reported => "reported by the server",
        PartSource::Inferred => "inferred",
    };
    parts
        .iter()
        .map(|part| {
            json!({
                "name": part.name,
                "ms": part.mean_ms,
                "known": known(part.known),
                "is_before": part.stage == PartStage::Before,
            })
        })
        .collect()
}

/// What the server reports beside what the client measured, as rows of a table.
pub(super) fn server(server: &ServerFigures, summary: &Summary) -> Value {
    let percent = |share: Option<f64>| share.map(|share| format!("{:.0} %", share * 100.0));
    let number = |value: Option<f64>| value.map(whole);
    let millis = |value: Option<f64>| value.map(|value| format!("{} ms", short(value)));
    let our_e2e = summary.mean(Quantity::E2e);
    let our_tokens = summary.figure("total_output_tokens");
    let mut rows = vec![
        ("E2E mean", millis(server.e2e_ms_mean), millis(our_e2e)),
        ("output tokens", number(server.generation_tokens), number(our_tokens)),
        (
            "aborted requests",
            number(server.aborted_requests.filter(|_| summary.cancelled.is_some())),
            number(summary.cancelled.map(|found| found.requests as f64)),
        ),
        (
            "tokens behind each cancellation",
            summary.cancelled.and_then(|found| found.tokens_after_each).map(short),
            None,
        ),
        ("max running", number(server.running_max), None),
        ("max waiting", number(server.waiting_max), None),
        ("max KV cache", percent(server.kv_use_max), None),
        ("preemptions", number(server.preemptions), None),
        ("prefix-cache hits", percent(server.prefix_hit_share), None),
        ("speculative decoding: accept length", server.accept_length.map(short), None),
    ];
    if let Some(found) = &server.speculation {
        let accepted: Vec<String> =
            found.per_position.iter().map(|share| format!("{:.0} %", share * 100.0)).collect();
        rows.extend([
            ("speculative decoding: drafts", number(Some(found.drafts)), None),
            ("speculative decoding: drafted tokens", number(Some(found.draft_tokens)), None),
            (
                "speculative decoding: accepted tokens",
                Some(format!(
                    "{} ({:.1} %)",
                    whole(found.accepted_tokens),
                    found.acceptance_rate_percent
                )),
                None,
            ),
            ("speculative decoding: tokens per step", Some(short(found.acceptance_length)), None),
            (
                "speculative decoding: accepted by position",
                (!accepted.is_empty()).then(|| accepted.join(", ")),
                None,
            ),
        ]);
    }
    rows.extend(server.gpu.iter().flat_map(gpu_rows));
    let rows = rows.into_iter().map(|(name, theirs, ours)| (name.to_owned(), theirs, ours));
    let shown: Vec<Value> = first_tokens(server, summary)
        .into_iter()
        .chain(rows)
        .filter(|(_, theirs, _)| theirs.is_some())
        .map(|(name, theirs, ours)| json!([name, theirs, ours]))
        .collect();
    json!(shown)
}

/// TTFT as the server and as the client measured it.
fn first_tokens(
    server: &ServerFigures,
    summary: &Summary,
) -> [(String, Option<String>, Option<String>); 3] {
    let millis = |value: Option<f64>| value.map(|value| format!("{} ms", short(value)));
    let quantile =
        |found: Option<BucketQuantile>| found.map(|found| format!("{} ms", bucket(&found, whole)));
    let ours = summary.distribution(Quantity::Ttft);
    let row = |statistic: Statistic, theirs: Option<String>| {
        let ours = match statistic.percentile() {
            Some(percentile) => ours.and_then(|ours| ours.percentile(percentile.percent())?.value),
            None => ours.and_then(|ours| ours.mean),
        };
        (Figure::new(Quantity::Ttft, statistic).metric_first(), theirs, millis(ours))
    };
    [
        row(Statistic::MEDIAN, quantile(server.ttft_p50)),
        row(Statistic::P99, quantile(server.ttft_p99)),
        row(Statistic::Mean, millis(server.ttft_ms_mean)),
    ]
}

type ServerRow = (&'static str, Option<String>, Option<String>);

fn gpu_rows(gpu: &GpuFigures) -> Vec<ServerRow> {
    let about = if gpu.is_energy_from_power { "about " } else { "" };
    let devices = match gpu.unused_devices {
        0 => format!("{} ({})", gpu.devices, gpu.source),
        unused => format!("{} ({}; {unused} unused excluded)", gpu.devices, gpu.source),
    };
    let reported =
        |value: Option<f64>, unit: &str| value.map(|value| format!("{} {unit}", short(value)));
    let energy =
        |value: Option<f64>, unit: &str| value.map(|value| format!("{about}{value:.3} {unit}"));
    vec![
        ("GPUs", Some(devices), None),
        ("GPU utilisation", reported(gpu.utilisation_percent_mean, "%"), None),
        ("max GPU memory", reported(gpu.memory_mib_max.map(|mib| mib / 1024.0), "GiB"), None),
        ("GPU power, mean", reported(gpu.power_w_mean, "W"), None),
        ("GPU energy", energy(gpu.energy_j.map(|joules| joules / 1e3), "kJ"), None),
        ("GPU energy per output token", energy(gpu.energy_j_per_output_token, "J"), None),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn scrape(at: u64, endpoint: u16, text: &str) -> Scrape {
        let values = server::parse(text, server::KeptSeries::Values);
        Scrape { at: Nanos::from_secs(at), endpoint, values, error: None }
    }

    #[test]
    fn replicas_add_up_at_every_reading_and_a_dead_one_leaves() {
        let text = |running: u32| format!("vllm:num_requests_running {running}\n");
        let dead = Scrape { error: Some("refused".into()), ..scrape(3, 1, "") };
        let plots = gauges(
            &[scrape(1, 0, &text(3)), scrape(2, 1, &text(4)), dead, scrape(4, 0, &text(5))],
            Nanos::from_secs(1),
        );
        assert_eq!(plots[0]["at"], json!([0.0, 1.0, 3.0]));
        assert_eq!(plots[0]["values"][0], json!([3.0, 7.0, 5.0]));
        assert_eq!(plots.len(), 1, "gauges that nobody reports have no plot");
    }

    #[test]
    fn the_server_s_figures_stand_beside_ours() {
        let run = testing::summary();
        let rows = server(run.server.as_ref().unwrap(), &run);
        let row = |name: &str| {
            let rows = rows.as_array().unwrap();
            rows.iter().find(|row| row[0] == name).cloned().unwrap_or_default()
        };
        assert_eq!(row("TTFT p50"), json!(["TTFT p50", "between 100 and 250 ms", "135 ms"]));
        assert_eq!(row("GPU energy per output token")[1], "0.171 J");
        assert_eq!(row("speculative decoding: accepted by position")[1], "80 %, 60 %");
        assert_eq!(row("preemptions"), Value::Null, "what is not reported has no row");
    }

    #[test]
    fn a_refusal_reaches_the_page_with_its_reason() {
        let refused = Steps::Refused { why: "because".to_owned() };
        let page = steps(Some(&refused), StepCollector::default(), Nanos::ZERO);
        assert_eq!(page, json!({"refused": "because"}));
        assert_eq!(steps(None, StepCollector::default(), Nanos::ZERO), Value::Null);
    }
}
