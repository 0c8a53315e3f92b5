//! Values from the config file and from variables, and where a plan says they come from.

use std::path::Path;
use std::process::Command;

use crate::program::{Server, command, ended};

/// The program with a config file and variables.
fn with(folder: &Path, line: &str, variables: &[(&str, &str)], config: &str) -> Command {
    let home = folder.join("config");
    std::fs::create_dir_all(home.join("tokometer")).unwrap();
    std::fs::write(home.join("tokometer/config.toml"), config).unwrap();
    let mut program = command(folder, line);
    program.env("XDG_CONFIG_HOME", home).envs(variables.iter().copied());
    program
}

#[test]
fn each_value_of_a_plan_names_its_origin_and_the_stronger_source_wins() {
    let folder = tempfile::tempdir().unwrap();
    let config = "model = \"team\"\nnum-prompts = 11\nburstiness = 2.0\nrandom-input-len = 77\n\
                  connections = \"preopen\"\nmax-concurrency = [1, 2]\n";
    let variables = [
        ("TOKOMETER_NUM_PROMPTS", "22"),
        ("TOKOMETER_BURSTINESS", "3"),
        ("TOKOMETER_RETRIES", "4"),
    ];
    let plan = "[load]\nburstiness = 4.0\n[client]\nretries = 5\nstall_timeout_s = 9.0\n";
    std::fs::write(folder.path().join("plan.toml"), plan).unwrap();
    let line = "bench --plan plan.toml --stall-timeout 7s --print-plan";
    let shown = ended(&mut with(folder.path(), line, &variables, config)).succeeded().stdout;
    for expected in [
        "model = \"team\"  # config file",
        "connections = \"preopen\"  # config file",
        "input_len = 77  # config file",
        "num_prompts = 22  # environment",
        "burstiness = 4.0  # plan file",
        "retries = 5  # plan file",
        "stall_timeout_s = 7.0  # flag",
        "seed = 0  # default",
        "field = \"load.max_concurrency\"  # config file",
    ] {
        assert!(shown.contains(expected), "`{expected}` is not in {shown}");
    }
    // What is printed is a plan: read without presets, it is the same plan.
    std::fs::write(folder.path().join("again.toml"), &shown).unwrap();
    let again = ended(&mut command(folder.path(), "bench --plan again.toml --print-plan"));
    let stripped = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split("  # ").next().unwrap().to_owned()).collect()
    };
    assert_eq!(stripped(&again.succeeded().stdout), stripped(&shown));
}

#[test]
fn a_server_in_the_environment_is_measured_and_a_flag_names_another() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let variables = [
        ("TOKOMETER_BASE_URL", server.url.as_str()),
        ("TOKOMETER_NUM_PROMPTS", "3"),
        ("TOKOMETER_INPUT_LEN", "20"),
        ("TOKOMETER_OUTPUT_LEN", "3"),
        ("TOKOMETER_FORMAT", "json"),
        ("TOKOMETER_RUN_DIR", "r"),
    ];
    let run = |line: &str| ended(&mut with(folder.path(), line, &variables, ""));
    let page = run("bench").succeeded().json();
    assert_eq!(page["summary"]["counts"]["succeeded"], 3);
    assert_eq!(page["run"]["targets"][0]["base_url"], server.url);
    run("bench").says(6, &["already holds a run"]);
    run("bench --resume").succeeded();
    let shown = run("bench --host h --port 9 --print-plan").succeeded().stdout;
    assert!(shown.contains("address = \"http://h:9\"  # flag"), "{shown}");
    let shown = run("bench --sim --print-plan").succeeded().stdout;
    assert!(shown.contains("address = \"simulator:default\"  # flag"), "{shown}");
}

/// What an address alone stands for once overrode the team's config file.
#[test]
fn presets_are_stronger_than_what_an_address_alone_stands_for() {
    let folder = tempfile::tempdir().unwrap();
    let run = |line: &str, variables: &[(&str, &str)], config: &str| {
        ended(&mut with(folder.path(), line, variables, config)).succeeded()
    };
    let config = "random-input-len = 77\nready-check-timeout-sec = 5\n";
    let variables = [("TOKOMETER_OUTPUT_LEN", "9"), ("TOKOMETER_HTML", "p.html")];
    let slo = "--slo requests>1";
    for command in ["http://h:9 --print-plan", &format!("capacity http://h:9 {slo} --print-plan")] {
        let found = run(command, &variables, config);
        for part in [
            "input_len = 77  # config file",
            "output_len = 9  # environment",
            "ready_timeout_s = 5.0  # config file",
            "backend = \"openai-chat\"  # default",
            "dataset = \"random\"  # default",
        ] {
            assert!(found.stdout.contains(part), "`{part}` is not in {}", found.stdout);
        }
        assert!(found.stderr.contains("`--html` is set for one command only"), "{}", found.stderr);
    }
    let found = run("http://h:9 --print-plan --random-input-len 5", &variables, config).stdout;
    assert!(found.contains("input_len = 5  # flag"), "{found}");
    assert!(found.contains("field = \"load.max_concurrency\""), "{found}");
    let found = run("http://h:9 --print-plan", &[], "").stdout;
    assert!(found.contains("input_len = 512  # default"), "{found}");
    let path = "dataset-path = \"f\"\ndataset-name = \"sonnet\"";
    let found = run("http://h:9 --print-plan", &[], path).stdout;
    assert!(found.contains("dataset = \"sonnet\"  # config file"), "{found}");
    assert!(!found.contains("input_len = 512"), "{found}");
}

