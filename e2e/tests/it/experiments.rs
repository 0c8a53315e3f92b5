//! The plans in `experiments/` against the simulated server, cut short.

use crate::program::{ProgramExit, root, run};

/// Runs an experiment with a few requests per point.
fn cut_short(name: &str, flags: &str) -> ProgramExit {
    let folder = tempfile::tempdir().unwrap();
    let plan = root().join("experiments").join(name);
    run(folder.path(), &format!("bench --plan {} --no-run-dir {flags}", plan.display()))
}

#[test]
fn every_experiment_is_a_plan_with_as_many_points_as_its_report_has_blocks() {
    let folder = tempfile::tempdir().unwrap();
    for (name, fields) in [
        ("vllm-closed-loop", 0),
        ("vllm-prefill-decode", 2),
        ("vllm-405b", 3),
        ("tgi-405b", 1),
        ("sglang-front-ends", 3),
    ] {
        let plan = root().join(format!("experiments/{name}.toml"));
        let shown = run(folder.path(), &format!("bench --print-plan --plan {}", plan.display()));
        let shown = shown.succeeded().stdout;
        assert_eq!(shown.matches("[[sections]]").count(), fields, "{name}");
    }
}

#[test]
fn an_experiment_is_printed_with_its_headings_in_its_layout() {
    let shown = cut_short("vllm-prefill-decode.toml", "--num-prompts 3 --random-input-len 20")
        .succeeded()
        .stdout;
    let heads: Vec<usize> = ["# Prefill\n\n====", "\n# Decode\n\n===="]
        .iter()
        .map(|head| shown.find(head).unwrap())
        .collect();
    assert!(heads[0] < heads[1], "{shown}");
    assert_eq!(shown.matches("Failed requests:                         0         \n").count(), 2);
}

#[test]
fn an_experiment_of_sglang_is_printed_as_sglang_prints() {
    let flags = "--num-prompts 3 --random-input-len 20 --random-output-len 3 --request-rate inf";
    let shown = cut_short("sglang-front-ends.toml", flags).succeeded().stdout;
    for part in
        ["## Python", "## Rust", "## golang", "Total input vision tokens:", "sglang-oai-chat"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}
