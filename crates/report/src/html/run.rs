//! One run's part of the page.

use std::collections::BTreeMap;
use std::iter;

use serde_json::{Value, json};
use tokometer_base::Nanos;
use tokometer_figures::define::{self, Unit};
use tokometer_figures::figure::{self, Quantity, Statistic};
use tokometer_figures::steps;
use tokometer_figures::summary::{Distribution, Summary};
use tokometer_figures::{ConfidenceInterval, NoInterval, Verdict};
use tokometer_record::server::Scrape;
use tokometer_record::{Phase, RunInfo, Timeline};

use super::lanes::Lanes;
use super::spread::Spread;
use super::{RunCard, facts, inside};
use crate::summary::{groups, load_text, short, summary_csv, whole};

/// Distributions that get plots, in this order.
const PLOTTED: [Quantity; 4] = [Quantity::Ttft, Quantity::Itl, Quantity::Tpot, Quantity::E2e];
/// Distributions that get a row of the table, in this order.
const LISTED: [&str; 9] = [
    Quantity::Ttft.key(),
    Quantity::TtftFromIntended.key(),
    "first_answer_ms",
    Quantity::Tpot.key(),
    Quantity::Itl.key(),
    Quantity::E2e.key(),
    Quantity::E2eFromIntended.key(),
    Quantity::ClientQueue.key(),
    "connect_ms",
];
const PERCENTILES: [figure::Percentile; 3] =
    [figure::Percentile::whole(50), figure::Percentile::whole(90), figure::Percentile::whole(99)];
/// Figures shown large, in this order.
const TILES: [&str; 6] = [
    Quantity::Requests.key(),
    Quantity::Output.key(),
    Quantity::Total.key(),
    "concurrency",
    "peak_in_flight",
    Quantity::GoodputRate.key(),
];
/// Collects one run.
#[derive(Debug)]
pub struct RunPage {
    name: String,
    /// That the user gave.
    pub(crate) gpus: Option<u32>,
    /// When the measured phase began; `None` where a page has figures, notes and plan alone: a page of
    /// many runs must stay small.
    pub(crate) begin: Option<Nanos>,
    info: RunInfo,
    spreads: BTreeMap<Quantity, Spread>,
    lanes: Lanes,
    scrapes: Vec<Scrape>,
    steps: steps::StepCollector,
    summary: Summary,
}

impl RunPage {
    /// A run without its requests.
    pub fn new(name: &str, info: &RunInfo, summary: &Summary) -> Self {
        Self {
            name: name.to_owned(),
            gpus: None,
            begin: None,
            info: info.clone(),
            spreads: BTreeMap::new(),
            lanes: Lanes::default(),
            scrapes: Vec::new(),
            steps: steps::StepCollector::default(),
            summary: summary.clone(),
        }
    }

    fn origin(&self) -> Nanos {
        self.begin.unwrap_or(self.info.origin)
    }

    /// What a chart says of this run.
    pub fn card(&self) -> RunCard {
        let runs = [(&self.info, &self.summary)];
        let shown = ["date", "model", "server", "dataset", "tokens", "load"];
        let lines = facts::facts(&runs, None).into_iter();
        let lines = lines.filter(|fact| shown.contains(&fact.name));
        let verdict = format!("verdict: {}", self.summary.verdict.name());
        RunCard {
            name: self.name.clone(),
            lines: lines
                .map(|fact| format!("{}: {}", fact.name, fact.value))
                .chain([verdict])
                .collect(),
        }
    }

    pub fn push(&mut self, timeline: &Timeline) {
        if timeline.identity.phase != Phase::Measure {
            return;
        }
        self.lanes.add(timeline, self.origin());
        self.steps.push(timeline);
        for quantity in PLOTTED.into_iter().filter(|_| timeline.is_success()) {
            let spread = self.spreads.entry(quantity).or_default();
            quantity.metric().each(timeline, &mut |value, weight| {
                spread.add(value / 1e6, u64::from(weight));
            });
        }
    }

    pub fn push_scrape(&mut self, scrape: Scrape) {
        self.scrapes.push(scrape);
    }

