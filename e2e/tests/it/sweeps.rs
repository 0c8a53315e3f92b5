//! Lists of values: one run each, one table, one folder per point.

use std::time::SystemTime;

use serde_json::Value;

use crate::program::{Server, run};
use crate::scripted::{AfterResponse, Scripted};

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
    // A line for each point as it ends, and the table: no text per point.
    let points = [
        "1 of 4: max_concurrency=1,num_prompts=2 · ",
        "4 of 4: max_concurrency=2,num_prompts=3 · ",
    ];
    assert!(points.iter().all(|point| sweep.stderr.contains(point)), "{}", sweep.stderr);
    assert!(
        sweep.stderr.starts_with(&format!("measuring {} by vLLM's defaults: 4 runs, ", server.url))
    );
    assert!(sweep.stdout.lines().count() < 8, "{}", sweep.stdout);
    let heads = ["concurrency", "requests", "req/s", "tok/s"];
    let is_head = |line: &&str| line.split_whitespace().take(4).eq(heads);
    assert_eq!(sweep.stdout.lines().filter(is_head).count(), 1, "{}", sweep.stdout);
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
    let shown = run(folder.path(), "report s").succeeded().stdout;
    assert!(sweep.stdout.ends_with(&shown), "{shown}\nis not the end of\n{}", sweep.stdout);
    // A server by its address has a backend of our choice, which asked for a block at each point.
    let by_address =
        line.replace("bench --base-url", "bench").replace("--run-dir s", "--run-dir u");
    let by_address = run(folder.path(), &by_address).succeeded().stdout;
    assert!(!by_address.contains("Serving Benchmark Result"), "{by_address}");

    let written = |name: &str| -> SystemTime {
        std::fs::metadata(folder.path().join("s").join(name).join("end.json"))
            .unwrap()
            .modified()
            .unwrap()
    };
    let before = written(expected[0]);
    std::fs::remove_file(folder.path().join("s").join(expected[2]).join("end.json")).unwrap();
    // The block of each point where a tool is named, without lines of ours between them.
    let resumed = run(folder.path(), &format!("{line} --resume --layout v4")).succeeded();
    let blocks = resumed.stdout.split("============ Serving Benchmark Result ============\n");
    assert_eq!(blocks.clone().count(), 5, "{}", resumed.stdout);
    let is_alone = |block: &str| block.trim_end().ends_with(&"=".repeat(50));
    assert!(blocks.skip(1).take(3).all(is_alone), "{}", resumed.stdout);
    assert_eq!(written(expected[0]), before, "a finished point was measured again");
    let _end = written(expected[2]);
}

/// The file of the last point replaced those of the others.
#[test]
fn every_point_has_a_result_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let line = format!(
        "bench --base-url {} --num-prompts 2 --random-input-len 20 --random-output-len 3 \
         --save-result --result-filename x.json --no-run-dir",
        server.url
    );
    let caps = |name: &str| -> Value {
        let text = std::fs::read(folder.path().join(name)).unwrap();
        serde_json::from_slice::<Value>(&text).unwrap()["max_concurrency"].clone()
    };
    let sweep = run(folder.path(), &format!("{line} --max-concurrency 1,2")).succeeded();
    assert!(sweep.stderr.contains("results: x-001.json"), "{}", sweep.stderr);
    assert_eq!([caps("x-000.json"), caps("x-001.json")], [1, 2]);
    assert!(!folder.path().join("x.json").exists());
    for cap in [3, 4] {
        run(folder.path(), &format!("{line} --max-concurrency {cap}")).succeeded();
        assert_eq!(caps("x.json"), cap, "a single run replaces the file, as its tool does");
    }
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

