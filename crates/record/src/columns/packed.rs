//! The events of one request in about three bytes each, without loss.
//!
//! In: events, and the time that theirs are relative to. Out: bytes, and the same events again. A stream
//! repeats itself: most events differ from the one before only in their time, and the server's pace
//! predicts that. So what an event is (its read, kind, tokens and mark) is a number in a table of the
//! request's own, stored once per run of equal numbers, and its time is stored as the difference from the
//! predicted one. Bytes that do not describe whole events give `None`, never a panic, and never more
//! events than bytes.

use tokometer_base::Nanos;

use crate::event::{Event, EventKind};

/// What an event is, besides its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    /// Reads since the previous event.
    reads: i64,
    kind: u8,
    is_upper_bound: bool,
    /// Zero where unknown, else one more than the tokens.
    tokens: u64,
}

/// Predicts the time of the next event: that of the previous one within a read, and one step of the
/// server later in the next read.
#[derive(Debug, Default)]
struct TimePredictor {
    at: i64,
    step: i64,
}

impl TimePredictor {
    /// The time that lies `difference` after the predicted one.
    fn after(&mut self, reads: i64, difference: i64) -> i64 {
        let expected = self.expected(reads);
        self.follow(reads, expected.wrapping_add(difference))
    }

    /// How far a time is from the predicted one.
    fn difference(&mut self, reads: i64, at: i64) -> i64 {
        let difference = at.wrapping_sub(self.expected(reads));
        self.follow(reads, at);
        difference
    }

    fn expected(&self, reads: i64) -> i64 {
        if reads == 0 { self.at } else { self.at.wrapping_add(self.step) }
    }

    fn follow(&mut self, reads: i64, at: i64) -> i64 {
        if reads != 0 {
            self.step = at.wrapping_sub(self.at);
        }
        self.at = at;
        at
    }
}

/// Appends the events of a request whose times are relative to `base`.
pub(super) fn pack(events: &[Event], base: Nanos, into: &mut Vec<u8>) {
    let mut table: Vec<Shape> = Vec::new();
    let mut runs: Vec<(usize, u64)> = Vec::new();
    let mut times = Vec::with_capacity(3 * events.len());
    let (mut predictor, mut read) = (TimePredictor::default(), 0_i64);
    for event in events {
        let shape = Shape {
            reads: i64::from(event.read) - read,
            kind: event.kind as u8,
            is_upper_bound: event.is_upper_bound(),
            tokens: event.tokens().map_or(0, |tokens| u64::from(tokens) + 1),
        };
        read = i64::from(event.read);
        let entry = table.iter().position(|known| *known == shape).unwrap_or_else(|| {
            table.push(shape);
            table.len() - 1
        });
        match runs.last_mut() {
            Some((last, length)) if *last == entry => *length += 1,
            _ => runs.push((entry, 1)),
        }
        put(zigzag(predictor.difference(shape.reads, event.at.signed_since(base))), &mut times);
    }
    put(events.len() as u64, into);
    put(table.len() as u64, into);
    for shape in &table {
        put(zigzag(shape.reads), into);
        into.extend([shape.kind, u8::from(shape.is_upper_bound)]);
        put(shape.tokens, into);
    }
    for (entry, length) in runs {
        put(entry as u64, into);
        put(length, into);
    }
    into.extend(times);
}

/// The events in these bytes; `None` for bytes that are damaged.
pub(super) fn unpack(bytes: &[u8], base: Nanos) -> Option<Vec<Event>> {
    let mut found = Vec::new();
    let mut read = 0_i64;
    each(bytes, |shape, at| {
        read = read.checked_add(shape.reads)?;
        let tokens = shape.tokens.checked_sub(1).map(u32::try_from).transpose().ok()?;
        let at = Nanos(base.0.saturating_add_signed(at));
        let event = Event::new(at, u32::try_from(read).ok()?, EventKind::from_number(shape.kind));
        found.push(event.with_tokens(tokens).with_upper_bound(shape.is_upper_bound));
        Some(())
    })?;
    Some(found)
}

/// The latest time in these bytes, relative to the request's; `None` without events, or for bytes that
/// are damaged.
pub(super) fn latest(bytes: &[u8]) -> Option<i64> {
    let mut latest = None;
    each(bytes, |_, at| {
        latest = latest.max(Some(at));
        Some(())
    })?;
    latest
}

