//! One run from several processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tokometer_base::Nanos;
use tokometer_record::{RunReader, RunState, Stop, Timeline};
use yaml_rust2::{Yaml, YamlLoader};

use crate::connections::tls;
use crate::killed;
use crate::program::{
    ProgramExit, Server, Started, command, ended, free_port, root, run, wait_until,
};
use crate::scripted::{AfterResponse, Latch, Scripted};

const SECRET: &str = "a secret of more than sixteen bytes";

/// The command of one process, with the secret that all of them share.
pub(crate) fn shard(folder: &Path, line: &str) -> Command {
    let mut command = command(folder, line);
    command.env("TOKOMETER_SHARD_SECRET", SECRET);
    command
}

pub(crate) fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

pub(crate) fn load(server: &Server, more: &str) -> String {
    format!(
        "bench --base-url {} --model simulated --dataset-name random --input-len 8 --output-len 6 \
         --ready-check-timeout-sec 0 --seed 3 {more}",
        server.url
    )
}

/// The same load for a scripted server, which sees the index of every request.
pub(crate) fn scripted_load(server: &Scripted, more: &str) -> String {
    format!(
        "bench --base-url {} --model scripted --tokenizer cl100k --dataset-name random --input-len 8 \
         --output-len 6 --ready-check-timeout-sec 0 --seed 3 --request-id-prefix t- {more}",
        server.url
    )
}

/// A server that answers the first `free` requests of a run at once, and the others when the latch is
/// opened: however late a process is, the run goes on until then.
pub(crate) fn holding_back(free: u64) -> (Scripted, Latch) {
    let latch = Latch::default();
    let awaited = latch.clone();
    let server = Scripted::new(move |mut asked| {
        if asked.index().is_some_and(|index| index >= free) {
            awaited.wait();
        }
        asked.good_answer(6);
        AfterResponse::Close
    });
    (server, latch)
}

/// Starts `count` shards with the same command line, each in a folder of its own.
pub(crate) fn start(folder: &Path, line: &str, count: u32) -> Vec<Started> {
    let leader = free_address();
    let one = |rank: u32| {
        let own = folder.join(format!("machine{rank}"));
        std::fs::create_dir_all(&own).unwrap();
        let line = format!("{line} --shard {rank}/{count} --leader {leader}");
        Started::of(&mut shard(&own, &line))
    };
    (0..count).map(one).collect()
}

pub(crate) fn rows(run: &Path) -> Vec<Timeline> {
    RunReader::open(run).unwrap().timelines().unwrap().collect()
}

/// How many requests of a shard are in its record by now, seen from the folder of the whole run.
pub(crate) fn recorded(run: &Path, rank: u32) -> usize {
    killed::recorded(&run.join(format!("shards/{rank:03}")))
}

fn begin(run: &Path) -> Nanos {
    match RunReader::open(run).unwrap().state().unwrap() {
        RunState::Ended(end) => end.measure_begin,
        RunState::Killed { .. } => panic!("{} has no end", run.display()),
    }
}

/// Planned times relative to the start, by request.
fn planned(run: &Path) -> BTreeMap<u64, Nanos> {
    let begin = begin(run);
    let time = |row: &Timeline| (row.identity.index, row.times.intended.unwrap() - begin);
    rows(run).iter().map(time).collect()
}

/// Sum and count of TTFT in a report.
fn ttft(report: &ProgramExit) -> (f64, f64) {
    let ttft = &report.json()["summary"]["distributions"]["ttft_ms"];
    let number = |key: &str| ttft[key].as_f64().unwrap();
    (number("mean") * number("count"), number("count"))
}

