//! Leader and followers over loopback.

mod clocks;
mod returning;
mod silence;
mod strangers;
mod tls;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokometer_base::{Clock, MonotonicClock, Nanos, WallNanos};
use tokometer_record::ShardClock;
use tokometer_record::folder::names;

use crate::follower::{BURST, Follower, NextPoint, OwnRun, RecordStorage};
use crate::joining::FollowerConfig;
use crate::joining::JoinError;
use crate::leader::Leader;
use crate::local_run::LocalRun;
use crate::members::LeaderConfig;
use crate::{
    LatencyBins, LeaseChange, RUN_MARK, SendCounts, ShardCounts, SharedSecret, StopCause,
    shard_folder, storage_of,
};

const WAIT: Nanos = Nanos::from_secs(60);

fn real() -> Arc<dyn Clock> {
    Arc::new(MonotonicClock)
}

/// The machine's clock with another zero and another speed.
struct Shifted {
    offset: u64,
    drift_ppm: u64,
}

impl Clock for Shifted {
    fn now(&self) -> Nanos {
        let now = MonotonicClock.now();
        Nanos(now.0 + self.offset + now.0 / 1_000_000 * self.drift_ppm)
    }

    fn wall(&self) -> WallNanos {
        MonotonicClock.wall()
    }

    fn sleep(&self, span: Nanos) {
        MonotonicClock.sleep(span);
    }
}

#[derive(Default)]
struct Run {
    is_stopped: AtomicBool,
    offered: AtomicU32,
    granted: AtomicU32,
}

impl LocalRun for Run {
    fn counts(&self) -> ShardCounts {
        let sends = SendCounts { judged: 5, late: 2, worst: Nanos::from_millis(8) };
        ShardCounts { sent: 5, succeeded: 4, failed: 1, tokens: 9, sends, ..ShardCounts::default() }
    }

    fn latencies(&self) -> LatencyBins {
        [vec![(7, 4)], Vec::new()]
    }

    fn stop(&self, _cause: StopCause) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    fn lease(&self, change: LeaseChange) {
        let _before = self.offered.fetch_add(change.offered, Ordering::SeqCst);
        let _before = self.granted.fetch_add(change.granted, Ordering::SeqCst);
    }
}

fn wait_for(what: &str, is_true: impl Fn() -> bool) {
    let end = MonotonicClock.now() + WAIT;
    while !is_true() {
        assert!(MonotonicClock.now() < end, "{what}: not within {WAIT:?}");
        MonotonicClock.sleep(Nanos::from_millis(1));
    }
}

fn secret(text: &str) -> SharedSecret {
    SharedSecret::new(text).unwrap()
}

const SECRET: &str = "0123456789abcdef";

fn leader(folder: &Path, count: u32) -> Leader {
    Leader::listen("127.0.0.1:0", leader_config(folder, count), &real()).unwrap()
}

fn leader_config(folder: &Path, count: u32) -> LeaderConfig {
    LeaderConfig {
        secret: secret(SECRET),
        tls: None,
        version: "1".to_owned(),
        plan: "load.rate=1 load.cap=4 model=m".to_owned(),
        count,
        run: "run-1".to_owned(),
        content_root: WallNanos(7),
        folder: folder.to_owned(),
        clock: Some("boot-1".to_owned()),
        shows_latencies: true,
    }
}

fn config(rank: u32, count: u32) -> FollowerConfig {
    let (version, plan) = ("1".to_owned(), "load.rate=1 load.cap=4 model=m".to_owned());
    FollowerConfig { secret: secret(SECRET), tls: None, version, plan, rank, count, clock: None }
}

fn join(leader: &Leader, config: &FollowerConfig) -> Result<Follower, JoinError> {
    join_with(leader, config, &real())
}

fn join_with(
    leader: &Leader,
    config: &FollowerConfig,
    clock: &Arc<dyn Clock>,
) -> Result<Follower, JoinError> {
    Follower::join(&leader.address().to_string(), config, clock, Nanos::ZERO, &|| false)
}

fn refused(leader: &Leader, config: &FollowerConfig) -> String {
    match join(leader, config) {
        Err(why) => why.to_string(),
        Ok(_) => panic!("it was let in"),
    }
}

