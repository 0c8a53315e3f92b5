//! Shards that say nothing for too long.

use super::*;

/// The machine's clock, ahead by more than a silence may take for the one thread that looks for silent
/// shards: however often a shard speaks, it was silent for so long.
#[derive(Default)]
struct Ahead {
    is_ahead: AtomicBool,
}

impl Ahead {
    const THREAD: &str = "looks";
}

impl Clock for Ahead {
    fn now(&self) -> Nanos {
        let is_ahead = self.is_ahead.load(Ordering::SeqCst)
            && std::thread::current().name() == Some(Self::THREAD);
        let more = if is_ahead { Nanos::from_secs(31) } else { Nanos::ZERO };
        MonotonicClock.now() + more
    }

    fn wall(&self) -> WallNanos {
        MonotonicClock.wall()
    }

    fn sleep(&self, span: Nanos) {
        MonotonicClock.sleep(span);
    }
}

/// Runs `look` on the thread whose clock is ahead.
fn looking<T: Send>(clock: &Ahead, look: impl FnOnce() -> T + Send) -> T {
    clock.is_ahead.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(Ahead::THREAD.to_owned());
        thread.spawn_scoped(scope, look).unwrap().join().unwrap()
    })
}

fn led(folder: &Path, count: u32) -> (Leader, Arc<Ahead>) {
    let ahead = Arc::new(Ahead::default());
    let clock: Arc<dyn Clock> = Arc::clone(&ahead) as Arc<dyn Clock>;
    (Leader::listen("127.0.0.1:0", leader_config(folder, count), &clock).unwrap(), ahead)
}

const SILENT: &str = "no message for 30.0 s";

#[test]
fn a_silent_shard_is_not_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let (leader, ahead) = led(root.path(), 2);
    let follower = join(&leader, &config(1, 2)).unwrap();
    let start = looking(&ahead, || leader.begin(0, "p", WAIT, None, &|| false));
    assert!(start.is_some(), "the run begins without it");
    assert_eq!(leader.finish(0, &|| false), [(1, SILENT.to_owned())]);
    wait_for("its connection is closed", || follower.lost().is_some());
}

/// A run with a limit of four slots, two of them the other shard's.
fn lent(leader: &Leader, follower: &Arc<Follower>, folder: &Path) -> (Arc<Run>, Arc<Run>) {
    let (own, other) = (Arc::new(Run::default()), Arc::new(Run::default()));
    let waiting = start(follower, folder, "p", &other);
    let slots = Some((4, Arc::clone(&own) as Arc<dyn LocalRun>));
    assert!(leader.begin(0, "p", WAIT, slots, &|| false).is_some());
    assert!(waiting.join().unwrap().unwrap().is_some());
    (own, other)
}

#[test]
fn a_shard_that_falls_silent_before_a_block_gives_its_places_back() {
    let root = tempfile::tempdir().unwrap();
    let (leader, ahead) = led(root.path(), 2);
    let follower = Arc::new(join(&leader, &config(1, 2)).unwrap());
    let (own, other) = lent(&leader, &follower, root.path());
    leader.report_places(0, 0, 4);
    wait_for("the other is asked", || other.offered.load(Ordering::SeqCst) > 0);
    assert_eq!(own.granted.load(Ordering::SeqCst), 0);
    assert!(looking(&ahead, || leader.begin_block(0, 1, &|| false)).is_some());
    assert_eq!(own.granted.load(Ordering::SeqCst), 2);
}

#[test]
fn a_shard_that_falls_silent_does_not_keep_the_run_from_its_end() {
    let root = tempfile::tempdir().unwrap();
    let (leader, ahead) = led(root.path(), 2);
    let follower = Arc::new(join(&leader, &config(1, 2)).unwrap());
    let _runs = lent(&leader, &follower, root.path());
    assert_eq!(looking(&ahead, || leader.finish(0, &|| false)), [(1, SILENT.to_owned())]);
    wait_for("its connection is closed", || follower.lost().is_some());
}
