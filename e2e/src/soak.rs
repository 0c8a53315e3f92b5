//! Rounds of runs against a simulated server with random faults, checked against its truth log.
//!
//! A round is drawn from a seed: protocol, load, and faults. After it every request must be accounted
//! for once, the record must agree with the server's log, and the client must have kept its memory
//! and its descriptors. `cargo lab soak` runs rounds for minutes, the gate a few short ones.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokometer_base::Seed;
use tokometer_base::seed::unit_float;
use tokometer_record::{Outcome, Phase, RunReader, Timeline};
use tokometer_sim::truth::{self, SentKind, StreamEnd, TrueRequest};

use crate::program::{ProgramExit, Server, Started, command};

/// Backends with the flavour of server that they measure.
const DIALECTS: [(&str, &str); 5] = [
    ("openai", "vllm"),
    ("openai-chat", "vllm"),
    ("sglang", "sglang"),
    ("tgi", "tgi"),
    ("llamacpp-oai", "llamacpp"),
];

/// Descriptors that a client may hold beside one per request in flight.
const OTHER_DESCRIPTORS: usize = 64;

/// Growth of the client's memory during a round that is no leak.
const GROWTH_MIB: u64 = 32;

const SAMPLE_PAUSE: Duration = Duration::from_millis(50);

/// Samples of the memory below which a round is too short to judge it.
const SAMPLES_LEAST: usize = 200;

#[derive(Debug, Clone, Copy)]
pub enum Length {
    Requests(u32),
    Seconds(u32),
}

/// What a round did, for the table.
#[derive(Debug)]
pub struct Round {
    /// The faults and the load, in words.
    pub what: String,
    /// Requests of the plan, or those that became due.
    pub planned: u64,
    pub succeeded: u64,
    pub failed: u64,
    /// The client's memory early in the round and at its highest later, in MiB.
    pub memory_mib: (u64, u64),
    /// Most descriptors that the client held.
    pub descriptors: usize,
    /// What was otherwise than it must be.
    pub violations: Vec<String>,
}

struct Drawn {
    backend: &'static str,
    flavour: &'static str,
    concurrency: u32,
    connections: &'static str,
    retries: u32,
    faults: Value,
    /// Whether usage is the truth.
    has_usage: bool,
}

fn draw(seed: Seed, round: u64) -> Drawn {
    let mut generator = seed.stream("soak").at(round);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a small count"
    )]
    let mut below = |count: usize| (unit_float(&mut generator) * count as f64) as usize;
    let (backend, flavour) = DIALECTS[below(DIALECTS.len())];
    let mut faults = json!({"broken_streams": {"share": 0.2}});
    let after = 1 + below(6);
    let status = [429, 500, 503][below(3)];
    match below(6) {
        0 => faults["cut_after_tokens"] = json!(after),
        1 => faults["reset_after_tokens"] = json!(after),
        2 => faults["malformed_after_tokens"] = json!(after),
        3 => faults["stall"] = json!({"after_tokens": after, "span": 200_000_000}),
        _ => {}
    }
    match below(3) {
        0 => faults["errors"] = json!({"status": status, "which": {"share": 0.1}}),
        1 => faults["idle_close"] = json!(20_000_000),
        _ => {}
    }
    match below(4) {
        0 => faults["events_per_write"] = json!(3),
        1 => faults["writes_per_event"] = json!(3),
        2 => faults["comment_interval"] = json!(2_000_000),
        _ => {}
    }
    let has_usage = below(4) > 0;
    if !has_usage {
        faults["usage"] = json!("missing");
    }
    if below(4) == 0 {
        faults["done"] = json!("twice");
    }
    let connections = ["auto", "on-demand", "per-request", "preopen"][below(4)];
    let (concurrency, retries) = ([1, 4, 16][below(3)], [0, 0, 1][below(3)]);
    Drawn { backend, flavour, concurrency, connections, retries, faults, has_usage }
}

