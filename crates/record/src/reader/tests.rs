//! Writing and reading back, for complete and killed runs.

mod damaged;

use std::io;

use super::*;
use crate::RunWriter;
use crate::Stop;
use crate::event::{Event, EventKind};
use crate::failure::{Failure, FailureKind, Outcome};
use crate::run::SCHEMA_VERSION;
use crate::timeline::{
    AttemptId, ContentBytes, MergeWaits, Phase, RequestedLengths, TcpStats, Usage,
};
use crate::{Health, RecordedClass, RecordedStage, StampSource};
use proptest::prelude::*;
use tokometer_base::Nanos;

fn info() -> RunInfo {
    let text = include_str!("../../../../fixtures/run/info.json");
    RunInfo { origin: Nanos(1_000), ..serde_json::from_str(text).unwrap() }
}

/// On a full disk a start that failed left the space that it had reserved for its end.
#[test]
fn a_writer_that_cannot_begin_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    std::fs::create_dir_all(run.join(names::STARTS)).unwrap();
    std::fs::write(run.join("notes.txt"), "mine").unwrap();
    assert!(RunWriter::create(&run, &info()).is_err());
    let left = std::fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, ["notes.txt", names::STARTS]);
}

/// The plan on disk got the other origin, and every time of the record was then wrong.
#[test]
fn a_plan_that_is_replaced_keeps_the_origin_of_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(folder.path(), &info()).unwrap();
    let other = RunInfo { origin: Nanos(7), name: "renamed".to_owned(), ..info() };
    writer.amend(other).unwrap();
    writer.finish(&end()).unwrap();
    let read = RunReader::open(folder.path()).unwrap();
    assert_eq!((read.info().origin, read.info().name.as_str()), (Nanos(1_000), "renamed"));
}

/// The addresses and the proxy of a target, and the name of a stage, were shown as the folder had them.
#[test]
fn every_text_of_a_foreign_folder_is_fit_for_a_terminal() {
    let odd = || "a\u{1b}[2Jb".to_owned();
    let mut info = info();
    let target = &mut info.targets[0];
    (target.server, target.proxy, target.addresses) = (Some(odd()), Some(odd()), vec![odd()]);
    (target.base_url, target.endpoint, target.model) = (odd(), odd(), odd());
    info.load.stages = vec![RecordedStage { text: odd(), ..RecordedStage::default() }];
    info.classes =
        vec![RecordedClass { name: odd(), weight: 1.0, objectives: [(odd(), 1.0)].into() }];
    info.name = odd();
    let shown = info.printable();
    let text =
        serde_json::to_string(&(&shown.targets, &shown.load, &shown.name, &shown.classes)).unwrap();
    assert!(!text.contains("\\u001b"), "{text}");
}

/// Opening it waited for a writer that would never come.
#[test]
fn a_pipe_instead_of_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in [names::REQUESTS, names::END, names::PLAN] {
        let run = folder.path().join(name);
        RunWriter::create(&run, &info()).unwrap().finish(&end()).unwrap();
        std::fs::remove_file(run.join(name)).unwrap();
        nix::unistd::mkfifo(&run.join(name), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let read = RunReader::open(&run).and_then(|reader| Ok(reader.timelines()?.count()));
        match name {
            names::REQUESTS => {
                let why = read.unwrap_err().to_string();
                assert!(why.ends_with("requests.arrows: it is not a regular file"), "{why}");
            }
            // Without its end it is a run that was killed.
            names::END => assert_eq!(read.unwrap(), 0),
            _ => assert!(matches!(read, Err(Error::NotARun { .. })), "{read:?}"),
        }
    }
}

fn end() -> RunEnd {
    RunEnd {
        stop: Stop::Complete,
        measure_begin: Nanos(1_000),
        measure_end: Nanos(2_000),
        abandoned: 0,
        never_sent: 0,
        health: Health::default(),
    }
}

