//! Commands whose output a page does not show, run once: the simulated server stands in for the reader's,
//! the load is small, and files that a reader would have are there.

use super::block::Page;
use super::gateway::{self, Gateways};
use super::session::Session;
use super::shards;
use crate::program::{Server, root};

/// Flags whose value decides how long a command takes: a small value, and a small list.
const SMALL: [(&str, &str, &str); 17] = [
    ("--model", "simulated", ""),
    ("--tokenizer", "cl100k", ""),
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

/// Flags that make a plan of `experiments/` short: they override every section of it.
const SHORT_EXPERIMENT: &str =
    " --random-input-len 8 --random-output-len 4 --request-rate inf --num-warmups 1";

/// The servers instead of the reader's.
pub(super) struct Servers {
    /// The address of the one without TLS.
    plain: String,
    gateways: Gateways,
}

impl Servers {
    /// Servers of which only the first is there, for tests that send nothing.
    pub(super) fn named(plain: &str) -> Self {
        let named = |name: &str| format!("https://{name}:1");
        let gateways = Gateways { open: named("open"), strict: named("strict") };
        Self { plain: plain.to_owned(), gateways }
    }
}

/// A reader with servers, and with files of earlier runs.
pub(super) struct Reader {
    session: Session,
    servers: Servers,
    /// It ends with the reader.
    _server: Server,
}

impl Reader {
    pub(super) fn new() -> Self {
        let server = Server::quick();
        let mut session = Session::new(&Page::new("", ""));
        let gateways = Gateways::new(session.folder(), &server.url);
        session.attempt(&prepared(&server.url)).unwrap_or_else(|why| panic!("{why}"));
        let servers = Servers { plain: server.url.clone(), gateways };
        Self { session, servers, _server: server }
    }

    /// Runs a command of a page with a small load. What it printed where it could not be done.
    pub(super) fn failure(&mut self, command: &str, origin: &str) -> Option<String> {
        let small = if shards::is_for_shards(command) {
            shards::script(command, &self.servers)
        } else {
            small(command, &self.servers)
        };
        let why = self.session.attempt(&small).err()?;
        Some(format!("{origin}: {command}\n  run as  {small}\n{why}"))
    }
}

/// Runs the commands of these pages that have no output, in order, and returns those that fail.
pub(super) fn failures(pages: &[Page]) -> Vec<String> {
    let mut reader = Reader::new();
    let mut failures = Vec::new();
    // The help of the command line has examples too, of which other pages have the same.
    for page in pages.iter().filter(|page| page.name != "docs/cli.md") {
        for (line, command) in page.other_commands() {
            failures.extend(reader.failure(&command, &format!("{}:{line}", page.name)));
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
        "printf 'max_concurrency,num_prompts,completed,duration_s,output_tok_s,ttft_ms_p50,tpot_ms_p50\\n4,40,40,31.082,164.728,265.0,21.372\\n' > results/a.csv"
            .to_owned(),
        "find . -maxdepth 2 -name r.json -exec cp {} results/a.json ';'".to_owned(),
        format!("cp {} my-engine.toml", profile.display()),
        r#"echo '{"prompt": "The capital of France is", "regex": "Paris"}' > canary.jsonl"#.to_owned(),
        "echo ID3 > a.mp3".to_owned(),
        r#"echo '{"prompt": "", "audio": "a.mp3", "seconds": 1}' > rows.jsonl"#.to_owned(),
        r"printf '#!/bin/sh\n' > restart.sh; chmod +x restart.sh".to_owned(),
        "cp RUN/plan.json plan.json".to_owned(),
        format!("{bench} --num-prompts 8 --block 2 --against {url} --run-dir ab"),
        "ls results/a.json results/a.csv > /dev/null".to_owned(),
    ]
    .join("\n")
}

/// A command with the simulated server's address and a small load.
pub(super) fn small(command: &str, servers: &Servers) -> String {
    let mut words = words(without_output(command));
    let is_strict = words.iter().any(|word| word == "--client-cert");
    // The reader's gateway may have a certificate that the system trusts.
    let is_trusted = words.iter().any(|word| word.starts_with("https://"))
        && !words.iter().any(|word| word == "--ca-cert" || word == "--insecure");
    let gateways = &servers.gateways;
    let gateway = if is_strict { &gateways.strict } else { &gateways.open };
    for at in 0..words.len() {
        words[at] = at_server(&words[at], &servers.plain, gateway);
        let found = SMALL.iter().find(|(flag, ..)| *flag == words[at]);
        if let Some(((_, one, list), value)) = found.zip(words.get(at + 1)) {
            let is_list = value.contains(',') && !value.starts_with(['\'', '"']);
            let value = if is_list { list } else { one };
            words[at + 1] = String::from(*value);
        }
    }
    let verb = words.get(1).map(String::as_str).unwrap_or_default().to_owned();
    // A flag that is there keeps its value.
    for pair in more_flags(&verb, &words).split(" --").filter(|pair| !pair.is_empty()) {
        let flag = format!("--{}", pair.split(' ').next().unwrap_or_default());
        if !words.contains(&flag) {
            words.push(format!("--{pair}"));
        }
    }
    words.extend((verb == "sim").then(|| "&".to_owned()));
    let before = match verb.as_str() {
        "calibrate" => measured(&words),
        _ if is_trusted => format!("SSL_CERT_FILE={} ", gateway::AUTHORITY),
        _ => String::new(),
    };
    before + &words.join(" ")
}

/// Flags that make a command short where it does not have them.
fn more_flags(verb: &str, words: &[String]) -> String {
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let more = match verb {
        "bench" if !has("--num-prompts") && !has("--duration") => " --num-prompts 4",
        "capacity" if has("--engine") => " --min-duration 1s --max-duration 1s --points 4",
        "capacity" => {
            " --budget 2s --points 2 --min-duration 300ms --max-duration 300ms --random-output-len 4"
        }
        "sim" if !has("--unix") => " --port 0",
        "calibrate" => " --searches 1 --from default",
        address if address.starts_with("http") && !has("--duration") => {
            " --budget 1s --random-output-len 4"
        }
        _ => "",
    };
    // Sounds are ten seconds long unless that is said.
    let is_search = verb == "capacity" || verb.starts_with("http");
    let is_audio = is_search && words.iter().any(|word| word.contains("audio"));
    let audio = if is_audio { " --audio-length-mean 1" } else { "" };
    let is_experiment = words.iter().any(|word| word.starts_with("experiments/"));
    let experiment = if is_experiment { SHORT_EXPERIMENT } else { "" };
    // Several commands of a page name one folder.
    let again = if has("--run-dir") && verb != "report" { " --overwrite" } else { "" };
    [more, audio, experiment, again].concat()
}

/// Runs in the folders `NAME/*` of a `calibrate`. Those of the commands before it have too few requests to
/// fit anything to, so predictions replace them.
fn measured(words: &[String]) -> String {
    let folders = words.iter().filter_map(|word| word.strip_suffix("/*"));
    let runs = folders.map(|folder| {
        format!(
            "tokometer predict --engine default --num-prompts 8 --request-rate 5,20 --random-input-len 40 \
             --random-output-len 12 --random-range-ratio 0.5 --quiet --overwrite --run-dir {folder}\n"
        )
    });
    runs.collect()
}

/// A command without the file that it writes to, which may be anywhere, or the program that reads it.
fn without_output(command: &str) -> &str {
    let mut quote = None;
    for (at, letter) in command.char_indices() {
        match (quote, letter) {
            (None, '>' | '|') => return command[..at].trim_end(),
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), letter) if letter == open => quote = None,
            _ => {}
        }
    }
    command
}

