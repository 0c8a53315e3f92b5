//! A prediction in the form of a run's record.

use std::path::Path;

use tokometer_base::{Nanos, Seed, WallNanos};
use tokometer_record::run::{PREDICTION, SCHEMA_VERSION};
use tokometer_record::{Error, Health, RunEnd, RunInfo, RunWriter, Stop, TargetInfo, Timeline};
use tokometer_twin::Prediction;

use super::asks::Asks;
use super::point::PredictionSetting;

/// What is known of the run. It has no date: virtual time begins at zero.
pub fn info(setting: PredictionSetting<'_>, asks: &Asks) -> RunInfo {
    let plan = setting.plan;
    let target = plan.targets.first();
    let engine = &setting.profile.name;
    RunInfo {
        schema: SCHEMA_VERSION,
        version: setting.version.to_owned(),
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
        load: plan.load.asked(asks.count()),
        dataset: plan.workload.name().to_owned(),
        tokenizer: asks.tokenizer_name(),
        plan: serde_json::to_value(plan).unwrap_or_default(),
        environment: serde_json::Value::Null,
        remarks: asks.remarks(),
        sharding: None,
    }
}

/// How the run ended.
pub fn end(run: &Prediction, info: &RunInfo) -> RunEnd {
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
pub fn write(
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
