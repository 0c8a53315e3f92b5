//! One read: bytes, their stamp, and the events that they complete.
//!
//! The stamp comes first: the kernel's arrives with the bytes, and the user's clock is read right
//! after, before anything is parsed.

use std::io;

use tokometer_base::{Clock, Nanos};
use tokometer_client::conn::{ReadBuffer, StampClock, Wire};
use tokometer_client::{ReadStamp, ResponseProgress};
use tokometer_record::health::{ClockStep, DelayHistogram};
use tokometer_record::{Event, EventKind, StampSource, Timeline};

use super::connection::{ConnectionStage, OpenConnection};
use super::lookout::Lookout;
use crate::live::WorkerCounters;
use crate::reads::{self, Lane};

/// Stamps may be off by the error of the measured clock offset.
const TOLERANCE: Nanos = Nanos::from_micros(100);

pub(crate) struct LinkReader<C> {
    clock: C,
    buffer: ReadBuffer,
    pub(crate) stamps: StampClock,
    pub(crate) kernel_to_user: DelayHistogram,
    /// The user's clock after the last read, to avoid reading it again.
    pub(crate) now: Nanos,
    pub(crate) eager: Lookout,
    pub(crate) lazy: Lookout,
    /// When the last read's bytes arrived, if they were one event by themselves.
    single: Option<Nanos>,
    offset_at: Nanos,
    /// Steps of the wall clock in the measured phase.
    pub(crate) clock_steps: Vec<ClockStep>,
}

#[derive(Debug)]
pub(crate) enum ReadEnd {
    /// The socket is drained; the response continues.
    Drained,
    /// Another read may return bytes at once.
    More,
    Done {
        keep_alive: bool,
    },
    /// The response goes on, and its user waits no longer.
    GivenUp,
    /// Bytes arrived without a request.
    Unexpected,
    Closed,
    Broken(io::Error),
}

/// When a read's bytes arrived, and the source of that time.
struct Stamped {
    at: Nanos,
    source: StampSource,
    /// None of them arrived before this.
    since: Nanos,
}

impl<C: Clock> LinkReader<C> {
    pub(crate) fn new(clock: C) -> Self {
        Self {
            buffer: ReadBuffer::default(),
            stamps: StampClock::new(clock.wall_offset()),
            kernel_to_user: DelayHistogram::default(),
            now: clock.now(),
            eager: Lookout::default(),
            lazy: Lookout::default(),
            single: None,
            offset_at: clock.now(),
            clock_steps: Vec::new(),
            clock,
        }
    }

    pub(crate) fn lookout(&mut self, lane: Lane) -> &mut Lookout {
        match lane {
            Lane::Eager => &mut self.eager,
            Lane::Lazy => &mut self.lazy,
        }
    }

    /// Takes note of when the bytes of the last read arrived: the wait had reported them.
    pub(crate) fn note_report(&mut self, lane: Lane) {
        if let Some(arrival) = self.single {
            self.lookout(lane).reported(arrival);
        }
    }

    /// Measures the clock offset again. Takes note of a step of the wall clock since the last measurement:
    /// packets of before it may lie unread until the next time that lazy streams are read.
    pub(crate) fn update_stamps(&mut self) {
        let steps = self.stamps.steps();
        self.stamps.update(self.clock.wall_offset());
        if self.stamps.steps() > steps {
            let end = self.now + reads::INTERVAL;
            self.clock_steps.push(ClockStep { begin: self.offset_at, end });
        }
        self.offset_at = self.now;
    }

