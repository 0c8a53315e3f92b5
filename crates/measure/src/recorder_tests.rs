//! A disk that stalls or fails, one write at a time.

use std::io;
use std::sync::mpsc::{Sender, channel};

use tokometer_base::MonotonicClock;
use tokometer_record::{AttemptId, Phase, RequestedLengths, Timeline};

use super::*;

/// A disk that does what it is told, one write at a time.
struct ScriptedDisk {
    orders: Receiver<Result<(), Error>>,
    written: Vec<u64>,
    waiting: Vec<u64>,
}

impl Disk for ScriptedDisk {
    fn write(&mut self, rows: &PendingRows) -> Result<(), Error> {
        let indexes = rows.ended.iter().map(|row| row.identity.index);
        // Without further orders it writes at once.
        let order = self.orders.recv().unwrap_or(Ok(()));
        if order.is_ok() {
            self.written.extend(indexes);
        } else {
            self.waiting.extend(indexes);
        }
        order
    }

    fn folder(&self) -> &Path {
        Path::new("runs/a")
    }
}

struct Scene {
    recorder: Recorder<ScriptedDisk>,
    notices: Sender<Notice>,
    orders: Sender<Result<(), Error>>,
    interrupt: Arc<Interrupt>,
}

fn scene(waiting_bytes_max: usize) -> Scene {
    let (notices, from_run) = channel();
    let (_scrapes, from_server) = channel();
    let (orders, from_test) = channel();
    let interrupt = Arc::new(Interrupt::default());
    let consumers = Consumers {
        tap: None,
        notes: Arc::new(LiveNotes::new(None)),
        secrets: Credentials::default(),
        interrupt: Arc::clone(&interrupt),
        clock: Arc::new(MonotonicClock),
        say: Box::new(|_| ()),
        waiting_bytes_max,
    };
    let disk = ScriptedDisk { orders: from_test, written: Vec::new(), waiting: Vec::new() };
    let recorder = Recorder::start(disk, from_run, from_server, consumers).unwrap();
    Scene { recorder, notices, orders, interrupt }
}

impl Scene {
    fn end(&self, index: u64) {
        let identity = AttemptId::new(index, Phase::Measure);
        let timeline = Timeline::new(identity, RequestedLengths::default(), Nanos::ZERO);
        self.notices.send(Notice::Ended(Box::new(timeline))).unwrap();
    }

    /// Ends requests until the run is asked to stop. Returns how many there were.
    fn end_until_stopped(&self) -> u64 {
        let mut index = 0;
        while !self.interrupt.is_raised() {
            self.end(index);
            index += 1;
            std::thread::sleep(Duration::from_millis(1));
            assert!(index < 60_000, "the run was never asked to stop");
        }
        index
    }
}

/// The queue in front of a stalled disk grew without a limit.
#[test]
fn a_stalled_disk_ends_the_run_at_a_limit_and_loses_no_row() {
    let scene = scene(20 * size_of::<Timeline>());
    let ended = scene.end_until_stopped();
    drop((scene.notices, scene.orders));
    let recorded = scene.recorder.finish();
    assert!(matches!(recorded.failure, Some(Error::Stalled { .. })), "{:?}", recorded.failure);
    let disk = recorded.disk.unwrap();
    assert_eq!(
        disk.written.len() + recorded.unwritten.ended.len(),
        usize::try_from(ended).unwrap()
    );
}

/// Rows that ended after the disk had failed were lost: the run no longer had anyone to tell.
#[test]
fn a_failed_write_ends_the_run_and_keeps_what_is_measured_afterwards() {
    let scene = scene(usize::MAX);
    let full = io::Error::from(io::ErrorKind::StorageFull);
    let failure = Error::File { action: "write", path: "runs/a".into(), source: full };
    scene.orders.send(Ok(())).unwrap();
    scene.orders.send(Err(failure)).unwrap();
    let ended = scene.end_until_stopped();
    scene.end(ended);
    drop((scene.notices, scene.orders));
    let recorded = scene.recorder.finish();
    let mut health = Health::default();
    recorded.describe(&mut health);
    assert!(health.write_failure.unwrap().contains("cannot write runs/a"));
    let disk = recorded.disk.unwrap();
    let unwritten = recorded.unwritten.ended.iter().map(|row| row.identity.index);
    let all: Vec<u64> = disk.written.into_iter().chain(disk.waiting).chain(unwritten).collect();
    assert_eq!(all, (0..=ended).collect::<Vec<u64>>());
}
