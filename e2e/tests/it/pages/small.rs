//! Commands whose output a page does not show, run once: the simulated server stands in for the reader's,
//! the load is small, and files that a reader would have are there.

use super::block::Page;
use super::session::Session;
use crate::program::{Server, root};

/// Flags whose value decides how long a command takes: a small value, and a small list.
const SMALL: [(&str, &str, &str); 16] = [
    ("--model", "simulated", ""),
    ("--port", "0", ""),
    ("--num-prompts", "4", "2,4"),
    ("--max-concurrency", "2", "1,2"),
    ("--request-rate", "200", "100,200"),
    ("--random-input-len", "8", "8,16"),
    ("--random-output-len", "4", "4,8"),
    ("--per-turn-input-len", "4", "4"),
    ("--duration", "300ms", "300ms"),
    ("--budget", "1s", "1s"),
    ("--max-duration", "300ms", "300ms"),
    ("--points", "2", "2"),
    ("--replicas", "2", "1,2"),
    ("--audio-length-mean", "1", "1"),
    ("--random-mm-bucket-config", "'{(16, 16, 1): 1.0}'", ""),
    ("--load", "\"concurrency=2 itl=5ms ttft=5ms tokens=8\"", ""),
];

/// Commands that are only parsed, by a part of them, and why.
const PARSED_ONLY: [(&str, &str); 6] = [
    ("https://", "needs certificates; e2e/tests/it/connections has servers with them"),
    ("--shard ", "needs several processes; e2e/tests/it/shards.rs starts them"),
    ("experiments/", "takes minutes; e2e/tests/it/experiments.rs predicts these plans"),
    ("tokometer calibrate", "takes a minute; e2e/tests/it/predict.rs runs one"),
    ("doctor --load", "floods the machine; README has it with its output"),
    ("PROFILE", "is a name that the reader fills in"),
];

/// Runs the commands of these pages that have no output, in order, and returns those that fail.
pub(super) fn failures(pages: &[Page]) -> Vec<String> {
    let server = Server::quick();
    let mut session = Session::new(&Page::new("", ""));
    session.attempt(&prepared(&server.url)).unwrap_or_else(|why| panic!("{why}"));
    let is_run = |command: &str| !PARSED_ONLY.iter().any(|(part, _)| command.contains(part));
    let mut failures = Vec::new();
    // The help of the command line has examples too, of which other pages have the same.
    for page in pages.iter().filter(|page| page.name != "docs/cli.md") {
        for (line, command) in page.other_commands() {
            if !is_run(&command) {
                continue;
            }
            let small = small(&command, &server.url);
            if let Err(why) = session.attempt(&small) {
                failures.push(format!("{}:{line}: {command}\n  run as  {small}\n{why}", page.name));
            }
        }
    }
    failures
}

/// The commands that make the files of a reader.
fn prepared(url: &str) -> String {
    let names = [
        "runs/before-1 runs/before-2 runs/before-3 runs/after-1 runs/after-2 runs/after-3",
        "old-1 old-2 old-3 new-1 new-2 new-3 old1 old2 old3 new1 new2 new3",
        "base/1 base/2 base/3 head/1 head/2 head/3 n1 n2 n3 m1 m2 m3",
    ]
    .join(" ");
    let bench = format!(
        "tokometer bench --base-url {url} --random-input-len 8 --random-output-len 4 --quiet"
    );
    let profile = root().join("crates/sim/profiles/small.toml");
    [
        format!("{bench} --num-prompts 12 --max-concurrency 2 --run-dir RUN --save-result --result-filename r.json"),
        format!("{bench} --num-prompts 4 --max-concurrency 1,2 --run-dir sweep-tp4"),
        "cp -r sweep-tp4 sweep-tp8; mkdir -p runs base head results".to_owned(),
        format!("for name in {names}; do cp -r RUN $name; done"),
        "cp fixtures/seeds/004_*.txt report.txt; cp report.txt log.txt".to_owned(),
        "tokometer report RUN --format csv > results/a.csv".to_owned(),
        "find . -maxdepth 2 -name r.json -exec cp {} results/a.json ';'".to_owned(),
        format!("cp {} my-engine.toml", profile.display()),
        r#"echo '{"prompt": "The capital of France is", "regex": "Paris"}' > canary.jsonl"#.to_owned(),
        "echo ID3 > a.mp3".to_owned(),
        r#"echo '{"prompt": "", "audio": "a.mp3", "seconds": 1}' > rows.jsonl"#.to_owned(),
        r"printf '#!/bin/sh\n' > restart.sh; chmod +x restart.sh".to_owned(),
        "ls results/a.json results/a.csv > /dev/null".to_owned(),
    ]
    .join("\n")
}

