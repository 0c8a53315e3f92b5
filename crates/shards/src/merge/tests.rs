use std::collections::BTreeMap;

use tokometer_base::{Nanos, WallNanos};
use tokometer_record::health::WorkerHealth;
use tokometer_record::server::Scrape;
use tokometer_record::{
    AttemptId, Connection, Event, EventKind, Health, Outcome, Phase, RequestedLengths, ShardClock,
    Timeline,
};

use super::*;

const RUN: &str = "run-1";

/// Of a run with two targets, to which requests go in turn.
fn merge(folders: &[PathBuf], out: &Path) -> Result<Merged, MergeError> {
    super::merge(folders, out, &|_| Box::new(|index| u16::try_from(index % 2).unwrap()))
}

/// A shard's folder, with one row for each of `requests`.
struct Shard {
    rank: u32,
    count: u32,
    /// Own clock minus the leader's.
    ahead: u64,
    planned: u64,
    requests: u64,
    has_ended: bool,
    stop: Stop,
    clock: Option<String>,
}

impl Shard {
    fn new(rank: u32, count: u32) -> Self {
        let ahead = u64::from(rank) * 1_000_000_000_000;
        let (stop, clock) = (Stop::Complete, None);
        Self { rank, count, ahead, planned: 3, requests: 3, has_ended: true, stop, clock }
    }

    fn info(&self) -> RunInfo {
        let text = include_str!("../../../../fixtures/run/info.json");
        let mut info: RunInfo = serde_json::from_str(text).unwrap();
        let whole = info.load.clone();
        info.load.planned_requests = Some(self.planned);
        info.origin = Nanos::from_secs(100) + Nanos(self.ahead);
        info.started = WallNanos(info.started.0 + u64::from(self.rank));
        info.targets[0].addresses =
            vec!["10.0.0.9:80".to_owned(), format!("10.0.0.{}:80", self.rank)];
        info.remarks = vec!["all".to_owned(), format!("of {}", self.rank)];
        info.sharding = Some(Sharding::Shard(ShardInfo {
            rank: self.rank,
            count: self.count,
            run: RUN.to_owned(),
            load: record::RecordedLoad { planned_requests: Some(self.planned * 4), ..whole },
            host: Some(format!("host{}", self.rank)),
            clock: self.clock.clone(),
            is_cap_shared: false,
        }));
        info
    }

    /// A time on the leader's clock as this shard reads it.
    fn own(&self, leader: Nanos) -> Nanos {
        leader + Nanos(self.ahead)
    }

    fn row(&self, number: u64) -> Timeline {
        let index = number * u64::from(self.count) + u64::from(self.rank);
        let sent = self.own(Nanos::from_secs(101) + Nanos::from_millis(index));
        let identity = AttemptId::new(index, Phase::Measure);
        let mut row = Timeline::new(identity, RequestedLengths::default(), sent);
        row.times.intended = Some(sent);
        row.times.first_byte_sent = Some(sent);
        row.times.end = Some(sent + Nanos::from_millis(500));
        row.connection = Connection { id: number, worker: 0, address: Some(1), ..row.connection };
        row.push(Event::new(sent + Nanos::from_millis(30), 0, EventKind::Text));
        row.outcome = Outcome::Success;
        row
    }

    fn write(&self, below: &Path) -> PathBuf {
        let folder = below.join(format!("shard{}", self.rank));
        let mut writer = RunWriter::create(&folder, &self.info()).unwrap();
        for number in 0..self.requests {
            let row = self.row(number);
            writer.start(row.identity.index, 0, row.times.admitted);
            writer.push(row).unwrap();
        }
        let begin = self.own(Nanos::from_secs(101));
        if self.has_ended {
            let end = RunEnd {
                stop: self.stop,
                measure_begin: begin,
                measure_end: begin + Nanos::from_secs(2),
                abandoned: 0,
                never_sent: self.planned - self.requests,
                health: Health { workers: vec![WorkerHealth::default()], ..Health::default() },
            };
            writer.scrape(&scrape(begin)).unwrap();
            writer.finish(&end).unwrap();
        } else {
            let lost = self.row(self.requests);
            writer.start(lost.identity.index, 0, lost.times.admitted);
            writer.flush().unwrap();
        }
        folder
    }