#[test]
fn a_stranger_is_refused_and_both_sides_are_named() {
    let root = tempfile::tempdir().unwrap();
    let leader = leader(root.path(), 3);
    let other = FollowerConfig { secret: secret("another secret!!"), ..config(1, 3) };
    assert!(refused(&leader, &other).contains("its secret is not that of the leader"));
    let other = FollowerConfig { version: "2".to_owned(), ..config(1, 3) };
    assert!(refused(&leader, &other).contains("it is 2, and the leader is 1"));
    let other =
        FollowerConfig { plan: "load.rate=2 load.cap=4 model=m seed=7".to_owned(), ..config(1, 3) };
    let why = refused(&leader, &other);
    assert!(why.contains("in `load.rate`, `seed`: give"), "{why}");
    assert!(refused(&leader, &config(1, 4)).contains("it is shard 1 of 4, and the leader has 3"));
    assert!(refused(&leader, &config(0, 3)).contains("no shard 0 to join"));
    let first = join(&leader, &config(1, 3)).unwrap();
    assert!(refused(&leader, &config(1, 3)).contains("joined before"));
    assert_eq!(first.welcome.run, "run-1");
    assert_eq!(first.welcome.content_root, WallNanos(7));
}

#[test]
fn garbage_on_the_port_hurts_nobody() {
    let root = tempfile::tempdir().unwrap();
    let leader = leader(root.path(), 2);
    let garbage: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 64],
        &[0, 0, 0, 2, 0, b'{', b'}'],
        &[0, 0, 0, 9, 1],
        b"",
    ];
    for bytes in garbage {
        let mut stream = TcpStream::connect(leader.address()).unwrap();
        stream.write_all(bytes).unwrap();
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        // The hello of the leader, then its end.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 200, "{}", answer.len());
    }
    assert!(join(&leader, &config(1, 2)).is_ok());
}

/// Something listens that is not the leader, or does not know the secret.
#[test]
fn a_follower_does_not_trust_anybody_who_listens() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let joined = Follower::join(&address, &config(1, 2), &real(), Nanos::ZERO, &|| false);
    let why = joined.err().unwrap();
    assert!(matches!(why, JoinError::Untrusted { .. }), "{why}");
    answer.join().unwrap();
    let joined = Follower::join(&address, &config(1, 2), &real(), Nanos::ZERO, &|| false);
    assert!(matches!(joined.err(), Some(JoinError::Unreached { .. })));
}

fn own_run(folder: PathBuf, local: Arc<dyn LocalRun>) -> OwnRun {
    OwnRun { folder, storage: RecordStorage::Own, local }
}

/// Waits for the start of point 0 on a thread of its own, as a measurement does.
fn start(follower: &Arc<Follower>, folder: &Path, prompts: &str, run: &Arc<Run>) -> Waiting {
    let (follower, folder, run) = (Arc::clone(follower), folder.to_owned(), Arc::clone(run));
    let prompts = prompts.to_owned();
    std::thread::spawn(move || follower.await_start(0, &prompts, own_run(folder, run), &|| false))
}

type Waiting = std::thread::JoinHandle<Result<Option<tokometer_record::CommonStart>, String>>;