fn timeline(index: u64) -> Timeline {
    let identity =
        AttemptId { class: Some("gold".into()), ..AttemptId::new(index, Phase::Measure) };
    let asked = RequestedLengths {
        prompt_tokens: Some(10),
        output_tokens: None,
        body_bytes: 77,
        items: None,
        audio: None,
        prompt_hash: None,
        prompt_script: None,
        session_recorded: None,
        possible_cached_tokens: None,
    };
    let mut timeline = Timeline::new(identity, asked, Nanos(5_000));
    timeline.times.lost_send = Some(Nanos(5_500));
    timeline.times.first_byte_sent = Some(Nanos(6_000));
    timeline.times.end = Some(Nanos(90_000));
    timeline.stamp_source = StampSource::Kernel;
    timeline.usage = Some(Usage { completion_tokens: Some(3), ..Usage::default() });
    timeline.content_bytes = Some(ContentBytes { first: 6, all: 11, reasoning: Some(4) });
    timeline.network = Some(TcpStats { round_trip: Nanos(7), retransmits: 1, segments_in: 4 });
    timeline.merge_waits = MergeWaits { first: None, last: Some(Nanos(900)) };
    timeline.outcome = Outcome::Success;
    timeline.push(Event::new(Nanos(7_000), 0, EventKind::Text).with_tokens(Some(1)));
    timeline.push(Event::new(Nanos(8_000), 1, EventKind::Text).with_upper_bound(true));
    timeline
}