    /// With the clock that a leader had measured.
    fn write_measured(&self, below: &Path) -> PathBuf {
        let offset = -i64::try_from(self.ahead).unwrap();
        let fit =
            ClockFit { bound: Nanos(u64::from(self.rank) * 100), ..ClockFit::constant(offset) };
        self.write_with(fit, below)
    }

    fn write_with(&self, fit: ClockFit, below: &Path) -> PathBuf {
        let folder = self.write(below);
        let leader = Nanos::from_secs(101);
        let start = Some(CommonStart { leader, own: self.own(leader) });
        record::folder::write_clock(&folder, &ShardClock { fit, start }).unwrap();
        folder
    }
}

fn scrape(at: Nanos) -> Scrape {
    Scrape { at, endpoint: 0, values: BTreeMap::new(), error: None }
}

#[test]
fn four_shards_become_one_run_on_one_clock() {
    let root = tempfile::tempdir().unwrap();
    let folders: Vec<PathBuf> =
        (0..4).rev().map(|rank| Shard::new(rank, 4).write_measured(root.path())).collect();
    let out = root.path().join("run");
    let merged = merge(&folders, &out).unwrap();
    assert!(merged.run.is_whole() && merged.damages.is_empty());
    assert_eq!(merged.run.clock_bound(), Some(Nanos(300)));
    assert_eq!((merged.end.stop, merged.end.never_sent), (Stop::Complete, 0));
    assert_eq!(merged.end.measure_begin, Nanos::from_secs(101));
    assert_eq!(merged.end.measure_end, Nanos::from_secs(103));
    assert_eq!(merged.end.health.workers.len(), 4);
    let reader = RunReader::open(&out).unwrap();
    assert_eq!(reader.info().merged(), Some(&merged.run));
    assert_eq!(reader.info().load.planned_requests, Some(12));
    assert_eq!(reader.info().origin, Nanos::from_secs(100));
    assert_eq!(reader.info().remarks, ["all", "of 0", "of 1", "of 2", "of 3"]);
    assert_eq!(reader.scrapes().unwrap(), vec![scrape(Nanos::from_secs(101)); 4]);
    let mut rows: Vec<Timeline> = reader.timelines().unwrap().collect();
    rows.sort_by_key(|row| row.identity.index);
    let expected = |row: &Timeline| Nanos::from_secs(101) + Nanos::from_millis(row.identity.index);
    assert_eq!(rows.len(), 12);
    for (index, row) in (0_u64..).zip(&rows) {
        assert_eq!((row.identity.index, u64::from(row.identity.shard)), (index, index % 4));
        assert_eq!(row.times.admitted, expected(row));
        assert_eq!(row.times.intended, Some(expected(row)));
        assert_eq!(row.events[0].at, expected(row) + Nanos::from_millis(30));
        assert_eq!(u32::from(row.connection.worker), row.identity.shard);
        let address = usize::from(row.connection.address.unwrap());
        let expected = format!("10.0.0.{}:80", row.identity.shard);
        assert_eq!(reader.info().targets[0].addresses[address], expected);
    }
    let mut connections: Vec<u64> = rows.iter().map(|row| row.connection.id).collect();
    connections.sort_unstable();
    connections.dedup();
    assert_eq!(connections.len(), 12, "connections of different shards are different ones");
    assert_eq!(reader.starts().unwrap().count(), 12);
}

