//! A prediction in the form of a run's record and report.

use std::path::Path;

use tokometer_base::{Nanos, Seed, WallNanos};
use tokometer_compat::{self as classic, Field, Layout, Metric, Percentile, Report, Stat, Title};
use tokometer_record::run::{PREDICTION, SCHEMA_VERSION};
use tokometer_record::{Error, Health, RunEnd, RunInfo, RunWriter, Stop, TargetInfo, Timeline};
use tokometer_twin::weighted::Weighted;
use tokometer_twin::{PredictedFigures, Prediction};

use super::asks::Asks;
use super::point::{PredictedPoint, PredictionSetting};

/// What is known of the run. It has no date: virtual time begins at zero.
pub(crate) fn info(setting: PredictionSetting<'_>, asks: &Asks) -> RunInfo {
    let plan = setting.plan;
    let target = plan.targets.first();
    let engine = &setting.profile.name;
    RunInfo {
        schema: SCHEMA_VERSION,
        version: crate::version::long(),
        name: plan.name.clone(),
        started: WallNanos(0),
        origin: Nanos::ZERO,
        seed: Seed(plan.seed),
        salt: plan.seed,
        family: plan.family,
        targets: vec![TargetInfo {
            base_url: format!("{PREDICTION}{engine}"),
            endpoint: String::new(),
            backend: target.map(|target| target.backend.name().to_owned()).unwrap_or_default(),
            model: target.and_then(|target| target.model.clone()).unwrap_or_else(|| engine.clone()),
            is_simulated: true,
            server: None,
            addresses: Vec::new(),
            proxy: None,
        }],
        load: plan.load.asked(asks.len()),
        dataset: plan.workload.name().to_owned(),
        tokenizer: asks.tokenizer_name(),
        plan: serde_json::to_value(plan).unwrap_or_default(),
        environment: serde_json::Value::Null,
        remarks: asks.remarks(),
        sharding: None,
    }
}

/// How the run ended.
pub(crate) fn end(predicted: &PredictedPoint, info: &RunInfo) -> RunEnd {
    end_of(&predicted.prediction, info)
}

/// What is known of a predicted run, and how it ended.
pub(crate) fn predicted_info(
    setting: PredictionSetting<'_>,
    asks: &Asks,
    run: &Prediction,
) -> (RunInfo, RunEnd) {
    let info = info(setting, asks);
    let end = end_of(run, &info);
    (info, end)
}

fn end_of(run: &Prediction, info: &RunInfo) -> RunEnd {
    let completed = run.figures.completed;
    RunEnd {
        stop: Stop::Complete,
        measure_begin: Nanos::ZERO,
        measure_end: run.end,
        abandoned: 0,
        never_sent: info.load.planned_requests.map_or(0, |all| all.saturating_sub(completed)),
        health: Health::default(),
    }
}

/// Writes the run as a folder that `report` and `compare` read.
pub(crate) fn write(
    folder: &Path,
    info: &RunInfo,
    timelines: Vec<Timeline>,
    end: &RunEnd,
) -> Result<(), Error> {
    let mut writer = RunWriter::create(folder, info)?;
    for timeline in timelines {
        let identity = &timeline.identity;
        writer.start(identity.index, identity.attempt, timeline.times.admitted);
        writer.push(timeline)?;
    }
    let _folder = writer.finish(end)?;
    Ok(())
}

/// The block of a run of which only figures were kept. Peaks and standard deviations have no line.
pub(crate) fn block(
    info: &RunInfo,
    figures: &PredictedFigures,
    layout: Layout,
    wanted: &classic::Selection,
) -> Report {
    let mut block = Report { layout: Some(layout), title: Title::Predicted, ..Report::default() };
    if let Some(cap) = info.load.max_concurrency {
        block.set_count(Field::MaxConcurrency, u64::from(cap));
    }
    if let Some(rate) = info.load.request_rate {
        block.set_number(Field::RateConfigured, rate);
    }
    block.set_count(Field::Successful, figures.completed);
    block.set_count(Field::Failed, 0);
    block.set_number(Field::Duration, figures.duration_s);
    block.set_count(Field::InputTokens, figures.input_tokens);
    block.set_count(Field::OutputTokens, figures.output_tokens);
    let rates = [
        (Field::RequestThroughput, figures.completed),
        (Field::OutputThroughput, figures.output_tokens),
        (Field::TotalThroughput, figures.total_tokens()),
    ];
    for (field, count) in rates {
        if let Some(rate) = figures.per_second(count) {
            block.set_number(field, rate);
        }
    }
    for metric in &wanted.metrics {
        let samples = match metric {
            Metric::Ttft => &figures.ttft,
            Metric::Tpot => &figures.tpot,
            Metric::Itl => &figures.itl,
            Metric::E2el => &figures.e2el,
            _ => continue,
        };
        set_latencies(&mut block, *metric, samples, &wanted.percentiles);
    }
    block
}

fn set_latencies(block: &mut Report, metric: Metric, samples: &Weighted, percents: &[f64]) {
    let Some(mean) = samples.mean_ms() else { return };
    block.set_latency(metric, Stat::Mean, mean);
    let one = |percent: f64| samples.percentiles_ms(&[percent]).first().copied();
    if let Some(median) = one(50.0) {
        block.set_latency(metric, Stat::Median, median);
    }
    for percent in percents {
        let pair = Percentile::from_percent(*percent).zip(one(*percent));
        if let Some((percentile, value)) = pair {
            block.set_latency(metric, Stat::Percentile(percentile), value);
        }
    }
    if let Some(max) = samples.max_ms() {
        block.set_latency(metric, Stat::Max, max);
    }
}