/// The words of a command. What is in quotes is one word, with its quotes.
pub(super) fn words(command: &str) -> Vec<String> {
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

/// A word with a server of the test instead of the one that it names.
fn at_server(word: &str, plain: &str, gateway: &str) -> String {
    for (scheme, url) in [("http://", plain), ("https://", gateway)] {
        if let Some((before, rest)) = word.split_once(scheme) {
            let path = rest.find('/').map_or("", |at| &rest[at..]);
            return format!("{before}{url}{path}");
        }
    }
    word.to_owned()
}

#[test]
fn a_command_becomes_small_and_keeps_its_other_flags() {
    let servers = Servers::named("http://s:1");
    let check = |command: &str, expected: &str| assert_eq!(small(command, &servers), expected);
    check("tokometer http://HOST:PORT", "tokometer http://s:1 --budget 1s --random-output-len 4");
    check(
        "tokometer bench --base-url http://a:8000/v1 --max-concurrency 1,2,...,256 --name NAME > x",
        "tokometer bench --base-url http://s:1/v1 --max-concurrency 1,2 --name NAME --num-prompts 4",
    );
    check("tokometer report RUN --label 'a b' | head", "tokometer report RUN --label 'a b'");
    check("tokometer sim --profile small", "tokometer sim --profile small --port 0 &");
    check(
        "tokometer bench --base-url https://a/team/v1 --ca-cert our-ca.pem",
        "tokometer bench --base-url https://open:1/team/v1 --ca-cert our-ca.pem --num-prompts 4",
    );
    check(
        "tokometer bench --base-url https://a --client-cert me.pem",
        "SSL_CERT_FILE=our-ca.pem tokometer bench --base-url https://strict:1 --client-cert me.pem \
         --num-prompts 4",
    );
    check(
        "tokometer bench --plan experiments/a.toml --num-prompts 10",
        "tokometer bench --plan experiments/a.toml --num-prompts 4 --random-input-len 8 \
         --random-output-len 4 --request-rate inf --num-warmups 1",
    );
    let fitted = small("tokometer calibrate low/* -o x.toml", &servers);
    assert!(
        fitted.starts_with("tokometer predict ") && fitted.contains("--run-dir low\n"),
        "{fitted}"
    );
    assert!(fitted.ends_with("\ntokometer calibrate low/* -o x.toml --searches 1 --from default"));
}

#[test]
fn a_command_that_cannot_work_is_found() {
    let commands = [
        // Certificates of another authority, none, and a key of another certificate.
        "tokometer bench --base-url https://gateway.example --ca-cert ca.pem",
        "tokometer bench --base-url https://gateway.example --client-cert ca.pem",
        "tokometer bench --base-url https://gateway.example/team-b/v1 --insecure",
        "tokometer bench --shard K/4 --leader a:7777 --base-url URL … --shard-tls-cert shard.pem \
         --shard-tls-key me.key --shard-tls-ca ca.pem",
        "tokometer bench --plan experiments/vllm-406b.toml",
        "tokometer calibrate nowhere -o x.toml",
        "tokometer sim --engine PROFILE",
        "tokometer doctor --load \"512 streams\" --loud",
    ];
    let page =
        Page::new("x.md", &format!("```sh\n# needs a server\n{}\n```\n", commands.join("\n")));
    let failures = failures(&[page]);
    for command in commands {
        let is_found = failures.iter().any(|why| why.contains(&format!(": {command}\n")));
        assert!(is_found, "{command}: {failures:#?}");
    }
}
