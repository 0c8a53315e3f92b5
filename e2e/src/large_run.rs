//! Run folders of any size, written without a server: for tests and measurements of what reads records.
//!
//! The engine is a clock of steps: every stream gets one token per step, and the load keeps about
//! `IN_FLIGHT` streams active. A few requests connect first, fail, or are retried. Everything is
//! drawn from one seed, so that the same size always gives the same rows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;

use tokometer_base::seed::{exponential, unit_float, whole_between};
use tokometer_base::{Nanos, Seed};
use tokometer_record::server::Scrape;
use tokometer_record::{
    AttemptId, Error, Event, EventKind, Failure, FailureKind, Health, Outcome, Phase,
    RequestedLengths, RunEnd, RunInfo, RunWriter, StampSource, Stop, TcpStats, Timeline, Usage,
};

/// Mean number of requests in flight.
const IN_FLIGHT: u64 = 256;
/// Duration of an engine step.
const STEP: Nanos = Nanos::from_millis(10);
/// How often rows are flushed and the server is scraped.
const FLUSH: Nanos = Nanos::from_secs(1);
/// Pause before a retry.
const RETRY_PAUSE: Nanos = Nanos::from_millis(200);

const FAILED_SHARE: f64 = 0.005;
const CONNECTING_SHARE: f64 = 0.02;

#[derive(Debug, Clone, Copy)]
pub struct RunSize {
    /// Requests, without retries.
    pub requests: u64,
    /// Mean number of tokens of a response; they vary from half to one and a half times as many.
    pub tokens: u64,
}

pub fn write(folder: &Path, size: RunSize) -> Result<(), Error> {
    let info = info(size);
    let mut writer = Writer {
        writer: RunWriter::create(folder, &info)?,
        ends: BinaryHeap::new(),
        active: BTreeMap::new(),
        flushed: info.origin,
    };
    let stream = Seed(1).stream("large-run");
    let gap = STEP.as_secs_f64() * size.tokens as f64 / IN_FLIGHT as f64;
    let mut due = info.origin;
    for index in 0..size.requests {
        let mut draws = stream.at(index);
        due += Nanos::from_secs_f64(gap * exponential(&mut draws));
        writer.advance(due)?;
        let lengths = RequestedLengths {
            prompt_tokens: Some(number(whole_between(&mut draws, 64, 512))),
            output_tokens: Some(number(whole_between(
                &mut draws,
                (size.tokens / 2).max(1),
                size.tokens * 3 / 2,
            ))),
            body_bytes: 2_048,
            items: None,
            audio: None,
            prompt_hash: None,
            prompt_script: None,
            session_recorded: None,
            possible_cached_tokens: None,
        };
        let has_failed = unit_float(&mut draws) < FAILED_SHARE;
        let is_connecting = unit_float(&mut draws) < CONNECTING_SHARE;
        let mut timeline = admitted(index, lengths, due);
        if is_connecting {
            connect(&mut timeline);
        }
        if !has_failed {
            answer(&mut timeline, Nanos(whole_between(&mut draws, 1_000, 400_000)));
            writer.add(timeline);
            continue;
        }
        fail(&mut timeline);
        let ended = timeline.times.end.unwrap_or(due);
        writer.add(timeline);
        if unit_float(&mut draws) < 0.5 {
            let mut again = admitted(index, lengths, ended + RETRY_PAUSE);
            again.identity.attempt = 1;
            again.times.intended = Some(due);
            answer(&mut again, Nanos(1_000));
            writer.add(again);
        }
    }
    writer.finish(&info)
}

fn info(size: RunSize) -> RunInfo {
    let mut info: RunInfo =
        serde_json::from_str(include_str!("../../fixtures/run/info.json")).unwrap();
    info.name = format!("{} requests of {} tokens", size.requests, size.tokens);
    info.origin = Nanos::from_secs(1_000);
    info.load.planned_requests = Some(size.requests);
    info.load.max_concurrency = None;
    info.load.request_rate = Some(IN_FLIGHT as f64 / (STEP.as_secs_f64() * size.tokens as f64));
    info
}

fn number(value: u64) -> u32 {
    u32::try_from(value).unwrap()
}

fn admitted(index: u64, lengths: RequestedLengths, due: Nanos) -> Timeline {
    let identity = AttemptId::new(index, Phase::Measure);
    let mut timeline = Timeline::new(identity, lengths, due + Nanos::from_micros(20));
    timeline.times.intended = Some(due);
    timeline.times.first_byte_sent = Some(due + Nanos::from_micros(60));
    timeline.times.last_byte_sent = Some(due + Nanos::from_micros(75));
    timeline.connection.id = index % IN_FLIGHT;
    timeline.connection.age = Some(due);
    timeline.connection.address = Some(0);
    timeline.stamp_source = StampSource::Kernel;
    timeline
}