#[test]
fn four_shards_and_a_leader_make_the_run_of_one_process() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let more = "--num-prompts 90 --request-rate 120 --run-dir run --format json --html page.html";
    let line = load(&server, more);
    run(folder.path(), &line).succeeded();
    let ends: Vec<ProgramExit> =
        start(folder.path(), &line, 4).into_iter().map(Started::wait).collect();
    for (rank, end) in ends.iter().enumerate() {
        assert_eq!(end.code, Some(0), "shard {rank}: {}{}", end.stdout, end.stderr);
        assert_eq!(end.stdout.is_empty(), rank > 0, "shard 0 reports, the others do not");
        let page = folder.path().join(format!("machine{rank}/page.html"));
        assert_eq!(page.exists(), rank == 0, "shard 0 writes the page, the others do not");
    }
    let merged = folder.path().join("machine0/run");
    assert_eq!(planned(&merged), planned(&folder.path().join("run")), "to the nanosecond");
    let rows = rows(&merged);
    assert_eq!(rows.len(), 90);
    assert!(rows.iter().all(Timeline::is_success));
    assert!(rows.iter().all(|row| u64::from(row.identity.shard) == row.identity.index % 4));
    let info = RunReader::open(&merged).unwrap().info().clone();
    let sharding = info.merged().unwrap();
    assert!(sharding.is_whole() && sharding.clock_bound().is_some());
    assert_eq!(info.load.planned_requests, Some(90));
    // A wrong clock would show in the figures: they are those of the shards together.
    let parts = (0..4).map(|rank| {
        let line = format!("report machine0/run/shards/{rank:03} --format json");
        ttft(&run(folder.path(), &line).succeeded())
    });
    let (sum, count) = parts.fold((0.0, 0.0), |all, part| (all.0 + part.0, all.1 + part.1));
    let (merged_sum, merged_count) = ttft(&ends[0]);
    assert!((count - 90.0).abs() < 0.5 && (merged_count - 90.0).abs() < 0.5, "{count}");
    assert!((merged_sum / sum - 1.0).abs() < 1e-3, "{merged_sum} and {sum} ms");
    assert_eq!(ends[0].json()["run"]["sharding"]["merged"]["count"], 4);
    let again = run(folder.path(), "report machine0/run").succeeded();
    again.prints(&["Successful requests:                     90"]);
}

#[test]
fn shards_without_a_leader_are_merged_by_hand() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let line = load(&server, "--num-prompts 20 --max-concurrency 5 --run-dir run --quiet");
    for rank in [2, 0] {
        run(folder.path(), &format!("{line} --shard {rank}/3")).succeeded();
    }
    let merged = run(folder.path(), "merge run");
    assert_eq!(merged.code, Some(5), "{}", merged.stderr);
    let said = "shard 1 of 3 has no record: requests 1, 4, 7 and so on are missing";
    assert!(merged.stderr.contains(said), "{}", merged.stderr);
    let report = run(folder.path(), "report run --details").succeeded();
    assert!(report.stdout.contains("missing-shards"), "{}", report.stdout);
    // One after the other, so they never sent together.
    let said = "at no time did all";
    assert!(
        report.stdout.contains("note[shard-starts]") && report.stdout.contains(said),
        "{}",
        report.stdout
    );
    assert!(folder.path().join("run/summary.json").is_file());
    assert!(run(folder.path(), "merge run").stderr.contains("`--overwrite`"));
    run(folder.path(), &format!("{line} --shard 1/3")).succeeded();
    run(folder.path(), "merge run --overwrite").succeeded();
    let merged = folder.path().join("run");
    let text = std::fs::read_to_string(merged.join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(summary["summary"]["counts"]["succeeded"], 20);
    assert_eq!(rows(&merged).len(), 20);
    let info = RunReader::open(&merged).unwrap().info().clone();
    assert_eq!(info.merged().unwrap().clock_bound(), Some(Nanos::ZERO), "one machine, one clock");
    assert_eq!(info.load.max_concurrency, Some(5));
}

/// The run was gone, and the exit code was that of a full disk.
#[test]
fn a_merge_that_cannot_read_a_shard_keeps_the_earlier_run() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let line = load(&server, "--num-prompts 6 --run-dir run --quiet");
    for rank in 0..2 {
        run(folder.path(), &format!("{line} --shard {rank}/2")).succeeded();
    }
    run(folder.path(), "merge run").succeeded();
    std::fs::remove_file(folder.path().join("run/shards/001/requests.arrows")).unwrap();
    let merged = run(folder.path(), "merge run --overwrite");
    assert_eq!(merged.code, Some(2), "{}", merged.stderr);
    assert_eq!(rows(&folder.path().join("run")).len(), 6);
    assert!(folder.path().join("run/summary.json").is_file());
}

/// Two requests and four shards: two of them failed because they had sent nothing.
#[test]
fn shards_without_a_request_succeed_and_are_not_missing() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let line = load(&server, "--num-prompts 2 --run-dir run --quiet");
    for rank in 0..3 {
        run(folder.path(), &format!("{line} --shard {rank}/4")).succeeded();
    }
    run(folder.path(), "merge run").succeeded();
    run(folder.path(), &load(&server, "--num-prompts 2 --run-dir whole --quiet")).succeeded();
    let line = load(&server, "--num-prompts 2 --run-dir whole --quiet --shard 1/4");
    let into_whole = run(folder.path(), &line);
    into_whole.says(6, &["it holds a run of one process"]);
}

/// Only shard 0 refused it, and the others waited for it for five minutes.
#[test]
fn what_cannot_be_divided_is_refused_by_every_shard() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let more =
        format!("--num-prompts 9 --max-concurrency 2 --shard 3/4 --leader {}", free_address());
    let refused = ended(&mut shard(folder.path(), &load(&server, &more)));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let said = "cannot divide `--max-concurrency 2` among 4 shards";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
}