/// The planned times of a shard stayed where its clock had been at the start: after a drift of 6 ms its
/// requests were 6 ms late, which they were not.
#[test]
fn a_clock_that_drifts_changes_no_latency() {
    let check = |drift: i64, is_planned_exactly: bool| {
        let root = tempfile::tempdir().unwrap();
        let shard = Shard { requests: 1_500, planned: 1_500, ..Shard::new(1, 2) };
        let offset = -i64::try_from(shard.ahead).unwrap();
        let fit = ClockFit {
            from: shard.own(Nanos::from_secs(101)),
            from_offset: offset,
            to: shard.own(Nanos::from_secs(104)),
            to_offset: offset + drift,
            bound: Nanos(50),
            samples: 9,
        };
        let folders =
            [Shard::new(0, 2).write_measured(root.path()), shard.write_with(fit, root.path())];
        let out = root.path().join("run");
        let merged = merge(&folders, &out).unwrap();
        assert_eq!(merged.run.clock_bound(), Some(Nanos(50)));
        let rows: Vec<Timeline> = RunReader::open(&out).unwrap().timelines().unwrap().collect();
        let last = rows.iter().max_by_key(|row| row.identity.index).unwrap();
        let late = last.times.admitted.signed_since(last.times.intended.unwrap());
        let plan = Nanos::from_secs(101) + Nanos::from_millis(last.identity.index);
        assert_eq!(late != 0, is_planned_exactly, "{late} ns late");
        assert!(late.abs() < 100_000, "{late} ns late");
        assert_eq!(last.times.intended == Some(plan), is_planned_exactly);
    };
    check(6_000_000, false);
    check(-6_000_000, false);
    check(60_000, true);
}

/// A shard that has lost the leader goes on, and nobody measures its clock.
#[test]
fn a_record_that_is_longer_than_its_clock_was_measured_has_a_wider_bound() {
    let root = tempfile::tempdir().unwrap();
    let shard = Shard::new(1, 2);
    let offset = -i64::try_from(shard.ahead).unwrap();
    let at = |seconds| shard.own(Nanos::from_secs(seconds));
    let fit = ClockFit {
        from: at(99),
        from_offset: offset,
        to: at(101),
        to_offset: offset,
        bound: Nanos(100),
        samples: 9,
    };
    let folders =
        [Shard::new(0, 2).write_measured(root.path()), shard.write_with(fit, root.path())];
    let merged = merge(&folders, &root.path().join("run")).unwrap();
    // Two seconds were measured, and the record goes on for two more: twice the bound of both ends.
    let bound = merged.run.clock_bound().unwrap();
    assert!((Nanos(300)..Nanos(310)).contains(&bound), "{bound:?}");
}

/// Nothing that a killed shard has recorded is lost, and what is missing is named.
#[test]
fn shards_that_died_or_are_missing_are_named_and_their_requests_counted() {
    let root = tempfile::tempdir().unwrap();
    let killed = Shard { requests: 1, has_ended: false, ..Shard::new(2, 4) };
    let folders = [
        Shard::new(0, 4).write_measured(root.path()),
        Shard { requests: 2, ..Shard::new(1, 4) }.write_measured(root.path()),
        killed.write_measured(root.path()),
    ];
    let out = root.path().join("run");
    let merged = merge(&folders, &out).unwrap();
    assert_eq!((merged.run.missing(), merged.run.unfinished()), (vec![3], vec![2]));
    assert_eq!(merged.end.stop, Stop::ShardsLost);
    // One of shard 1, one of shard 2 that was not begun, three of shard 3.
    assert_eq!((merged.end.never_sent, merged.end.abandoned), (5, 1));
    let lost = &merged.run.shards[2];
    assert_eq!((lost.requests, lost.in_flight, lost.never_sent), (2, 1, Some(1)));
    let rows: Vec<Timeline> = RunReader::open(&out).unwrap().timelines().unwrap().collect();
    assert_eq!(rows.len(), 3 + 2 + 1 + 1);
    let abandoned: Vec<&Timeline> =
        rows.iter().filter(|row| row.outcome == Outcome::Abandoned).collect();
    assert_eq!(abandoned.len(), 1);
    assert_eq!((abandoned[0].identity.index, abandoned[0].identity.target), (6, 0));
    assert_eq!(abandoned[0].times.admitted, Nanos::from_secs(101) + Nanos::from_millis(6));
}