/// Runs one round in `folder`, which must be empty.
pub fn round(folder: &Path, seed: Seed, number: u64, length: Length) -> Round {
    let drawn = draw(seed, number);
    let log = folder.join("truth.log");
    let (faults, sim_seed) = (drawn.faults.to_string(), number.to_string());
    let server = Server::new(&[
        "--ttft",
        "3ms",
        "--itl",
        "1ms",
        "--flavour",
        drawn.flavour,
        "--seed",
        &sim_seed,
        "--faults",
        &faults,
        "--truth",
        &log.display().to_string(),
    ]);
    let until = match length {
        Length::Requests(count) => format!("--num-prompts {count}"),
        Length::Seconds(seconds) => format!("--duration {seconds}s"),
    };
    let line = format!(
        "bench --backend {} --base-url {} --dataset-name random --random-input-len 16 \
         --random-output-len 8 --ignore-eos --tokenizer cl100k --max-concurrency {} \
         --connections {} --retries {} --request-id-prefix t- --warmup-requests 0 --run-dir r {until}",
        drawn.backend, server.url, drawn.concurrency, drawn.connections, drawn.retries
    );
    let (ended, usage) = watched(folder, &line);
    server.stop();
    let mut what = format!("{} c={} {}", drawn.backend, drawn.concurrency, drawn.connections);
    write!(what, " {faults}").unwrap();
    judge(folder, &drawn, &ended, what, &usage)
}

#[derive(Default)]
struct ProcessUsage {
    memory_mib: Vec<u64>,
    descriptors: usize,
}

fn watched(folder: &Path, line: &str) -> (ProgramExit, ProcessUsage) {
    let mut usage = ProcessUsage::default();
    let mut program = command(folder, line);
    // Pipes would fill while nobody reads them.
    let [stdout, stderr] =
        ["stdout", "stderr"].map(|name| std::fs::File::create(folder.join(name)).unwrap());
    let child = program.stdout(stdout).stderr(stderr).spawn().unwrap();
    let mut started = Started { child, place: None };
    let process = Path::new("/proc").join(started.child.id().to_string());
    while matches!(started.child.try_wait(), Ok(None)) {
        let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = memory.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
        // The report after the run reads the whole record; only the run must keep its memory.
        if !folder.join("r/end.json").exists() {
            usage.memory_mib.extend(kib.map(|kib| kib / 1024));
        }
        let open = std::fs::read_dir(process.join("fd")).map_or(0, Iterator::count);
        usage.descriptors = usage.descriptors.max(open);
        std::thread::sleep(SAMPLE_PAUSE);
    }
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let code = started.child.wait().unwrap().code();
    (ProgramExit { code, stdout: read("stdout"), stderr: read("stderr") }, usage)
}

fn judge(
    folder: &Path,
    drawn: &Drawn,
    ended: &ProgramExit,
    what: String,
    usage: &ProcessUsage,
) -> Round {
    let run = folder.join("r");
    let text = std::fs::read_to_string(run.join("summary.json")).unwrap_or_default();
    let page: Value = serde_json::from_str(&text).unwrap_or_default();
    let count = |name: &str| page["summary"]["counts"][name].as_u64().unwrap_or_default();
    let mut violations = Vec::new();
    let (planned, succeeded, failed) = (count("planned"), count("succeeded"), count("failed"));
    let accounted = succeeded + failed + count("abandoned") + count("never_sent");
    if page.is_null() {
        violations.push(format!("no summary: {}", ended.stderr.trim()));
    }
    if planned != accounted {
        violations.push(format!("{planned} requests planned, {accounted} accounted for"));
    }
    let expected = if succeeded > 0 { 0 } else { 7 };
    if ended.code != Some(expected) {
        violations.push(format!("exit code {:?}, expected {expected}", ended.code));
    }
    if usage.descriptors > drawn.concurrency as usize + OTHER_DESCRIPTORS {
        violations.push(format!("{} descriptors", usage.descriptors));
    }
    // The first third has the tokenizer, the prompts and the first requests.
    let (early, late) = usage.memory_mib.split_at(usage.memory_mib.len() / 3);
    let highest = |values: &[u64]| values.iter().max().copied().unwrap_or_default();
    let memory_mib = (highest(early), highest(late));
    let is_long = usage.memory_mib.len() >= SAMPLES_LEAST;
    if is_long && memory_mib.1 > memory_mib.0 + GROWTH_MIB {
        violations.push(format!("memory grew from {} to {} MiB", memory_mib.0, memory_mib.1));
    }
    compare(&run, &folder.join("truth.log"), drawn, succeeded, &mut violations);
    let descriptors = usage.descriptors;
    Round { what, planned, succeeded, failed, memory_mib, descriptors, violations }
}

