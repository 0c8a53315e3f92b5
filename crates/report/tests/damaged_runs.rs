//! Damaged run folders through every command that shows a run.
//!
//! Each case changes some bytes of one file of a sound folder and then makes the summary, the printed
//! block, the JSON, the page, the exported files and a comparison of what is left. None of them may
//! panic, and memory stays within a bound whatever lengths and counts the damaged file declares. The
//! mutations come from a seed, so that a failing case can be repeated by its number.

#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::fs;
use std::path::{Path, PathBuf};

use tokometer_base::seed::{Generator, whole_between};
use tokometer_base::{Conventions, Nanos, Refusal, RefusalKind, Seed};
use tokometer_decide::compare::{Criteria, compared};
use tokometer_plan::{Judgement, Metrics};
use tokometer_record::folder::names;
use tokometer_record::server::Scrape;
use tokometer_record::{
    AttemptId, Event, EventKind, Failure, FailureKind, Health, Outcome, Phase, RequestedLengths,
    RunEnd, RunInfo, RunWriter, ServerTimings, Stop, TcpStats, Timeline, Usage,
};
use tokometer_report::export::{csv, markdown, parquet, trace};
use tokometer_report::html::PageContext;
use tokometer_report::reading::Reading;
use tokometer_report::saved::RunView;
use tokometer_report::{PageSource, Style, comparison, several};

const READING: Reading = Reading { read: |path| fs::read(path), show: |_| () };

/// Cases per kind of run.
const CASES: usize = 520;
/// One case in so many also makes every exported file.
const EXPORTED: usize = 20;
/// Peak memory of the test in KiB. The files have some 20 KB each; most of this is the program.
const MEMORY_KIB_MAX: u64 = 256 << 10;
const FILES: [&str; 5] = [names::REQUESTS, names::STARTS, names::PLAN, names::END, names::SERVER];

/// A number below `sides`.
fn roll(dice: &mut Generator, sides: usize) -> usize {
    let drawn = whole_between(dice, 0, sides.saturating_sub(1) as u64);
    usize::try_from(drawn).unwrap()
}

/// The kinds of run whose reports take different paths.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Vllm,
    SglangNative,
    Killed,
}

fn info(kind: Kind) -> RunInfo {
    let text = include_str!("../../../fixtures/run/info.json");
    let mut info: RunInfo = serde_json::from_str(text).unwrap();
    info.origin = Nanos::from_secs(1_000);
    info.load.planned_requests = Some(REQUESTS);
    match kind {
        Kind::Vllm => {}
        Kind::SglangNative => {
            info.family = Conventions::Sglang;
            "sglang".clone_into(&mut info.targets[0].backend);
        }
        Kind::Killed => {
            info.load.request_rate = None;
            info.load.max_concurrency = Some(4);
        }
    }
    info
}

const REQUESTS: u64 = 12;

fn timeline(index: u64, origin: Nanos) -> Timeline {
    let at = |ms: u64| origin + Nanos::from_millis(ms + 50 * index);
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
    timeline.times.intended = Some(at(1));
    timeline.times.connect_begin = Some(at(1));
    timeline.times.connect_end = Some(at(2));
    timeline.times.first_byte_sent = Some(at(2));
    timeline.times.last_byte_sent = Some(at(3));
    timeline.times.headers = Some(at(4));
    timeline.times.end = Some(at(90));
    timeline.usage = Some(Usage {
        prompt_tokens: Some(10),
        completion_tokens: Some(4),
        cached_tokens: Some(2),
        reasoning_tokens: None,
    });
    timeline.server_timings =
        Some(ServerTimings { queue: Some(Nanos(5_000)), prefill: None, decode: None });
    timeline.network = Some(TcpStats { round_trip: Nanos(40_000), retransmits: 0, segments_in: 5 });
    timeline.outcome = match index % 12 {
        11 => Outcome::Failed(Failure {
            kind: FailureKind::Protocol,
            status: None,
            message: "broken chunk".to_owned(),
        }),
        _ => Outcome::Success,
    };
    for (read, ms) in (0..).zip([40, 52, 64, 76]) {
        timeline.push(Event::new(at(ms), read, EventKind::Text).with_tokens(Some(1)));
    }
    timeline.push(Event::new(at(77), 4, EventKind::Usage));
    timeline
}

