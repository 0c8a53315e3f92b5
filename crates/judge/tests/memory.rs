//! Memory that a summary takes per request, counted by the allocator of this test's own process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokometer_base::Nanos;
use tokometer_compat::family::lenses;
use tokometer_figures::{Collector, Details, Family, SummaryOptions};
use tokometer_judge::judge;
use tokometer_record::{
    AttemptId, Event, EventKind, Health, Outcome, Phase, RequestedLengths, RunEnd, RunInfo,
    RunState, Stop, Timeline, Usage,
};

/// The system's allocator, with the bytes in use now and at most.
struct Counting {
    used: AtomicUsize,
    peak: AtomicUsize,
}

impl Counting {
    fn take(&self, bytes: usize) {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(used, Ordering::Relaxed);
    }

    fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[expect(unsafe_code, reason = "an allocator is unsafe; this one hands every call to the system's")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.take(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.give(layout.size());
        unsafe { System.dealloc(block, layout) }
    }

    /// A long list grows in place: the system moves its pages and copies nothing.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.take(size);
        self.give(layout.size().min(size));
        self.give(layout.size() - layout.size().min(size));
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static MEMORY: Counting = Counting { used: AtomicUsize::new(0), peak: AtomicUsize::new(0) };

fn request(index: u64) -> Timeline {
    let at = |micros: u64| Nanos::from_micros(index * 500 + micros);
    let lengths = RequestedLengths { prompt_tokens: Some(64), ..RequestedLengths::default() };
    let mut timeline = Timeline::new(AttemptId::new(index, Phase::Measure), lengths, at(0));
    timeline.times.intended = Some(at(0));
    timeline.times.first_byte_sent = Some(at(10));
    timeline.times.last_byte_sent = Some(at(12));
    for read in 0..2 {
        let arrived = at(9_000 + u64::from(read) * 7_000 + index % 97);
        timeline.push(Event::new(arrived, read, EventKind::Text).with_tokens(Some(1)));
    }
    timeline.times.end = Some(at(17_000));
    timeline.usage = Some(Usage { completion_tokens: Some(2), ..Usage::default() });
    timeline.outcome = Outcome::Success;
    timeline
}

/// The most bytes in use while a run of this many requests is summarised.
fn peak(requests: u64) -> usize {
    let mut info: RunInfo = serde_json::from_str(include_str!("../../../fixtures/run/info.json"))
        .expect("the fixture is the plan of a run");
    info.load.planned_requests = Some(requests);
    let state = RunState::Ended(Box::new(RunEnd {
        stop: Stop::Complete,
        measure_begin: info.origin,
        measure_end: Nanos::from_micros(requests * 500 + 17_000),
        abandoned: 0,
        never_sent: 0,
        health: Health::default(),
    }));
    let before = MEMORY.used.load(Ordering::Relaxed);
    MEMORY.peak.store(before, Ordering::Relaxed);
    let lenses = lenses([Family::Vllm], Details::Drop);
    let options = SummaryOptions { lenses, ..SummaryOptions::default() };
    let mut collector = Collector::new(&info, options);
    for index in 0..requests {
        collector.push(&request(index));
    }
    let summary = judge(collector.finish(&state));
    assert_eq!(summary.counts.succeeded, requests);
    MEMORY.peak.load(Ordering::Relaxed) - before
}

/// A row of ours and one of the classic block take 136 bytes, two tokens and the stream of the inferred
/// steps 64. The lists of exact values have their full length in both runs. Other lists are full at powers
/// of two, so that their spare room does not count.
#[test]
fn a_request_takes_a_few_hundred_bytes() {
    const FEW: u64 = 1 << 13;
    const MANY: u64 = 1 << 14;
    let each = (peak(MANY) - peak(FEW)) / usize::try_from(MANY - FEW).unwrap();
    assert!(each <= 200, "{each} bytes per request");
}