#[test]
fn shards_begin_together_stop_together_and_hand_their_records_over() {
    let root = tempfile::tempdir().unwrap();
    let (of_leader, of_follower) = (root.path().join("leader"), root.path().join("follower"));
    for folder in [&of_leader, &of_follower] {
        std::fs::create_dir(folder).unwrap();
    }
    let leader = leader(&of_leader, 2);
    let clock: Arc<dyn Clock> = Arc::new(Shifted { offset: 3_600_000_000_000, drift_ppm: 40 });
    let follower = Arc::new(join_with(&leader, &config(1, 2), &clock).unwrap());
    assert_eq!(
        storage_of(&follower.welcome),
        RecordStorage::Shared,
        "on this machine it is shared"
    );
    let run = Arc::new(Run::default());
    let waiting = start(&follower, &of_follower, "p", &run);
    leader.hand_out(0, &of_leader, "order");
    let at = leader.begin(0, "p", WAIT, None, &|| false).unwrap();
    let common = waiting.join().unwrap().unwrap().unwrap();
    assert_eq!(common.leader, at);
    // What the follower's clock shows at the leader's start, which its own clock knows exactly.
    let truth = Nanos(at.0 + 3_600_000_000_000 + at.0 / 1_000_000 * 40);
    let stored: ShardClock =
        serde_json::from_slice(&std::fs::read(of_follower.join(names::CLOCK)).unwrap()).unwrap();
    let error = common.own.signed_since(truth).unsigned_abs();
    // From the first measurement until the start, or until it was noticed, 40 ppm of drift add up.
    let drift = (clock.now().max(common.own) - stored.fit.from).0 / 1_000_000 * 40;
    assert!(error <= stored.fit.bound.0 + drift + 5_000, "{error} ns beyond {:?}", stored.fit);
    wait_for("its counters", || leader.counts() == run.counts());
    wait_for("its latencies", || leader.latencies() == [vec![(7, 4)], Vec::new()]);
    leader.stop(0, StopCause::Rule);
    wait_for("the stop", || run.is_stopped.load(Ordering::SeqCst));
    std::fs::write(of_follower.join(names::PLAN), "{}").unwrap();
    std::fs::write(of_follower.join(names::REQUESTS), vec![7; 700_000]).unwrap();
    std::fs::write(of_follower.join("secret.txt"), "x").unwrap();
    follower.end(0).unwrap();
    assert_eq!(leader.finish(0, &|| false), []);
    let taken = shard_folder(&of_leader, 1);
    assert_eq!(std::fs::read(taken.join(names::REQUESTS)).unwrap(), vec![7; 700_000]);
    assert!(taken.join(names::CLOCK).is_file());
    assert!(!taken.join("secret.txt").exists());
    drop(leader);
    assert!(!of_leader.join(RUN_MARK).exists());
}

/// The machine's clock, which does not return to one thread once it has measured the leader's clock, as
/// on a machine that is busy.
#[derive(Default)]
struct Held {
    reads: AtomicU32,
    is_released: AtomicBool,
}

impl Held {
    const THREAD: &str = "held";
}

impl Clock for Held {
    fn now(&self) -> Nanos {
        let is_held = std::thread::current().name() == Some(Self::THREAD)
            && self.reads.fetch_add(1, Ordering::SeqCst) >= BURST;
        if is_held {
            wait_for("the release", || self.is_released.load(Ordering::SeqCst));
        }
        MonotonicClock.now()
    }

    fn wall(&self) -> WallNanos {
        MonotonicClock.wall()
    }

    fn sleep(&self, span: Nanos) {
        MonotonicClock.sleep(span);
    }
}

/// Slots that were offered to such a shard were lost for the whole run.
#[test]
fn a_shard_that_begins_late_receives_what_was_said_before() {
    let root = tempfile::tempdir().unwrap();
    let leader = leader(root.path(), 2);
    let held = Arc::new(Held::default());
    let clock: Arc<dyn Clock> = Arc::clone(&held) as Arc<dyn Clock>;
    let follower = Arc::new(join_with(&leader, &config(1, 2), &clock).unwrap());
    let run = Arc::new(Run::default());
    let waiting = std::thread::Builder::new().name(Held::THREAD.to_owned()).spawn({
        let (follower, folder) = (Arc::clone(&follower), root.path().to_owned());
        let run: Arc<dyn LocalRun> = Arc::clone(&run) as Arc<dyn LocalRun>;
        move || follower.await_start(0, "p", own_run(folder, run), &|| false)
    });
    let own: Arc<dyn LocalRun> = Arc::new(Run::default());
    assert!(leader.begin(0, "p", WAIT, Some((4, own)), &|| false).is_some());
    leader.report_places(0, 0, 1);
    wait_for("the offer", || run.offered.load(Ordering::SeqCst) == 1);
    leader.stop(0, StopCause::Rule);
    wait_for("the stop", || run.is_stopped.load(Ordering::SeqCst));
    held.is_released.store(true, Ordering::SeqCst);
    assert!(waiting.unwrap().join().unwrap().unwrap().is_some());
}

