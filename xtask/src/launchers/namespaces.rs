//! The offset of a shard's clock over a network with delay, jitter and loss, against the truth.
//!
//! Leader and shard are in two network namespaces. A relay in user space moves packets between them,
//! since not every kernel has netem. The shard's clock is this machine's with another zero and another
//! speed, so the true offset is known at every time and must lie within the stated bound. First with the
//! links alone, then with the built program in time namespaces.

mod program;

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, setns};
use tokometer_base::{Clock, MonotonicClock, Nanos, WallNanos};
use tokometer_record::folder::names;
use tokometer_record::{ClockFit, ShardClock};
use tokometer_shards::{
    Follower, FollowerConfig, Leader, LeaderConfig, LocalRun, RecordStorage, ShardCounts,
    SharedSecret, StopCause,
};

use crate::process;

/// One network and one clock.
struct Scene {
    /// From the shard to the leader, in milliseconds.
    out_ms: f64,
    back_ms: f64,
    /// Added to each, up to this much.
    jitter_ms: f64,
    loss_percent: f64,
    /// Leader's clock minus the shard's, at the start.
    offset: i64,
    /// How much faster the shard's clock runs.
    drift_ppm: i64,
}

const SCENES: [Scene; 6] = [
    scene((0.0, 0.0), (0.0, 0.0), (-3_600_000_000_000, 0)),
    scene((10.0, 10.0), (0.0, 0.0), (-86_400_000_000_000, 50)),
    scene((10.0, 10.0), (5.0, 1.0), (250_000_000, -80)),
    scene((2.0, 40.0), (0.0, 0.0), (-7_000_000, 20)),
    scene((40.0, 2.0), (5.0, 2.0), (1_000_000_000, -100)),
    scene((1.0, 90.0), (20.0, 3.0), (-50_000_000_000, 200)),
];

const fn scene(
    (out_ms, back_ms): (f64, f64),
    (jitter_ms, loss_percent): (f64, f64),
    (offset, drift_ppm): (i64, i64),
) -> Scene {
    Scene { out_ms, back_ms, jitter_ms, loss_percent, offset, drift_ppm }
}

/// Length of a run.
const RUN: Nanos = Nanos::from_secs(5);
const WAIT: Nanos = Nanos::from_secs(60);
const ADDRESS: &str = "10.77.0.1:7799";

/// This machine's clock with another zero and another speed.
struct OtherClock {
    begin: Nanos,
    /// Added to the machine's time.
    offset: i64,
    drift_ppm: i64,
}

impl OtherClock {
    /// What it shows at a time of the machine's clock.
    fn at(&self, machine: Nanos) -> Nanos {
        let elapsed = i128::from(machine.signed_since(self.begin));
        let moved = elapsed * i128::from(self.drift_ppm) / 1_000_000;
        let moved = i64::try_from(moved).unwrap_or(i64::MAX);
        Nanos(machine.0.saturating_add_signed(self.offset).saturating_add_signed(moved))
    }

    /// Leader's clock minus this one, at a time of this one.
    fn true_offset(&self, own: Nanos) -> i64 {
        let zero = self.at(self.begin);
        let elapsed = i128::from(own.signed_since(zero));
        let machine = elapsed * 1_000_000 / (1_000_000 + i128::from(self.drift_ppm));
        let machine = i64::try_from(machine).unwrap_or(i64::MAX);
        self.begin.signed_since(own).saturating_add(machine)
    }
}

impl Clock for OtherClock {
    fn now(&self) -> Nanos {
        self.at(MonotonicClock.now())
    }

    fn wall(&self) -> WallNanos {
        MonotonicClock.wall()
    }

    fn sleep(&self, span: Nanos) {
        MonotonicClock.sleep(span);
    }
}

struct Idle;

impl LocalRun for Idle {
    fn counts(&self) -> ShardCounts {
        ShardCounts::default()
    }

    fn stop(&self, _cause: StopCause) {}
}

/// Processes that end with this value.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in self.0.drain(..).rev() {
            process::end(child);
        }
    }
}

impl Processes {
    /// A network namespace that lives as long as a process that sleeps in it.
    fn namespace(&mut self) -> Result<u32> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sleep", "600"]).stdin(Stdio::null());
        let child = command.spawn().context("cannot start `unshare`")?;
        let id = child.id();
        self.0.push(child);
        let own = std::fs::read_link("/proc/self/ns/net")?;
        let other = format!("/proc/{id}/ns/net");
        super::wait_for("a network namespace", || {
            std::fs::read_link(&other).is_ok_and(|link| link != own)
        })?;
        Ok(id)
    }

    fn relay(&mut self, (leader, shard): (u32, u32), scene: &Scene) -> Result<()> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/launchers/relay.py");
        let Scene { out_ms, back_ms, jitter_ms, loss_percent, .. } = scene;
        let mut command = Command::new("python3");
        command.arg(script).args([leader, shard].map(|id| id.to_string()));
        command.args([out_ms, back_ms, jitter_ms, loss_percent].map(f64::to_string)).arg("1");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start `python3`")?;
        let output = child.stdout.take();
        self.0.push(child);
        let mut line = String::new();
        let _ = BufReader::new(output.context("no output")?).read_line(&mut line)?;
        if line.trim() == "ready" { Ok(()) } else { bail!("the relay did not start") }
    }
}