/// The record against the server's log.
fn compare(run: &Path, log: &Path, drawn: &Drawn, succeeded: u64, violations: &mut Vec<String>) {
    let mut truths: HashMap<u64, Vec<TrueRequest>> = HashMap::new();
    for request in truth::read(log).unwrap() {
        if let Some(index) = request.index() {
            truths.entry(index).or_default().push(request);
        }
    }
    let Ok(reader) = RunReader::open(run) else {
        return violations.push("the record cannot be read".to_owned());
    };
    let mut last: HashMap<u64, Timeline> = HashMap::new();
    for row in reader.timelines().into_iter().flatten() {
        let identity = &row.identity;
        if identity.phase != Phase::Measure {
            continue;
        }
        let (index, attempt) = (identity.index, identity.attempt);
        let earlier = last.insert(index, row);
        if earlier.is_some_and(|earlier| earlier.identity.attempt >= attempt) {
            violations.push(format!("request {index}: attempt {attempt} is recorded twice"));
        }
    }
    let mut indexes: Vec<u64> = last.keys().chain(truths.keys()).copied().collect();
    indexes.sort_unstable();
    indexes.dedup();
    let mut recorded = 0;
    for index in indexes {
        let found = (last.get(&index), truths.get(&index).map_or(&[][..], Vec::as_slice));
        recorded += u64::from(found.0.is_some_and(|row| row.outcome == Outcome::Success));
        violations.extend(
            contradiction(found.0, found.1, drawn).map(|why| format!("request {index}: {why}")),
        );
    }
    if recorded != succeeded {
        violations.push(format!("{succeeded} succeeded, the record has {recorded}"));
    }
}

/// What the record of one request says otherwise than the server's log.
fn contradiction(row: Option<&Timeline>, truths: &[TrueRequest], drawn: &Drawn) -> Option<String> {
    let Some(row) = row else {
        return Some("the server answered it, the record lacks it".to_owned());
    };
    let is_whole = |truth: &&TrueRequest| matches!(truth.end, Some((_, StreamEnd::Complete)));
    let whole = truths.iter().find(is_whole);
    // After the end marker a client may leave: only the end of the body was due.
    let has_marker =
        |truth: &&TrueRequest| truth.events.iter().any(|event| event.kind == SentKind::Done);
    let answered = whole.or_else(|| truths.iter().find(has_marker));
    let is_malformed = drawn.faults.get("malformed_after_tokens").is_some();
    match (&row.outcome, answered) {
        (Outcome::Success, None) => {
            Some("succeeded, but the server completed no answer".to_owned())
        }
        (Outcome::Success, Some(truth)) if drawn.has_usage => {
            let counted = row.usage.and_then(|usage| usage.completion_tokens);
            (counted.is_some() && counted != Some(truth.answer_tokens))
                .then(|| format!("{counted:?} tokens, the server sent {}", truth.answer_tokens))
        }
        (Outcome::Failed(failure), _) if whole.is_some() && !is_malformed => {
            Some(format!("failed ({failure:?}), but the server completed its answer"))
        }
        _ => None,
    }
}
