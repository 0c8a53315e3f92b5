//! One limit on requests in flight for several processes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokometer_base::Nanos;
use tokometer_record::Timeline;

use crate::program::{ProgramExit, Server, Started, wait_until};
use crate::scripted::{AfterResponse, Scripted, ScriptedRequest, wait_in_script};
use crate::shards::{load, recorded, rows, scripted_load, start};

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

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<SeenRequests>>);

#[derive(Default)]
struct SeenRequests {
    /// By rank.
    shards: BTreeMap<u64, OfShard>,
    /// Most requests in flight of all shards together.
    most_in_flight: u32,
}

#[derive(Clone, Copy, Default)]
struct OfShard {
    requests: u32,
    in_flight: u32,
    most_in_flight: u32,
}

impl Seen {
    fn of(&self, rank: u64) -> OfShard {
        self.0.lock().unwrap().shards.get(&rank).copied().unwrap_or_default()
    }

    fn most_in_flight(&self) -> u32 {
        self.0.lock().unwrap().most_in_flight
    }

    fn begin(&self, rank: u64) {
        let mut seen = self.0.lock().unwrap();
        let shard = seen.shards.entry(rank).or_default();
        shard.requests += 1;
        shard.in_flight += 1;
        shard.most_in_flight = shard.most_in_flight.max(shard.in_flight);
        let in_flight = seen.shards.values().map(|shard| shard.in_flight).sum();
        seen.most_in_flight = seen.most_in_flight.max(in_flight);
    }

    fn end(&self, rank: u64) {
        self.0.lock().unwrap().shards.entry(rank).or_default().in_flight -= 1;
    }

    /// Counts a request of one of `shards` shards, has `before` wait with it, and answers. It is no longer
    /// in flight before its answer leaves: what is counted here is never more than the client has.
    fn answer(
        &self,
        mut asked: ScriptedRequest<'_>,
        shards: u64,
        before: impl Fn(u64, u64),
    ) -> AfterResponse {
        let index = asked.index().unwrap();
        let rank = index % shards;
        self.begin(rank);
        before(rank, index);
        self.end(rank);
        asked.good_answer(6);
        AfterResponse::Close
    }
}

#[test]
fn shards_share_fewer_slots_than_there_are_shards() {
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
    assert!(most_in_flight(&rows) <= 2);
}

/// No shard waits until another one has ended: this run has no end of its own.
#[test]
fn shards_that_share_slots_take_turns() {
    let seen = Seen::default();
    let noted = seen.clone();
    let server = Scripted::new(move |asked| {
        noted.answer(asked, 3, |_, _| std::thread::sleep(Duration::from_millis(3)))
    });
    let folder = tempfile::tempdir().unwrap();
    let more = "--duration 10m --max-concurrency 2 --global-cap --run-dir run --quiet";
    let shards = start(folder.path(), &scripted_load(&server, more), 3);
    wait_until("all shards have had turns, and both slots were used at once", || {
        seen.most_in_flight() == 2 && (0..3).all(|rank| seen.of(rank).requests >= 3)
    });
    shards[0].signal(Signal::SIGINT);
    for end in shards.into_iter().map(Started::wait) {
        assert_eq!(end.code, Some(130), "{}", end.stderr);
    }
    let rows = merged(folder.path());
    assert_eq!(most_in_flight(&rows), 2);
    for rank in 0..3 {
        assert!(rows.iter().any(|row| row.identity.shard == rank), "shard {rank}");
    }
}

/// Shard 1 has one request left, and a slot that it does not use. Nothing is answered until shard 0 has
/// three requests in flight, of which two are its own part of the limit, and all slots are used.
#[test]
fn slots_that_one_shard_does_not_need_serve_another() {
    let seen = Seen::default();
    let noted = seen.clone();
    let server = Scripted::new(move |asked| {
        noted.answer(asked, 2, |rank, index| {
            if rank == 0 || index == 15 {
                wait_in_script(|| noted.of(0).most_in_flight > 2 && noted.most_in_flight() == 4);
            }
        })
    });
    let folder = tempfile::tempdir().unwrap();
    let more = "--num-prompts 16 --max-concurrency 4 --global-cap --run-dir run --quiet";
    let ends: Vec<ProgramExit> = start(folder.path(), &scripted_load(&server, more), 2)
        .into_iter()
        .map(Started::wait)
        .collect();
    assert_eq!(ends[0].code, Some(0), "{}", ends[0].stderr);
    let rows = merged(folder.path());
    assert_eq!(rows.iter().filter(|row| row.is_success()).count(), 16);
    assert_eq!(most_in_flight(&rows), 4);
    let own: Vec<Timeline> = rows.into_iter().filter(|row| row.identity.shard == 0).collect();
    assert!(most_in_flight(&own) > 2, "shard 0 never used the slots of shard 1");
}

