//! Damaged records: everything undamaged is read, an error names the file, and no read panics or uses
//! more memory than a multiple of the file's size.

use std::fs;
use std::path::Path;

use crate::folder::names;
use crate::server::Scrape;
use crate::{
    AttemptId, Error, Event, EventKind, Health, Outcome, Phase, RequestedLengths, RunEnd, RunInfo,
    RunReader, RunWriter, Stop, Timeline, Usage,
};
use tokometer_base::seed::{Generator, whole_between};
use tokometer_base::{Nanos, Seed};

const MUTATIONS: usize = 1_500;
/// Peak memory of the test process, most of it the program itself.
const MEMORY_KIB_MAX: u64 = 128 << 10;

/// A number below `sides`.
fn roll(dice: &mut Generator, sides: usize) -> usize {
    let drawn = whole_between(dice, 0, sides.saturating_sub(1) as u64);
    usize::try_from(drawn).unwrap()
}

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

fn mutate(bytes: &mut Vec<u8>, dice: &mut Generator) {
    let at = roll(dice, bytes.len());
    match roll(dice, 5) {
        0 => bytes[at] ^= 1 << roll(dice, 8),
        1 => bytes.truncate(at),
        2 => drop(bytes.splice(at..at, b"0123456789abcdef".iter().copied().take(1 + at % 16))),
        3 => bytes.iter_mut().skip(at).take(8).for_each(|byte| *byte = 0xff),
        _ => {
            let large = [0xff, 0xff, 0xff, 0x7f];
            bytes.iter_mut().skip(at & !3).zip(large).for_each(|(byte, large)| *byte = large);
        }
    }
}

fn peak_memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn no_damage_makes_a_reader_panic_or_takes_more_memory_than_the_file_can_need() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder);
    assert_eq!(read(folder).unwrap().0, 12);
    let files = [names::REQUESTS, names::STARTS, names::PLAN, names::END, names::SERVER];
    let whole = files.map(|name| fs::read(folder.join(name)).unwrap());
    let mut dice = Seed(7).stream("damage").at(0);
    let mut errors = 0;
    for number in 0..MUTATIONS {
        // Every second mutation is of a file of rows.
        let file = if number % 2 == 0 { number / 2 % 2 } else { roll(&mut dice, files.len()) };
        let mut bytes = whole[file].clone();
        for _ in 0..=roll(&mut dice, 3) {
            mutate(&mut bytes, &mut dice);
        }
        fs::write(folder.join(files[file]), bytes).unwrap();
        if files[file] == names::STARTS {
            // Only a killed run reads its starts.
            fs::remove_file(folder.join(names::END)).unwrap();
        }
        let found = match read(folder) {
            Ok((_, damages)) => damages,
            Err(error) => vec![error],
        };
        for error in &found {
            let text = error.to_string();
            assert!(text.contains(&*folder.to_string_lossy()), "{number}: {text}");
        }
        errors += usize::from(!found.is_empty());
        fs::write(folder.join(files[file]), &whole[file]).unwrap();
        fs::write(folder.join(names::END), &whole[3]).unwrap();
    }
    assert!(errors > 300, "only {errors} of the mutations were noticed");
    assert!(peak_memory_kib() < MEMORY_KIB_MAX, "{} KiB", peak_memory_kib());
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
