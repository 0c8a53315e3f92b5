//! One run's part of the page.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokometer_base::Nanos;
use tokometer_metrics::define::{self, Formula};
use tokometer_metrics::notes::Severity;
use tokometer_metrics::summary::{Distribution, Summary};
use tokometer_record::server::Scrape;
use tokometer_record::{Phase, RunInfo, Timeline};

use super::lanes::Lanes;
use super::spread::Spread;

/// Distributions that get plots, in this order.
const PLOTTED: [&str; 4] = ["ttft_ms", "gap_ms", "tpot_ms", "e2e_ms"];
/// Distributions that get a row of the table, in this order.
const LISTED: [&str; 9] = [
    "ttft_ms",
    "ttft_from_intended_ms",
    "first_answer_ms",
    "tpot_ms",
    "gap_ms",
    "e2e_ms",
    "e2e_from_intended_ms",
    "client_queue_ms",
    "connect_ms",
];
/// Figures shown large, in this order.
const TILES: [&str; 6] = [
    "requests_per_s",
    "output_tokens_per_s",
    "total_tokens_per_s",
    "concurrency",
    "peak_in_flight",
    "goodput_requests_per_s",
];
/// Server gauges that get a plot: title, unit, and (name of the line, ends of metric names).
type Gauge = (&'static str, &'static str, &'static [(&'static str, &'static [&'static str])]);
const GAUGES: [Gauge; 2] = [
    (
        "running and waiting",
        "requests",
        &[
            (
                "running",
                &[
                    "num_requests_running",
                    "num_running_reqs",
                    "requests_processing",
                    "tgi_batch_current_size",
                ],
            ),
            (
                "waiting",
                &["num_requests_waiting", "num_queue_reqs", "requests_deferred", "tgi_queue_size"],
            ),
        ],
    ),
    (
        "KV cache in use",
        "share",
        &[(
            "in use",
            &["kv_cache_usage_perc", "gpu_cache_usage_perc", "token_usage", "kv_cache_usage_ratio"],
        )],
    ),
];

/// Collects one run.
#[derive(Debug)]
pub struct RunPage {
    info: RunInfo,
    begin: Nanos,
    spreads: BTreeMap<&'static str, Spread>,
    lanes: Lanes,
    scrapes: Vec<Scrape>,
    summary: Summary,
}

impl RunPage {
    /// A run whose measured phase began at `begin`.
    pub fn new(info: RunInfo, begin: Nanos, summary: Summary) -> Self {
        Self {
            info,
            begin,
            spreads: BTreeMap::new(),
            lanes: Lanes::default(),
            scrapes: Vec::new(),
            summary,
        }
    }

    /// Takes one request.
    pub fn push(&mut self, timeline: &Timeline) {
        if timeline.identity.phase != Phase::Measure {
            return;
        }
        self.lanes.add(timeline, self.begin);
        for key in PLOTTED {
            let Some(metric) = define::metric(key) else { continue };
            let spread = self.spreads.entry(key).or_default();
            match metric.formula {
                Formula::Latency(value) | Formula::Value(value) if timeline.is_success() => {
                    if let Some(value) = value(timeline) {
                        spread.add(value / 1e6, 1);
                    }
                }
                Formula::Stream(values) if timeline.is_success() => {
                    values(timeline, &mut |value, weight| {
                        spread.add(value / 1e6, u64::from(weight));
                    });
                }
                _ => {}
            }
        }
    }

    /// Takes one scrape of the server.
    pub fn push_scrape(&mut self, scrape: Scrape) {
        self.scrapes.push(scrape);
    }

    pub(super) fn into_json(self) -> Value {
        let summary = &self.summary;
        let spreads: Vec<Value> = PLOTTED
            .iter()
            .filter_map(|key| {
                let spread = self.spreads.get(key).filter(|spread| !spread.is_empty())?;
                let metric = define::metric(key)?;
                Some(spread.to_json([metric.label, metric.unit.name()], summary.distribution(key)))
            })
            .collect();
        let windows: Vec<Value> = summary
            .windows
            .iter()
            .map(|w| {
                json!([w.at_s, w.arrivals, w.completions, w.failures, w.in_flight, w.output_tokens])
            })
            .collect();
        let gauges = gauges(&self.scrapes, self.begin);
        let lanes_remark = self.lanes.remark();
        let (title, subtitle) = (title(&self.info), subtitle(&self.info));
        let (lanes, lane_names) = self.lanes.into_json();
        json!({
            "name": self.info.name,
            "title": title,
            "subtitle": subtitle,
            "verdict": serde_json::to_value(summary.verdict).unwrap_or(Value::Null),
            "remark": remark(summary),
            "notes": summary.notes.iter().map(|note| json!({
                "code": note.code,
                "severity": severity(note.severity),
                "text": format!("{}: {}", note.found, note.why),
                "advice": note.action,
            })).collect::<Vec<_>>(),
            "tiles": tiles(summary),
            "table": figures(summary),
            "spreads": spreads,
            "windows": windows,
            "gauges": gauges,
            "lanes": lanes,
            "lane_names": lane_names,
            "lanes_remark": lanes_remark,
            "failures": summary.failures,
            "plan": self.info.plan,
            "environment": self.info.environment,
        })
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Remark => "remark",
        Severity::Suspect => "suspect",
        Severity::Invalid => "invalid",
    }
}

