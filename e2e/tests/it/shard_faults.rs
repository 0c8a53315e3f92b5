//! Shards that die, stop, come late or lose their leader, and machines that share no files.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokometer_record::{RunReader, Timeline};

use crate::disk::limited;
use crate::program::{ProgramExit, Server, Started, ended, run, wait_until};
use crate::scripted::{AfterResponse, Scripted};
use crate::shards::{
    free_address, holding_back, load, recorded, rows, scripted_load, shard, start,
};

/// Every process sees a folder of its own under this path.
const OWN_FOLDER: &str = "--run-dir /proc/self/cwd/run";

fn successes(run: &Path) -> usize {
    rows(run).iter().filter(|row| row.is_success()).count()
}

#[test]
fn a_leader_without_shared_files_gets_every_record() {
    let (server, latch) = holding_back(40);
    let folder = tempfile::tempdir().unwrap();
    let more = format!("--num-prompts 60 --request-rate 120 {OWN_FOLDER} --quiet");
    let shards = start(folder.path(), &scripted_load(&server, &more), 2);
    let leaders = folder.path().join("machine0/run");
    wait_until("rows arrive while the run goes on", || recorded(&leaders, 1) > 0);
    assert!(!leaders.join("shards/001/end.json").exists());
    latch.open();
    for end in shards.into_iter().map(Started::wait) {
        assert_eq!(end.code, Some(0), "{}", end.stderr);
    }
    assert_eq!(successes(&leaders), 60);
    let own = folder.path().join("machine1/run");
    assert!(!own.join("shards/000").exists(), "they share no folder");
    for file in ["plan.json", "requests.arrows", "starts.arrows", "end.json"] {
        let [sent, kept] = [&leaders, &own].map(|run| run.join("shards/001").join(file));
        assert!(std::fs::read(sent).unwrap() == std::fs::read(kept).unwrap(), "{file}");
    }
    let merged = RunReader::open(&leaders).unwrap().info().merged().unwrap().clone();
    assert!(merged.is_whole());
    assert!(!own.join("plan.json").exists(), "only shard 0 merges");
}

/// Without shared files the leader has what a killed shard had sent, and the shard's own folder the rest.
#[test]
fn a_killed_shard_leaves_its_rows_with_the_leader() {
    let (server, latch) = holding_back(60);
    let folder = tempfile::tempdir().unwrap();
    let more = format!("--num-prompts 160 --max-concurrency 8 {OWN_FOLDER} --format json");
    let mut shards = start(folder.path(), &scripted_load(&server, &more), 2);
    let leaders = folder.path().join("machine0/run");
    wait_until("rows of shard 1 have arrived", || recorded(&leaders, 1) > 0);
    shards.remove(1).kill();
    latch.open();
    let end = shards.remove(0).wait();
    end.says(5, &["the record of shard 1 of 2 breaks off"]);
    let of_killed = |row: &&Timeline| row.identity.shard == 1 && row.is_success();
    let arrived = rows(&leaders).iter().filter(of_killed).count();
    assert!(arrived > 0);
    let counts = end.json()["summary"]["counts"].clone();
    let of = |name: &str| counts[name].as_u64().unwrap();
    assert_eq!((of("planned"), of("sent") + of("never_sent")), (160, 160), "{counts}");
    // What it recorded after its last message is in its own folder.
    let line = "merge machine0/run/shards/000 machine1/run/shards/001 -o both";
    assert_eq!(run(folder.path(), line).code, Some(5));
    let all = rows(&folder.path().join("both"));
    assert!(all.iter().filter(of_killed).count() >= arrived);
}