    pub(crate) fn read<W: Wire>(
        &mut self,
        connection: &mut OpenConnection<W>,
        live: &WorkerCounters,
    ) -> ReadEnd {
        self.single = None;
        let empty_at = self.lookout(connection.lane).empty_at();
        let arrival = match connection.link.read(&mut self.buffer) {
            Ok(arrival) => arrival,
            Err(error) => return refusal(error),
        };
        self.now = self.clock.now();
        let kernel = arrival.stamp.map(|stamp| self.stamps.monotonic(stamp));
        let source = connection.link.kernel_source();
        let since = connection.last_activity;
        let stamped = judge(kernel, since, self.now, source);
        let stamped = Stamped { since: since.max(empty_at), ..stamped };
        if arrival.bytes.is_empty() && arrival.is_last {
            return ReadEnd::Closed;
        }
        if stamped.source != StampSource::User {
            self.kernel_to_user.add(self.now - stamped.at);
        }
        connection.segments.read(arrival.wire_bytes);
        connection.last_activity = stamped.at;
        let (bytes, has_more, is_last) = (arrival.bytes, arrival.has_more, arrival.is_last);
        if !bytes.is_empty() {
            let fed = feed(connection, bytes, &stamped, live);
            let is_single = fed.as_ref().is_some_and(|fed| fed.is_single);
            let is_kernel_s = stamped.source != StampSource::User;
            self.single = (is_single && is_kernel_s).then_some(stamped.at);
            match fed.map(|fed| fed.progress) {
                Some(ResponseProgress::More) if connection.is_given_up() => {
                    return ReadEnd::GivenUp;
                }
                Some(ResponseProgress::More) => {}
                Some(ResponseProgress::Done { keep_alive, unread }) => {
                    // Bytes after a response belong to no request: the connection is not kept.
                    return ReadEnd::Done { keep_alive: keep_alive && unread == 0 && !is_last };
                }
                None => return ReadEnd::Unexpected,
            }
        }
        match (is_last, has_more) {
            (true, _) => ReadEnd::Closed,
            (false, true) => ReadEnd::More,
            (false, false) => ReadEnd::Drained,
        }
    }
}

fn refusal(error: io::Error) -> ReadEnd {
    match error.kind() {
        io::ErrorKind::WouldBlock => ReadEnd::Drained,
        io::ErrorKind::Interrupted => ReadEnd::More,
        _ => ReadEnd::Broken(error),
    }
}

/// The kernel's stamp if it is plausible, else the user's clock: bytes arrive after the last activity of
/// their connection and before the end of their read. After a step of the wall clock other stamps come
/// until the offset is measured again.
fn judge(kernel: Option<Nanos>, since: Nanos, now: Nanos, source: StampSource) -> Stamped {
    match kernel {
        Some(at) if at <= now + TOLERANCE && at + TOLERANCE >= since => {
            Stamped { at: at.min(now), source, since }
        }
        _ => Stamped { at: now, source: StampSource::User, since },
    }
}

struct Fed {
    progress: ResponseProgress,
    is_single: bool,
}

/// Passes the bytes to the exchange. `None` when no request is in flight.
fn feed<W: Wire>(
    connection: &mut OpenConnection<W>,
    bytes: &[u8],
    stamped: &Stamped,
    live: &WorkerCounters,
) -> Option<Fed> {
    let flight = connection.flight.as_deref_mut()?;
    if let Some(transcript) = &mut flight.transcript {
        transcript.received(bytes);
    }
    let timeline = &mut flight.timeline;
    if flight.has_response {
        // One read without a kernel stamp is enough: the whole timeline then has the weaker source.
        if stamped.source == StampSource::User {
            timeline.stamp_source = StampSource::User;
        }
    } else {
        flight.has_response = true;
        timeline.stamp_source = stamped.source;
    }
    let events_before = timeline.events.len();
    let had_headers = timeline.times.headers.is_some();
    let stamp = ReadStamp { at: stamped.at, is_upper_bound: false };
    let progress = connection.exchange.on_read(bytes, stamp, timeline);
    let completed = timeline.events.len() - events_before
        + usize::from(!had_headers && timeline.times.headers.is_some());
    // An event that ends the read is stamped exactly: the stamp is that of its last byte. The end of
    // the body may follow the last event in a segment of its own.
    let is_last_exact = progress == ResponseProgress::More && ends_with_event(bytes);
    if completed > 1 || (completed == 1 && !is_last_exact) {
        let info = connection.link.source().info();
        if connection.segments.merged(info) {
            let end = timeline.events.len() - usize::from(is_last_exact);
            mark_merged(&mut timeline.events[events_before..end.max(events_before)]);
            timeline.merged_reads += 1;
        }
    }
    let contents = count_contents(timeline, events_before, live);
    if contents.events > 0 {
        connection.pulse.beat(stamped.at, contents.events, contents.tokens);
        connection.last_content = Some(stamped.at);
        bound_contents(timeline, events_before, stamped.since);
    }
    if progress == ResponseProgress::More
        && connection.end_marker.is_none()
        && connection.exchange.has_end_marker()
    {
        connection.end_marker = Some(stamped.at);
    }
    if connection.stage != ConnectionStage::Writing && !flight.may_be_resent() {
        flight.request.bytes = Vec::new();
    }
    Some(Fed { progress, is_single: completed == 1 && is_last_exact })
}

