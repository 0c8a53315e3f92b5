//! `compare`, and two targets measured in turn.

use std::path::Path;

use serde_json::Value;
use tokometer_base::Nanos;
use tokometer_record::{Phase, RunReader, Timeline};

use crate::program::{Server, run};

const SMALL: &str = "--random-input-len 20 --random-output-len 5 --quiet";

fn bench(folder: &Path, url: &str, flags: &str) {
    run(folder, &format!("bench --base-url {url} {SMALL} {flags}")).succeeded();
}

fn row<'a>(page: &'a Value, figure: &str) -> &'a Value {
    let rows = page["rows"].as_array().unwrap();
    rows.iter().find(|row| row["figure"] == figure).unwrap_or_else(|| panic!("{page:#}"))
}

/// TTFT and the time between two tokens of a server.
type Pace = (Nanos, Nanos);

const QUICK: Pace = (Nanos::from_millis(5), Nanos::from_millis(1));
const SLOW: Pace = (Nanos::from_millis(400), Nanos::from_millis(20));

fn slow_server() -> Server {
    Server::new(&["--ttft", "400ms", "--itl", "20ms"])
}

/// Takes from the answers of a run what a busy machine has added: they get the times of their server's pace,
/// with a scatter of some percent that differs from run to run.
fn settle(run: &Path, number: u64, pace: impl Fn(&Timeline) -> Pace) {
    RunReader::open(run)
        .unwrap()
        .rewrite(|row| {
            let ((ttft, itl), sent) = (pace(row), row.times.first_byte_sent.unwrap());
            let is_early = row.first_content().is_none_or(|event| event.at < sent + ttft);
            assert!(!is_early, "an answer came before its time: {row:?}");
            let scatter = (7 * row.identity.index + 3 * number) % 5;
            let mut at = sent + Nanos(ttft.0 + ttft.0 / 100 * scatter);
            for event in &mut row.events {
                event.at = at;
                at += itl;
            }
            row.times.end = row.events.last().map(|event| event.at);
            row.times.headers = row.events.first().map(|event| event.at);
        })
        .unwrap();
}

#[test]
fn a_much_slower_server_is_worse_and_breaks_the_rule() {
    let folder = tempfile::tempdir().unwrap();
    let (quick, slow) = (Server::quick(), slow_server());
    for at in 1..=3 {
        for (side, url, pace) in [("a", &quick.url, QUICK), ("b", &slow.url, SLOW)] {
            bench(folder.path(), url, &format!("--num-prompts 8 --run-dir {side}{at}"));
            settle(&folder.path().join(format!("{side}{at}")), at, |_| pace);
        }
    }
    let line = "compare --a a1 a2 a3 --b b1 b2 b3 --format json --fail-if";
    let rule = ["ttft worse by 50%"];
    let mut command = crate::program::command(folder.path(), line);
    let ended = crate::program::ended(command.args(rule));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let page = ended.json();
    assert_eq!((&page["basis"], &page["rules"][0]["outcome"]), (&"runs".into(), &"broken".into()));
    assert_eq!(row(&page, "ttft_ms_mean")["conclusion"], "worse");
    // The other way round nothing is worse.
    let line = "compare --a b1 b2 b3 --b a1 a2 a3 --format markdown --fail-if";
    let mut command = crate::program::command(folder.path(), line);
    let ended = crate::program::ended(command.args(rule)).succeeded();
    assert!(ended.stdout.contains("`ttft worse by 50%`: pass"), "{}", ended.stdout);
    // A limit far below the scatter: data that cannot tell are no pass.
    for (flags, code) in [("", 0), (" --require-power", 8)] {
        let line = format!("compare --a a1 a2 a3 --b a1 a2 a3{flags} --fail-if");
        let mut command = crate::program::command(folder.path(), &line);
        let ended = crate::program::ended(command.args(["ttft worse by 0.0001%"]));
        assert_eq!(ended.code, Some(code), "{ended:?}");
        let words = "rule \"ttft worse by 0.0001%\": cannot tell";
        assert!(ended.stdout.contains(words) && ended.stderr.contains(words), "{ended:?}");
    }
}

#[test]
fn a_single_pair_is_compared_with_a_warning_and_other_work_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    bench(folder.path(), &server.url, "--num-prompts 16 --run-dir a");
    bench(folder.path(), &server.url, "--num-prompts 16 --run-dir b");
    bench(folder.path(), &server.url, "--num-prompts 16 --max-concurrency 2 --run-dir c");
    let ended = run(folder.path(), "compare a b").succeeded();
    assert_eq!(run(folder.path(), "compare --a a --b b").succeeded().stdout, ended.stdout);
    assert!(ended.stdout.contains("warning: 1 run against 1 is weak evidence"), "{}", ended.stdout);
    let ended = run(folder.path(), "compare --a a --b c");
    assert_eq!(ended.code, Some(2));
    let line = "the plans differ: load.max_concurrency is not set in a and 2 in b";
    assert!(ended.stderr.contains(line) && ended.stdout.is_empty(), "{ended:?}");
    let ended = run(folder.path(), "compare --a a --b c --force --html page.html").succeeded();
    assert!(ended.stdout.contains(&format!("MEANINGLESS: {line}")), "{}", ended.stdout);
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains(line), "the page repeats what the terminal warned of");
}

