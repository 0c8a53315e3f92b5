//! One limit on requests in flight for several processes.

use std::path::Path;

use nix::sys::signal::Signal;
use tokometer_base::Nanos;
use tokometer_record::Timeline;

use crate::program::{ProgramExit, Server, Started, wait_until};
use crate::shards::{load, rows, start};

/// Most requests in flight at a time, on the clock that all shards of a machine read.
fn most_in_flight(rows: &[Timeline]) -> i64 {
    let ends = |row: &Timeline| {
        let begin = row.times.first_byte_sent?;
        Some([(begin, 1), (row.times.end?, -1)])
    };
    let mut changes: Vec<(Nanos, i64)> = rows.iter().filter_map(ends).flatten().collect();
    // An end comes before a begin of the same time.
    changes.sort_unstable();
    let levels = changes.iter().scan(0, |level, (_, change)| {
        *level += change;
        Some(*level)
    });
    levels.max().unwrap_or(0)
}

fn merged(folder: &Path) -> Vec<Timeline> {
    rows(&folder.join("machine0/run"))
}

#[test]
fn shards_share_fewer_places_than_there_are_shards() {
    let server = Server::new(&["--ttft", "3ms", "--itl", "1ms"]);
    let folder = tempfile::tempdir().unwrap();
    let more = "--num-prompts 40 --max-concurrency 2 --global-cap --run-dir run --quiet";
    let ends: Vec<ProgramExit> =
        start(folder.path(), &load(&server, more), 3).into_iter().map(Started::wait).collect();
    for end in &ends {
        assert_eq!(end.code, Some(0), "{}", end.stderr);
    }
    let rows = merged(folder.path());
    assert_eq!(rows.iter().filter(|row| row.is_success()).count(), 40);
    assert_eq!(most_in_flight(&rows), 2);
    // All of them took turns: the last shard did not wait until the others had ended.
    let first = |rank: u32| {
        let own = rows.iter().filter(|row| row.identity.shard == rank);
        own.filter_map(|row| row.times.first_byte_sent).min().unwrap()
    };
    let last = rows.iter().filter(|row| row.identity.shard == 0);
    let last = last.filter_map(|row| row.times.first_byte_sent).max().unwrap();
    assert!(first(2) < last, "shard 2 began after shard 0 had ended");
}

/// Shard 1 has its requests late in the run: until then its places serve shard 0.
#[test]
fn places_that_one_shard_does_not_need_serve_another() {
    let server = Server::new(&["--ttft", "40ms", "--itl", "1ms"]);
    let folder = tempfile::tempdir().unwrap();
    // Index by index: shard 0 has all that come first, two at a time, shard 1 the others. With its own
    // places alone shard 0 needs more than a second: a machine that stalls for a while hides nothing.
    let trace: Vec<String> = (0..100)
        .map(|at| {
            let ms = if at % 2 == 0 { 0 } else { 2_000 };
            format!(r#"{{"timestamp": {ms}, "input_length": 8, "output_length": 4, "hash_ids": [{at}]}}"#)
        })
        .collect();
    std::fs::create_dir_all(folder.path().join("machine0")).unwrap();
    let file = folder.path().join("trace.jsonl");
    std::fs::write(&file, trace.join("\n")).unwrap();
    let line = format!(
        "bench --base-url {} --model simulated --dataset-name mooncake --dataset-path {} \
         --ready-check-timeout-sec 0 --seed 3 --num-prompts 100 --max-concurrency 4 --global-cap \
         --run-dir run --quiet",
        server.url,
        file.display()
    );
    let ends: Vec<ProgramExit> =
        start(folder.path(), &line, 2).into_iter().map(Started::wait).collect();
    assert_eq!(ends[0].code, Some(0), "{}", ends[0].stderr);
    let rows = merged(folder.path());
    assert_eq!(rows.iter().filter(|row| row.is_success()).count(), 100);
    assert_eq!(most_in_flight(&rows), 4);
    let own: Vec<Timeline> = rows.into_iter().filter(|row| row.identity.shard == 0).collect();
    assert!(most_in_flight(&own) > 2, "shard 0 never used the places of shard 1");
}

#[test]
fn the_places_of_a_killed_shard_return() {
    let server = Server::new(&["--ttft", "20ms", "--itl", "1ms"]);
    let folder = tempfile::tempdir().unwrap();
    let more = "--num-prompts 120 --max-concurrency 4 --global-cap --run-dir run --quiet";
    let mut shards = start(folder.path(), &load(&server, more), 2);
    let record = folder.path().join("machine0/run/shards/001/starts.arrows");
    wait_until("shard 1 has sent something", || {
        std::fs::metadata(&record).is_ok_and(|file| file.len() > 0)
    });
    let killed = shards.remove(1);
    killed.signal(Signal::SIGKILL);
    let _ = killed.wait();
    let end = shards.remove(0).wait();
    assert_eq!(end.code, Some(5), "{}", end.stderr);
    let rows = merged(folder.path());
    let own: Vec<Timeline> = rows.into_iter().filter(|row| row.identity.shard == 0).collect();
    assert_eq!(own.iter().filter(|row| row.is_success()).count(), 60, "all of shard 0's");
    assert_eq!(most_in_flight(&own), 4, "the whole limit");
}

/// A staircase begins with one request in flight.
#[test]
fn a_staircase_is_climbed_by_two_shards() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "{} --budget 4s --model simulated --input-len 8 --output-len 4 --seed 1 --global-cap --run-dir run",
        server.url
    );
    let ends: Vec<ProgramExit> =
        start(folder.path(), &line, 2).into_iter().map(Started::wait).collect();
    for end in &ends {
        assert_eq!(end.code, Some(0), "{}{}", end.stdout, end.stderr);
    }
    assert!(ends[1].stdout.is_empty(), "{}", ends[1].stdout);
    let first = folder.path().join("machine0/run/000-max_concurrency=1");
    let rows = rows(&first);
    assert_eq!(most_in_flight(&rows), 1);
    assert!(rows.iter().any(|row| row.identity.shard == 1), "shard 1 has sent nothing");
}

/// With fewer places than shards, one shard waited for ever for a place that nobody could give it.
#[test]
fn conversations_that_hold_their_place_are_not_lent() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let more = "--compat sglang --multi-turn --num-prompts 6 --max-concurrency 2 --global-cap \
                --shard-wait 5s --run-dir run --quiet";
    let ends: Vec<ProgramExit> =
        start(folder.path(), &load(&server, more), 3).into_iter().map(Started::wait).collect();
    assert_eq!(ends[0].code, Some(2), "{}", ends[0].stderr);
    assert!(ends[0].stderr.contains("omit `--global-cap`"), "{}", ends[0].stderr);
}
