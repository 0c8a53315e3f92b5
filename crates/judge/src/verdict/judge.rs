//! The figures that a report shows, and the verdict about each.

use std::collections::BTreeMap;

use tokometer_base::Conventions;
use tokometer_record::{Health, RunInfo};

use super::effects::Effects;
use super::limits;
use crate::notes;
use tokometer_figures::FigureVerdict;
use tokometer_figures::define;
use tokometer_figures::figure::{self, Figure, Statistic};
use tokometer_figures::steady::LoadClass;
use tokometer_figures::steps::SHARED_READS_MAX;
use tokometer_figures::summary::Summary;
use tokometer_figures::{Note, Severity, Verdict};

/// The worst verdict among the results. A run without any has that of the notes about all figures.
pub(crate) fn of_run(summary: &Summary) -> Verdict {
    let results = summary.figure_verdicts.values().filter(|figure| figure.is_result);
    let about_all = summary.notes.iter().filter(|note| note.figure == "all");
    let about_all = about_all.map(|note| notes::least(&note.code).into());
    results.map(|figure| figure.verdict).chain(about_all).max().unwrap_or_default()
}

/// The name of a figure's key for people: `p99 TTFT`.
pub fn figure_label(key: &str) -> String {
    if let Ok(figure) = Figure::parse(key) {
        return figure.label();
    }
    let named = |key: &str| define::metric(key).map(|metric| metric.label.to_lowercase());
    let parts = key.rsplit_once('_');
    let statistic = parts.and_then(|(key, statistic)| Some(format!("{statistic} {}", named(key)?)));
    named(key).or(statistic).unwrap_or_else(|| key.to_owned())
}

/// Figures of the whole run.
const WHOLE: [&str; 10] = [
    "requests_per_s",
    "output_tokens_per_s",
    "total_tokens_per_s",
    "concurrency",
    "total_prompt_tokens",
    "total_output_tokens",
    "items_per_s",
    "total_items",
    "goodput_share",
    "goodput_requests_per_s",
];
/// Distributions.
const LATENCIES: [&str; 9] = [
    "ttft_ms",
    "first_event_ms",
    "first_answer_ms",
    "tpot_ms",
    "gap_ms",
    "e2e_ms",
    "e2e_per_item_ms",
    "ttft_from_intended_ms",
    "e2e_from_intended_ms",
];

/// Means that differ by less than this share are the same for a reader.
const SAME: f64 = 0.01;

/// One figure of the report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ShownFigure {
    /// Key of [`define`].
    pub(super) quantity: &'static str,
    pub(super) statistic: Statistic,
    pub(super) is_result: bool,
}

impl ShownFigure {
    pub(super) fn key(&self) -> String {
        match self.statistic {
            Statistic::Whole => self.quantity.to_owned(),
            statistic => format!("{}_{statistic}", self.quantity),
        }
    }

    pub(super) fn is_rate(&self) -> bool {
        matches!(self.statistic, Statistic::Whole) && !self.quantity.starts_with("total_")
            || self.quantity == "total_tokens_per_s"
    }

    /// Token totals are the same at every load.
    pub(super) fn depends_on_load(&self) -> bool {
        !matches!(self.statistic, Statistic::Whole) || self.is_rate()
    }
}

/// The figures that a report shows. The largest value of a distribution is one request and is not judged.
/// Without a wait for the concurrency cap, latencies from the intended time only repeat the client's
/// lateness, so they are no results then; nor are percentiles that no report of this run prints.
pub(super) fn shown(
    summary: &Summary,
    info: &RunInfo,
    health: Option<&Health>,
) -> Vec<ShownFigure> {
    let whole = WHOLE.iter().filter(|key| summary.figure(key).is_some()).map(|key| ShownFigure {
        quantity: key,
        statistic: Statistic::Whole,
        is_result: true,
    });
    let has_waited = health.is_some_and(|health| health.cap_waits > 0);
    let mut found: Vec<ShownFigure> = whole.collect();
    for key in LATENCIES {
        let Some(values) = summary.distribution(key).filter(|values| values.count > 0) else {
            continue;
        };
        if repeats(summary, key) {
            continue;
        }
        let is_result = has_waited || !key.ends_with("_from_intended_ms");
        let percentiles = values.percentiles.iter().filter(|_| !values.is_withheld);
        let percentiles = percentiles.filter_map(|one| {
            figure::Percentile::from_percent(one.percent).map(Statistic::Percentile)
        });
        let statistics = values.mean.map(|_| Statistic::Mean).into_iter().chain(percentiles);
        found.extend(statistics.map(|statistic| ShownFigure {
            quantity: key,
            statistic,
            is_result: is_result && statistic.percentile().is_none_or(|one| is_printed(one, info)),
        }));
    }
    found
}

/// Whether a report of this run prints a percentile: the summary's columns, those that the plan asks for, and
/// one more in SGLang's block.
fn is_printed(percentile: figure::Percentile, info: &RunInfo) -> bool {
    let is_of = |percent: f64| figure::Percentile::from_percent(percent) == Some(percentile);
    let asked = info.plan.pointer("/metrics/percentiles").and_then(serde_json::Value::as_array);
    let mut asked = asked.into_iter().flatten().filter_map(serde_json::Value::as_f64);
    [50.0, 90.0, 99.0].into_iter().any(is_of)
        || info.family == Conventions::Sglang && is_of(95.0)
        || asked.any(is_of)
}

