//! One run's part of the page.

use std::collections::BTreeMap;
use std::iter;

use serde_json::{Value, json};
use tokometer_base::Nanos;
use tokometer_figures::define::{self, Unit};
use tokometer_figures::figure::{self, Figure, Quantity, Statistic};
use tokometer_figures::sessions::Sessions;
use tokometer_figures::steps;
use tokometer_figures::summary::{Distribution, Summary};
use tokometer_figures::{ConfidenceInterval, NoInterval, PartKind, Verdict};
use tokometer_record::server::Scrape;
use tokometer_record::{Phase, RunInfo, Timeline};

use super::lanes::{self, Lanes};
use super::spread::Spread;
use super::{PageAnswer, PageFact, RunCard, estimate, facts, graver, inside};
use crate::summary::parts;
use crate::summary::{
    DEPTH_HEADS, depth_cells, doubtful_codes, ends, groups, load_text, mark, short, summary_csv,
    whole,
};

/// Distributions that get plots, in this order.
const PLOTTED: [Quantity; 4] = [Quantity::Ttft, Quantity::Itl, Quantity::Tpot, Quantity::E2e];
/// Distributions that get a row of the table, in this order.
const LISTED: [&str; 15] = [
    Quantity::Ttft.key(),
    Quantity::TtftFromIntended.key(),
    "first_answer_ms",
    Quantity::Tpot.key(),
    Quantity::Itl.key(),
    Quantity::E2e.key(),
    Quantity::E2eFromIntended.key(),
    Quantity::ClientQueue.key(),
    "connect_ms",
    Quantity::TraceLag.key(),
    Quantity::Session.key(),
    Quantity::SessionModel.key(),
    Quantity::SessionTools.key(),
    Quantity::SessionClient.key(),
    Quantity::SessionStretch.key(),
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
    sessions: Sessions,
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
            sessions: Sessions::default(),
            scrapes: Vec::new(),
            steps: steps::StepCollector::default(),
            summary: summary.clone(),
        }
    }

    fn origin(&self) -> Nanos {
        self.begin.unwrap_or(self.info.origin)
    }

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
        self.sessions.push(timeline);
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

    fn spreads_json(&self) -> Vec<Value> {
        PLOTTED
            .iter()
            .filter_map(|quantity| {
                let spread = self.spreads.get(quantity).filter(|spread| !spread.is_empty())?;
                let (metric, found) = (quantity.metric(), self.summary.distribution(quantity));
                let mut spread = spread.to_json([metric.label, metric.unit.name()], found);
                // Above the table stand what a reader waits for first, and then for each token.
                let is_first = *quantity == Quantity::Ttft || *quantity == Quantity::Tpot;
                spread["is_leading"] =
                    json!(is_first || self.summary.distribution(Quantity::Ttft).is_none());
                Some(spread)
            })
            .collect()
    }

    pub(super) fn into_json(self) -> Value {
        let (summary, spreads) = (&self.summary, self.spreads_json());
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
        let mut facts = facts::facts(&[(&self.info, summary)], self.gpus);
        facts.insert(0, PageFact { name: "run", value: self.name.clone() });
        let (request_lanes, lane_names) = self.lanes.into_json();
        let kinds = [PartKind::Stage, PartKind::Class];
        let tables: Vec<Value> =
            kinds.into_iter().filter_map(|kind| parts_table(summary, &self.info, kind)).collect();
        let lines = summary.recoveries.iter().map(parts::recovery);
        let lines: Vec<String> = lines.chain(summary.fairness.map(parts::fairness)).collect();
        json!({
            "name": self.name,
            "answer": answer(summary, &self.info),
            "load": load_text(&self.info, summary),
            "facts": facts,
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
            "stages": summary.parts.iter().filter(|part| part.kind == PartKind::Stage).map(|part| json!({
                "name": part.name, "begin": part.begin_s, "end": part.end_s,
            })).collect::<Vec<_>>(),
            "parts": tables,
            "parts_lines": lines,
            "gauges": gauges,
            "steps": inside::steps(summary.steps.as_ref(), self.steps, begin),
            "split": inside::split(&summary.ttft_parts),
            "server": summary.server.as_ref().map(|server| inside::server(server, summary)),
            "sessions": summary.sessions.as_ref().map(|found| json!({
                "text": ends(summary),
                "columns": DEPTH_HEADS,
                "rows": found.depths.iter().map(depth_cells).collect::<Vec<_>>(),
                "depths": found.depths,
                "lanes": lanes::of_sessions(&self.sessions, begin),
            })),
            "lanes": request_lanes,
            "lane_names": lane_names,
            "lanes_remark": lanes_remark,
            "failures": summary.failures,
            "plan": self.info.plan,
            "environment": self.info.environment,
        })
    }
}