#[test]
fn a_shard_without_a_leader_sends_its_part_and_is_merged_later() {
    let (server, latch) = holding_back(40);
    let folder = tempfile::tempdir().unwrap();
    let more = format!("--num-prompts 100 --request-rate 100 {OWN_FOLDER} --quiet");
    let mut shards = start(folder.path(), &scripted_load(&server, &more), 2);
    let own = folder.path().join("machine1/run");
    let leaders = folder.path().join("machine0/run");
    wait_until("both have recorded something", || {
        recorded(&own, 1) > 0 && recorded(&leaders, 0) > 0
    });
    shards.remove(0).kill();
    latch.open();
    let end = shards.remove(0).wait();
    end.says(5, &["merge it with `tokometer merge`"]);
    let line = "merge machine0/run/shards/000 machine1/run/shards/001 -o both";
    let merged = run(folder.path(), line);
    merged.says(5, &["shard 0 of 2 breaks off"]);
    let rows = rows(&folder.path().join("both"));
    let of_shard = |rank: u32| rows.iter().filter(|row| row.identity.shard == rank).count();
    assert_eq!(of_shard(1), 50, "all of its part");
    assert!(of_shard(0) > 0, "and what the leader had recorded");
    run(folder.path(), "report both").succeeded();
}

#[test]
fn a_shard_that_stands_still_for_a_while_stays_in_the_run() {
    let (server, latch) = holding_back(30);
    let folder = tempfile::tempdir().unwrap();
    let more = "--num-prompts 60 --request-rate 60 --run-dir run --quiet";
    let shards = start(folder.path(), &scripted_load(&server, more), 2);
    let run = folder.path().join("machine0/run");
    wait_until("shard 1 has recorded something", || recorded(&run, 1) > 0);
    shards[1].signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(700));
    shards[1].signal(Signal::SIGCONT);
    latch.open();
    for end in shards.into_iter().map(Started::wait) {
        assert_eq!(end.code, Some(0), "{}", end.stderr);
    }
    assert_eq!(successes(&run), 60);
}

#[test]
fn a_shard_that_comes_after_the_start_is_refused() {
    let (server, latch) = holding_back(30);
    let folder = tempfile::tempdir().unwrap();
    let leader = free_address();
    let line = |rank: u32| {
        let more = format!(
            "--num-prompts 90 --request-rate 90 --run-dir run --quiet --shard {rank}/3 --leader {leader}"
        );
        scripted_load(&server, &more)
    };
    let [first, second] = [0, 1].map(|rank| {
        let wait = format!("{} --shard-wait 4s", line(rank));
        Started::of(&mut shard(folder.path(), &wait))
    });
    let run = folder.path().join("run");
    wait_until("the run has begun", || recorded(&run, 1) > 0);
    let late = ended(&mut shard(folder.path(), &line(2)));
    latch.open();
    late.says(5, &["not ready in time"]);
    assert!(!run.join("shards/002").exists(), "it left nothing");
    let (first, second) = (first.wait(), second.wait());
    assert_eq!((first.code, second.code), (Some(5), Some(0)), "{}", first.stderr);
    assert!(first.stderr.contains("shard 2 was lost: "), "{}", first.stderr);
    assert_eq!(successes(&run), 60);
}

/// All shards stop sending, drain, and are merged.
#[test]
fn an_interrupt_of_shard_0_ends_all_shards() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let line = load(&server, "--num-prompts 3000 --request-rate 100 --run-dir run --format json");
    let shards = start(folder.path(), &line, 3);
    let run = folder.path().join("machine0/run");
    wait_until("shard 2 has recorded something", || recorded(&run, 2) > 0);
    shards[0].signal(Signal::SIGINT);
    let ends: Vec<ProgramExit> = shards.into_iter().map(Started::wait).collect();
    for end in &ends {
        assert_eq!(end.code, Some(130), "{}", end.stderr);
        assert!(!end.stderr.contains("lost"), "{}", end.stderr);
    }
    let counts = ends[0].json()["summary"]["counts"].clone();
    let of = |name: &str| counts[name].as_u64().unwrap();
    assert_eq!((of("planned"), of("sent") + of("never_sent")), (3_000, 3_000), "{counts}");
    assert!(of("never_sent") > 0 && of("succeeded") == of("sent"), "{counts}");
    for rank in 0..3 {
        assert!(run.join(format!("shards/{rank:03}/end.json")).is_file(), "shard {rank}");
    }
}