    pub(super) fn into_json(self) -> Value {
        let summary = &self.summary;
        let spreads: Vec<Value> = PLOTTED
            .iter()
            .filter_map(|quantity| {
                let spread = self.spreads.get(quantity).filter(|spread| !spread.is_empty())?;
                let (metric, found) = (quantity.metric(), summary.distribution(quantity));
                Some(spread.to_json([metric.label, metric.unit.name()], found))
            })
            .collect();
        // Windows count from the run's origin; everything else here from the measured phase.
        let begin = self.origin();
        let warming_s = begin.signed_since(self.info.origin) as f64 / 1e9;
        let shown = if self.begin.is_some() { summary.windows.as_slice() } else { &[] };
        let windows: Vec<Value> = shown
            .iter()
            .map(|w| {
                let at = ((w.at_s - warming_s) * 1e3).round() / 1e3;
                json!([at, w.arrivals, w.completions, w.failures, w.in_flight, w.output_tokens])
            })
            .collect();
        let gauges = inside::gauges(&self.scrapes, begin);
        let lanes_remark = self.lanes.remark();
        let title = title(&self.info, &self.name);
        let (lanes, lane_names) = self.lanes.into_json();
        json!({
            "name": self.name,
            "title": title,
            "load": load_text(&self.info.load, summary.load_class),
            "facts": facts::facts(&[(&self.info, summary)], self.gpus),
            "command": facts::command(&[&self.info]),
            "csv": summary_csv(summary),
            "verdict": if self.info.is_prediction() { json!("PREDICTED") } else { json!(summary.verdict) },
            "remark": remark(summary, &self.info),
            "affected": groups(&summary.figure_verdicts).iter().map(|(verdict, text)| json!({
                "verdict": verdict, "text": text,
            })).collect::<Vec<_>>(),
            "notes": summary.notes.iter().map(|note| json!({
                "code": note.code,
                "severity": note.severity.name().to_lowercase(),
                "text": format!("{}: {}", note.found, note.why),
                "advice": note.action,
            })).collect::<Vec<_>>(),
            "tiles": tiles(summary),
            "table": figures(summary),
            "spreads": spreads,
            "windows": windows,
            "gauges": gauges,
            "steps": inside::steps(summary.steps.as_ref(), self.steps, begin),
            "split": inside::split(&summary.ttft_parts),
            "server": summary.server.as_ref().map(|server| inside::server(server, summary)),
            "lanes": lanes,
            "lane_names": lane_names,
            "lanes_remark": lanes_remark,
            "failures": summary.failures,
            "plan": self.info.plan,
            "environment": self.info.environment,
        })
    }
}

fn title(info: &RunInfo, name: &str) -> String {
    match info.targets.first() {
        Some(target) if target.is_simulated => match target.predicted_engine() {
            Some(engine) => format!("{name}: predicted, engine profile {engine}"),
            None => format!("{name}: embedded simulator"),
        },
        Some(target) => format!("{name}: {} on {}", target.model, target.base_url),
        None => name.to_owned(),
    }
}

fn remark(summary: &Summary, info: &RunInfo) -> String {
    let counts = &summary.counts;
    // A run that ends by time has no number of requests but those whose time came.
    let planned = if info.load.duration.is_some() { "due" } else { "planned" };
    let partial = if summary.ended.is_partial() { "Partial run: " } else { "" };
    format!(
        "{partial}{} of {} {planned} requests succeeded, {} failed.",
        whole(counts.succeeded as f64),
        whole(counts.planned as f64),
        whole(counts.failed as f64)
    )
}