/// Calls `visit` with each event and its time. `None` where the bytes, or the visitor, give up.
fn each(bytes: &[u8], mut visit: impl FnMut(&Shape, i64) -> Option<()>) -> Option<()> {
    let mut rest = bytes;
    let count = number(&mut rest)?;
    let shapes = number(&mut rest)?;
    // Every event and every shape takes at least one byte: a damaged count must not fill the memory.
    if count > rest.len() as u64 || shapes > count {
        return None;
    }
    let mut table = Vec::new();
    for _ in 0..shapes {
        let reads = unzigzag(number(&mut rest)?);
        let [kind, mark] = take::<2>(&mut rest)?;
        let tokens = number(&mut rest)?;
        table.push(Shape { reads, kind, is_upper_bound: mark != 0, tokens });
    }
    let mut runs = Vec::new();
    let mut covered = 0_u64;
    while covered < count {
        let shape = table.get(usize::try_from(number(&mut rest)?).ok()?)?;
        let length = number(&mut rest)?;
        covered = covered.checked_add(length).filter(|covered| *covered <= count)?;
        if length == 0 {
            return None;
        }
        runs.push((shape, length));
    }
    let mut predictor = TimePredictor::default();
    for (shape, length) in runs {
        for _ in 0..length {
            let difference = unzigzag(number(&mut rest)?);
            visit(shape, predictor.after(shape.reads, difference))?;
        }
    }
    rest.is_empty().then_some(())
}

/// Small numbers of either sign become small numbers.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Seven bits per byte, the lowest first.
fn put(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
        value >>= 7;
    }
    into.push(u8::try_from(value).unwrap_or(0));
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let [byte] = take::<1>(rest)?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BASE: Nanos = Nanos::from_secs(5);

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let tokens = proptest::option::of(0_u32..70_000);
        let one = (any::<u32>(), 0_u32..5, 0_u8..11, tokens, any::<bool>());
        proptest::collection::vec(one, 0..60).prop_map(|rows| {
            let mut at = BASE;
            rows.into_iter()
                .map(|(after, read, kind, tokens, is_bound)| {
                    at += Nanos(u64::from(after));
                    let event = Event::new(at, read, EventKind::from_number(kind));
                    event.with_tokens(tokens).with_upper_bound(is_bound)
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn packed_events_come_back_as_they_were(events in events()) {
            let mut bytes = Vec::new();
            pack(&events, BASE, &mut bytes);
            prop_assert_eq!(unpack(&bytes, BASE), Some(events.clone()));
            let last = events.iter().map(|event| event.at.signed_since(BASE)).max();
            prop_assert_eq!(latest(&bytes), last);
            for cut in 0..bytes.len() {
                prop_assert_eq!(unpack(&bytes[..cut], BASE), None);
            }
        }

        #[test]
        fn damaged_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let found = unpack(&bytes, BASE);
            prop_assert!(found.is_none_or(|events| events.len() <= bytes.len()));
            let _ = latest(&bytes);
        }
    }

    #[test]
    fn a_token_of_a_steady_stream_takes_three_bytes() {
        let noise = |at: u64| (at * 7_919_777) % 900_000;
        let tokens = (0..1_000_u64).map(|at| {
            let time = BASE + Nanos::from_millis(20 * at) + Nanos(noise(at));
            Event::new(time, u32::try_from(at).unwrap(), EventKind::Text)
        });
        let mut bytes = Vec::new();
        pack(&tokens.collect::<Vec<_>>(), BASE, &mut bytes);
        assert!(bytes.len() < 3_100, "{} bytes", bytes.len());
    }

    /// One event of one shape, with these runs and times.
    fn bytes(runs: &[u8], times: &[u8]) -> Vec<u8> {
        [&[1, 1, 2, 1, 0, 0], runs, times].concat()
    }

    #[test]
    fn bytes_that_contradict_themselves_are_damage() {
        let is_whole = |bytes: &[u8]| unpack(bytes, BASE).is_some();
        assert!(is_whole(&bytes(&[0, 1], &[8])));
        assert!(!is_whole(&bytes(&[0, 1], &[8, 8])), "more times than events");
        assert!(!is_whole(&bytes(&[0, 0, 0, 1], &[8])), "a run of no events");
        assert!(!is_whole(&bytes(&[0, 2], &[8, 8])), "a run beyond the last event");
        assert!(!is_whole(&bytes(&[1, 1], &[8])), "a shape that is not there");
        let most = [[0xff; 9].as_slice(), &[1]].concat();
        assert!(is_whole(&bytes(&[0, 1], &most)));
        let more = [[0xff; 9].as_slice(), &[2]].concat();
        assert!(!is_whole(&bytes(&[0, 1], &more)), "more than 64 bits");
    }

    #[test]
    fn the_latest_time_need_not_be_the_last() {
        let at = |value: u64| Event::new(Nanos(value), 1, EventKind::Text);
        let mut bytes = Vec::new();
        pack(&[at(70), at(90), at(80)], Nanos(60), &mut bytes);
        assert_eq!(latest(&bytes), Some(30));
    }

    #[test]
    fn every_time_survives() {
        let at = |value: u64| Event::new(Nanos(value), 1, EventKind::Text);
        // Before the send, and as late as a clock can be.
        let events = vec![at(0), at(4_000_000_000), at(u64::MAX >> 1)];
        let mut bytes = Vec::new();
        pack(&events, BASE, &mut bytes);
        assert_eq!(unpack(&bytes, BASE), Some(events));
    }
}
