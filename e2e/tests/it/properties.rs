//! The properties of `fuzz/src/properties.rs`, checked with fixtures, with what is left of them after
//! random changes, and with inputs that broke a property once (`fixtures/regressions/TARGET`).

#[path = "../../../fuzz/src/properties.rs"]
mod checks;
#[path = "../../../fuzz/src/seeds.rs"]
mod seeds;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::program::root;

/// Changed inputs per property.
const CASES: u32 = 48;

/// One change of an input: where, as a share of its length, how many bytes go, and what comes.
type Change = (u16, u8, Vec<u8>);

fn changed(seed: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for (position, removed, added) in changes {
        let at = bytes.len() * usize::from(*position) / usize::from(u16::MAX);
        let end = (at + usize::from(*removed)).min(bytes.len());
        bytes.splice(at..end, added.iter().copied());
    }
    bytes
}

fn check(name: &str, property: fn(&[u8])) {
    let scratch = tempfile::tempdir().unwrap();
    let seeds = seeds::seeds(&root(), name, scratch.path());
    assert!(!seeds.is_empty(), "{name} has no seeds");
    for seed in &seeds {
        property(seed);
    }
    let saved = root().join("fixtures/regressions").join(name);
    for entry in std::fs::read_dir(saved).into_iter().flatten().flatten() {
        property(&std::fs::read(entry.path()).unwrap());
    }
    let change = (any::<u16>(), any::<u8>(), proptest::collection::vec(any::<u8>(), 0..8));
    let changes = proptest::collection::vec(change, 1..6);
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let strategy = (0..seeds.len(), changes);
    // The same changes in every run: searching for new ones is the fuzzer's part.
    let draws = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result = TestRunner::new_with_rng(config, draws).run(&strategy, |(seed, changes)| {
        property(&changed(&seeds[seed], &changes));
        Ok(())
    });
    assert!(result.is_ok(), "{name}: {result:?}");
}

fn check_all(names: &[&str]) {
    for (name, property) in checks::PROPERTIES.iter().filter(|(name, _)| names.contains(name)) {
        check(name, *property);
    }
}

#[test]
fn no_bytes_break_what_reads_answers_reports_plans_and_records() {
    check_all(&["exchange", "doctor", "prometheus", "plan", "folder"]);
}

#[test]
fn no_bytes_break_what_reads_datasets_and_traces() {
    for (name, property) in checks::PROPERTIES {
        if name.starts_with("dataset-") || name.starts_with("trace-") {
            check(name, property);
        }
    }
}

#[test]
fn no_bytes_break_what_reads_tokenizers_templates_and_profiles() {
    check_all(&["tokenizer", "template", "profile"]);
}