/// Shard 1 never gets its later answers, so that it keeps its slots until it is killed. Shard 0 gets its
/// own later ones when it has the whole limit.
#[test]
fn the_slots_of_a_killed_shard_return() {
    let seen = Seen::default();
    let noted = seen.clone();
    let server = Scripted::new(move |asked| {
        let index = asked.index().unwrap();
        if index % 2 == 1 && index >= 10 {
            return asked.hold();
        }
        noted.answer(asked, 2, |_, index| {
            if index >= 20 {
                wait_in_script(|| noted.of(0).most_in_flight == 4);
            }
        })
    });
    let folder = tempfile::tempdir().unwrap();
    let more = "--num-prompts 60 --max-concurrency 4 --global-cap --run-dir run --quiet";
    let mut shards = start(folder.path(), &scripted_load(&server, more), 2);
    let run = folder.path().join("machine0/run");
    wait_until("shard 1 has recorded its answers", || recorded(&run, 1) >= 5);
    shards.remove(1).kill();
    let end = shards.remove(0).wait();
    assert_eq!(end.code, Some(5), "{}", end.stderr);
    let rows = merged(folder.path());
    let own: Vec<Timeline> = rows.into_iter().filter(|row| row.identity.shard == 0).collect();
    assert_eq!(own.iter().filter(|row| row.is_success()).count(), 30, "all of shard 0's");
    assert_eq!(most_in_flight(&own), 4, "the whole limit");
}

const BARE: &str =
    "--model simulated --input-len 8 --output-len 4 --seed 1 --global-cap --run-dir run";

/// A staircase begins with one request in flight.
#[test]
fn a_staircase_is_climbed_by_two_shards() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let line = format!("{} --budget 4s {BARE}", server.url);
    let ends: Vec<ProgramExit> =
        start(folder.path(), &line, 2).into_iter().map(Started::wait).collect();
    for end in &ends {
        assert_eq!(end.code, Some(0), "{}{}", end.stdout, end.stderr);
    }
    assert!(ends[1].stdout.is_empty(), "{}", ends[1].stdout);
    let first = folder.path().join("machine0/run/000-max_concurrency=1");
    assert_eq!(most_in_flight(&rows(&first)), 1);
}

/// The step ends when both have sent something.
#[test]
fn two_shards_share_the_one_slot_of_a_first_step() {
    // The first step has eight requests, which are to be under way when it is interrupted.
    let server = Server::new(&["--ttft", "1s", "--itl", "1ms"]);
    let folder = tempfile::tempdir().unwrap();
    let line = format!("{} --budget 1h {BARE}", server.url);
    let shards = start(folder.path(), &line, 2);
    let first = folder.path().join("machine0/run/000-max_concurrency=1");
    wait_until("both have sent something", || recorded(&first, 0) > 0 && recorded(&first, 1) > 0);
    shards[0].signal(Signal::SIGINT);
    for end in shards.into_iter().map(Started::wait) {
        assert_eq!(end.code, Some(130), "{}{}", end.stdout, end.stderr);
    }
    let rows = rows(&first);
    assert_eq!(most_in_flight(&rows), 1);
    for rank in 0..2 {
        assert!(rows.iter().any(|row| row.identity.shard == rank), "shard {rank}");
    }
}

/// With fewer slots than shards, one shard waited for ever for a slot that nobody could give it.
#[test]
fn conversations_that_hold_their_slot_are_not_lent() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let more = "--conventions sglang --multi-turn --num-prompts 6 --max-concurrency 2 --global-cap \
                --shard-wait 5s --run-dir run --quiet";
    let ends: Vec<ProgramExit> =
        start(folder.path(), &load(&server, more), 3).into_iter().map(Started::wait).collect();
    ends[0].says(2, &["omit `--global-cap`"]);
}