/// The table of stages or classes.
fn parts_table(summary: &Summary, info: &RunInfo, kind: PartKind) -> Option<Value> {
    let table = parts::table(summary, info, kind)?;
    Some(json!({ "columns": table.heads(), "rows": table.rows() }))
}

/// What was reached and how long a request took, with marks, then how far to trust it.
fn answer(summary: &Summary, info: &RunInfo) -> PageAnswer {
    let figure = |figure: Figure| {
        let found = estimate(summary, figure)?;
        let mark = found.mark.map(String::from).unwrap_or_default();
        Some(format!("{}{mark}", short(found.value)))
    };
    let p99 = |quantity: Quantity| {
        let value = figure(Figure::new(quantity, Statistic::P99))?;
        Some(format!("p99 {} {value} ms", quantity.label()))
    };
    let rate = |quantity: Quantity, unit: &str| {
        Some(format!("{} {unit}", figure(Figure::whole(quantity))?))
    };
    let is_pooled = summary.figure(Quantity::Items).is_some();
    let output = rate(Quantity::Output, "output tok/s").filter(|_| !is_pooled);
    let rates = [rate(Quantity::Requests, "req/s"), rate(Quantity::Items, "items/s"), output];
    let latencies = if is_pooled {
        [p99(Quantity::E2e), None]
    } else {
        [p99(Quantity::Ttft), p99(Quantity::Tpot)]
    };
    let joined = |parts: &[Option<String>], between: &str| {
        let parts: Vec<&str> = parts.iter().flatten().map(String::as_str).collect();
        parts.join(between)
    };
    let parts = [joined(&rates, " and "), joined(&latencies, ", ")];
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|one| !one.is_empty()).collect();
    let is_prediction = info.is_prediction();
    let load = load_text(info, summary);
    PageAnswer {
        tone: match (summary.counts.succeeded, summary.verdict) {
            (0, _) => "bad",
            (_, Verdict::Valid) => "plain",
            _ => "open",
        },
        headline: if parts.is_empty() {
            "nothing was measured".to_owned()
        } else {
            parts.join("; ")
        },
        lines: vec![format!("{load}. {}", remark(summary, info))],
        trust: (!is_prediction).then(|| (summary.verdict, doubtful_codes(summary))),
    }
}

fn remark(summary: &Summary, info: &RunInfo) -> String {
    let counts = &summary.counts;
    // A run that ends by time has no number of requests but those whose time came.
    let planned = if info.load.duration.is_some() { "due" } else { "planned" };
    let partial = if summary.ended.is_partial() { "Partial run: " } else { "" };
    let cancelled = Some(counts.cancelled).filter(|cancelled| *cancelled > 0);
    let cancelled = cancelled.map(|count| format!(", {} cancelled", whole(count as f64)));
    format!(
        "{partial}{} of {} {planned} requests succeeded, {} failed{}.",
        whole(counts.succeeded as f64),
        whole(counts.planned as f64),
        whole(counts.failed as f64),
        cancelled.unwrap_or_default()
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
        let shown = |one: figure::Percentile| {
            let is_few = distribution.percentile(one.percent())?.is_doubtful();
            let value = percentile(distribution, one.percent())?;
            Some(if is_few { format!("{value}?") } else { value })
        };
        let [Some(low_value), Some(high_value)] = [low, high].map(shown) else { return None };
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
        let marked = |statistic: Statistic, value: Option<String>, range: Option<String>| {
            let mark = mark(summary, &format!("{key}_{statistic}"));
            let percentile =
                statistic.percentile().and_then(|one| distribution.percentile(one.percent()));
            let few = percentile.filter(|entry| entry.is_doubtful()).map(|_| '?');
            json!({"value": value, "range": range, "mark": graver(mark, few)})
        };
        cells.push(marked(Statistic::Mean, distribution.mean.map(short), margin));
        cells.extend(PERCENTILES.map(|one| {
            let (value, range) =
                (percentile(distribution, one.percent()), range(distribution, one.percent()));
            marked(Statistic::Percentile(one), value, range)
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
    entry.value.map(short).or_else(|| entry.above.map(|above| format!("> {}", short(above))))
}
