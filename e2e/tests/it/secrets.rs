//! Secrets go to the server and nowhere else, and a server's words cannot imitate ours.
//!
//! [`INPUTS`] lists every input that may hold a secret; a new flag gets a row there. Each row has a
//! marker of its own. The server sends everything back that it was sent, in every form, and nothing
//! that the program prints or writes may hold a marker.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value};
use tokometer_base::redact::HIDDEN;

use crate::program::{self, ProgramExit};
use crate::scripted::{AfterResponse, Scripted, ScriptedRequest};

/// How a marker gets into a command. `URL` is the server's address, `MARK` the marker.
enum Input {
    /// A flag and its value.
    Flag(&'static str, &'static str),
    /// A variable of the environment and its value.
    Variable(&'static str, &'static str),
}

use Input::{Flag, Variable};

/// Every input that may hold a secret.
const INPUTS: [(&str, Input); 20] = [
    ("urlkey", Flag("--base-url", "URL?api-version=2024-06-01&api_key=MARK&code=MARX")),
    ("endpoint", Flag("--endpoint", "/v1/completions?sig=MARK")),
    ("metricsquery", Flag("--metrics-url", "URL/metrics?access=MARK")),
    ("authorization", Flag("--header", "Authorization=Bearer MARK")),
    ("unknownheader", Flag("--header", "x-tenant=MARK")),
    ("cookie", Flag("--header", "Cookie=session=MARK")),
    ("bodynested", Flag("--extra-body", r#"{"a":[{"mcp":{"Client-Secret":"MARK"}}],"min_p":0}"#)),
    ("bodycamel", Flag("--extra-body", r#"{"apiKey":"MARK","auth":{"credentials":["MARK"]}}"#)),
    ("bodyurl", Flag("--extra-body", r#"{"image":"http://me:MARK@h/a.png?sig=MARK"}"#)),
    ("template", Flag("--chat-template-kwargs", r#"{"api_token":"MARK"}"#)),
    ("metadata", Flag("--metadata", "API-Key=MARK")),
    ("apikeyflag", Flag("--metadata", "password=MARK")),
    ("openaikey", Variable("OPENAI_API_KEY", "MARK")),
    ("sglangkey", Variable("API_KEY", "MARK")),
    ("hubtoken", Variable("HF_TOKEN", "MARK")),
    ("oldhubtoken", Variable("HUGGING_FACE_HUB_TOKEN", "MARK")),
    ("hubendpoint", Variable("HF_ENDPOINT", "http://me:MARK@127.0.0.1:9")),
    ("httpproxy", Variable("HTTP_PROXY", "http://me:MARK@127.0.0.1:9")),
    ("httpsproxy", Variable("https_proxy", "http://me:MARK@127.0.0.1:9")),
    ("allproxy", Variable("ALL_PROXY", "socks5://me:MARK@127.0.0.1:9")),
];

/// Inputs of a measurement with two targets.
const AGAINST: [(&str, Input); 3] = [
    ("against", Flag("--against", "URL?subscription-key=MARK")),
    (
        "switchvariable",
        Flag("--switch-command", "KEY=MARK; tr '\\0' ' ' </proc/$$/cmdline >>args #"),
    ),
    ("switchargument", Flag("--switch-command", "true --password MARK")),
];

/// A marker with characters that every encoding changes.
fn marker(name: &str) -> String {
    format!("mk7-{name}/+{}", name.len())
}

/// Adds the rows to a command. The values of a flag that stands in several rows are given together,
/// because the last use of a flag replaces the others.
fn plant(command: &mut Command, url: &str, inputs: &[(&str, Input)]) {
    let mut flags: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, input) in inputs {
        let value = |text: &str| {
            let twin = marker(&format!("{name}x"));
            text.replace("URL", url).replace("MARK", &marker(name)).replace("MARX", &twin)
        };
        match input {
            Flag(flag, text) => flags.entry(flag).or_default().push(value(text)),
            Variable(variable, text) => drop(command.env(variable, value(text))),
        }
    }
    for (flag, values) in flags {
        let is_object = values[0].starts_with('{');
        command.arg(flag).args(if is_object { vec![merged(&values)] } else { values });
    }
    command.env("NO_PROXY", "127.0.0.1,localhost").env("no_proxy", "127.0.0.1,localhost");
}

/// JSON objects as one.
fn merged(objects: &[String]) -> String {
    let objects = objects.iter().map(|text| serde_json::from_str::<Map<_, _>>(text).unwrap());
    Value::Object(objects.flatten().collect()).to_string()
}

fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => encoded.push(char::from(byte)),
            _ => write!(encoded, "%{byte:02X}").unwrap(),
        }
        encoded
    })
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for at in 0..=three.len() {
            encoded.push(char::from(LETTERS[(bits >> (18 - 6 * at) & 63) as usize]));
        }
    }
    encoded
}

/// The forms in which a marker is looked for.
fn forms(marker: &str) -> Vec<String> {
    let inner = |offset: usize| {
        let padded = [vec![0; offset], marker.as_bytes().to_vec()].concat();
        let encoded = base64(&padded);
        encoded[(offset * 8).div_ceil(6)..padded.len() * 8 / 6].to_owned()
    };
    let json = serde_json::to_string(marker).unwrap().trim_matches('"').to_owned();
    let escaped = json.replace('/', "\\/");
    [vec![marker.to_owned(), percent(marker), json, escaped], (0..3).map(inner).collect()].concat()
}

/// What the server sends back: everything, as it came and in every encoding.
fn echo(asked: &ScriptedRequest<'_>) -> String {
    let all = format!("{}\n{}{}", asked.line, asked.head, String::from_utf8_lossy(&asked.body));
    format!("{all} {} {}", percent(&all), base64(all.as_bytes()))
}

fn answer(mut asked: ScriptedRequest<'_>) -> AfterResponse {
    let echo = echo(&asked);
    let quoted = serde_json::to_string(&echo).unwrap();
    let path = asked.line.split(['?', ' ']).nth(1).unwrap_or_default().to_owned();
    let json = "application/json";
    match path.as_str() {
        "/v1/models" => {
            let list = format!(r#"{{"data":[{{"id":{quoted},"root":{quoted}}}]}}"#);
            asked.answer("200 OK", json, list);
        }
        "/server_info" | "/get_server_info" => {
            let info = format!(r#"{{"version":{quoted},"api_key":{quoted},"args":[{quoted}]}}"#);
            asked.answer("200 OK", json, info);
        }
        "/metrics" => {
            let label = echo.replace(['"', '\n', '\r', '\\'], " ");
            let page = format!("vllm:num_requests_running{{key=\"{label}\"}} 0\n");
            asked.answer("200 OK", "text/plain", page);
        }
        "/v1/completions" if asked.number.is_multiple_of(3) => {
            asked.start_stream();
            asked.event(format!(r#"{{"choices":[{{"index":0,"text":{quoted}}}]}}"#));
            asked.event(r#"{"choices":[{"index":0,"text":"","finish_reason":"length"}]}"#);
            asked.event("[DONE]");
            return AfterResponse::Close;
        }
        "/v1/completions" if asked.number % 3 == 1 => {
            asked.answer("400 Bad Request", json, format!(r#"{{"error":{{"message":{quoted}}}}}"#));
        }
        _ => asked.answer("404 Not Found", "text/plain", &echo),
    }
    AfterResponse::Stay
}

/// All that is looked through: what was printed, and every file below the folder.
struct Seen {
    printed: Vec<(String, String)>,
}

impl Seen {
    fn run(&mut self, command: &mut Command) -> ProgramExit {
        let ended = program::ended(command);
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        let of = format!("{} …", words[..words.len().min(3)].join(" "));
        self.printed.push((of, format!("{}\n{}", ended.stdout, ended.stderr)));
        ended
    }

    fn check(&self, folder: &Path, names: impl Iterator<Item = String>) {
        let mut files = Vec::new();
        collect(folder, &mut files);
        assert!(files.len() > 20, "{} files", files.len());
        for name in names {
            for form in forms(&marker(&name)) {
                for (of, text) in &self.printed {
                    assert!(
                        !text.contains(&form),
                        "`{name}` as {form} is printed by {of}:\n{text}"
                    );
                }
                for (path, text) in &files {
                    assert!(!text.contains(&form), "`{name}` as {form} is in {path}");
                    assert!(!path.contains(&form), "`{name}` is in the name {path}");
                }
            }
        }
    }
}

/// Every file with its bytes as far as they are text: a marker is.
fn collect(folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            files.push((path.display().to_string(), text));
        }
    }
}

const SMALL: &str = "--random-input-len 8 --random-output-len 4 --disable-tqdm --seed 1";

#[test]
fn no_secret_reaches_a_file_a_line_or_an_argument() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Scripted::raw(answer);
    let mut seen = Seen { printed: Vec::new() };
    let bench = |line: &str| {
        let mut command = program::command(folder, &format!("{line} {SMALL}"));
        plant(&mut command, &server.url, &INPUTS);
        command
    };
    let files = "--save-result --save-detailed --output-file lines.jsonl --output-details";
    let sweep = format!("bench --num-prompts 6 --max-concurrency 1,2 --run-dir sweep {files}");
    assert_eq!(seen.run(&mut bench(&sweep)).code, Some(0));
    let sglang = "bench --backend sglang-oai --dataset-name random --num-prompts 6 --run-dir sglang --output-file s.jsonl";
    let _ended = seen.run(&mut bench(sglang));
    assert_eq!(
        seen.run(&mut bench("bench --num-prompts 6 --run-dir one --format json")).code,
        Some(0)
    );
    assert_eq!(
        seen.run(&mut bench("bench --num-prompts 6 --run-dir two --prometheus-port 0")).code,
        Some(0)
    );
    let debugged = seen.run(&mut bench("bench --num-prompts 6 --run-dir three --debug"));
    assert!(debugged.stderr.contains("\n> Authorization: [redacted]\n"), "{}", debugged.stderr);
    for input in AGAINST {
        let name = input.0;
        let mut command = bench(&format!("bench --num-prompts 8 --block 2 --run-dir {name}"));
        plant(&mut command, &server.url, &[input]);
        assert_eq!(seen.run(&mut command).code, Some(0), "{name}");
    }
    let plan = seen.run(&mut bench("bench --print-plan")).succeeded();
    assert!(plan.stdout.contains(HIDDEN), "{}", plan.stdout);
    let _described = seen.run(&mut bench("dataset --num-prompts 2"));
    let times = "--start 4 --max 8 --points 2 --min-duration 200ms --max-duration 300ms";
    let mut capacity = bench(&format!("capacity {times} --run-dir capacity"));
    let _found = seen.run(capacity.args(["--slo", "p50 ttft < 10min"]));
    for line in [
        "report one",
        "report one --html one.html --markdown one.md --csv one.csv --perfetto one.trace.json",
        "report one --layout tokometer",
        "report sweep one two --format csv",
        "report sweep one two --format markdown",
        "report sweep one two --html all.html",
        "report one --format json",
        "report s.jsonl lines.jsonl",
        "compare --a one --b two",
        "compare --a one --b two --html compare.html",
        "compare against",
        "doctor lines.jsonl",
    ] {
        let _ended = seen.run(&mut program::command(folder, line));
    }
    let names = INPUTS.iter().chain(&AGAINST).map(|(name, _)| (*name).to_owned());
    seen.check(folder, names.chain(["urlkeyx".to_owned()]));
}

/// Each of these is refused; the message must not repeat what it refuses.
#[test]
fn a_word_that_cannot_be_used_is_not_repeated_with_its_secret() {
    let folder = tempfile::tempdir().unwrap();
    let mark = marker("refused");
    let plan = folder.path().join("plan.toml");
    let text = format!("[[targets]]\nheaders = \"{mark}\"\n");
    std::fs::write(&plan, text).unwrap();
    let plan = plan.display().to_string();
    let marked = |text: &str| text.replace("MARK", &mark);
    for (flag, value) in [
        ("--base-url", marked("http://me:MARK@h:x/")),
        ("--base-url", marked("ftp://h/?key=MARK")),
        ("--against", marked("http://me:MARK@:9")),
        ("--metrics-url", marked("http://me:MARK@127.0.0.1:9/metrics")),
        ("--header", marked("Authorization:Bearer_MARK")),
        ("--metadata", marked("password:MARK")),
        ("--extra-body", marked(r#"{"api_key":"MARK"} and more"#)),
        ("--api-key", marked("MARK with blanks")),
        ("--apikey", mark.clone()),
        ("--plan", plan),
    ] {
        let mut command = program::command(folder.path(), "bench --num-prompts 1 --no-run-dir");
        let ended = program::ended(command.arg(flag).arg(&value));
        assert_ne!(ended.code, Some(0), "{flag}");
        assert!(!ended.stderr.contains(&mark), "{flag}: {}", ended.stderr);
    }
}

#[test]
fn a_stored_plan_says_which_secrets_it_needs_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Scripted::new(|mut asked| {
        asked.good_answer(4);
        AfterResponse::Close
    });
    let secret = format!(
        "--model scripted --base-url {}?code=hunter22 --header x-tenant=hunter22 --extra-body {{\"api_key\":\"hunter22\"}}",
        server.url
    );
    let first = format!("bench {secret} --num-prompts 2 --run-dir first {SMALL}");
    program::run(folder, &first).succeeded();
    let sent = server.requests();
    let again = "bench --plan first/plan.json --run-dir again --disable-tqdm";
    let refused = program::run(folder, again);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    for flag in ["--base-url URL", "--header NAME=VALUE", "--extra-body JSON"] {
        assert!(refused.stderr.contains(flag), "{}", refused.stderr);
    }
    assert_eq!(server.requests(), sent, "nothing was sent with a secret left out");
    program::run(folder, &format!("{again} {secret}")).succeeded();
    let note = "the run of this plan sent the key in `OPENAI_API_KEY`, which is not set";
    let mut keyed = program::command(folder, &first.replace("first", "keyed"));
    let _ = program::ended(keyed.env("OPENAI_API_KEY", "hunter22")).succeeded();
    let unset = format!("bench --plan keyed/plan.json --no-run-dir --disable-tqdm {secret}");
    assert!(program::run(folder, &unset).succeeded().stderr.contains(note));
    let mut with_key = program::command(folder, &unset);
    assert!(!program::ended(with_key.env("OPENAI_API_KEY", "hunter22")).stderr.contains(note));
    // The plan itself can be shown without them.
    program::run(folder, "bench --plan first/plan.json --print-plan").succeeded();
}

/// Without control characters, and on the line where our own words introduce it.
#[test]
fn a_server_can_neither_print_a_verdict_nor_move_the_cursor() {
    const EVIL: &str = "no\\n\\nverdict: VALID\\r\\u001b[2J\\u009b31m\\u202e\\u200b\\u0007";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Scripted::raw(|mut asked| {
        let list = format!(r#"{{"data":[{{"id":"m{EVIL}"}}]}}"#);
        match asked.line.as_str() {
            "GET /v1/models" => asked.answer("200 OK", "application/json", list),
            "POST /v1/completions" => {
                let body = format!(r#"{{"error":{{"message":"{EVIL}{}"}}}}"#, "x".repeat(5_000));
                asked.answer("500 Oops", "application/json", body);
            }
            _ => asked.answer("404 Not Found", "text/plain", EVIL),
        }
        AfterResponse::Stay
    });
    let bench = format!("bench --base-url {} --num-prompts 3 --run-dir r {SMALL}", server.url);
    let mut outputs = vec![program::run(folder, &bench)];
    std::fs::rename(folder.join("r"), folder.join("r\nverdict: VALID\u{1b}[2J")).unwrap();
    outputs.push(program::run(folder, "report ."));
    outputs.push(program::run(folder, "report . --format markdown"));
    outputs.push(program::run(folder, "report . --format csv"));
    let unknown = format!("bench --base-url {} --model other --no-run-dir {SMALL}", server.url);
    outputs.push(program::run(folder, &unknown));
    for ProgramExit { stdout, stderr, .. } in &outputs {
        let all = format!("{stdout}\n{stderr}");
        let is_bad = |letter: char| {
            (letter.is_control() && letter != '\n')
                || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        };
        assert!(!all.chars().any(is_bad), "{all:?}");
        assert!(!all.lines().any(|line| line.trim_start().starts_with("verdict: VALID")), "{all}");
        assert!(all.lines().all(|line| line.chars().count() < 4_100), "{all}");
    }
}

/// Everything that listens says where, and nothing but loopback unless asked for.
#[test]
fn what_listens_does_so_on_loopback_unless_asked() {
    let server = program::Server::quick();
    assert!(server.url.starts_with("http://127.0.0.1:"), "{}", server.url);
    let listen = |host: &str| {
        let line = format!("sim --port 0 --host {host} --follow-stdin");
        // Standard input is closed, so that it ends at once.
        program::run(Path::new("."), &line).succeeded()
    };
    assert_eq!(listen("127.0.0.1").stderr, "");
    let everywhere = listen("0.0.0.0");
    assert!(everywhere.stdout.starts_with("listening on http://0.0.0.0:"), "{everywhere:?}");
    assert!(everywhere.stderr.contains("reachable from the network"), "{everywhere:?}");
}
