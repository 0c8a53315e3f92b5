//! Several points from several processes: shard 0 decides what is measured next, the others follow.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tokometer_record::{MergedRun, RunReader, Timeline};

use crate::program::{ProgramExit, Server, Started, run, wait_until};
use crate::shards::{holding_back, load, recorded, rows, scripted_load, start};

fn wait_all(shards: Vec<Started>) -> Vec<ProgramExit> {
    let ends: Vec<ProgramExit> = shards.into_iter().map(Started::wait).collect();
    for (rank, end) in ends.iter().enumerate() {
        assert_eq!(end.code, Some(0), "shard {rank}: {}{}", end.stdout, end.stderr);
    }
    ends
}

fn is_whole(run: &Path) -> bool {
    RunReader::open(run).unwrap().info().merged().is_some_and(MergedRun::is_whole)
}

fn points(run: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(run).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> =
        folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_sweep_is_measured_by_all_shards_and_resumed_point_by_point() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let line =
        load(&server, "--num-prompts 12 --max-concurrency 2,3,4 --run-dir run --format json");
    let ends = wait_all(start(folder.path(), &line, 2));
    assert_eq!(ends[0].json()["points"].as_array().unwrap().len(), 3);
    let merged = folder.path().join("machine0/run");
    let names = points(&merged);
    assert_eq!(names.len(), 3, "{names:?}");
    for name in &names {
        assert!(is_whole(&merged.join(name)), "{name}");
        let rows = rows(&merged.join(name));
        assert_eq!(rows.iter().filter(|row| row.is_success()).count(), 12, "{name}");
        assert!(rows.iter().all(|row| u64::from(row.identity.shard) == row.identity.index % 2));
    }
    // A point that lacks its end is measured again, by as many shards as there are now.
    let missing = merged.join(&names[1]);
    for file in ["end.json", "shards/001/end.json"] {
        std::fs::remove_file(missing.join(file)).unwrap();
    }
    // One whose shards have ended is merged.
    let unmerged = merged.join(&names[2]);
    std::fs::remove_file(unmerged.join("end.json")).unwrap();
    let kept = std::fs::metadata(unmerged.join("shards/001/end.json")).unwrap().modified().unwrap();
    let ends = wait_all(start(folder.path(), &format!("{line} --resume"), 3));
    ends[0].prints(&["skipping point 0", "merging the shards in"]);
    assert!(!ends[0].stderr.contains("skipping point 1"), "{}", ends[0].stderr);
    let merged = RunReader::open(&missing).unwrap().info().merged().unwrap().clone();
    assert_eq!((merged.count, merged.is_whole()), (3, true));
    assert!(is_whole(&unmerged));
    let now = std::fs::metadata(unmerged.join("shards/001/end.json")).unwrap().modified().unwrap();
    assert_eq!(now, kept, "it was measured again");
}

/// A point with fewer slots than shards cannot be divided; the others of the sweep can.
#[test]
fn a_point_that_cannot_be_divided_costs_no_other_point() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let line = load(&server, "--num-prompts 6 --max-concurrency 1,4 --run-dir run --format json");
    let ends: Vec<ProgramExit> =
        start(folder.path(), &line, 2).into_iter().map(Started::wait).collect();
    assert_eq!(ends[0].code, Some(5), "{}", ends[0].stderr);
    let said = "cannot divide `--max-concurrency 1` among 2 shards";
    assert!(ends[0].stderr.contains(said), "{}", ends[0].stderr);
    let merged = folder.path().join("machine0/run");
    let names = points(&merged);
    assert_eq!(names, ["001-max_concurrency=4"]);
    assert!(is_whole(&merged.join(&names[0])));
}

#[test]
fn a_search_is_made_by_all_shards_and_resumed() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let line = load(
        &server,
        "--slo requests>0.001 --start 30 --points 2 --min-duration 1s --max-duration 1s \
         --run-dir run --format json",
    );
    let line = line.replacen("bench", "capacity", 1);
    let ends = wait_all(start(folder.path(), &line, 2));
    assert!(ends[1].stdout.is_empty(), "shard 0 reports: {}", ends[1].stdout);
    let merged = folder.path().join("machine0/run");
    let findings: Value =
        serde_json::from_slice(&std::fs::read(merged.join("capacity.json")).unwrap()).unwrap();
    let names = points(&merged);
    assert_eq!((names.len(), findings["points"].as_array().unwrap().len()), (2, 2), "{names:?}");
    for name in &names {
        let rows = rows(&merged.join(name));
        assert!(is_whole(&merged.join(name)), "{name}");
        assert!(rows.iter().any(|row| row.identity.shard == 0), "{name}");
        assert!(rows.iter().any(|row| row.identity.shard == 1), "{name}");
        let one = RunReader::open(&merged.join(name)).unwrap();
        let shard = RunReader::open(&merged.join(name).join("shards/001")).unwrap();
        assert_eq!(one.info().seed, shard.info().seed, "arrivals of its own, in all shards");
    }
    let seeds: std::collections::BTreeSet<u64> = names
        .iter()
        .map(|name| RunReader::open(&merged.join(name)).unwrap().info().seed.0)
        .collect();
    assert_eq!(seeds.len(), 2);
    let last = merged.join(&names[1]);
    std::fs::remove_file(last.join("end.json")).unwrap();
    std::fs::remove_file(last.join("shards/000/end.json")).unwrap();
    let first = std::fs::metadata(merged.join(&names[0]).join("end.json")).unwrap();
    wait_all(start(folder.path(), &format!("{line} --resume"), 2));
    let again = std::fs::metadata(merged.join(&names[0]).join("end.json")).unwrap();
    assert_eq!(first.modified().unwrap(), again.modified().unwrap(), "measured again");
    assert!(is_whole(&last));
}