/// A resumed sweep ended with code 0 whatever its stored points held.
#[test]
fn a_stored_point_is_judged_like_a_fresh_one() {
    let folder = tempfile::tempdir().unwrap();
    let line = |url: &str, folder: &str| {
        format!(
            "bench --base-url {url} --num-prompts 2 --random-input-len 20 --random-output-len 3 \
             --quiet --run-dir {folder}"
        )
    };
    let faults = r#"{"errors":{"status":500,"which":{"share":1.0}}}"#;
    let broken = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--faults", faults]);
    let fails = line(&broken.url, "fails");
    assert_eq!(run(folder.path(), &fails).code, Some(7));
    let resumed = run(folder.path(), &format!("{fails} --resume"));
    resumed.says(7, &["already measured"]);

    let server = Server::quick();
    let doubtful = line(&server.url, "doubtful");
    run(folder.path(), &doubtful).succeeded();
    let end = folder.path().join("doubtful/end.json");
    let mut page: Value = serde_json::from_slice(&std::fs::read(&end).unwrap()).unwrap();
    // As in a record of an older version, which does not say when.
    page["health"]["clock_steps"] = 1.into();
    page["health"]["clock_step_times"] = Value::Null;
    std::fs::write(&end, page.to_string()).unwrap();
    run(folder.path(), &format!("{doubtful} --resume")).succeeded();
    let strict = run(folder.path(), &format!("{doubtful} --resume --strict"));
    assert_eq!(strict.code, Some(4), "{}", strict.stderr);
    let why = "error: the run is INVALID (`--strict`): the wall clock";
    assert!(strict.stderr.contains(why), "{}", strict.stderr);
}

/// Headings of a plan's sections stood between the JSON documents, and alone under `--quiet`.
#[test]
fn stdout_holds_headings_only_where_it_holds_text() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let plan = "[[sections]]\nheading = \"short ones\"\n[sections.load]\nnum_prompts = 2\n\
                [[sections]]\nheading = \"long ones\"\n[sections.load]\nnum_prompts = 3\n";
    std::fs::write(folder.path().join("plan.toml"), plan).unwrap();
    let line = format!(
        "bench --plan plan.toml --base-url {} --random-input-len 20 --random-output-len 3 \
         --no-run-dir",
        server.url
    );
    let text = run(folder.path(), &line).succeeded().stdout;
    assert!(text.contains("short ones\n") && text.contains("long ones\n"), "{text}");
    let quiet = run(folder.path(), &format!("{line} --quiet")).succeeded();
    assert_eq!(quiet.stdout, "");
    for flags in ["--format json", "--quiet --format json"] {
        let page = run(folder.path(), &format!("{line} {flags}")).succeeded().json();
        let points = page["points"].as_array().unwrap();
        let counts: Vec<&Value> =
            points.iter().map(|page| &page["summary"]["counts"]["succeeded"]).collect();
        assert_eq!(counts, [2, 3]);
        assert_eq!(points[1]["heading"], "long ones");
    }
}

/// Points of one sweep were put beside those of another.
#[test]
fn a_folder_with_other_points_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let line = |load: &str| {
        format!("bench --sim {load} --input-len 20 --output-len 3 --quiet --run-dir s")
    };
    run(folder.path(), &line("-c 1,2 -n 2")).succeeded();
    let check = |load: &str, expected: &str| {
        let refused = run(folder.path(), &format!("{} --resume", line(load)));
        refused.says(2, &[expected]);
    };
    check("-c 2,4 -n 2", "`s/000-max_concurrency=1`, which is not a point of this plan");
    check("-c 2 -n 2", "`s/000-max_concurrency=1`, which is not a point of this plan");
    let one = format!("{} --overwrite", line("-c 2 -n 2"));
    run(folder.path(), &one).succeeded();
    check("-c 1,2 -n 2", "it holds a single run, and this is a sweep");
    // A run that was cut off is compared as well.
    std::fs::remove_file(folder.path().join("s/end.json")).unwrap();
    check("-c 3 -n 2", "load.max_concurrency is 2 there and 3 here");
}

/// Every point used to be measured, each without a success.
#[test]
fn a_sweep_stops_at_a_point_without_a_success() {
    let folder = tempfile::tempdir().unwrap();
    let check = |answered: u32, code: i32, sent: u32| {
        let server = Scripted::new(move |mut asked| {
            if asked.number < answered {
                asked.good_answer(3);
            } else {
                asked.answer("500 Internal Server Error", "text/plain", "out of memory");
            }
            AfterResponse::Close
        });
        let line = format!(
            "bench --base-url {} --max-concurrency 1,2,3,4,5 --num-prompts 2 --random-input-len 8 \
             --random-output-len 3 --tokenizer cl100k --no-run-dir --quiet",
            server.url
        );
        let sweep = run(folder.path(), &line);
        assert_eq!((sweep.code, server.requests()), (Some(code), sent), "{}", sweep.stderr);
        sweep.prints(&["out of memory", "skipping the remaining"]);
    };
    check(0, 7, 2);
    check(2, 5, 4);
}