/// Each shard has 20 answers and two requests in flight when one of them is killed.
#[test]
fn a_killed_shard_loses_nothing_that_it_recorded() {
    let (server, latch) = holding_back(60);
    let folder = tempfile::tempdir().unwrap();
    let line =
        scripted_load(&server, "--num-prompts 150 --max-concurrency 6 --run-dir run --format json");
    let mut shards = start(folder.path(), &line, 3);
    let merged = folder.path().join("machine0/run");
    wait_until("shard 2 has recorded its answers", || recorded(&merged, 2) >= 20);
    shards.remove(2).kill();
    latch.open();
    let ends: Vec<ProgramExit> = shards.into_iter().map(Started::wait).collect();
    assert_eq!(ends[0].code, Some(5), "{}", ends[0].stderr);
    assert_eq!(ends[1].code, Some(0), "{}", ends[1].stderr);
    assert!(ends[0].stderr.contains("the record of shard 2 of 3 breaks off"), "{}", ends[0].stderr);
    let RunState::Ended(end) = RunReader::open(&merged).unwrap().state().unwrap() else {
        panic!("the merged run has no end");
    };
    assert_eq!(end.stop, Stop::ShardsLost);
    let counts = &ends[0].json()["summary"]["counts"];
    let of = |name: &str| counts[name].as_u64().unwrap();
    assert_eq!((of("planned"), of("sent") + of("never_sent")), (150, 150), "{counts}");
    assert_eq!(of("succeeded"), 50 + 50 + 20, "{counts}");
    assert!(of("never_sent") >= 28, "{counts}");
}

#[test]
fn strangers_are_refused_with_both_sides_named() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let leader = free_address();
    let line = |more: &str| load(&server, &format!("--leader {leader} {more}"));
    let first = line("--num-prompts 4 --shard 0/2 --quiet --no-run-dir");
    let leading = Started::of(&mut shard(folder.path(), &first));
    let mut other = shard(folder.path(), &line("--num-prompts 4 --shard 1/2"));
    let wrong = ended(other.env("TOKOMETER_SHARD_SECRET", "another secret, long enough"));
    wrong.says(2, &["its secret is not that of the leader"]);
    let plan = ended(&mut shard(folder.path(), &line("--num-prompts 5 --shard 1/2")));
    let said = "its plan differs from that of the leader in `load.num_prompts`:";
    assert!(plan.stderr.contains(said), "{}", plan.stderr);
    let none = run(folder.path(), &line("--num-prompts 4 --shard 1/2"));
    assert!(none.stderr.contains("TOKOMETER_SHARD_SECRET"), "{}", none.stderr);
    let good = ended(&mut shard(folder.path(), &line("--num-prompts 4 --shard 1/2 --quiet")));
    assert_eq!(good.code, Some(0), "{}", good.stderr);
    assert_eq!(leading.wait().code, Some(0));
}

/// Both sides show a certificate; the secret is needed as before.
#[test]
fn shards_that_connect_with_tls_let_nobody_else_in() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["ours", "theirs"] {
        let authority = tls::authority();
        let (certificate, key) = tls::issued(&authority, "127.0.0.1");
        std::fs::write(at(&format!("{name}.ca")), authority.pem()).unwrap();
        std::fs::write(at(&format!("{name}.crt")), certificate.pem()).unwrap();
        std::fs::write(at(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    let leader = free_address();
    let line = |rank: u32, name: &str| {
        let more = format!(
            "--num-prompts 8 --run-dir run --quiet --shard {rank}/2 --leader {leader} \
             --shard-tls-cert {name}.crt --shard-tls-key {name}.key --shard-tls-ca {name}.ca"
        );
        load(&server, &more)
    };
    let leading = Started::of(&mut shard(folder.path(), &line(0, "ours")));
    let other = ended(&mut shard(folder.path(), &line(1, "theirs")));
    other.says(2, &["no authority in `--shard-tls-ca`"]);
    let mut without = shard(folder.path(), &line(1, "ours"));
    let without = ended(without.env("TOKOMETER_SHARD_SECRET", "another secret, long enough"));
    assert!(without.stderr.contains("its secret is not that of the leader"), "{}", without.stderr);
    let missing = ended(&mut shard(folder.path(), &line(1, "nobodys")));
    missing.says(2, &["cannot use `nobodys.ca`"]);
    let good = ended(&mut shard(folder.path(), &line(1, "ours")));
    assert_eq!(good.code, Some(0), "{}", good.stderr);
    assert_eq!(leading.wait().code, Some(0));
    assert_eq!(rows(&at("run")).len(), 8);
    let part = ended(&mut shard(folder.path(), "bench --shard-tls-cert ours.crt"));
    part.says(2, &["--shard-tls-key"]);
}

/// It had no effect and nobody said so.
#[test]
fn flags_that_only_several_processes_can_use_are_named_where_there_is_one() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let line = load(&server, "--num-prompts 2 --global-cap --shard-wait 5s --no-run-dir");
    let end = run(folder.path(), &line).succeeded();
    for flag in ["--global-cap", "--shard-wait"] {
        let said = format!("note: `{flag}` has no effect: one process makes the whole run");
        assert!(end.stderr.contains(&said), "{}", end.stderr);
    }
    let line = load(&server, "--num-prompts 2 --global-cap --no-run-dir");
    let ends: Vec<ProgramExit> =
        start(folder.path(), &line, 2).into_iter().map(Started::wait).collect();
    let said = "note: `--global-cap` has no effect: there is no `--max-concurrency`";
    assert!(ends[0].stderr.contains(said), "{}", ends[0].stderr);
    assert!(!ends[1].stderr.contains(said), "{}", ends[1].stderr);
}

#[test]
fn a_late_shard_is_left_out_and_named() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let leader = free_address();
    let line = load(&server, &format!("--num-prompts 6 --leader {leader} --run-dir run --quiet"));
    let line = format!("{line} --shard 0/3 --shard-wait 300ms");
    let end = ended(&mut shard(folder.path(), &line));
    end.says(5, &["shard 1 was lost: it did not join"]);
    assert_eq!(rows(&folder.path().join("run")).len(), 2);
}