/// A resumed point that was killed reported the end of the run before it.
#[test]
fn nothing_of_an_earlier_run_stays_beside_a_new_one() {
    let (folder, writer) = written(1);
    let _ = writer.finish(&end()).unwrap();
    for name in [names::SERVER, names::SUMMARY, "end.json.part", "notes.txt"] {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    let mut writer = RunWriter::create(folder.path(), &info()).unwrap();
    writer.start(0, 0, Nanos(6_000));
    writer.flush().unwrap();
    let mut left: Vec<_> =
        fs::read_dir(writer.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["end.json.part", "notes.txt", names::PLAN, names::REQUESTS, names::STARTS]);
    let state = RunReader::open(folder.path()).unwrap().state().unwrap();
    assert_eq!(state, RunState::Killed { in_flight: 1, retrying: 0 });
}

/// `--overwrite` removed the earlier run before the new one had reached its server.
#[test]
fn a_run_that_sends_nothing_does_not_cost_the_earlier_one() {
    let (folder, writer) = written(2);
    let _ = writer.finish(&end()).unwrap();
    let listed = || fs::read_dir(folder.path()).unwrap().count();
    let before = listed();
    let other = folder.path().join("001-other");
    fs::create_dir(&other).unwrap();
    let removed = other.clone();
    let remove: crate::RemoveEarlier = std::sync::Arc::new(move || {
        fs::remove_dir(&removed).map_err(file_error("remove", &removed))
    });
    let begin = || {
        let mut writer = RunWriter::create(folder.path(), &info()).unwrap();
        writer.remove_later(std::sync::Arc::clone(&remove));
        // A warm-up is no reason yet: all of them may fail.
        writer
            .push(Timeline { identity: AttemptId::new(0, Phase::Warmup), ..timeline(0) })
            .unwrap();
        writer.flush().unwrap();
        writer
    };
    drop(begin());
    let reader = RunReader::open(folder.path()).unwrap();
    assert_eq!((indexes(&reader), listed()), (vec![0, 1], before + 1));
    assert!(reader.state().unwrap().end().is_some() && other.exists());
    let mut writer = begin();
    writer.start(7, 0, Nanos(6_000));
    writer.push(timeline(7)).unwrap();
    writer.flush().unwrap();
    assert_eq!(indexes(&RunReader::open(folder.path()).unwrap()), [0, 7]);
    assert!(!other.exists());
    writer.finish(&end()).unwrap();
    assert_eq!((indexes(&RunReader::open(folder.path()).unwrap()), listed()), (vec![0, 7], before));
}

/// The run went on in a file that had no name any more: 74 of its 400 requests were left.
#[test]
fn a_run_in_progress_is_not_repaired() {
    let (folder, mut writer) = written(2);
    writer.flush().unwrap();
    let reader = RunReader::open(folder.path()).unwrap();
    let refused = reader.repair().unwrap_err();
    assert!(matches!(&refused, Error::InUse { path } if path == folder.path()), "{refused}");
    writer.push(timeline(2)).unwrap();
    writer.finish(&end()).unwrap();
    assert_eq!(indexes(&reader), [0, 1, 2]);
    assert_eq!(reader.repair().unwrap(), [""; 0]);
}

#[test]
fn a_run_whose_file_was_replaced_says_so_and_has_all_its_rows() {
    let (folder, mut writer) = written(2);
    writer.flush().unwrap();
    let (path, copy) = (folder.path().join(names::REQUESTS), folder.path().join("copy"));
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    writer.push(timeline(2)).unwrap();
    let why = writer.end(&end()).unwrap_err().to_string();
    assert!(why.ends_with("it was moved, removed or replaced while the run wrote it"), "{why}");
    let reader = writer.give_up(&PendingRows::default(), RunEnd { stop: Stop::DiskFull, ..end() });
    assert_eq!(indexes(&reader), [0, 1, 2]);
    let stored = RunReader::open(folder.path()).unwrap();
    let unwritten = stored.state().unwrap().end().map(|end| end.health.rows_unwritten);
    assert_eq!((indexes(&stored), unwritten), (vec![0, 1], Some(1)));
}

/// The repaired file was empty, which other readers take for no file of rows at all.
#[test]
fn a_record_that_is_cut_inside_its_first_batch_becomes_a_file_without_rows() {
    for kept in [0, 8, 100, 3_000] {
        let (folder, mut writer) = written(1);
        writer.start(0, 0, Nanos(6_000));
        writer.flush().unwrap();
        drop(writer);
        for name in [names::REQUESTS, names::STARTS] {
            let path = folder.path().join(name);
            let whole = fs::read(&path).unwrap();
            fs::write(&path, &whole[..kept.min(whole.len() * 6 / 10)]).unwrap();
        }
        let repaired = RunReader::open(folder.path()).unwrap().repair().unwrap();
        assert_eq!(repaired, [names::REQUESTS, names::STARTS]);
        for name in repaired {
            let file = File::open(folder.path().join(name)).unwrap();
            let table = arrow_ipc::reader::StreamReader::try_new(file, None).unwrap();
            assert!(table.schema().field_with_name("index").is_ok(), "{name}");
            let rows = table.map(|batch| batch.unwrap().num_rows()).sum::<usize>();
            assert_eq!(rows, 0, "{name} of {kept} bytes");
        }
    }
}

fn written(count: u64) -> (tempfile::TempDir, RunWriter) {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(folder.path(), &info()).unwrap();
    for index in 0..count {
        writer.start(index, 0, Nanos(6_000));
        writer.push(timeline(index)).unwrap();
        writer.flush().unwrap();
    }
    (folder, writer)
}

#[test]
fn a_finished_run_reads_back_as_it_was() {
    let (folder, writer) = written(3);
    writer.finish(&end()).unwrap();
    let reader = RunReader::open(folder.path()).unwrap();
    let timelines: Vec<_> = reader.timelines().unwrap().collect();
    assert_eq!(timelines, (0..3).map(timeline).collect::<Vec<_>>());
    assert_eq!(reader.state().unwrap(), RunState::Ended(Box::new(end())));
    assert!(reader.repair().unwrap().is_empty());
}

/// Rows are divided among batches by their events, and an answer with more events than a batch is one.
#[test]
fn rows_of_several_batches_read_back_in_order() {
    let (folder, mut writer) = written(0);
    let row = |(index, events): (u64, u64)| {
        let mut row = timeline(index);
        let event = |at| Event::new(Nanos(10_000 + at), 2, EventKind::Text);
        row.events.extend((0..events).map(event));
        row
    };
    let ended: Vec<_> = (0..).zip([10, 40_000, 30_000, 20_000, 90_000, 0, 7]).map(row).collect();
    let rows = PendingRows { ended, ..PendingRows::default() };
    writer.write_rows(&rows).unwrap();
    writer.finish(&end()).unwrap();
    let path = folder.path().join(names::REQUESTS);
    let lengths: Vec<usize> =
        Batches::open(&path, &Damages::default()).unwrap().map(|batch| batch.num_rows()).collect();
    assert_eq!(lengths, [2, 2, 1, 2]);
    let reader = RunReader::open(folder.path()).unwrap();
    assert!(reader.timelines().unwrap().eq(rows.ended));
}

#[test]
fn a_killed_run_returns_its_rows_and_counts_requests_in_flight() {
    let (folder, mut writer) = written(2);
    writer.start(7, 0, Nanos(9_000));
    writer.flush().unwrap();
    drop(writer);
    let reader = RunReader::open(folder.path()).unwrap();
    assert_eq!(reader.timelines().unwrap().count(), 2);
    assert_eq!(reader.state().unwrap(), RunState::Killed { in_flight: 1, retrying: 0 });
}

/// Warm-ups and probes count their indexes from zero like measured requests, and a retry has the
/// index of the attempt before it: none of them may end a measured attempt that is in flight.
#[test]
fn a_killed_run_separates_its_attempts_from_warm_ups_probes_and_retries() {
    let (folder, mut writer) = written(1);
    for phase in [Phase::Warmup, Phase::Probe] {
        for index in 0..3 {
            let mut other = timeline(index);
            other.identity.phase = phase;
            writer.push(other).unwrap();
        }
    }
    for (index, attempt) in [(1, 0), (2, 0), (2, 1)] {
        writer.start(index, attempt, Nanos(9_000));
    }
    writer.push(timeline(2)).unwrap();
    writer.flush().unwrap();
    drop(writer);
    let reader = RunReader::open(folder.path()).unwrap();
    assert_eq!(reader.state().unwrap(), RunState::Killed { in_flight: 2, retrying: 1 });
}

#[test]
fn a_record_truncated_anywhere_returns_its_complete_batches_and_can_be_repaired() {
    let (folder, writer) = written(3);
    drop(writer);
    let path = folder.path().join(names::REQUESTS);
    let whole = std::fs::read(&path).unwrap();
    for cut in (0..whole.len()).step_by(97) {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let reader = RunReader::open(folder.path()).unwrap();
        let before: Vec<_> = reader.timelines().unwrap().collect();
        assert!(before.len() < 3);
        assert!(before.iter().enumerate().all(|(at, row)| *row == timeline(at as u64)));
        reader.repair().unwrap();
        assert_eq!(reader.timelines().unwrap().count(), before.len());
        assert!(Batches::open(&path, &Damages::default()).unwrap().is_whole());
    }
}

#[test]
fn counts_found_after_the_run_are_added_to_the_rows() {
    let (folder, writer) = written(2);
    writer.finish(&end()).unwrap();
    let mut reader = RunReader::open(folder.path()).unwrap();
    reader.rewrite(|timeline| timeline.retokenized_tokens = Some(5)).unwrap();
    assert!(reader.timelines().unwrap().all(|timeline| timeline.retokenized_tokens == Some(5)));
}

/// A search for capacity kept 8 MB per point, nearly all of it the times of tokens.
#[test]
fn packed_events_read_as_before_from_a_smaller_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(folder.path(), &info()).unwrap();
    for index in 0..40 {
        let mut row = timeline(index);
        for token in 2..400_u32 {
            let at = Nanos(10_000 + u64::from(token) * 20_000_000 + (index * 977_777) % 300_000);
            row.push(Event::new(at, token, EventKind::Text).with_tokens(Some(1)));
        }
        writer.push(row).unwrap();
        writer.flush().unwrap();
    }
    writer.finish(&end()).unwrap();
    let size = || fs::metadata(folder.path().join(names::REQUESTS)).unwrap().len();
    let rows = || -> Vec<Timeline> {
        RunReader::open(folder.path()).unwrap().timelines().unwrap().collect()
    };
    let (before, rows_before) = (size(), rows());
    RunReader::open(folder.path()).unwrap().pack_events().unwrap();
    assert!(rows() == rows_before, "packing changed a timeline");
    assert!(size() * 5 < before, "{} of {before} bytes", size());
    let mut reader = RunReader::open(folder.path()).unwrap();
    assert_eq!(reader.info().schema, crate::run::PACKED_SCHEMA, "older programs must refuse it");
    assert_eq!(reader.info().plan, info().plan);
    assert!(reader.repair().unwrap().is_empty());
    // Twice is once, and what changes rows later still works.
    reader.pack_events().unwrap();
    reader.rewrite(|row| row.retokenized_tokens = Some(5)).unwrap();
    assert!(rows().iter().all(|row| row.retokenized_tokens == Some(5) && row.events.len() == 400));
}