/// Points of a search describe the load that all shards send.
#[test]
fn a_search_ends_when_a_shard_is_lost() {
    // The last answers of the first point come when the shard has been killed.
    let (server, latch) = holding_back(30);
    let folder = tempfile::tempdir().unwrap();
    let line = scripted_load(
        &server,
        "--slo requests>0.001 --start 40 --points 2 --min-duration 2s --max-duration 2s \
         --run-dir run --quiet",
    );
    let line = line.replacen("bench", "capacity", 1);
    let mut shards = start(folder.path(), &line, 2);
    let first = folder.path().join("machine0/run/000-40");
    wait_until("shard 1 has recorded something", || recorded(&first, 1) > 0);
    shards.remove(1).kill();
    latch.open();
    let end = shards.remove(0).wait();
    end.says(5, &["cannot continue the search", "`--resume`"]);
    assert!(!folder.path().join("machine0/run/001-80").exists());
}

/// Every block waits until no shard has a request to the other target in flight.
#[test]
fn two_targets_in_turn_are_measured_by_all_shards() {
    let (one, other) = (Server::quick(), Server::quick());
    let folder = tempfile::tempdir().unwrap();
    let line =
        load(&one, "--num-prompts 24 --block 4 --request-rate 200 --run-dir run --format json");
    let line = format!("{line} --against {}", other.url);
    let whole = run(folder.path(), &line).succeeded();
    let ends = wait_all(start(folder.path(), &line, 3));
    let merged = folder.path().join("machine0/run");
    let mut rows = rows(&merged);
    rows.sort_by_key(|row| row.identity.index);
    assert_eq!(rows.len(), 24);
    assert!(rows.iter().all(Timeline::is_success));
    let one_process = crate::shards::rows(&folder.path().join("run"));
    for row in &rows {
        let same = one_process.iter().find(|one| one.identity.index == row.identity.index);
        assert_eq!(same.unwrap().identity.target, row.identity.target, "the same order of sides");
    }
    let blocks: Vec<&[Timeline]> = rows.chunks(4).collect();
    for pair in blocks.windows(2) {
        let last = pair[0].iter().filter_map(|row| row.times.end).max().unwrap();
        let first = pair[1].iter().filter_map(|row| row.times.intended).min().unwrap();
        assert!(last < first, "blocks overlap");
    }
    let compared = |end: &ProgramExit| end.json()["comparison"]["figures"].is_null();
    assert_eq!(compared(&whole), compared(&ends[0]));
    let few = run(folder.path(), &format!("{line} --run-dir few --shard 0/9 --leader 127.0.0.1:0"));
    assert!(few.stderr.contains("TOKOMETER_SHARD_SECRET"), "{}", few.stderr);
}

/// All turns of a conversation are sent by the shard that sent the first, each after the answer before it, and
/// together they are the conversations of one process.
#[test]
fn a_conversation_stays_on_its_shard() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let more = "--backend openai-chat --multi-turn --multi-turn-num-turns 3 --num-prompts 7 \
                --max-concurrency 4 --run-dir run --quiet";
    let line = load(&server, more);
    run(folder.path(), &line).succeeded();
    wait_all(start(folder.path(), &line, 3));
    let turns = |run: &Path| -> BTreeMap<(u64, u32), (u64, u32)> {
        let key = |row: &Timeline| (row.identity.session.unwrap(), row.identity.turn);
        let value = |row: &Timeline| (row.identity.index, row.identity.shard);
        rows(run).iter().map(|row| (key(row), value(row))).collect()
    };
    let (whole, merged) =
        (turns(&folder.path().join("run")), turns(&folder.path().join("machine0/run")));
    assert_eq!(merged.len(), 21);
    for (turn, (index, shard)) in &merged {
        assert_eq!(whole.get(turn).map(|(index, _)| index), Some(index), "{turn:?}");
        let (first, of_first) = merged[&(turn.0, 0)];
        assert_eq!((*shard, u64::from(*shard)), (of_first, first % 3), "{turn:?}");
    }
    let mut rows = rows(&folder.path().join("machine0/run"));
    assert!(rows.iter().all(Timeline::is_success));
    rows.sort_by_key(|row| (row.identity.session, row.identity.turn));
    for pair in rows.windows(2).filter(|pair| pair[1].identity.turn > 0) {
        assert!(pair[0].times.end <= pair[1].times.first_byte_sent, "{:?}", pair[1].identity);
    }
}