#[test]
fn a_load_of_the_config_file_is_one_run_unless_a_budget_is_typed() {
    let folder = tempfile::tempdir().unwrap();
    let run =
        |line: &str, config: &str| ended(&mut with(folder.path(), line, &[], config)).succeeded();
    let config = "max-concurrency = 8\nbudget = \"90s\"\n";
    let one = run("http://h:9 --print-plan", config);
    for part in ["max_concurrency = 8  # config file", "duration_s = 60.0  # default"] {
        assert!(one.stdout.contains(part), "`{part}` is not in {}", one.stdout);
    }
    assert!(!one.stdout.contains("[[sweep]]"), "{}", one.stdout);
    let note =
        "note: one run instead of a staircase: the load is set by `max-concurrency` (config file)";
    assert!(one.stderr.contains(note), "{}", one.stderr);
    let counted = run("http://h:9 --print-plan", "num-prompts = 7\n").stdout;
    assert!(counted.contains("num_prompts = 7  # config file"), "{counted}");
    assert!(!counted.contains("duration_s"), "{counted}");
    let steps = run("http://h:9 --print-plan --budget 50s", config);
    steps.prints(&[
        "[[sweep]]",
        "duration_s = 8.3",
        "`max-concurrency` (config file) has no effect",
    ]);
    // The budget of the config file is that of a staircase, and makes none where no address stands alone.
    let steps = run("http://h:9 --print-plan", "budget = \"90s\"\n").stdout;
    assert!(steps.contains("duration_s = 15.0"), "{steps}");
    let plain = run("bench --sim --print-plan", "budget = \"90s\"\n").stdout;
    assert!(!plain.contains("[[sweep]]"), "{plain}");
}

/// Values with rules of their own: lists, the dataset, parts of an address, the time of a staircase and of
/// a search, and what a note names.
#[test]
fn a_variable_is_stronger_than_the_config_file_and_a_flag_than_both() {
    let folder = tempfile::tempdir().unwrap();
    let check = |line: &str, variables: &[(&str, &str)], config: &str, expected: &[&str]| {
        let found = ended(&mut with(folder.path(), line, variables, config));
        found.says(0, expected);
    };
    let plan = "bench --print-plan";
    let (lists, list) = ("max-concurrency = [1, 2]\n", [("TOKOMETER_MAX_CONCURRENCY", "4,5")]);
    check(plan, &list, lists, &["values = [4, 5]  # environment"]);
    check(&format!("{plan} -c 6,7"), &list, lists, &["values = [6, 7]  # flag"]);
    check(
        plan,
        &[("TOKOMETER_MAX_CONCURRENCY", "4")],
        lists,
        &["max_concurrency = 4  # environment"],
    );
    check(&format!("{plan} -c 6"), &list, lists, &["max_concurrency = 6  # flag"]);

    let datasets = "dataset-name = \"sonnet\"\nsonnet-input-len = 80\nrandom-input-len = 70\n";
    let dataset = [("TOKOMETER_DATASET_NAME", "random")];
    let random = ["dataset = \"random\"  # environment", "input_len = 70  # config file"];
    check(plan, &dataset, datasets, &random);

    let (host, port) = (("TOKOMETER_HOST", "b"), ("TOKOMETER_PORT", "2"));
    let parts = "host = \"a\"\nport = 1\n";
    check(plan, &[host], parts, &["address = \"http://b:1\"  # environment"]);
    check(&format!("{plan} --host c"), &[port], parts, &["address = \"http://c:2\"  # flag"]);
    // A whole address below has no parts.
    let whole = "base-url = \"http://a:1\"\n";
    check(&format!("{plan} --host c"), &[], whole, &["address = \"http://c:8000\"  # flag"]);

    let (budget, budgets) = ([("TOKOMETER_BUDGET", "50s")], "budget = \"90s\"\n");
    check("http://h:9 --print-plan", &budget, budgets, &["duration_s = 8.3"]);
    check("http://h:9 --print-plan --budget 70s", &budget, budgets, &["duration_s = 11.6"]);
    let set_by = "the load is set by `max-concurrency` (environment)";
    check("http://h:9 --print-plan", &list, lists, &[set_by]);
    let backends = "backend = \"openai-chat\"\n";
    let audio = [("TOKOMETER_BACKEND", "openai-audio")];
    let expected =
        ["backend = \"openai-audio\"  # environment", "dataset = \"random-audio\"  # default"];
    check("http://h:9 --print-plan", &audio, backends, &expected);
}

