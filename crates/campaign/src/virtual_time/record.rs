//! A prediction in the form of a run's record.

use std::path::Path;

use tokometer_base::{Nanos, Seed, WallNanos};
use tokometer_plan::{Plan, Target};
use tokometer_record::run::{PREDICTION, SCHEMA_VERSION};
use tokometer_record::{Error, Health, RunEnd, RunInfo, RunWriter, Stop, TargetInfo};
use tokometer_sim::Profile;

use super::asks::Asks;
use super::executor::Virtual;
use crate::executor::RunRecord;

impl Virtual {
    /// What is known of the run. It has no date: virtual time begins at zero.
    pub(super) fn info(&self, plan: &Plan, asks: &Asks) -> RunInfo {
        let engines = std::iter::once(&self.profile).chain(&self.against);
        let targets = plan.targets.iter().map(Some).chain(std::iter::repeat(None));
        let count = asks.count();
        RunInfo {
            schema: SCHEMA_VERSION,
            version: self.version.clone(),
            name: plan.name.clone(),
            started: WallNanos(0),
            origin: Nanos::ZERO,
            seed: Seed(plan.seed),
            salt: plan.seed,
            family: plan.conventions,
            targets: engines
                .zip(targets)
                .map(|(engine, target)| described(engine, target))
                .collect(),
            load: plan.load.asked(
                plan.ab_blocks().map_or(count, |ab| ab.whole_pairs(count)),
                plan.conventions,
                Seed(plan.seed),
            ),
            classes: plan.recorded_classes(),
            dataset: plan.workload.name().to_owned(),
            tokenizer: asks.tokenizer_name(),
            plan: serde_json::to_value(plan).unwrap_or_default(),
            environment: serde_json::Value::Null,
            remarks: asks.remarks(),
            sharding: None,
        }
    }
}

fn described(engine: &Profile, target: Option<&Target>) -> TargetInfo {
    let model = target.and_then(|target| target.model.clone());
    TargetInfo {
        base_url: format!("{PREDICTION}{}", engine.name),
        endpoint: String::new(),
        backend: target.map(|target| target.backend.name().to_owned()).unwrap_or_default(),
        model: model.unwrap_or_else(|| engine.name.clone()),
        is_simulated: true,
        server: None,
        addresses: Vec::new(),
        proxy: None,
    }
}

/// How a run ended that completed so many requests.
pub(super) fn end(completed: u64, measure_end: Nanos, info: &RunInfo) -> RunEnd {
    RunEnd {
        stop: Stop::Complete,
        measure_begin: Nanos::ZERO,
        measure_end,
        abandoned: 0,
        never_sent: info.load.planned_requests.map_or(0, |all| all.saturating_sub(completed)),
        health: Health::default(),
    }
}

/// Writes the run as a folder that `report` and `compare` read.
pub fn write(folder: &Path, record: &RunRecord) -> Result<(), Error> {
    let mut writer = RunWriter::create(folder, record.reader.info())?;
    for timeline in record.reader.timelines()? {
        let identity = &timeline.identity;
        writer.start(identity.index, identity.attempt, timeline.times.admitted);
        writer.push(timeline)?;
    }
    let _folder = writer.finish(&record.end)?;
    Ok(())
}
