//! The same seed gives the same record.

use std::collections::BTreeMap;
use std::path::Path;

use tokometer_base::{Conventions, Nanos, WallNanos};
use tokometer_record::run::{RunInfo, SCHEMA_VERSION};
use tokometer_record::{RecordedLoad, RunWriter};

use super::scenario::Scenario;
use crate::Notice;

/// Runs the scenario and writes its record, as the program does.
fn record(scenario: &Scenario, folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let ran = scenario.run();
    let info = RunInfo {
        schema: SCHEMA_VERSION,
        version: String::new(),
        name: String::new(),
        started: WallNanos(1),
        origin: Nanos::ZERO,
        seed: scenario.seed,
        salt: 0,
        family: Conventions::Vllm,
        targets: Vec::new(),
        load: RecordedLoad {
            request_rate: None,
            burstiness: 1.0,
            max_concurrency: scenario.config.limits.max_concurrency,
            max_sessions: None,
            planned_requests: scenario.config.limits.extent.count,
            duration: None,
            is_traced: false,
            stages: Vec::new(),
        },
        classes: Vec::new(),
        dataset: String::new(),
        tokenizer: None,
        plan: serde_json::Value::Null,
        environment: serde_json::Value::Null,
        remarks: Vec::new(),
        sharding: None,
    };
    let mut writer = RunWriter::create(folder, &info).unwrap();
    for notice in ran.notices {
        match notice {
            Notice::Started { index, attempt, at } => writer.start(index, attempt, at),
            Notice::Ended(timeline) => writer.push(*timeline).unwrap(),
            Notice::Exchanged(_) => {}
        }
    }
    let folder = writer.finish(&ran.end.unwrap()).unwrap();
    let files = std::fs::read_dir(folder).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read(path).unwrap())
    });
    files.collect()
}

#[test]
fn the_same_seed_gives_the_same_record_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for seed in 1_000..1_010 {
        let scenario = Scenario::draw(seed);
        let first = record(&scenario, &folder.path().join(format!("{seed}-first")));
        let second = record(&scenario, &folder.path().join(format!("{seed}-second")));
        let names: Vec<&str> = first.keys().map(String::as_str).collect();
        assert_eq!(names, ["end.json", "plan.json", "requests.arrows", "starts.arrows"]);
        for (name, bytes) in &first {
            assert!(second[name] == *bytes, "seed {seed}: {name} differs");
        }
        assert!(!seen.contains(&first["requests.arrows"]), "another seed is another run");
        seen.push(first["requests.arrows"].clone());
    }
}