fn tiles(summary: &Summary) -> Vec<Value> {
    let tile = |key: &&str| {
        let metric = define::metric(key)?;
        let value = summary.figure(key)?;
        let label = match metric.unit {
            Unit::Requests => metric.label.to_owned(),
            unit => format!("{} ({})", metric.label, unit.name()),
        };
        let label = match summary.intervals.get(*key) {
            Some(ConfidenceInterval::Unknown(NoInterval::TooShort)) => {
                format!("{label}; run too short for a 95 % CI")
            }
            interval => match interval.and_then(range_text) {
                Some(range) => format!("{label}, 95 % CI {range}"),
                None => label,
            },
        };
        let verdict = doubt(summary, &[(*key).to_owned()]);
        Some(json!({"label": label, "value": short(value), "verdict": verdict}))
    };
    let latency = |quantity: Quantity| {
        let metric = quantity.metric();
        let distribution = summary.distribution(quantity).filter(|found| found.mean.is_some())?;
        let [low, _, high] = PERCENTILES;
        let values = [low, high].map(|one| percentile(distribution, one.percent()));
        let [Some(low_value), Some(high_value)] = values else { return None };
        let label = format!("{}, p{low} and p{high} ({})", metric.label, metric.unit.name());
        let verdict = doubt(summary, &[low, high].map(|one| format!("{}_p{one}", metric.key)));
        let value = format!("{low_value} · {high_value}");
        Some(json!({"label": label, "value": value, "verdict": verdict}))
    };
    let gpu = summary.server.as_ref().and_then(|server| server.gpu.as_ref());
    let energy = gpu.and_then(|gpu| gpu.energy_j_per_output_token).map(
        |energy| json!({"label": "GPU energy per output token (J)", "value": format!("{energy:.3}")}),
    );
    let latencies = [Quantity::Ttft, Quantity::Tpot];
    TILES
        .iter()
        .filter_map(tile)
        .chain(latencies.into_iter().filter_map(latency))
        .chain(energy)
        .collect()
}

/// The worst verdict of these figures, where one of them is doubtful.
fn doubt(summary: &Summary, keys: &[String]) -> Option<Verdict> {
    let of = |key: &String| summary.figure_verdicts.get(key).map(|figure| figure.verdict);
    keys.iter().filter_map(of).max().filter(|verdict| *verdict != Verdict::Valid)
}

fn figures(summary: &Summary) -> Value {
    let row = |key: &&str| {
        let metric = define::metric(key)?;
        let distribution = summary.distribution(key).filter(|found| found.count > 0)?;
        if summary.apart(metric).is_some_and(|share| share < 0.001) {
            return None;
        }
        let mut cells = vec![json!(format!("{} ({})", metric.label, metric.unit.name()))];
        let margin = distribution.mean_margin.map(|margin| format!("± {}", short(margin)));
        let margin = margin.or_else(|| range_text(&distribution.mean_interval));
        cells.push(json!({"value": distribution.mean.map(short), "range": margin}));
        cells.extend(PERCENTILES.map(|one| {
            let percent = one.percent();
            json!({"value": percentile(distribution, percent), "range": range(distribution, percent)})
        }));
        cells.push(json!(distribution.max.map(short)));
        cells.push(json!(whole(distribution.count as f64)));
        Some(Value::Array(cells))
    };
    let inner = PERCENTILES.map(Statistic::Percentile);
    let statistics = [&[Statistic::Mean][..], &inner, &[Statistic::Max]].concat();
    let heads = statistics.iter().map(Statistic::to_string);
    let columns: Vec<String> =
        iter::once(String::new()).chain(heads).chain(iter::once("n".to_owned())).collect();
    json!({
        "columns": columns,
        "rows": LISTED.iter().filter_map(row).collect::<Vec<_>>(),
    })
}

fn range_text(interval: &ConfidenceInterval) -> Option<String> {
    match interval {
        ConfidenceInterval::Known { low, high } if high.is_finite() => {
            Some(format!("{} to {}", short(*low), short(*high)))
        }
        ConfidenceInterval::Known { low, .. } => Some(format!("{} to failed", short(*low))),
        ConfidenceInterval::Unknown(NoInterval::TooShort) => Some("too short".to_owned()),
        ConfidenceInterval::Unknown(_) => None,
    }
}

/// The interval of a percentile, or that the run is too short for one.
fn range(distribution: &Distribution, percent: f64) -> Option<String> {
    let entry = distribution.percentile(percent).filter(|_| !distribution.is_withheld)?;
    range_text(&entry.interval)
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
