//! Plans: shown, saved, read again.

use crate::program::{Server, ended_with_input, run};

/// A printed plan without the comments that say where its values come from.
fn without_origins(plan: &str) -> Vec<&str> {
    plan.lines().map(|line| line.split("  # ").next().unwrap()).collect()
}

#[test]
fn a_printed_plan_gives_itself_when_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let check = |flags: &str| {
        let plan = run(folder.path(), &format!("bench --print-plan {flags}")).succeeded().stdout;
        std::fs::write(folder.path().join("plan.toml"), &plan).unwrap();
        let again = run(folder.path(), "bench --print-plan --plan plan.toml").succeeded().stdout;
        assert_eq!(without_origins(&plan), without_origins(&again), "{flags}");
        let piped = ended_with_input(folder.path(), "bench --print-plan --plan -", &plan);
        assert_eq!(piped.succeeded().stdout, again, "{flags}");
    };
    check("");
    check("--backend sglang --num-prompts 5 --warmup-requests 2");
    check("--backend openai-chat --model m --request-rate 1,2,inf --num-prompts 4,8");
    check(
        "--base-url https://h/v1 --insecure --header a=b --extra-body {\"min_tokens\":3} --seed 7",
    );
    check("--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 9 --model m");
    check("--dataset-name custom --dataset-path f.jsonl --custom-output-len -1 --model m");
    check("--lora-modules a b --goodput ttft:5 e2el:9 --save-result --label x --model m");
    check("--duration 30s --conventions sglang --dataset-name random --model m");
}

#[test]
fn the_plan_of_a_run_repeats_it_and_flags_override_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let line = format!(
        "bench --base-url {} --num-prompts 3 --random-input-len 20 --random-output-len 3 \
         --max-concurrency 2 --quiet --run-dir first",
        server.url
    );
    run(folder.path(), &line).succeeded();
    let line = "bench --plan first/plan.json --num-prompts 5 --run-dir second --format json";
    let page = run(folder.path(), line).succeeded().json();
    assert_eq!(page["summary"]["counts"]["succeeded"], 5);
    // Neither the folder nor `--quiet` of the first run is the new one's.
    let before = std::fs::read(folder.path().join("first/end.json")).unwrap();
    let repeated = run(folder.path(), "bench --plan first/plan.json").succeeded();
    repeated.prints(&["Serving Benchmark Result", "record: runs/"]);
    let predicted = run(folder.path(), "predict --engine default --plan first/plan.json");
    assert!(predicted.succeeded().stdout.contains("Serving Benchmark Result"));
    assert_eq!(std::fs::read(folder.path().join("first/end.json")).unwrap(), before);
    let plan = run(folder.path(), "bench --plan second/plan.json --print-plan").succeeded().stdout;
    assert!(plan.contains("max_concurrency = 2") && plan.contains("num_prompts = 5"), "{plan}");
}

#[test]
fn unknown_keys_of_a_plan_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str, part: &str| {
        std::fs::write(folder.path().join("plan.toml"), text).unwrap();
        let ended = run(folder.path(), "bench --plan plan.toml --print-plan");
        ended.says(2, &[part]);
    };
    check("[load]\nnum_promts = 3\n", "num_promts");
    check("[workload]\ndataset = \"random\"\ninputlen = 3\n", "inputlen");
    check("surprise = 1\n", "surprise");
    check("[[sweep]]\nfield = \"load.num_prompts\"\nvalue = 3\n", "value");
}