fn title(info: &RunInfo) -> String {
    match info.targets.first() {
        Some(target) if target.is_simulated => match target.predicted_engine() {
            Some(engine) => format!("{}: predicted, engine profile {engine}", info.name),
            None => format!("{}: embedded simulator", info.name),
        },
        Some(target) => format!("{}: {} on {}", info.name, target.model, target.base_url),
        None => info.name.clone(),
    }
}

fn subtitle(info: &RunInfo) -> String {
    let rate =
        info.load.request_rate.map_or("all at once".to_owned(), |rate| format!("{rate} req/s"));
    let cap =
        info.load.max_concurrency.map_or(String::new(), |cap| format!(", at most {cap} in flight"));
    let backend = info.targets.first().map_or("", |target| target.backend.as_str());
    format!("{backend}, dataset {}, {rate}{cap}, tokometer {}", info.dataset, info.version)
}

fn remark(summary: &Summary) -> String {
    let counts = &summary.counts;
    let partial = if summary.ended.is_partial() { "Partial run: " } else { "" };
    format!(
        "{partial}{} of {} planned requests answered, {} failed.",
        counts.succeeded, counts.planned, counts.failed
    )
}

fn tiles(summary: &Summary) -> Vec<Value> {
    let tile = |key: &&str| {
        let metric = define::metric(key)?;
        let value = summary.figure(key)?;
        Some(
            json!({"label": format!("{} ({})", metric.label, metric.unit.name()), "value": short(value)}),
        )
    };
    TILES.iter().filter_map(tile).collect()
}

/// Three significant digits, as a person reads them.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn figures(summary: &Summary) -> Value {
    let row = |key: &&str| {
        let metric = define::metric(key)?;
        let distribution = summary.distribution(key).filter(|found| found.count > 0)?;
        let mut cells = vec![json!(format!("{} ({})", metric.label, metric.unit.name()))];
        cells.push(json!(distribution.mean.map(short)));
        cells.extend([50.0, 90.0, 99.0].map(|percent| json!(percentile(distribution, percent))));
        cells.push(json!(distribution.max.map(short)));
        cells.push(json!(distribution.count));
        Some(Value::Array(cells))
    };
    json!({
        "columns": ["", "mean", "p50", "p90", "p99", "max", "n"],
        "rows": LISTED.iter().filter_map(row).collect::<Vec<_>>(),
    })
}

fn percentile(distribution: &Distribution, percent: f64) -> Option<String> {
    if distribution.is_withheld {
        return None;
    }
    let entry = distribution.percentile(percent)?;
    let doubt = if entry.is_supported { "" } else { " ?" };
    match (entry.value, entry.above) {
        (Some(value), _) => Some(format!("{}{doubt}", short(value))),
        (None, Some(above)) => Some(format!("> {}{doubt}", short(above))),
        (None, None) => None,
    }
}

fn gauges(scrapes: &[Scrape], begin: Nanos) -> Vec<Value> {
    let good: Vec<&Scrape> = scrapes.iter().filter(|scrape| scrape.error.is_none()).collect();
    let plot = |(label, unit, lines): &Gauge| {
        let values: Vec<Vec<Option<f64>>> = lines
            .iter()
            .map(|(_, ends)| good.iter().map(|scrape| reading(scrape, ends)).collect())
            .collect();
        let has_some = values.iter().flatten().any(Option::is_some);
        has_some.then(|| {
            json!({
                "label": label,
                "unit": unit,
                "series": lines.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
                "at": good.iter().map(|scrape| scrape.at.signed_since(begin) as f64 / 1e9).collect::<Vec<_>>(),
                "values": values,
            })
        })
    };
    GAUGES.iter().filter_map(plot).collect()
}

/// The sum over label sets of the first metric whose name ends in one of `ends`.
fn reading(scrape: &Scrape, ends: &[&str]) -> Option<f64> {
    let name = |key: &str| key.split('{').next().unwrap_or(key).to_owned();
    ends.iter().find_map(|end| {
        let mut found = scrape.values.iter().filter(|(key, _)| name(key).ends_with(end)).peekable();
        let _some = found.peek()?;
        Some(found.map(|(_, value)| value).sum())
    })
}