/// A command with the simulated server's address and a small load.
fn small(command: &str, url: &str) -> String {
    let mut words = words(without_output(command));
    for at in 0..words.len() {
        words[at] = at_server(&words[at], url);
        let found = SMALL.iter().find(|(flag, ..)| *flag == words[at]);
        if let Some(((_, one, list), value)) = found.zip(words.get(at + 1)) {
            let is_list = value.contains(',') && !value.starts_with(['\'', '"']);
            let value = if is_list { list } else { one };
            words[at + 1] = String::from(*value);
        }
    }
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let verb = words.get(1).map(String::as_str).unwrap_or_default().to_owned();
    let more = match verb.as_str() {
        "bench" if !has("--num-prompts") && !has("--duration") => " --num-prompts 4",
        "capacity" if has("--engine") => " --min-duration 1s --max-duration 1s --points 4",
        "capacity" => {
            " --budget 2s --points 2 --min-duration 300ms --max-duration 300ms --random-output-len 4"
        }
        "sim" => " --port 0",
        address if address.starts_with("http") && !has("--duration") => {
            " --budget 1s --random-output-len 4"
        }
        _ => "",
    };
    // Sounds are ten seconds long unless that is said.
    let is_search = verb == "capacity" || verb.starts_with("http");
    let is_audio = is_search && words.iter().any(|word| word.contains("audio"));
    let audio = if is_audio { " --audio-length-mean 1" } else { "" };
    // Several commands of a page name one folder.
    let again = if has("--run-dir") && verb != "report" { " --overwrite" } else { "" };
    let more = [more, audio, again].concat();
    // A flag that is there keeps its value.
    for pair in more.split(" --").filter(|pair| !pair.is_empty()) {
        let flag = format!("--{}", pair.split(' ').next().unwrap_or_default());
        if !words.contains(&flag) {
            words.push(format!("--{pair}"));
        }
    }
    words.extend((verb == "sim").then(|| "&".to_owned()));
    words.join(" ")
}

/// A command without the file that it writes to: it may be anywhere.
fn without_output(command: &str) -> &str {
    let mut quote = None;
    for (at, letter) in command.char_indices() {
        match (quote, letter) {
            (None, '>') => return command[..at].trim_end(),
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), letter) if letter == open => quote = None,
            _ => {}
        }
    }
    command
}

/// The words of a command. What is in quotes is one word, with its quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for letter in command.chars() {
        match (quote, letter) {
            (None, ' ') => words.push(String::new()),
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), letter) if letter == open => quote = None,
            _ => {}
        }
        if let Some(last) = words.last_mut().filter(|_| quote.is_some() || letter != ' ') {
            last.push(letter);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A word with the simulated server in the place of the one that it names.
fn at_server(word: &str, url: &str) -> String {
    match word.split_once("http://") {
        Some((before, rest)) => {
            let path = rest.find('/').map_or("", |at| &rest[at..]);
            format!("{before}{url}{path}")
        }
        None => word.to_owned(),
    }
}

#[test]
fn a_command_becomes_small_and_keeps_its_other_flags() {
    let check = |command: &str, expected: &str| assert_eq!(small(command, "http://s:1"), expected);
    check("tokometer http://HOST:PORT", "tokometer http://s:1 --budget 1s --random-output-len 4");
    check(
        "tokometer bench --base-url http://a:8000/v1 --max-concurrency 1,2,...,256 --name NAME > x",
        "tokometer bench --base-url http://s:1/v1 --max-concurrency 1,2 --name NAME --num-prompts 4",
    );
    check("tokometer report RUN --label 'a b'", "tokometer report RUN --label 'a b'");
    check("tokometer sim --profile small", "tokometer sim --profile small --port 0 &");
}

/// A reason that no command has any more hides a command that could be run.
#[test]
fn every_reason_to_parse_only_has_a_command() {
    let commands: Vec<String> = super::all_pages()
        .iter()
        .flat_map(|page| page.other_commands().into_iter().map(|(_, command)| command))
        .collect();
    let is_used = |part: &str| commands.iter().any(|command| command.contains(part));
    let unused = PARSED_ONLY.iter().filter(|(part, _)| !is_used(part));
    assert_eq!(unused.count(), 0, "remove the reasons without a command");
    for (part, why) in PARSED_ONLY {
        let file = why.split_whitespace().find(|word| word.contains('/'));
        assert!(file.is_none_or(|file| root().join(file).exists()), "{part}: {why}");
    }
}