/// Rows that cannot be read were left out of a run that was called whole: its report said nothing.
#[test]
fn a_shard_whose_rows_cannot_be_read_is_named_and_its_requests_counted() {
    let check = |damage: fn(&Path), abandoned: u64| {
        let root = tempfile::tempdir().unwrap();
        let folders: Vec<PathBuf> =
            (0..4).map(|rank| Shard::new(rank, 4).write_measured(root.path())).collect();
        damage(&folders[1].join(record::folder::names::REQUESTS));
        let out = root.path().join("run");
        let merged = merge(&folders, &out).unwrap();
        assert_eq!(merged.damages.len(), 1, "{:?}", merged.damages);
        assert_eq!((merged.run.unfinished(), merged.end.stop), (vec![1], Stop::ShardsLost));
        assert_eq!(merged.end.abandoned, abandoned);
        let lost = &merged.run.shards[1];
        assert_eq!((lost.requests, lost.in_flight, lost.never_sent), (3, 0, Some(0)));
        let damaged = format!(
            "the record of shard 1 of 4 is damaged: the rows of {abandoned} of its 3 requests cannot be read; they count as abandoned"
        );
        assert_eq!(lacking(&merged.run), [damaged]);
        let rows = RunReader::open(&out).unwrap().timelines().unwrap();
        assert_eq!(rows.count(), 12, "every request that was sent");
    };
    check(|file| std::fs::write(file, "").unwrap(), 3);
    check(
        |file| {
            let content = std::fs::read(file).unwrap();
            std::fs::write(file, &content[..content.len() - 300]).unwrap();
        },
        3,
    );
}

/// A full disk keeps rows out of a record: their requests were neither recorded nor never sent.
#[test]
fn requests_that_could_not_be_written_are_named() {
    let root = tempfile::tempdir().unwrap();
    let full = Shard { requests: 2, stop: Stop::DiskFull, ..Shard::new(1, 2) };
    let folders = [Shard::new(0, 2).write(root.path()), full.write(root.path())];
    let end = folders[1].join(record::folder::names::END);
    let text = std::fs::read_to_string(&end).unwrap();
    let mut content: serde_json::Value = serde_json::from_str(&text).unwrap();
    content["health"]["rows_unwritten"] = serde_json::json!(5);
    std::fs::write(&end, content.to_string()).unwrap();
    let merged = merge(&folders, &root.path().join("run")).unwrap();
    let said = lacking(&merged.run);
    let expected = "7 requests were sent, 5 of them are missing from the record, 1 were never sent";
    assert!(said.len() == 1 && said[0].ends_with(expected), "{said:?}");
}

/// A merged run was called interrupted by the user of shard 0, who had not interrupted it.
#[test]
fn a_shard_that_ends_by_itself_is_missing_and_shard_0_ends_all() {
    use Stop::{Complete, DiskFull, Interrupted, Overloaded, ShardsLost, TargetLost};
    let check = |stops: [Stop; 2], expected: Stop, early: &[u32]| {
        let root = tempfile::tempdir().unwrap();
        let write = |(rank, stop)| Shard { stop, ..Shard::new(rank, 2) }.write(root.path());
        let folders: Vec<PathBuf> = (0..).zip(stops).map(write).collect();
        let Merged { run, end, .. } = merge(&folders, &root.path().join("run")).unwrap();
        let found: Vec<u32> = run.ended_early().map(|shard| shard.rank).collect();
        assert_eq!((end.stop, found.as_slice()), (expected, early), "{stops:?}");
        assert_eq!(run.is_whole(), early.is_empty(), "{stops:?}");
        assert_eq!(lacking(&run).len(), early.len(), "{stops:?}");
    };
    check([Complete, Complete], Complete, &[]);
    check([Complete, Interrupted], ShardsLost, &[1]);
    check([Complete, DiskFull], ShardsLost, &[1]);
    check([Overloaded, TargetLost], ShardsLost, &[1]);
    check([Interrupted, Interrupted], Interrupted, &[]);
    check([Interrupted, Complete], Interrupted, &[]);
    check([DiskFull, Interrupted], DiskFull, &[1]);
    check([Overloaded, Complete], Overloaded, &[]);
}

