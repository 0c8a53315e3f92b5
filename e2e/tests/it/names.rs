//! One word for one thing: earlier names, the page of a note, and what `--debug` shows.

use serde_json::Value;

use crate::program::{root, run};
use crate::scripted::{AfterResponse, Scripted};

#[test]
fn an_earlier_name_of_ours_is_refused_with_the_one_of_today() {
    let folder = tempfile::tempdir().unwrap();
    let check = |line: &str, now: &str| {
        let ended = run(folder.path(), line);
        ended.says(2, &[now]);
    };
    check("bench --compat sglang", "it is called `--conventions` now");
    check("bench --harvest eager", "it is called `--socket-reads` now");
    check("bench --json", "it is called `--format json` now");
    check("capacity --engine small --slo requests>1 --json", "`--format json` now");
    check("report run --json", "it is called `--format json` now");
    check("doctor report.txt --markdown", "it is called `--format markdown` now");
    check("merge shard --output both", "similar: `--run-dir`");
    std::fs::write(folder.path().join("plan.toml"), "family = \"sglang\"\n").unwrap();
    check("bench --plan plan.toml", "the key `family` is called `conventions` now");
    std::fs::write(folder.path().join("c.toml"), "[client]\nharvest = \"eager\"\n").unwrap();
    check("bench --plan c.toml", "the key `client.harvest` is called `client.socket_reads` now");
}

/// The run of this fixture was recorded with the earlier keys.
#[test]
fn the_plan_of_a_run_is_read_with_its_earlier_keys() {
    let folder = tempfile::tempdir().unwrap();
    let info = std::fs::read_to_string(root().join("fixtures/run/info.json")).unwrap();
    let plan = std::fs::read_to_string(root().join("fixtures/run/plan.json")).unwrap();
    let mut info: Value = serde_json::from_str(&info).unwrap();
    info["plan"] = serde_json::from_str(&plan).unwrap();
    std::fs::create_dir(folder.path().join("run")).unwrap();
    std::fs::write(folder.path().join("run/plan.json"), info.to_string()).unwrap();
    let plan = run(folder.path(), "bench --plan run/plan.json --print-plan").succeeded().stdout;
    assert!(plan.contains("conventions = \"vllm\"") && plan.contains("socket_reads ="), "{plan}");
    assert!(!plan.contains("family") && !plan.contains("harvest"), "{plan}");
}

#[test]
fn a_note_is_explained_and_an_unknown_one_names_its_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let page = run(folder.path(), "explain slow-refill").succeeded().stdout;
    let text = std::fs::read_to_string(root().join("docs/notes.md")).unwrap();
    let part = text.split("### `slow-refill`\n").nth(1).unwrap().split("\n###").next().unwrap();
    for line in part.lines().filter_map(|line| line.strip_prefix("- **")) {
        assert!(page.contains(&line.replace(":** ", ": ")), "{line} is not in {page}");
    }
    let ended = run(folder.path(), "explain slow-refil");
    ended.says(2, &["similar: slow-refill"]);
}

/// The server answers with codes that would clear a terminal.
#[test]
fn debug_shows_one_exchange_without_keys_and_codes() {
    let folder = tempfile::tempdir().unwrap();
    let server = Scripted::new(|mut asked| {
        asked.start_stream();
        asked.event("{\"choices\":[{\"index\":0,\"text\":\"\u{1b}[2J\"}]}");
        asked.event("{\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":3}}");
        asked.event("[DONE]");
        AfterResponse::Close
    });
    let line = format!(
        "bench --base-url {} --model scripted --tokenizer cl100k --random-input-len 8 \
         --random-output-len 3 -n 3 -c 1 --api-key hunter22 --no-run-dir --debug",
        server.url
    );
    let said = run(folder.path(), &line).stderr;
    assert_eq!(said.matches("\n> POST /v1/completions HTTP/1.1").count(), 1, "{said}");
    assert_eq!(said.matches("\n< HTTP/1.1 200 OK").count(), 1, "{said}");
    assert!(said.contains("\n> Authorization: [redacted]"), "{said}");
    assert!(said.contains("\"max_tokens\":3") && said.contains("\\u{1b}[2J"), "{said}");
    assert!(!said.contains("hunter22") && !said.contains('\u{1b}'), "{said}");
}