fn connect(timeline: &mut Timeline) {
    let times = &mut timeline.times;
    times.connect_begin = Some(times.admitted + Nanos::from_micros(10));
    times.connect_end = Some(times.admitted + Nanos::from_micros(150));
    times.first_byte_sent = Some(times.admitted + Nanos::from_micros(160));
    times.last_byte_sent = Some(times.admitted + Nanos::from_micros(175));
    timeline.connection.age = None;
}

/// Tokens at the engine's steps, each `delay` later: the streams are written one after the other.
fn answer(timeline: &mut Timeline, delay: Nanos) {
    let tokens = timeline.requested.output_tokens.unwrap_or(1);
    let first = timeline.times.first_byte_sent.unwrap_or(timeline.times.admitted).0 / STEP.0 + 2;
    for (number, step) in (0..tokens).zip(first..) {
        // Steps last 9 to 11 ms.
        let jitter = Seed(1).stream("step").draw(step) % (STEP.0 / 10);
        let at = Nanos(step * STEP.0 + jitter) + delay;
        timeline.push(Event::new(at, number, EventKind::Text).with_tokens(Some(1)));
    }
    let last = timeline.events.last().map_or(timeline.times.admitted, |event| event.at);
    let end = last + Nanos::from_micros(90);
    timeline.push(Event::new(end, tokens, EventKind::Usage));
    timeline.push(Event::new(end, tokens, EventKind::End));
    timeline.times.headers = timeline.events.first().map(|event| event.at);
    timeline.times.end = Some(end);
    timeline.reads = tokens + 1;
    timeline.usage = Some(Usage {
        prompt_tokens: timeline.requested.prompt_tokens,
        completion_tokens: Some(tokens),
        ..Usage::default()
    });
    timeline.network = Some(TcpStats {
        round_trip: Nanos::from_micros(40) + delay,
        retransmits: 0,
        segments_in: tokens + 1,
    });
    timeline.status = Some(200);
    timeline.outcome = Outcome::Success;
}

fn fail(timeline: &mut Timeline) {
    let end = timeline.times.admitted + Nanos::from_millis(3);
    (timeline.times.headers, timeline.times.end) = (Some(end), Some(end));
    timeline.status = Some(503);
    let failure = Failure::new(FailureKind::Status, "the engine is busy");
    timeline.outcome = Outcome::Failed(Failure { status: Some(503), ..failure });
}

/// Writes rows in the order of their ends.
struct Writer {
    writer: RunWriter,
    /// End, index and attempt of the rows in `active`.
    ends: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    active: BTreeMap<(u64, u32), Timeline>,
    flushed: Nanos,
}

impl Writer {
    fn add(&mut self, timeline: Timeline) {
        let (index, attempt) = (timeline.identity.index, timeline.identity.attempt);
        let sent = timeline.times.first_byte_sent.unwrap_or(timeline.times.admitted);
        self.writer.start(index, attempt, sent);
        self.ends.push(Reverse((timeline.times.end.unwrap_or(sent), index, attempt)));
        self.active.insert((index, attempt), timeline);
    }

    /// Writes what ended before `now`.
    fn advance(&mut self, now: Nanos) -> Result<(), Error> {
        while let Some(Reverse((end, index, attempt))) = self.ends.peek().copied() {
            if end >= now {
                break;
            }
            self.ends.pop();
            if let Some(timeline) = self.active.remove(&(index, attempt)) {
                self.writer.push(timeline)?;
            }
            if end - self.flushed > FLUSH {
                self.flushed = end;
                self.scrape(end)?;
                self.writer.flush()?;
            }
        }
        Ok(())
    }

    fn scrape(&mut self, at: Nanos) -> Result<(), Error> {
        let active = self.active.len() as f64;
        let values = [
            ("vllm:num_requests_running".to_owned(), active),
            ("vllm:num_requests_waiting".to_owned(), 0.0),
            ("vllm:kv_cache_usage_perc".to_owned(), active / 1_024.0),
        ];
        self.writer.scrape(&Scrape { at, endpoint: 0, values: values.into(), error: None })
    }

    fn finish(mut self, info: &RunInfo) -> Result<(), Error> {
        let last = self.ends.iter().map(|Reverse((end, _, _))| *end).max();
        let last = last.unwrap_or(info.origin).max(self.flushed);
        self.advance(Nanos::MAX)?;
        let end = RunEnd {
            stop: Stop::Complete,
            measure_begin: info.origin,
            measure_end: last,
            abandoned: 0,
            never_sent: 0,
            health: Health::default(),
        };
        self.writer.finish(&end).map(drop)
    }
}