/// Whether a latency says the same as another one, so that reports leave it out.
fn repeats(summary: &Summary, key: &str) -> bool {
    let other = match key {
        "first_event_ms" | "first_answer_ms" | "ttft_from_intended_ms" => "ttft_ms",
        "e2e_from_intended_ms" => "e2e_ms",
        _ => return false,
    };
    let mean = |key: &str| summary.distribution(key).and_then(|values| values.mean);
    mean(key).zip(mean(other)).is_some_and(|(own, other)| (own / other - 1.0).abs() <= SAME)
}

/// Half the width of a figure's 95 % interval, as a share of the figure. `None` where it has none.
pub(super) fn margin(summary: &Summary, quantity: &str, statistic: Statistic) -> Option<f64> {
    let values = summary.distribution(quantity)?;
    let (margin, value) = match statistic {
        Statistic::Mean => (values.mean_interval.margin()?, values.mean?),
        Statistic::Percentile(one) => {
            let found = values.percentile(one.percent())?;
            (found.interval.margin()?, found.value?)
        }
        _ => return None,
    };
    (value > 0.0).then(|| margin / value)
}

/// The verdict about every shown figure.
pub(crate) fn judge(
    summary: &Summary,
    info: &RunInfo,
    health: Option<&Health>,
    effects: &Effects,
) -> BTreeMap<String, FigureVerdict> {
    let of = |shown: &ShownFigure| {
        let key = shown.key();
        let mut severity = Severity::Remark;
        let mut codes: Vec<&str> = Vec::new();
        let mut effect: Option<f64> = None;
        for (code, share) in effects.of_figure(&key) {
            effect = Some(effect.map_or(share, |known| known.max(share)));
            // A cause that no note reports was not found important.
            let is_noted = summary.notes.iter().any(|note| note.code == code);
            let most = if is_noted { notes::worst(code) } else { Severity::Remark };
            let found = limits::severity(share).min(most);
            if found > Severity::Remark {
                codes.push(code);
            }
            severity = severity.max(found);
        }
        for note in summary.notes.iter().filter(|note| concerns(note, shown, summary)) {
            let least = notes::least(&note.code);
            severity = severity.max(least);
            if least > Severity::Remark && !codes.contains(&note.code.as_str()) {
                codes.push(&note.code);
            }
        }
        let verdict = FigureVerdict {
            verdict: severity.into(),
            effect,
            notes: codes.into_iter().map(str::to_owned).collect(),
            is_result: shown.is_result,
        };
        (key, verdict)
    };
    shown(summary, info, health).iter().map(of).collect()
}

/// Whether a note whose effect is not measured concerns a figure.
fn concerns(note: &Note, shown: &ShownFigure, summary: &Summary) -> bool {
    let key = shown.quantity;
    match (note.code.as_str(), note.figure.as_str()) {
        ("few-samples", _) => is_unsupported(summary, shown),
        ("shared-reads", _) => key == "gap_ms" && is_widely_shared(summary),
        ("merged-segments", _) => key == "gap_ms" && is_tail_merged(summary, shown.statistic),
        // The rate of an open loop is the plan's, whoever else uses the server.
        ("other-clients", _) => summary.load_class != LoadClass::Open || !shown.is_rate(),
        // Where the load is the plan's, a trend is one of the latencies.
        ("no-steady-state", _) if summary.load_class == LoadClass::Open => shown.depends_on_load(),
        // What waits ever longer for its first token also ends ever later.
        ("overloaded", _) => key.starts_with("ttft_") || key.starts_with("e2e_"),
        ("long-answers", _) if key.starts_with("e2e_") => true,
        (_, "all") => true,
        // Their figures tell something else than they seem to: the load was not the requested one.
        (_, "achieved_rate_per_s") => shown.depends_on_load(),
        (_, "concurrency" | "peak_in_flight" | "output_tokens_per_s") => shown.is_rate(),
        (_, "output_tokens") => {
            matches!(
                key,
                "total_output_tokens" | "output_tokens_per_s" | "total_tokens_per_s" | "tpot_ms"
            )
        }
        (_, "prompt_tokens") => {
            matches!(key, "total_prompt_tokens" | "total_tokens_per_s" | "ttft_ms")
        }
        (_, figure) => figure == key,
    }
}

/// Whether so many events shared a read that the distances between them are unknown.
fn is_widely_shared(summary: &Summary) -> bool {
    summary.figure("shared_read_share").is_some_and(|share| share > SHARED_READS_MAX)
}

/// A late stamp moves one gap up and the next one down: their mean stays, and a percentile follows once
/// such gaps are half of what lies beyond it.
fn is_tail_merged(summary: &Summary, statistic: Statistic) -> bool {
    let merged = summary.figure("merged_inner_share").unwrap_or(0.0);
    statistic.percentile().is_some_and(|one| 2.0 * merged > one.tail())
}

fn is_unsupported(summary: &Summary, shown: &ShownFigure) -> bool {
    let values = summary.distribution(shown.quantity);
    let percentile = shown.statistic.percentile();
    let found = values.zip(percentile).and_then(|(values, one)| values.percentile(one.percent()));
    found.is_some_and(|found| !found.is_supported)
}