/// Requests were missing because shard 0 was interrupted, and `merge` ended with exit code 0.
#[test]
fn an_early_end_of_shard_0_is_named_though_no_shard_is_missing() {
    let check = |stop: Stop, expected: Option<&str>| {
        let root = tempfile::tempdir().unwrap();
        let leader = Shard { stop, requests: 1, ..Shard::new(0, 2) };
        let folders = [leader.write(root.path()), Shard::new(1, 2).write(root.path())];
        let merged = merge(&folders, &root.path().join("run")).unwrap();
        assert_eq!(stopped_by_leader(&merged.run).as_deref(), expected, "{stop:?}");
    };
    let early = "shard 0 of 2 ended early (interrupted): 1 requests were sent, 2 were never sent";
    check(Stop::Interrupted, Some(early));
    check(Stop::Overloaded, None);
    check(Stop::Complete, None);
}

/// The leader was killed: it has a part of what the shards have.
#[test]
fn of_two_copies_of_a_shard_the_complete_one_is_merged() {
    let (root, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cut = |rank| Shard { requests: 1, has_ended: false, ..Shard::new(rank, 2) };
    let leader = [cut(0).write(root.path()), cut(1).write(root.path())];
    let complete = Shard::new(1, 2).write(own.path());
    for folders in [
        [leader[0].clone(), leader[1].clone(), complete.clone()],
        [complete.clone(), leader[1].clone(), leader[0].clone()],
    ] {
        let merged = merge(&folders, &root.path().join("run")).unwrap();
        let requests: Vec<u64> = merged.run.shards.iter().map(|shard| shard.requests).collect();
        assert_eq!((requests.as_slice(), merged.run.unfinished()), (&[2, 3][..], vec![0]));
        assert_eq!(merged.skipped, leader[1..]);
    }
    let broken = Shard { requests: 2, has_ended: false, ..Shard::new(1, 2) }.write(own.path());
    let why = merge(&[leader[1].clone(), broken], &root.path().join("other")).unwrap_err();
    assert!(why.to_string().contains("both are shard 1"), "{why}");
}

/// A damaged number of shards had `merge` name four thousand million missing ones.
#[test]
fn a_number_of_shards_that_no_run_has_is_refused_and_long_lists_are_short() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("run");
    let one = Shard::new(0, 4_000_000_000).write(root.path());
    let why = merge(&[one], &out).unwrap_err();
    assert!(why.to_string().contains("it is shard 0 of 4000000000"), "{why}");
    let info = Shard { planned: 3_000, ..Shard::new(0, 1_000) };
    let merged = merge(&[info.write(root.path())], &out).unwrap();
    let said = lacking(&merged.run);
    let begin = "999 of 1000 shards have no record: 1, 2, 3, 4, 5, 6, 7, 8 and 991 more;";
    assert!(said[0].starts_with(begin), "{said:?}");
}