#[test]
fn a_damaged_or_unfinished_record_is_not_packed() {
    let (folder, writer) = written(3);
    let path = folder.path().join(names::REQUESTS);
    drop(writer);
    let unfinished = fs::read(&path).unwrap();
    RunReader::open(folder.path()).unwrap().pack_events().unwrap();
    assert_eq!(fs::read(&path).unwrap(), unfinished);

    let (folder, writer) = written(3);
    writer.finish(&end()).unwrap();
    let path = folder.path().join(names::REQUESTS);
    let whole = fs::read(&path).unwrap();
    let cut = &whole[..whole.len() - 40];
    fs::write(&path, cut).unwrap();
    assert!(RunReader::open(folder.path()).unwrap().pack_events().is_err());
    assert_eq!(fs::read(&path).unwrap(), cut);
    assert!(!folder.path().join("requests.arrows.part").exists());
    assert_eq!(RunReader::open(folder.path()).unwrap().info().schema, SCHEMA_VERSION);
}

#[test]
fn a_folder_without_a_run_is_refused_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let message = RunReader::open(folder.path()).unwrap_err().to_string();
    assert!(message.contains("it has no plan.json"), "{message}");
    let newer = RunInfo { schema: NEWEST_SCHEMA + 1, ..info() };
    let _writer = RunWriter::create(folder.path(), &newer).unwrap();
    assert!(matches!(RunReader::open(folder.path()), Err(Error::Newer { .. })));
}