/// Does `work` on a thread inside a namespace.
fn inside<T: Send>(process: u32, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let namespace = File::open(format!("/proc/{process}/ns/net"))?;
    std::thread::scope(|scope| {
        let entered = scope.spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).context("cannot enter a namespace")?;
            work()
        });
        entered.join().map_err(|_panic| anyhow::anyhow!("a thread panicked"))?
    })
}

/// What a scene showed.
struct Seen {
    fit: ClockFit,
    /// Largest distance from the truth while the clock was measured.
    error: u64,
}

fn measure(scene: &Scene, number: usize) -> Result<Seen> {
    let folder = super::place(&format!("namespaces/{number}"))?;
    let mut processes = Processes(Vec::new());
    let (a, b) = (processes.namespace()?, processes.namespace()?);
    processes.relay((a, b), scene)?;
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let secret = SharedSecret::new("a secret for this machine alone")?;
    let (version, plan, count) = ("1".to_owned(), "plan".to_owned(), 2);
    let config = LeaderConfig {
        secret: secret.clone(),
        tls: None,
        version: version.clone(),
        plan: plan.clone(),
        count,
        run: "run".to_owned(),
        content_root: WallNanos(1),
        folder: folder.clone(),
        clock: None,
        shows_latencies: false,
    };
    let leader = inside(a, || Ok(Leader::listen(ADDRESS, config, &clock)?))?;
    leader.hand_out(0, &folder, "point");
    let other = Arc::new(OtherClock {
        begin: MonotonicClock.now(),
        offset: scene.offset.saturating_neg(),
        drift_ppm: scene.drift_ppm,
    });
    let own = folder.join("shard");
    std::fs::create_dir_all(&own)?;
    let config = FollowerConfig { secret, tls: None, version, plan, rank: 1, count, clock: None };
    let of_shard: Arc<dyn Clock> = Arc::clone(&other) as Arc<dyn Clock>;
    let joined = inside(b, || Ok(Follower::join(ADDRESS, &config, (&of_shard, WAIT), &|| false)?))?;
    std::thread::scope(|scope| {
        let started = scope.spawn(|| leader.begin((0, "p"), WAIT, None, &|| false));
        let record = (own.as_path(), RecordStorage::Shared, Arc::new(Idle) as Arc<dyn LocalRun>);
        let start = joined.await_start((0, "p"), record, &|| false).map_err(anyhow::Error::msg)?;
        let _start = start.context("the run did not begin")?;
        let _ = started.join();
        anyhow::Ok(())
    })?;
    clock.sleep(RUN);
    joined.end(0).map_err(anyhow::Error::msg)?;
    let stored: ShardClock = serde_json::from_slice(&std::fs::read(own.join(names::CLOCK))?)?;
    let fit = stored.fit;
    let span = fit.to - fit.from;
    let at = |part: u64| fit.from + Nanos(span.0 / 20 * part);
    let error = (0..=20).map(at).map(|at| fit.offset_at(at).abs_diff(other.true_offset(at)));
    Ok(Seen { fit, error: error.max().unwrap_or(u64::MAX) })
}

#[expect(clippy::print_stderr, reason = "a task speaks to the person who started it")]
pub(super) fn run() -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("namespaces and TUN devices need root");
    }
    super::shell("which ip unshare nsenter python3 > /dev/null && test -c /dev/net/tun")?;
    let mut wrong = 0;
    eprintln!("   links alone, with drift:");
    print_head();
    for (number, scene) in SCENES.iter().enumerate() {
        wrong += usize::from(!measure(scene, number)?.is_within(scene, scene.drift_ppm));
    }
    eprintln!("   built program, {} shards, clocks without drift:", super::SHARDS);
    print_head();
    for (number, scene) in SCENES.iter().enumerate() {
        for seen in program::measure(scene, number)? {
            wrong += usize::from(!seen.is_within(scene, 0));
        }
    }
    if wrong > 0 {
        bail!("{wrong} offsets lie outside of their bound");
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "a task speaks to the person who started it")]
fn print_head() {
    eprintln!(
        "   | out ms | back ms | jitter ms | loss % | drift ppm | measured ppm | round trips | error µs | bound µs |"
    );
    eprintln!("   |--:|--:|--:|--:|--:|--:|--:|--:|--:|");
}

impl Seen {
    /// Prints a row, and says whether the truth lies within the bound.
    #[expect(clippy::print_stderr, reason = "a task speaks to the person who started it")]
    fn is_within(&self, scene: &Scene, drift_ppm: i64) -> bool {
        let Self { fit, error } = self;
        let Scene { out_ms, back_ms, jitter_ms, loss_percent, .. } = scene;
        let micros = |nanos: u64| nanos as f64 / 1_000.0;
        eprintln!(
            "   | {out_ms} | {back_ms} | {jitter_ms} | {loss_percent} | {} | {:.0} | {} | {:.0} | {:.0} |",
            -drift_ppm,
            fit.drift_ppm().unwrap_or(0.0),
            fit.samples,
            micros(*error),
            micros(fit.bound.0)
        );
        *error <= fit.bound.0
    }
}