fn write(folder: &Path, kind: Kind) {
    let info = info(kind);
    let mut writer = RunWriter::create(folder, &info).unwrap();
    for index in 0..REQUESTS {
        writer.start(index, 0, info.origin + Nanos::from_millis(50 * index + 2));
        if !(matches!(kind, Kind::Killed) && index > 9) {
            writer.push(timeline(index, info.origin)).unwrap();
        }
        if index % 3 == 2 {
            writer.flush().unwrap();
        }
        let values = [
            ("vllm:num_requests_running".to_owned(), 3.0),
            ("vllm:generation_tokens_total".to_owned(), index as f64 * 4.0),
            ("vllm:kv_cache_usage_perc".to_owned(), 0.25),
            ("vllm:time_to_first_token_seconds_bucket{le=\"0.1\"}".to_owned(), index as f64),
            ("vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"}".to_owned(), index as f64),
            ("DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"}".to_owned(), 100.0),
        ];
        let at = info.origin + Nanos::from_millis(50 * index);
        let scrape = Scrape { at, endpoint: 0, values: values.into(), error: None };
        writer.scrape(&scrape).unwrap();
    }
    let end = RunEnd {
        stop: Stop::Complete,
        measure_begin: info.origin,
        measure_end: info.origin + Nanos::from_millis(50 * REQUESTS + 100),
        abandoned: 0,
        never_sent: 0,
        health: Health::default(),
    };
    let _ = writer.finish(&end).unwrap();
    if matches!(kind, Kind::Killed) {
        fs::remove_file(folder.join(names::END)).unwrap();
    }
}

/// Values that make a loop long, a sum overflow or an allocation large.
const EXTREMES: [u64; 8] = [
    u64::MAX,
    i64::MAX.unsigned_abs(),
    1 << 63,
    0x7fff_ffff,
    0xffff_ffff,
    1_000_000_000_000_000_000,
    2_600_000_000_000_000,
    0,
];
const NUMBERS: [&str; 12] = [
    "1e308",
    "-1e308",
    "1e400",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "0",
    "4294967295",
    "1000000000000000000",
    "NaN",
    "null",
    "[[[[{}]]]]",
];

fn mutate(bytes: &mut Vec<u8>, dice: &mut Generator) {
    if bytes.is_empty() {
        return bytes.extend_from_slice(b"x");
    }
    let at = roll(dice, bytes.len());
    match roll(dice, 9) {
        0 => bytes[at] ^= 1 << roll(dice, 8),
        1 => bytes.truncate(at),
        2 => drop(bytes.splice(at..at, b"0123456789abcdef".iter().copied().take(1 + at % 16))),
        3 => drop(bytes.splice(at..(at + 1 + roll(dice, 40)).min(bytes.len()), [])),
        4 => {
            let piece = bytes[at..(at + 1 + roll(dice, 400)).min(bytes.len())].to_vec();
            drop(bytes.splice(at..at, piece));
        }
        5 => bytes.iter_mut().skip(at).take(1 + roll(dice, 200)).for_each(|byte| *byte = 0xff),
        6 => {
            bytes
                .iter_mut()
                .skip(at)
                .take(64)
                .for_each(|byte| *byte = u8::try_from(roll(dice, 256)).unwrap());
        }
        7 => {
            let value = EXTREMES[roll(dice, EXTREMES.len())].to_le_bytes();
            let run = 8 * (1 + roll(dice, 6));
            let values = value.iter().cycle().take(run);
            bytes.iter_mut().skip(at & !7).zip(values).for_each(|(byte, value)| *byte = *value);
        }
        _ => replace_number(bytes, at, dice),
    }
}

/// Puts another number in the place of one of a text; leaves bytes without digits alone.
fn replace_number(bytes: &mut Vec<u8>, from: usize, dice: &mut Generator) {
    let Some(begin) = bytes.iter().skip(from).position(u8::is_ascii_digit) else { return };
    let begin = from + begin;
    let is_number = |byte: &u8| byte.is_ascii_digit() || b".eE+-".contains(byte);
    let length = bytes[begin..].iter().take_while(|byte| is_number(byte)).count();
    let number = NUMBERS[roll(dice, NUMBERS.len())];
    drop(bytes.splice(begin..begin + length, number.bytes()));
}

fn view() -> RunView {
    let metrics = Metrics {
        layout: "auto".to_owned(),
        sections: ["ttft", "tpot", "itl", "e2el"].map(str::to_owned).to_vec(),
        percentiles: vec![50.0, 99.0],
        goodput: [("ttft".to_owned(), 50.0)].into(),
        judgement: Judgement::Lenient,
        slo: None,
    };
    RunView::new(&metrics).unwrap()
}

