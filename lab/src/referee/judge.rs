//! Event times of the capture against the record.

use anyhow::{Context, Result, ensure};
use tokometer_record::{RunReader, Timeline};

use super::capture::{self, Flow};
use super::network::Recording;

/// Where the two agree, and by how much they do not.
#[derive(Debug, Default)]
pub(crate) struct Finding {
    pub(crate) compared: usize,
    pub(crate) not_found: usize,
    pub(crate) p50: i64,
    pub(crate) p99: i64,
    pub(crate) max: i64,
}

/// End offsets of all events of a plain stream: an event ends at the blank line after `data:`.
fn plain_events(flow: &Flow) -> Vec<u64> {
    let mut ends = Vec::new();
    let mut from = 0;
    while let Some(at) = find(&flow.bytes[from..], b"data:") {
        let begin = from + at;
        let Some(length) = find(&flow.bytes[begin..], b"\n\n") else { break };
        let end = begin + length + 1;
        ends.extend(flow.arrival_of(end));
        from = end + 1;
    }
    ends
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Arrival of the last byte of every TLS record with application data. What a record holds cannot be
/// seen; the simulator puts each event into a record of its own.
fn tls_records(flow: &Flow) -> Vec<u64> {
    const APPLICATION_DATA: u8 = 23;
    let mut ends = Vec::new();
    let mut at = 0;
    while let Some(header) = flow.bytes.get(at..at + 5) {
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let end = at + 5 + length;
        if header[0] == APPLICATION_DATA {
            ends.extend(flow.arrival_of(end - 1));
        }
        at = end;
    }
    ends
}

/// Compares each recorded event with the capture's moment nearest to it.
pub(crate) fn compare(recording: &Recording) -> Result<Finding> {
    let file = std::fs::read(&recording.capture).context("cannot read the capture")?;
    let flows = capture::read(&file, recording.port)?;
    let mut moments: Vec<i64> = flows
        .values()
        .flat_map(|flow| if recording.is_tls { tls_records(flow) } else { plain_events(flow) })
        .map(|wall| i64::try_from(wall).unwrap_or(i64::MAX) - recording.wall_offset)
        .collect();
    moments.sort_unstable();
    let timelines: Vec<Timeline> = RunReader::open(&recording.run)?.timelines()?.collect();
    let events: usize = timelines.iter().map(|timeline| timeline.events.len()).sum();
    ensure!(!moments.is_empty(), "the capture holds no event");
    // A plain stream shows its events, so the two must agree on their number.
    ensure!(
        recording.is_tls || moments.len() == events,
        "the capture holds {} events and the record {events}",
        moments.len()
    );
    let recorded = timelines.iter().flat_map(|timeline| &timeline.events);
    let mut errors: Vec<i64> = Vec::with_capacity(events);
    for event in recorded {
        let at = i64::try_from(event.at.0).unwrap_or(i64::MAX);
        errors.extend(nearest(&moments, at).map(|moment| at - moment));
    }
    Ok(finding(errors, events))
}

fn nearest(moments: &[i64], at: i64) -> Option<i64> {
    let after = moments.partition_point(|moment| *moment < at);
    let candidates = [after.checked_sub(1), Some(after)].into_iter().flatten();
    candidates
        .filter_map(|index| moments.get(index).copied())
        .min_by_key(|moment| (at - moment).abs())
}

fn finding(mut errors: Vec<i64>, events: usize) -> Finding {
    errors.sort_unstable();
    let p50 = errors.get(errors.len() / 2).copied().unwrap_or(0);
    let mut sizes: Vec<i64> = errors.iter().map(|error| error.abs()).collect();
    sizes.sort_unstable();
    Finding {
        compared: errors.len(),
        not_found: events - errors.len(),
        p50,
        p99: sizes.get(sizes.len() * 99 / 100).copied().unwrap_or(0),
        max: sizes.last().copied().unwrap_or(0),
    }
}