#[test]
fn bad_input_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    bench(folder.path(), &server.url, "--num-prompts 4 --run-dir a");
    let plan = folder.path().join("a/plan.json");
    let text = std::fs::read_to_string(&plan).unwrap();
    std::fs::create_dir(folder.path().join("newer")).unwrap();
    let newer = text.replacen("\"schema\": 1", "\"schema\": 999", 1);
    std::fs::write(folder.path().join("newer/plan.json"), newer).unwrap();
    let check = |line: &str, expected: &str| {
        let ended = run(folder.path(), line);
        ended.says(2, &[expected]);
    };
    check("compare --a a", "no runs given for `--b`");
    check("compare a", "it has only one target");
    check("compare --a a --b missing", "cannot read `missing`");
    check("compare --a a --b newer", "its record has version 999");
    check("compare --a a --b a --fail-if speed", "the word `worse` is missing");
    check("bench --block 5", "cannot use `--block` without `--against`");
}

#[test]
fn two_targets_in_turn_are_recorded_apart_and_compared_in_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let (quick, slow) = (Server::quick(), slow_server());
    let flags = format!("--against {} --num-prompts 24 --block 2 --run-dir r", slow.url);
    bench(folder.path(), &quick.url, &flags);
    let reader = RunReader::open(&folder.path().join("r")).unwrap();
    assert_eq!(reader.info().targets.len(), 2);
    let mut rows: Vec<_> = reader.timelines().unwrap().collect();
    rows.retain(|row| row.identity.phase == Phase::Measure);
    rows.sort_by_key(|row| row.identity.index);
    let targets: Vec<u16> = rows.iter().map(|row| row.identity.target).collect();
    for couple in targets.chunks(8) {
        let is_known = [[0, 0, 1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0, 1, 1]]
            .contains(couple.try_into().expect("24 requests are three times two pairs of blocks"));
        assert!(is_known, "{targets:?}");
    }
    assert_eq!(reader.info().plan["interleave"]["order"], "drawn");
    for pair in rows.chunks(2).collect::<Vec<_>>().windows(2) {
        let ended = pair[0].iter().filter_map(|row| row.times.end).max();
        let sent = pair[1].iter().filter_map(|row| row.times.first_byte_sent).min();
        assert!(ended < sent, "a block begins when the one before it has drained");
    }
    settle(&folder.path().join("r"), 0, |row| if row.identity.target == 0 { QUICK } else { SLOW });
    let page = run(folder.path(), "compare r --format json").succeeded().json();
    assert_eq!((&page["basis"], &page["pairs"]), (&"pairs".into(), &6.into()));
    assert_eq!(row(&page, "ttft_ms_mean")["conclusion"], "worse");
    let shown = run(folder.path(), "report r --details").succeeded().stdout;
    assert_eq!(shown.matches("Serving Benchmark Result").count(), 2);
    assert_eq!(shown.matches("Successful requests:                     12 ").count(), 2);
    // The page showed the requests of both targets as those of the first.
    let _ = run(folder.path(), "report r --html page.html").succeeded();
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: Value = serde_json::from_str(data).unwrap();
    assert!(data["differences"]["bars"].as_array().unwrap().len() > 5, "{}", data["differences"]);
    for (run, name) in data["runs"].as_array().unwrap().iter().zip(["target a", "target b"]) {
        assert_eq!((&run["name"], run["lanes"].as_array().unwrap().len()), (&name.into(), 12));
    }
}

#[test]
fn one_server_is_switched_over_before_each_block_of_the_other_side() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let line =
        format!("bench --base-url {} {SMALL} --num-prompts 16 --block 1 --run-dir r", server.url);
    let mut command = crate::program::command(folder.path(), &line);
    let script = "f() { echo $1 >> switched; }; f";
    crate::program::ended(command.args(["--switch-command", script])).succeeded();
    let switched = std::fs::read_to_string(folder.path().join("switched")).unwrap();
    // At the start, and three times in every two pairs (a b b a or b a a b): their begin restarts the
    // server even if its side stays, so that they share no process with the pairs before them.
    let sides: Vec<&str> = switched.lines().collect();
    assert_eq!(sides.len(), 1 + 4 * 3, "{sides:?}");
    for couple in sides[1..].chunks(3) {
        assert!(couple[0] == couple[2] && couple[0] != couple[1], "{sides:?}");
    }
    let page = run(folder.path(), "compare r --format json").succeeded().json();
    let starts: u64 = page["restarts"].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
    assert_eq!(starts, 4 * 3, "{page:#}");
}

/// Such a run used to show nothing at all.
#[test]
fn a_target_without_a_success_leaves_the_other_s_results() {
    let folder = tempfile::tempdir().unwrap();
    let faults = r#"{"errors":{"status":500,"which":{"share":1.0}}}"#;
    let (quick, broken) =
        (Server::quick(), Server::new(&["--ttft", "5ms", "--itl", "1ms", "--faults", faults]));
    let line = format!(
        "bench --base-url {} --against {} --random-input-len 20 --random-output-len 5 \
         --num-prompts 8 --block 2",
        quick.url, broken.url
    );
    let ended = run(folder.path(), &format!("{line} --run-dir r"));
    ended.says(
        7,
        &[
            "no request to target b succeeded",
            "Successful requests:                     4 ",
            "comparison: not possible",
        ],
    );
    let page = run(folder.path(), &format!("{line} --no-run-dir --format json")).json();
    assert_eq!(page["a"]["summary"]["counts"]["succeeded"], 4, "{page:#}");
    assert!(page["comparison"].is_null(), "{page:#}");
    assert_eq!(run(folder.path(), "compare r").code, Some(2));
    // A target that cannot be reached is named before anything is sent.
    let line = format!("bench --base-url {} --against http://127.0.0.1:9 --no-run-dir", quick.url);
    let refused = run(folder.path(), &line);
    refused.says(3, &["target b: cannot reach http://127.0.0.1:9"]);
}