/// Shard 0 named shards as lost and records as broken off, and the others blamed their command line.
#[test]
fn an_interrupt_before_the_start_ends_a_run_that_nobody_has_begun() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let leader = free_address();
    let line = |rank: u32| {
        let more = format!("--num-prompts 9 --run-dir run --shard {rank}/3 --leader {leader}");
        load(&server, &more)
    };
    let [first, second] = [0, 1].map(|rank| Started::of(&mut shard(folder.path(), &line(rank))));
    let run = folder.path().join("run");
    // Shard 0 reads the server's metrics once everything else is prepared.
    let files = ["shards/000/server.jsonl", "shards/001/plan.json"];
    wait_until("both wait for shard 2", || files.iter().all(|file| run.join(file).is_file()));
    first.signal(Signal::SIGINT);
    let (first, second) = (first.wait(), second.wait());
    first.says(130, &["nothing was measured"]);
    assert!(!first.stderr.contains("error"), "{}", first.stderr);
    second.says(5, &["shard 0 did not begin this point"]);
    assert!(!run.join("shards/001").exists(), "it left nothing");
    // The report was that of shard 0's part, three of the nine requests.
    let planned = RunReader::open(&run).unwrap().info().load.planned_requests;
    assert_eq!(planned, Some(9));
    assert!(!first.stdout.contains("of 3 "), "{}", first.stdout);
}

/// It was refused because it had joined before, and then because of the record of its first process.
#[test]
fn a_shard_that_dies_before_the_start_can_be_started_again() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let leader = free_address();
    let begin = |rank: u32| {
        let more =
            format!("--num-prompts 9 --run-dir run --quiet --shard {rank}/3 --leader {leader}");
        Started::of(&mut shard(folder.path(), &load(&server, &more)))
    };
    let first = begin(0);
    let dying = begin(1);
    let record = folder.path().join("run/shards/001/plan.json");
    wait_until("shard 1 is ready", || record.is_file());
    let written = || std::fs::metadata(&record).and_then(|found| found.modified()).ok();
    let before = written();
    dying.kill();
    // Until shard 0 has seen the end of the connection, its rank is taken.
    let again = loop {
        let mut again = begin(1);
        wait_until("shard 1 is ready again or refused", || {
            again.has_ended() || (written().is_some() && written() != before)
        });
        if !again.has_ended() {
            break again;
        }
        let why = again.wait().stderr;
        assert!(why.contains("has joined before"), "{why}");
    };
    let third = begin(2);
    for (rank, shard) in [first, again, third].into_iter().enumerate() {
        let end = shard.wait();
        assert_eq!(end.code, Some(0), "shard {rank}: {}", end.stderr);
    }
    assert_eq!(successes(&folder.path().join("run")), 9);
}

/// The others go on; the report says which requests were not sent.
#[test]
fn an_interrupt_of_another_shard_ends_its_part_alone() {
    // Shard 1 has half of its answers at once, and needs more than ten seconds for the others.
    let server = Scripted::new(|mut asked| {
        let index = asked.index().unwrap();
        if index >= 60 && index % 2 == 1 {
            std::thread::sleep(Duration::from_secs(1));
        }
        asked.good_answer(6);
        AfterResponse::Close
    });
    let folder = tempfile::tempdir().unwrap();
    let more = "--num-prompts 120 --max-concurrency 4 --run-dir run --format json";
    let shards = start(folder.path(), &scripted_load(&server, more), 2);
    let run = folder.path().join("machine0/run");
    wait_until("shard 1 has recorded something", || recorded(&run, 1) > 0);
    shards[1].signal(Signal::SIGINT);
    let ends: Vec<ProgramExit> = shards.into_iter().map(Started::wait).collect();
    let codes: Vec<Option<i32>> = ends.iter().map(|end| end.code).collect();
    assert_eq!(codes, [Some(5), Some(130)], "{}\n{}", ends[0].stderr, ends[1].stderr);
    assert!(ends[0].stderr.contains("shard 1 of 2"), "{}", ends[0].stderr);
    let rows = rows(&run);
    let of_first = rows.iter().filter(|row| row.identity.shard == 0 && row.is_success());
    assert_eq!(of_first.count(), 60, "all of shard 0's part");
    let counts = ends[0].json()["summary"]["counts"].clone();
    let of = |name: &str| counts[name].as_u64().unwrap();
    assert_eq!((of("planned"), of("sent") + of("never_sent")), (120, 120), "{counts}");
    assert!(of("never_sent") > 0, "{counts}");
}