/// A request that became due in the last of 31 days and had ended in the first second: the windows over
/// time had no place for it, which was a panic. The same times made ten seconds of work of one row.
#[test]
fn a_time_at_the_end_of_the_longest_run_has_a_window() {
    let scratch = tempfile::tempdir().unwrap();
    let info = info(Kind::Vllm);
    let mut writer = RunWriter::create(scratch.path(), &info).unwrap();
    let mut odd = timeline(0, info.origin);
    odd.times.intended = Some(info.origin + Nanos::from_secs(31 * 24 * 3_600));
    writer.push(odd).unwrap();
    let mut late = timeline(1, info.origin);
    late.push(Event::new(info.origin + Nanos::from_secs(31 * 24 * 3_600), 9, EventKind::Text));
    writer.push(late).unwrap();
    writer.flush().unwrap();
    show(scratch.path()).unwrap();
    assert!(peak_memory_kib() < MEMORY_KIB_MAX, "{} KiB", peak_memory_kib());
}

/// Everything that is shown of a run without writing a file.
fn show(folder: &Path) -> Result<(), Refusal> {
    let shown = READING.summarise(folder, &view())?;
    let text = shown.text(Style { is_detailed: true, ..Style::default() })?;
    assert!(text.contains("requests"), "{text}");
    assert!(shown.text(Style::default())?.contains(" ok"), "{text}");
    let json = shown.json();
    assert!(json.is_object());
    let _csv = shown.csv();
    let _findings = tokometer_doctor::examine(&[shown.report()?]);
    Ok(())
}

/// Everything that is made of a run as a file, and its comparison with itself.
fn export(folder: &Path, out: &Path) -> Result<(), Refusal> {
    let file = |name: &str| out.join(name);
    let sources = [folder.to_owned()];
    let given = PageSource::of(&sources, &[])?;
    let page = several::page(READING, &given, &view(), &PageContext::default())?.render();
    assert!(page.contains("</html>"), "a page is whole");
    markdown(READING, &sources, &view(), &file("run.md"))?;
    csv(READING, &given, &view(), &file("run.csv"))?;
    trace(folder, &file("run.trace"))?;
    parquet(READING, &given, &view(), &file("run.parquet"))?;
    let _comparison =
        comparison::of_sides(READING, &sources, &sources, Criteria::of(&compared([])))?;
    Ok(())
}

fn peak_memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// What is said of a folder that cannot be shown names its file.
fn check(outcome: Result<(), Refusal>, folder: &Path, case: &str) -> bool {
    let Err(refusal) = outcome else { return false };
    let text = refusal.to_string();
    assert_eq!(refusal.kind, RefusalKind::Usage, "{case}: {text}");
    let is_named = text.contains(&*folder.to_string_lossy()) || text.contains("two targets");
    assert!(is_named, "{case}: {text}");
    true
}

fn all_cases(kind: Kind) {
    let scratch = tempfile::tempdir().unwrap();
    let (folder, out): (PathBuf, PathBuf) =
        (scratch.path().join("run"), scratch.path().join("out"));
    fs::create_dir(&out).unwrap();
    write(&folder, kind);
    show(&folder).unwrap();
    export(&folder, &out).unwrap();
    let whole: Vec<(&str, Vec<u8>)> =
        FILES.iter().filter_map(|name| Some((*name, fs::read(folder.join(name)).ok()?))).collect();
    let mut dice = Seed(kind as u64).stream("damage").at(0);
    let mut refused = 0;
    for number in 0..CASES {
        let (name, sound) = &whole[if number % 2 == 0 { 0 } else { roll(&mut dice, whole.len()) }];
        let path = folder.join(name);
        let case = format!("{kind:?} {number} {name}");
        if roll(&mut dice, 40) == 0 {
            fs::remove_file(&path).unwrap();
        } else {
            let mut bytes = sound.clone();
            for _ in 0..=roll(&mut dice, 3) {
                mutate(&mut bytes, &mut dice);
            }
            fs::write(&path, bytes).unwrap();
        }
        refused += usize::from(check(show(&folder), &folder, &case));
        if number % EXPORTED == 0 {
            let _ = check(export(&folder, &out), &folder, &case);
        }
        fs::write(&path, sound).unwrap();
    }
    assert!(refused > CASES / 50, "{kind:?}: only {refused} cases could not be shown");
    assert!(peak_memory_kib() < MEMORY_KIB_MAX, "{kind:?}: {} KiB", peak_memory_kib());
}

#[test]
fn a_damaged_vllm_run_is_shown_as_far_as_it_is_whole() {
    all_cases(Kind::Vllm);
}

#[test]
fn a_damaged_sglang_run_is_shown_as_far_as_it_is_whole() {
    all_cases(Kind::SglangNative);
}

#[test]
fn a_damaged_killed_run_is_shown_as_far_as_it_is_whole() {
    all_cases(Kind::Killed);
}