/// The page is read by people who open the file with another tool.
#[test]
fn every_column_is_documented() {
    let page = include_str!("../../../../docs/results.md");
    let forms = [columns::EventColumns::Plain, columns::EventColumns::Packed];
    let schemas =
        forms.map(|form| columns::encode_as(form, &[timeline(0)], Nanos(0)).unwrap().schema());
    let missing: Vec<_> = schemas
        .iter()
        .flat_map(|schema| schema.fields())
        .filter(|field| !page.contains(&format!("`{}`", field.name())))
        .collect();
    assert!(missing.is_empty(), "docs/results.md does not name {missing:?}");
}

proptest! {
    #[test]
    fn any_failure_and_any_events_round_trip_through_the_disk(
        kind in 0_usize..11,
        message in ".{0,40}",
        events in prop::collection::vec((0_u64..1_000_000, 0_u8..9, prop::option::of(0_u32..600)), 0..20),
    ) {
        let mut row = timeline(1);
        row.times.first_byte_sent = None;
        row.outcome = Outcome::Failed(Failure::new(FailureKind::WORDS[kind].0, message));
        row.events.clear();
        for (read, (delay, kind, tokens)) in (0..).zip(events) {
            let kind = EventKind::from_number(kind);
            row.push(Event::new(Nanos(5_000 + delay), read, kind).with_tokens(tokens));
        }
        let batch = columns::encode(std::slice::from_ref(&row), Nanos(1_000)).unwrap();
        let rows = columns::decode(&batch, Nanos(1_000)).map(Iterator::collect);
        prop_assert_eq!(rows, Ok(vec![row.clone()]));
        let form = columns::EventColumns::Packed;
        let batch = columns::encode_as(form, std::slice::from_ref(&row), Nanos(1_000)).unwrap();
        let rows = columns::decode(&batch, Nanos(1_000)).map(Iterator::collect);
        prop_assert_eq!(rows, Ok(vec![row]));
    }
}