/// What it could not write is counted, and the others go on.
#[test]
fn a_shard_whose_disk_is_full_is_named_and_loses_nothing_of_the_others() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let leader = free_address();
    let line = |rank: u32| {
        let more = format!(
            "--num-prompts 800 --request-rate 400 --run-dir run --format json --shard {rank}/2 --leader {leader}"
        );
        load(&server, &more)
    };
    let leading = Started::of(&mut shard(folder.path(), &line(0)));
    let mut full = limited(shard(folder.path(), &line(1)), 24);
    let full = ended(&mut full);
    let end = leading.wait();
    full.says(6, &["File too large"]);
    end.says(5, &["shard 1"]);
    let run = folder.path().join("run");
    let of_first = rows(&run);
    let of_first = of_first.iter().filter(|row| row.identity.shard == 0 && row.is_success());
    assert_eq!(of_first.count(), 400, "all of shard 0's part");
}

/// Files that have one name and other content.
#[test]
fn a_shard_with_another_dataset_is_refused_and_both_are_named() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    for (rank, word) in [(0, "one"), (1, "two")] {
        let own = folder.path().join(format!("machine{rank}"));
        std::fs::create_dir_all(&own).unwrap();
        let rows: Vec<String> =
            (0..8).map(|at| format!(r#"{{"prompt": "{word} {at}"}}"#)).collect();
        std::fs::write(own.join("prompts.jsonl"), rows.join("\n")).unwrap();
    }
    let line = format!(
        "bench --base-url {} --model simulated --dataset-name custom --dataset-path prompts.jsonl \
         --output-len 4 --num-prompts 8 --ready-check-timeout-sec 0 --seed 3 --run-dir run --quiet",
        server.url
    );
    let ends: Vec<ProgramExit> =
        start(folder.path(), &line, 2).into_iter().map(Started::wait).collect();
    let codes: Vec<Option<i32>> = ends.iter().map(|end| end.code).collect();
    assert_eq!(codes, [Some(5), Some(2)], "{}\n{}", ends[0].stderr, ends[1].stderr);
    assert!(!ends[1].stderr.contains("no leader any more"), "{}", ends[1].stderr);
    for end in &ends {
        assert!(end.stderr.contains("are not those of shard 0"), "{}", end.stderr);
    }
    assert_eq!(successes(&folder.path().join("machine0/run")), 4, "shard 0's part");
}

/// `s3:` became a folder of this name.
#[test]
fn the_address_of_a_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        "bench --run-dir s3://runs/a",
        "capacity --slo ttft<1s --run-dir gs://runs/a",
        "merge s3://runs/a -o b",
    ];
    for line in lines {
        let end = run(folder.path(), line);
        end.says(2, &["a run is recorded in a folder"]);
    }
    assert!(!folder.path().join("s3:").exists());
}

/// Shard 0 makes the folder before it can listen.
#[test]
fn a_leader_that_cannot_listen_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let line = format!(
        "bench --base-url http://127.0.0.1:9 --model m --seed 1 --run-dir run --shard 0/2 --leader {}",
        taken.local_addr().unwrap()
    );
    let end = ended(&mut shard(folder.path(), &line));
    end.says(2, &["cannot listen on"]);
    assert!(!folder.path().join("run").exists());
    // One that cannot reach the server ends before it waits for the others.
    let line = format!(
        "bench --base-url http://127.0.0.1:9 --model m --tokenizer cl100k_base --seed 1 --num-prompts 4 \
         --ready-check-timeout-sec 0 --run-dir run --shard 0/2 --leader {}",
        free_address()
    );
    let first = ended(&mut shard(folder.path(), &line));
    assert_eq!(first.code, Some(3), "{}", first.stderr);
    assert!(
        !folder.path().join("run").exists(),
        "{:?}",
        std::fs::read_dir(folder.path().join("run"))
    );
}