#[test]
fn a_shard_that_dies_or_has_other_prompts_is_lost_and_the_run_begins_without_it() {
    let root = tempfile::tempdir().unwrap();
    let leader = leader(root.path(), 5);
    let run = Arc::new(Run::default());
    let good = Arc::new(join(&leader, &config(1, 5)).unwrap());
    let other = Arc::new(join(&leader, &config(2, 5)).unwrap());
    let dying = join(&leader, &config(3, 5)).unwrap();
    let waiting = start(&good, root.path(), "p", &run);
    let differing = start(&other, root.path(), "q", &run);
    drop(dying);
    leader.hand_out(0, root.path(), "order");
    // Shard 4 never comes: the wait for it alone ends.
    wait_for("all but one", || leader.awaited(0) == 1);
    assert!(leader.begin(0, "p", Nanos::from_millis(50), None, &|| false).is_some());
    assert!(waiting.join().unwrap().unwrap().is_some());
    let why = differing.join().unwrap().unwrap_err();
    assert!(why.contains("(q)") && why.contains("(p)"), "{why}");
    let late = Arc::new(join(&leader, &config(4, 5)).unwrap());
    let why = start(&late, root.path(), "p", &run).join().unwrap().unwrap_err();
    assert!(why.contains("not ready in time"), "{why}");
    good.end(0).unwrap();
    let lost: Vec<u32> = leader.finish(0, &|| false).into_iter().map(|(rank, _)| rank).collect();
    assert_eq!(lost, [2, 3, 4]);
}

/// One that joined in time, and is still preparing when the wait is over.
#[test]
fn a_shard_that_is_not_ready_in_time_is_left_out_and_told() {
    let root = tempfile::tempdir().unwrap();
    let leader = leader(root.path(), 2);
    let slow = join(&leader, &config(1, 2)).unwrap();
    assert!(leader.begin(0, "p", Nanos::from_millis(10), None, &|| false).is_some());
    let is_told = || slow.lost().is_some_and(|why| why.contains("not ready in time"));
    wait_for("the reason", is_told);
    let lost = leader.finish(0, &|| false);
    assert_eq!(lost, [(1, "it was not ready in time".to_owned())]);
}

/// Shard 0 has sent its part: its slots serve the others until they end.
#[test]
fn the_places_of_shard_0_serve_the_others_after_its_end() {
    let root = tempfile::tempdir().unwrap();
    let leader = Arc::new(leader(root.path(), 2));
    let follower = Arc::new(join(&leader, &config(1, 2)).unwrap());
    let run = Arc::new(Run::default());
    leader.hand_out(0, root.path(), "order");
    let waiting = start(&follower, root.path(), "p", &run);
    let own: Arc<dyn LocalRun> = Arc::new(Run::default());
    assert!(leader.begin(0, "p", WAIT, Some((4, own)), &|| false).is_some());
    assert!(waiting.join().unwrap().unwrap().is_some());
    follower.report_places(0, 0, 9);
    let finishing = std::thread::spawn({
        let leader = Arc::clone(&leader);
        move || leader.finish(0, &|| false)
    });
    wait_for("the slots of shard 0", || run.granted.load(Ordering::SeqCst) == 2);
    follower.end(0).unwrap();
    assert_eq!(finishing.join().unwrap(), []);
}

#[test]
fn a_follower_without_a_leader_knows_why() {
    let root = tempfile::tempdir().unwrap();
    let leader = leader(root.path(), 2);
    let follower = Arc::new(join(&leader, &config(1, 2)).unwrap());
    let waiting = start(&follower, root.path(), "p", &Arc::new(Run::default()));
    drop(leader);
    let why = waiting.join().unwrap().unwrap_err();
    assert!(why.contains("no leader any more"), "{why}");
    assert!(follower.end(0).is_err());
}

#[test]
fn an_interrupt_ends_every_wait() {
    let root = tempfile::tempdir().unwrap();
    let leader = leader(root.path(), 2);
    assert_eq!(leader.begin(0, "p", WAIT, None, &|| true), None);
    let follower = join(&leader, &config(1, 2)).unwrap();
    let run: Arc<dyn LocalRun> = Arc::new(Run::default());
    let start = follower.await_start(0, "p", own_run(root.path().to_owned(), run), &|| true);
    assert_eq!(start, Ok(None));
    let stopped = Follower::join("127.0.0.1:9", &config(1, 2), &real(), WAIT, &|| true);
    assert!(matches!(stopped.err(), Some(JoinError::Stopped)));
}