/// Whether a read that completed an event ends with it: with a blank line, or with the line end of
/// its chunk after that. A line that only announces the next chunk ends no event.
fn ends_with_event(bytes: &[u8]) -> bool {
    match bytes.strip_suffix(b"\r\n") {
        Some(before) => before.ends_with(b"\n"),
        None => bytes.ends_with(b"\n"),
    }
}

/// Marks events that may have arrived before their time. An end mark is not a token: nothing is
/// computed from its time.
fn mark_merged(events: &mut [Event]) {
    for event in events.iter_mut().filter(|event| event.kind != EventKind::End) {
        *event = event.with_upper_bound(true);
    }
}

/// Records by how much the first and the last content may have arrived before their stamps, after a read that
/// completed the events from `from` on and whose bytes arrived after `since`.
fn bound_contents(timeline: &mut Timeline, from: usize, since: Nanos) {
    let is_content = |event: &&Event| event.kind.is_content();
    let (before, new) = timeline.events.split_at(from);
    let Some(last) = new.iter().rfind(is_content) else { return };
    timeline.merge_waits.last = merge_wait(last, since);
    if !before.iter().any(|event| is_content(&event)) {
        let first = new.iter().find(is_content);
        timeline.merge_waits.first = first.and_then(|first| merge_wait(first, since));
    }
}

/// `None` where the stamp is exact.
fn merge_wait(event: &Event, since: Nanos) -> Option<Nanos> {
    event.is_upper_bound().then(|| event.at - since)
}

#[derive(Default)]
struct Contents {
    events: u32,
    tokens: u32,
}

/// Counts the content events from `first` on, and records the first content of a response.
fn count_contents(timeline: &Timeline, first: usize, live: &WorkerCounters) -> Contents {
    let mut contents = Contents::default();
    for event in timeline.events[first..].iter().filter(|event| event.kind.is_generated()) {
        contents.events += 1;
        contents.tokens += event.tokens().unwrap_or(1);
    }
    if contents.events > 0 {
        live.tokens(u64::from(contents.tokens));
        let is_first = !timeline.events[..first].iter().any(|event| event.kind.is_generated());
        if let (true, Some(sent)) = (is_first, timeline.times.first_byte_sent) {
            let at = timeline.events[first..].first().map_or(sent, |event| event.at);
            live.first_content(at - sent);
        }
    }
    contents
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends the line before each chunk in a separate segment made the previous event
    /// look exact, although its time was that of the line.
    #[test]
    fn only_a_read_that_ends_with_an_event_is_stamped_exactly() {
        let check = |bytes: &[u8], expected| {
            assert_eq!(ends_with_event(bytes), expected, "{}", bytes.escape_ascii());
        };
        check(b"data: x\n\n", true);
        check(b"data: x\r\n\r\n", true);
        check(b"9\r\ndata: x\n\n\r\n", true);
        check(b"4\r\n{}\n\r\n", true);
        check(b"HTTP/1.1 200 OK\r\n\r\n", true);
        check(b"9\r\ndata: x\n\n\r\n1f\r\n", false);
        check(b"9\r\ndata: x\n\n\r", false);
        check(b"9\r\ndata: x\n\n\r\n9\r\ndata", false);
    }

    #[test]
    fn an_implausible_stamp_is_not_used() {
        let now = Nanos::from_secs(1_000);
        let since = Nanos::from_secs(998);
        let check = |kernel: Option<Nanos>, at: Nanos, source| {
            let stamped = judge(kernel, since, now, StampSource::Kernel);
            assert_eq!((stamped.at, stamped.source), (at, source), "{kernel:?}");
        };
        let earlier = Nanos::from_secs(999);
        check(Some(earlier), earlier, StampSource::Kernel);
        check(Some(now + Nanos(50)), now, StampSource::Kernel);
        check(Some(now + Nanos::from_secs(3_600)), now, StampSource::User);
        check(Some(since), since, StampSource::Kernel);
        // Set back by two seconds, or ahead by as much before the read: before the request was sent.
        check(Some(Nanos::from_secs(997)), now, StampSource::User);
        check(None, now, StampSource::User);
    }
}