#[test]
fn what_cannot_be_divided_is_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let check = |line: &str, said: &str| {
        let end = run(folder.path(), line);
        end.says(2, &[said]);
    };
    check("bench --shard 0/2 --seed 1", "embedded simulated server");
    check("bench --base-url http://127.0.0.1:9 --shard 2/2", "K from 0 to N-1");
    check("bench --base-url http://127.0.0.1:9 --shard 0/2", "add `--seed N` to all shards");
    check("bench --base-url http://127.0.0.1:9 --shards 4", "which of 4 shards");
    let capacity = "capacity --slo ttft<1s --base-url http://127.0.0.1:9 --seed 1 --shard 0/2";
    check(capacity, "without a leader");
    let capacity = format!("{capacity} --leader 127.0.0.1:0");
    check(
        &format!("{capacity} --over concurrency"),
        "fewer requests in flight than there are shards",
    );
    check(
        "capacity --slo ttft<1s --engine default --shards 2",
        "cannot divide `tokometer capacity",
    );
    check(
        "bench --base-url http://127.0.0.1:9 --against http://127.0.0.1:8 --shard 0/2 --seed 1",
        "without a leader",
    );
    check("merge nothing", "cannot find a shard in `nothing`");
    let folder_of = |name: &str| PathBuf::from(name);
    assert!(!folder.path().join(folder_of("runs")).exists());
}

/// `cargo xtask manifest` checks it against the schemas of the API; this test checks that its
/// parts fit together, and that the program takes its arguments.
#[test]
fn the_kubernetes_manifest_starts_as_many_shards_as_it_says() {
    let text = std::fs::read_to_string(root().join("deploy/kubernetes.yaml")).unwrap();
    let documents = YamlLoader::load_from_str(&text).unwrap();
    let [service, job] = documents.as_slice() else { panic!("a Service and a Job") };
    let name = |of: &Yaml| of["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(service["spec"]["clusterIP"].as_str(), Some("None"));
    assert_eq!(service["spec"]["selector"]["job-name"].as_str(), Some(name(job).as_str()));
    let spec = &job["spec"];
    let count = spec["completions"].as_i64().unwrap();
    assert_eq!(spec["completionMode"].as_str(), Some("Indexed"));
    assert_eq!(spec["parallelism"].as_i64(), Some(count), "shards wait for each other");
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["subdomain"].as_str(), Some(name(service).as_str()));
    assert_eq!(pod["securityContext"]["runAsNonRoot"].as_bool(), Some(true));
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"].as_bool(), Some(true));
    assert!(container["resources"]["requests"]["cpu"].as_str().is_some());
    let port = container["ports"][0]["containerPort"].as_i64().unwrap();
    assert_eq!(service["spec"]["ports"][0]["port"].as_i64(), Some(port));
    let arguments: Vec<&str> =
        container["args"].as_vec().unwrap().iter().filter_map(Yaml::as_str).collect();
    let leader = format!("--leader={}-0.{}:{port}", name(job), name(service));
    assert!(arguments.contains(&leader.as_str()), "{arguments:?}");
    assert!(arguments.contains(&format!("--shards={count}").as_str()), "{arguments:?}");
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &format!("{} --print-plan", arguments.join(" "))).succeeded();
}