/// The leader decides what is measured next; shards that come later or cannot make a point are told the
/// same.
#[test]
fn points_are_handed_out_one_by_one_until_there_are_no_more() {
    let root = tempfile::tempdir().unwrap();
    let leader = leader(root.path(), 3);
    let first = join(&leader, &config(1, 3)).unwrap();
    let next = |of: &Follower, last| of.await_next(last, &|| false).unwrap();
    let point = |point, order: &str| Some(NextPoint { point, order: order.to_owned() });
    leader.hand_out(0, root.path(), "load 4");
    assert_eq!(next(&first, None), point(0, "load 4"));
    let second = join(&leader, &config(2, 3)).unwrap();
    assert_eq!(next(&second, None), point(0, "load 4"), "it joined later");
    first.decline(0, "the disk is full");
    second.decline(0, "no such file");
    assert!(leader.begin(0, "p", WAIT, None, &|| false).is_some(), "nobody is waited for");
    let lost = leader.finish(0, &|| false);
    assert_eq!(lost, [(1, "the disk is full".to_owned()), (2, "no such file".to_owned())]);
    leader.hand_out(1, root.path(), "load 8");
    assert_eq!(next(&first, Some(0)), point(1, "load 8"));
    assert_eq!(first.await_next(Some(1), &|| true), Ok(None), "interrupted");
    let waiting = Arc::new(first);
    let started = std::thread::spawn({
        let (waiting, folder) = (Arc::clone(&waiting), root.path().to_owned());
        let run: Arc<dyn LocalRun> = Arc::new(Run::default());
        move || waiting.await_start(1, "p", own_run(folder, run), &|| false)
    });
    leader.hand_out(2, root.path(), "load 16");
    let why = started.join().unwrap().unwrap_err();
    assert!(why.contains("did not begin this point"), "{why}");
    leader.dismiss();
    drop(leader);
    assert_eq!(next(&second, Some(2)), None, "finished, although the connection is closed");
}

#[test]
fn a_block_begins_at_one_time_for_all() {
    let root = tempfile::tempdir().unwrap();
    let leader = leader(root.path(), 2);
    let clock: Arc<dyn Clock> = Arc::new(Shifted { offset: 5_000_000_000, drift_ppm: 0 });
    let follower = Arc::new(join_with(&leader, &config(1, 2), &clock).unwrap());
    let waiting = start(&follower, root.path(), "p", &Arc::new(Run::default()));
    assert!(leader.begin(0, "p", WAIT, None, &|| false).is_some());
    assert!(waiting.join().unwrap().unwrap().is_some());
    assert_eq!(leader.begin_block(0, 1, &|| true), None, "interrupted");
    let waiting = std::thread::spawn({
        let follower = Arc::clone(&follower);
        move || follower.await_block(0, 1, &|| false)
    });
    let at = leader.begin_block(0, 1, &|| false).unwrap();
    let own = waiting.join().unwrap().unwrap().unwrap();
    let error = own.signed_since(at).abs_diff(5_000_000_000);
    // The clocks are five seconds apart; how exact the offset is depends on the round trips.
    assert!(error < 50_000_000, "{error} ns");
    drop(leader);
    assert!(follower.await_block(0, 2, &|| false).is_err());
}

/// A stranger that sends a byte now and then must not keep a slot for hours.
#[test]
fn a_slow_stranger_is_closed_at_a_deadline() {
    let root = tempfile::tempdir().unwrap();
    let config = leader_config(root.path(), 2);
    // A clock that runs a thousand times as fast: five seconds pass in five milliseconds.
    let fast: Arc<dyn Clock> = Arc::new(Shifted { offset: 0, drift_ppm: 1_000_000_000 });
    let leader = Leader::listen("127.0.0.1:0", config, &fast).unwrap();
    let mut stream = TcpStream::connect(leader.address()).unwrap();
    let mut closed = false;
    // The head of a long message, whose content comes byte by byte.
    for byte in [0, 0, 15, 0, 0].into_iter().chain(std::iter::repeat_n(b' ', 3_000)) {
        if stream.write_all(&[byte]).is_err() {
            closed = true;
            break;
        }
        MonotonicClock.sleep(Nanos::from_millis(1));
    }
    assert!(closed, "it was still open after 3,000 bytes");
}