/// A run of two requests named requests 3, 7 and 11 as missing.
#[test]
fn shards_without_a_request_are_not_missing() {
    let root = tempfile::tempdir().unwrap();
    // Four requests in all, which the first four of six shards send.
    let shard = |rank| Shard { planned: 1, requests: 1, ..Shard::new(rank, 6) };
    let folders: Vec<PathBuf> = (0..4).map(|rank| shard(rank).write(root.path())).collect();
    let merged = merge(&folders, &root.path().join("run")).unwrap();
    assert!(merged.run.is_whole(), "{:?}", lacking(&merged.run));
    assert_eq!((merged.end.stop, merged.end.never_sent), (Stop::Complete, 0));
    let merged = merge(&folders[..3], &root.path().join("run")).unwrap();
    assert_eq!(merged.run.missing(), [3]);
}

/// Without a leader the clocks of one machine are one, and others are compared by the wall clock.
#[test]
fn clocks_that_nobody_measured_are_those_of_the_machine_or_the_wall() {
    let root = tempfile::tempdir().unwrap();
    let clock = Some("boot-1".to_owned());
    let folders = [
        Shard { clock: clock.clone(), ..Shard::new(0, 3) }.write(root.path()),
        Shard { clock, ahead: 0, ..Shard::new(1, 3) }.write(root.path()),
        Shard::new(2, 3).write(root.path()),
    ];
    let out = root.path().join("run");
    let merged = merge(&folders, &out).unwrap();
    let known: Vec<bool> = merged.run.shards.iter().map(|shard| shard.clock.is_some()).collect();
    assert_eq!(known, [true, true, false]);
    assert_eq!(merged.run.clock_bound(), None);
    let rows: Vec<Timeline> = RunReader::open(&out).unwrap().timelines().unwrap().collect();
    let of_wall = rows.iter().find(|row| row.identity.index == 2).unwrap();
    // Two nanoseconds later by the wall clock than on the clock of the first shard.
    let expected = Nanos::from_secs(101) + Nanos::from_millis(2) + Nanos(2);
    assert_eq!(of_wall.times.admitted, expected);
}

#[test]
fn folders_that_do_not_belong_together_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("run");
    let one = Shard::new(0, 2).write(root.path());
    let refused = |folders: &[PathBuf]| merge(folders, &out).unwrap_err().to_string();
    assert!(refused(&[]).contains("no shard was given"));
    assert!(refused(&[one.clone(), one.clone()]).contains("both are shard 0"));
    let other = Shard::new(1, 3).write(root.path());
    assert!(refused(&[one.clone(), other]).contains("different runs"));
    let whole = root.path().join("whole");
    let info = RunInfo { sharding: None, ..Shard::new(0, 2).info() };
    drop(RunWriter::create(&whole, &info).unwrap());
    let why = refused(&[one, whole]);
    assert!(why.contains("whole: it is not the record of a shard"), "{why}");
    assert!(!out.exists(), "a refused merge writes nothing");
}

/// A merge removed the earlier run before it had read the shards: with one of them damaged, both were gone.
#[test]
fn a_merge_that_fails_leaves_the_earlier_run() {
    let root = tempfile::tempdir().unwrap();
    let folders = [Shard::new(0, 2).write(root.path()), Shard::new(1, 2).write(root.path())];
    let out = root.path().join("run");
    drop(merge(&folders, &out).unwrap());
    std::fs::write(out.join(record::folder::names::SUMMARY), "{}").unwrap();
    let listed = || {
        let entries = std::fs::read_dir(&out).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = listed();
    std::fs::remove_file(folders[1].join(record::folder::names::REQUESTS)).unwrap();
    let why = merge(&folders, &out).unwrap_err();
    assert!(matches!(why, MergeError::Unread(_)), "{why:?}");
    assert_eq!(listed(), before);
    assert_eq!(RunReader::open(&out).unwrap().timelines().unwrap().count(), 6);
    // A merge that succeeds replaces it: what it says of the earlier figures is gone with it.
    drop(merge(&folders[..1], &out).unwrap());
    assert_eq!(RunReader::open(&out).unwrap().timelines().unwrap().count(), 3);
    assert!(!out.join(record::folder::names::SUMMARY).exists());
}
