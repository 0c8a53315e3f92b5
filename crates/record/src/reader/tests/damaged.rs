//! Damaged records: everything undamaged is read, and an error names the file. `crates/report/tests/damaged_runs.rs`
//! damages all files at random.

use std::fs;
use std::path::Path;

use crate::folder::names;
use crate::server::Scrape;
use crate::{
    AttemptId, Error, Event, EventKind, Health, Outcome, Phase, RequestedLengths, RunEnd, RunInfo,
    RunReader, RunWriter, Stop, Timeline, Usage,
};
use tokometer_base::Nanos;

fn timeline(index: u64, origin: Nanos) -> Timeline {
    let at = |ms: u64| origin + Nanos::from_millis(ms + 10 * index);
    let asked = RequestedLengths {
        prompt_tokens: Some(10),
        output_tokens: Some(4),
        body_bytes: 77,
        items: None,
        audio: None,
        prompt_hash: None,
        prompt_script: None,
        session_recorded: None,
        possible_cached_tokens: None,
    };
    let mut timeline = Timeline::new(AttemptId::new(index, Phase::Measure), asked, at(1));
    timeline.times.first_byte_sent = Some(at(2));
    timeline.times.end = Some(at(9));
    timeline.usage = Some(Usage { completion_tokens: Some(4), ..Usage::default() });
    timeline.outcome = Outcome::Success;
    timeline.text = Some("four words of text".to_owned());
    for ms in 4..8 {
        timeline.push(Event::new(at(ms), 0, EventKind::Text).with_tokens(Some(1)));
    }
    timeline
}

fn write(folder: &Path) {
    let text = include_str!("../../../../../fixtures/run/info.json");
    let info: RunInfo = serde_json::from_str(text).unwrap();
    let mut writer = RunWriter::create(folder, &info).unwrap();
    for index in 0..12 {
        writer.start(index, 0, info.origin + Nanos::from_millis(1));
        writer.push(timeline(index, info.origin)).unwrap();
        if index % 3 == 2 {
            writer.flush().unwrap();
        }
    }
    let values = [("vllm:num_requests_running".to_owned(), 3.0)].into();
    let scrape = Scrape { at: info.origin + Nanos(5), endpoint: 0, values, error: None };
    writer.scrape(&scrape).unwrap();
    let end = RunEnd {
        stop: Stop::Complete,
        measure_begin: info.origin,
        measure_end: info.origin + Nanos::from_secs(1),
        abandoned: 0,
        never_sent: 0,
        health: Health::default(),
    };
    let _ = writer.finish(&end).unwrap();
}

/// Reads every file of the folder. Returns the rows read and the damage found.
fn read(folder: &Path) -> Result<(u64, Vec<Error>), Error> {
    let reader = RunReader::open(folder)?;
    let rows = reader.timelines()?.count() as u64;
    let _scrapes = reader.scrapes()?;
    let _state = reader.state()?;
    Ok((rows, reader.take_damages()))
}

#[test]
fn a_damaged_batch_is_named_and_the_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let path = folder.path().join(names::REQUESTS);
    let mut bytes = fs::read(&path).unwrap();
    // Makes the text of the fifth row invalid UTF-8.
    let text = b"four words of text";
    let at = bytes.windows(text.len()).enumerate().filter(|(_, window)| *window == text);
    let at = at.map(|(at, _)| at).nth(4).unwrap();
    bytes[at] = 0xff;
    fs::write(&path, bytes).unwrap();
    let (rows, damages) = read(folder.path()).unwrap();
    assert_eq!(rows, 9);
    let [damage] = &damages[..] else { panic!("{damages:?}") };
    let text = damage.to_string();
    assert!(text.contains("batch 1 of") && text.contains(names::REQUESTS), "{text}");
}

/// The offset of each message of a stream, found by the mark that it begins with.
fn messages(bytes: &[u8]) -> Vec<usize> {
    let is_begin = |at: &usize| bytes[*at..].starts_with(&[0xff; 4]);
    (0..bytes.len()).step_by(8).filter(is_begin).collect()
}

/// A length that is damaged ended the reading: all batches behind it were lost.
#[test]
fn batches_behind_a_damaged_length_are_read() {
    let check = |change: &dyn Fn(&mut Vec<u8>, usize), is_killed: bool| {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        let path = folder.path().join(names::REQUESTS);
        let mut bytes = fs::read(&path).unwrap();
        if is_killed {
            bytes.truncate(bytes.len() - 8);
            fs::remove_file(folder.path().join(names::END)).unwrap();
        }
        // The first message is the schema.
        let second = messages(&bytes)[2];
        change(&mut bytes, second);
        fs::write(&path, bytes).unwrap();
        let (rows, damages) = read(folder.path()).unwrap();
        let [damage] = &damages[..] else { panic!("{damages:?}") };
        let text = damage.to_string();
        assert!(text.contains("batch 1 of") && text.contains(names::REQUESTS), "{text}");
        assert_eq!(rows, 9, "{text}");
    };
    for is_killed in [false, true] {
        check(&|bytes, at| bytes[at + 7] = 0x7f, is_killed);
        check(&|bytes, at| bytes[at + 4..at + 8].fill(0), is_killed);
        check(&|bytes, at| bytes[at] = 0, is_killed);
        check(&|bytes, at| drop(bytes.splice(at + 100..at + 100, [1, 2, 3])), is_killed);
        check(&|bytes, at| drop(bytes.drain(at + 100..at + 113)), is_killed);
    }
}

/// A cut record of a finished run was shown as a run with fewer requests, without a word.
#[test]
fn a_cut_file_is_damage_only_if_the_run_came_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let path = folder.path().join(names::REQUESTS);
    let whole = fs::read(&path).unwrap();
    let batch = messages(&whole)[2];
    for length in [whole.len() - 8, whole.len() - 9, batch, batch + 40, 20, 0] {
        fs::write(&path, &whole[..length]).unwrap();
        let (_, damages) = read(folder.path()).unwrap();
        let [damage] = &damages[..] else { panic!("{length}: {damages:?}") };
        let text = damage.to_string();
        assert!(text.contains(names::REQUESTS) && text.contains("was cut"), "{text}");
    }
    fs::remove_file(folder.path().join(names::END)).unwrap();
    assert_eq!(read(folder.path()).unwrap().1.len(), 0);
}

/// The decoder took the offsets of a column for whole numbers and panicked.
#[test]
fn offsets_of_an_odd_length_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let path = folder.path().join(names::REQUESTS);
    let whole = fs::read(&path).unwrap();
    let begin = messages(&whole)[1];
    let mut noticed = 0;
    // Lengths of buffers are among these bytes, whichever the layout of the head.
    for at in (begin + 8..begin + 4_000).step_by(8) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        noticed += read(folder.path()).map_or(1, |(_, damages)| damages.len());
    }
    assert!(noticed > 50, "{noticed}");
}
