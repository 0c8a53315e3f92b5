//! Lists of values: one run each, one table, one folder per point.

use std::time::SystemTime;

use crate::program::{Server, run};

#[test]
fn lists_multiply_and_the_last_flag_varies_fastest() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let line = format!(
        "bench --base-url {} --max-concurrency 1,2 --num-prompts 2,3 --random-input-len 20 \
         --random-output-len 3 --run-dir s",
        server.url
    );
    let sweep = run(folder.path(), &line).succeeded();
    assert_eq!(sweep.stdout.matches("Serving Benchmark Result").count(), 4);
    let table = "max_concurrency=1,num_prompts=3";
    assert!(sweep.stdout.contains(table), "{}", sweep.stdout);
    let mut names: Vec<String> = std::fs::read_dir(folder.path().join("s"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = [
        "000-max_concurrency=1,num_prompts=2",
        "001-max_concurrency=1,num_prompts=3",
        "002-max_concurrency=2,num_prompts=2",
        "003-max_concurrency=2,num_prompts=3",
    ];
    assert_eq!(names, expected);
    let report = run(folder.path(), "report s --format json").succeeded().json();
    let counts: Vec<u64> =
        report.as_array().unwrap().iter().map(|row| row["successful"].as_u64().unwrap()).collect();
    assert_eq!(counts, [2, 3, 2, 3]);

    let written = |name: &str| -> SystemTime {
        std::fs::metadata(folder.path().join("s").join(name).join("end.json"))
            .unwrap()
            .modified()
            .unwrap()
    };
    let before = written(expected[0]);
    std::fs::remove_file(folder.path().join("s").join(expected[2]).join("end.json")).unwrap();
    let resumed = run(folder.path(), &format!("{line} --resume")).succeeded();
    assert_eq!(resumed.stdout.matches("Serving Benchmark Result").count(), 4);
    assert_eq!(written(expected[0]), before, "a finished point was measured again");
    let _end = written(expected[2]);
}

#[test]
fn a_point_that_fails_leaves_the_others_alone() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--profile", "default"]);
    let line = format!(
        "bench --base-url {} --random-input-len 10,20,200000,30 --random-output-len 2 \
         --num-prompts 2 --run-dir s",
        server.url
    );
    let sweep = run(folder.path(), &line);
    assert_eq!(sweep.code, Some(5), "{}\n{}", sweep.stderr, sweep.stdout);
    let report = run(folder.path(), "report s --format json").succeeded().json();
    let counts: Vec<u64> =
        report.as_array().unwrap().iter().map(|row| row["successful"].as_u64().unwrap()).collect();
    assert_eq!(counts, [2, 2, 0, 2]);
}