/// One of them is right, and the server refuses the others.
#[test]
fn the_key_of_the_stronger_source_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--api-key", "right-key"]);
    std::fs::write(folder.path().join("wrong"), "wrong-key").unwrap();
    std::fs::write(folder.path().join("right"), "right-key").unwrap();
    let line = format!(
        "bench --base-url {} -n 2 --input-len 8 --output-len 3 --tokenizer cl100k --no-run-dir --quiet",
        server.url
    );
    let check = |flags: &str, variables: &[(&str, &str)], config: &str| {
        let line = format!("{line} {flags}");
        let found = ended(&mut with(folder.path(), &line, variables, config));
        assert_eq!(found.code, Some(0), "{flags}: {}", found.stderr);
    };
    let file = |name: &str| format!("api-key-file = \"{name}\"\n");
    let other = ("OPENAI_API_KEY", "wrong-key");
    check("", &[other], &file("right"));
    check("", &[other, ("TOKOMETER_API_KEY", "right-key")], &file("wrong"));
    check("--api-key-file right", &[("TOKOMETER_API_KEY", "wrong-key")], &file("wrong"));
}

#[test]
fn names_that_mean_nothing_are_answered_with_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let run = |line: &str, variables: &[(&str, &str)], config: &str| {
        ended(&mut with(folder.path(), line, variables, config))
    };
    let plan = "bench --print-plan";
    let unknown = ["note: the variable `TOKOMETER_NUM_PROMTS`", "`TOKOMETER_NUM_PROMPTS`"];
    run(plan, &[("TOKOMETER_NUM_PROMTS", "3")], "").says(0, &unknown);
    let refused = ["config.toml", "unknown key `max-concurency`; similar: `max-concurrency`"];
    run(plan, &[], "max-concurency = 3").says(2, &refused);
    run(plan, &[("TOKOMETER_SEED", "x")], "")
        .says(2, &["TOKOMETER_*", "`--seed`", "not a whole number"]);
    run(plan, &[], "duration = \"soon\"")
        .says(2, &["config.toml", "cannot use `soon` for `--duration`"]);
    run(plan, &[], "base-url = [\n").says(2, &["config.toml", "line "]);
    // Commands that measure nothing do not read them.
    run("docs migrating", &[], "max-concurency = 3").succeeded();
}

#[test]
fn a_key_in_a_variable_is_sent_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--api-key", "hunter22-secret"]);
    let variables =
        [("TOKOMETER_API_KEY", "hunter22-secret"), ("TOKOMETER_HEADER", "x-team=hunter33-secret")];
    let line = format!(
        "bench --base-url {} -n 3 --input-len 20 --output-len 3 --tokenizer cl100k -o r",
        server.url
    );
    let run = ended(&mut with(folder.path(), &line, &variables, "")).succeeded();
    let plan = std::fs::read_to_string(folder.path().join("r/plan.json")).unwrap();
    let shown = ended(&mut with(folder.path(), &format!("{line} --print-plan"), &variables, ""));
    for text in [&run.stdout, &run.stderr, &plan, &shown.stdout, &shown.stderr] {
        assert!(!text.contains("hunter"), "{text}");
    }
    let stored =
        ended(&mut with(folder.path(), "bench --print-plan", &[], "api-key = \"hunter22\""));
    stored.says(2, &["keys are not stored in it", "api-key-file"]);
    assert!(!stored.stderr.contains("hunter22"), "{}", stored.stderr);
}

#[test]
fn colours_follow_the_flag_then_the_variable_then_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let first = "bench --sim -n 2 --input-len 20 --output-len 3 -r inf -o r --quiet";
    ended(&mut command(folder.path(), first)).succeeded();
    let is_coloured = |flags: &str, variables: &[(&str, &str)], config: &str| {
        let line = format!("report r {flags}");
        let ended = ended(&mut with(folder.path(), &line, variables, config)).succeeded();
        ended.stdout.contains('\u{1b}')
    };
    assert!(!is_coloured("", &[], ""));
    assert!(is_coloured("--color always", &[("NO_COLOR", "1")], ""));
    assert!(is_coloured("", &[("TOKOMETER_COLOR", "always")], "color = \"never\""));
    assert!(!is_coloured("--color never", &[("TOKOMETER_COLOR", "always")], ""));
    assert!(is_coloured("", &[], "color = \"always\""));
    let bad = ended(&mut with(folder.path(), "report r", &[("TOKOMETER_COLOR", "blue")], ""));
    bad.says(2, &["`blue`", "auto, always or never"]);
}

/// A variable that is not text was ignored without a word, and another value was used.
#[test]
fn a_variable_that_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;

    let folder = tempfile::tempdir().unwrap();
    let mut program = with(folder.path(), "bench --sim --print-plan", &[], "");
    program.env("TOKOMETER_MODEL", std::ffi::OsStr::from_bytes(b"m\xff"));
    ended(&mut program).says(2, &["the variable `TOKOMETER_MODEL`", "not text in UTF-8"]);
}