fn indexes(reader: &RunReader) -> Vec<u64> {
    reader.timelines().unwrap().map(|row| row.identity.index).collect()
}

/// Rows in the deleted files, rows of the writer and rows that never reached it are all read, also by
/// two readers in turn.
#[test]
fn a_record_that_is_given_up_returns_every_row_from_deleted_files() {
    let (folder, mut writer) = written(2);
    writer.flush().unwrap();
    fs::remove_dir_all(folder.path()).unwrap();
    writer.push(timeline(2)).unwrap();
    let mut stopped = end();
    stopped.stop = Stop::DiskFull;
    assert!(writer.end(&stopped).is_err());
    let unwritten = PendingRows { ended: vec![timeline(3)], ..PendingRows::default() };
    let mut reader = writer.give_up(&unwritten, stopped.clone());
    assert_eq!(indexes(&reader), [0, 1, 2, 3]);
    let (first, second) = (reader.timelines().unwrap(), reader.timelines().unwrap());
    assert!(first.zip(second).all(|(first, second)| first == second));
    stopped.health.rows_unwritten = 4;
    assert_eq!(reader.state().unwrap(), RunState::Ended(Box::new(stopped)));
    reader.rewrite(|row| row.retokenized_tokens = Some(5)).unwrap();
    assert!(reader.timelines().unwrap().all(|row| row.retokenized_tokens == Some(5)));
    assert_eq!(indexes(&reader), [0, 1, 2, 3]);
}

/// The disk may write rows after the recorder has stopped waiting for it.
#[test]
fn rows_of_a_disk_that_still_writes_are_read_once() {
    let (folder, mut writer) = written(3);
    writer.flush().unwrap();
    let ended = vec![timeline(2), timeline(3)];
    let unwritten = PendingRows { ended, ..PendingRows::default() };
    let reader = RunReader::with_unwritten(folder.path(), &info(), unwritten, &end());
    writer.push(timeline(3)).unwrap();
    writer.flush().unwrap();
    assert_eq!(indexes(&reader), [0, 1, 2, 3]);
}

#[test]
fn a_full_disk_is_named_as_the_reason() {
    let reason = |kind: io::ErrorKind| file_error("write", Path::new("r"))(kind.into()).reason();
    assert!(reason(io::ErrorKind::StorageFull).starts_with("disk full: cannot write r"));
    assert!(reason(io::ErrorKind::NotFound).starts_with("cannot write r"));
}

/// Garbage in the scrapes was dropped silently; a line that a killed writer has cut is no damage.
#[test]
fn lines_that_are_no_scrapes_are_a_damage() {
    let folder = tempfile::tempdir().unwrap();
    let writer = RunWriter::create(folder.path(), &info()).unwrap();
    writer.finish(&end()).unwrap();
    let scrape = Scrape {
        at: Nanos(1_000),
        endpoint: 0,
        values: std::collections::BTreeMap::new(),
        error: None,
    };
    let good = serde_json::to_string(&scrape).unwrap();
    let check = |content: String, damages: &[&str]| {
        std::fs::write(folder.path().join(names::SERVER), content).unwrap();
        let reader = RunReader::open(folder.path()).unwrap();
        assert_eq!(reader.scrapes().unwrap().len(), 2);
        let found: Vec<String> = reader.take_damages().iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), damages.len(), "{found:?}");
        assert!(found.iter().zip(damages).all(|(one, part)| one.ends_with(part)), "{found:?}");
    };
    check(format!("{good}\n{good}\n"), &[]);
    check(format!("{good}\n{good}\n{{\"at\":"), &[]);
    let damage = "server.jsonl: 2 of its 4 lines are not scrapes";
    check(format!("{good}\n garbage\n{good}\nmore\n"), &[damage]);
}
