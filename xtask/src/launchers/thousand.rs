//! A thousand shards in one process: barrier over loopback, and a merge, with time and memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail};
use tokometer_base::{Clock, MonotonicClock, Nanos, WallNanos};
use tokometer_record::{
    AttemptId, Event, EventKind, Health, Outcome, Phase, RequestedLengths, RunEnd, RunInfo,
    RunWriter, ShardInfo, Sharding, Stop, Timeline,
};
use tokometer_shards::{
    Follower, FollowerConfig, Leader, LeaderConfig, LocalRun, RecordStorage, ShardCounts,
    SharedSecret, StopCause, merge, shard_folder,
};

const SHARDS: u32 = 1_000;
const REQUESTS: u64 = 50;
const TOKENS: u32 = 128;

#[expect(clippy::print_stderr, reason = "a task speaks to the person who started it")]
pub(super) fn run() -> Result<()> {
    let folder = super::place("thousand")?;
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let begin = clock.now();
    let lost = barrier(&folder, &clock)?;
    eprintln!(
        "   barrier and end of {SHARDS} shards: {} ({lost} lost), {} MiB at most",
        clock.now() - begin,
        peak_mib()
    );
    let shards: Vec<PathBuf> =
        (0..SHARDS).map(|rank| write(&folder, rank)).collect::<Result<_>>()?;
    let before = peak_mib();
    let begin = clock.now();
    let merged = merge(&shards, &folder.join("merged"), &|_| Box::new(|_| 0))?;
    let requests: u64 = merged.run.shards.iter().map(|shard| shard.requests).sum();
    if !merged.run.is_whole() || requests != REQUESTS * u64::from(SHARDS) {
        bail!("merged {requests} requests of {} shards", merged.run.shards.len());
    }
    eprintln!(
        "   merge of {SHARDS} shards, {requests} requests of {TOKENS} tokens: {}, {} MiB at most ({before} before)",
        clock.now() - begin,
        peak_mib()
    );
    Ok(())
}

/// Most memory that this process has had.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1_024
}

struct Idle;

impl LocalRun for Idle {
    fn counts(&self) -> ShardCounts {
        ShardCounts::default()
    }

    fn stop(&self, _cause: StopCause) {}
}

/// All shards join, wait, begin together and end. Returns how many were lost.
fn barrier(folder: &Path, clock: &Arc<dyn Clock>) -> Result<usize> {
    let secret = SharedSecret::new("a secret for this machine alone")?;
    let (version, plan) = ("1".to_owned(), "plan".to_owned());
    let leader = Leader::listen(
        "127.0.0.1:0",
        LeaderConfig {
            secret: secret.clone(),
            tls: None,
            version: version.clone(),
            plan: plan.clone(),
            count: SHARDS,
            run: "run".to_owned(),
            content_root: WallNanos(1),
            folder: folder.to_owned(),
            clock: None,
            shows_latencies: false,
        },
        clock,
    )?;
    let address = leader.address().to_string();
    let follow = |rank: u32| -> JoinHandle<Result<(), String>> {
        let config = FollowerConfig {
            secret: secret.clone(),
            tls: None,
            version: version.clone(),
            plan: plan.clone(),
            rank,
            count: SHARDS,
            clock: None,
        };
        let (address, clock) = (address.clone(), Arc::clone(clock));
        let own = folder.join(format!("follower{rank}"));
        std::thread::spawn(move || {
            std::fs::create_dir_all(&own).map_err(|why| why.to_string())?;
            let wait = (&clock, Nanos::from_secs(60));
            let follower = Follower::join(&address, &config, wait, &|| false);
            let follower = follower.map_err(|why| why.to_string())?;
            let run: Arc<dyn LocalRun> = Arc::new(Idle);
            let _start =
                follower.await_start((0, "p"), (&own, RecordStorage::Shared, run), &|| false)?;
            follower.end(0)
        })
    };
    let followers: Vec<_> = (1..SHARDS).map(follow).collect();
    let start = leader.begin((0, "p"), Nanos::from_secs(120), None, &|| false);
    let _start = start.context("the run did not begin")?;
    let lost = leader.finish(0, &|| false);
    let failed = followers.into_iter().filter_map(|one| one.join().ok()?.err());
    let failed: Vec<String> = failed.collect();
    if let (Some((rank, why)), Some(own)) = (lost.first(), failed.first()) {
        bail!("{} shards were lost, {rank}: {why}; a follower says: {own}", lost.len());
    }
    Ok(lost.len())
}

/// The record of one shard.
fn write(folder: &Path, rank: u32) -> Result<PathBuf> {
    let mut info: RunInfo = serde_json::from_str(include_str!("../../../fixtures/run/info.json"))?;
    let whole = info.load.clone();
    info.load.planned_requests = Some(REQUESTS);
    info.sharding = Some(Sharding::Shard(ShardInfo {
        rank,
        count: SHARDS,
        run: "run".to_owned(),
        load: tokometer_record::RecordedLoad {
            planned_requests: Some(REQUESTS * u64::from(SHARDS)),
            ..whole
        },
        host: None,
        clock: Some("one".to_owned()),
        is_cap_shared: false,
    }));
    let folder = shard_folder(folder, rank);
    let mut writer = RunWriter::create(&folder, &info)?;
    for place in 0..REQUESTS {
        let index = place * u64::from(SHARDS) + u64::from(rank);
        let sent = Nanos::from_millis(index);
        let identity = AttemptId::new(index, Phase::Measure);
        let mut row = Timeline::new(identity, RequestedLengths::default(), sent);
        row.times.first_byte_sent = Some(sent);
        for token in 0..TOKENS {
            let at = sent + Nanos::from_millis(10 + u64::from(token));
            row.push(Event::new(at, token, EventKind::Text));
        }
        row.times.end = row.events.last().map(|event| event.at);
        row.outcome = Outcome::Success;
        writer.start(index, 0, sent);
        writer.push(row)?;
    }
    let end = RunEnd {
        stop: Stop::Complete,
        measure_begin: Nanos::ZERO,
        measure_end: Nanos::from_millis(REQUESTS * u64::from(SHARDS) + 200),
        abandoned: 0,
        never_sent: 0,
        health: Health::default(),
    };
    Ok(writer.finish(&end)?)
}
