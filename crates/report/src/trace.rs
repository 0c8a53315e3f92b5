//! A run as Trace Event JSON, which Perfetto and Chrome's tracing page open.
//!
//! One lane per request in flight (a lane is reused once its request has ended), with its phases as
//! slices and its content events as instants; counters for requests in flight and for the server's
//! gauges. Written row by row: the whole trace is never in memory.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use tokometer_base::Nanos;
use tokometer_record::server::Scrape;
use tokometer_record::{Phase, Timeline};

const REQUESTS: u32 = 1;
const SERVER: u32 = 2;

#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    out: W,
    origin: Nanos,
    is_first: bool,
    /// When each lane is free again.
    lanes: Vec<Nanos>,
    changes: BTreeMap<Nanos, i64>,
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace whose time zero is `origin`.
    pub fn new(mut out: W, origin: Nanos) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
        let mut writer =
            Self { out, origin, is_first: true, lanes: Vec::new(), changes: BTreeMap::new() };
        for (process, name) in [(REQUESTS, "requests"), (SERVER, "server")] {
            let args = json!({ "name": name });
            writer
                .row(&json!({"ph": "M", "pid": process, "name": "process_name", "args": args}))?;
        }
        Ok(writer)
    }

    fn row(&mut self, value: &Value) -> io::Result<()> {
        let separator = if self.is_first { "" } else { ",\n" };
        self.is_first = false;
        write!(self.out, "{separator}{value}")
    }

    fn micros(&self, at: Nanos) -> f64 {
        at.signed_since(self.origin) as f64 / 1e3
    }

    /// A lane that is free from `begin` on, taken until `end`.
    fn lane(&mut self, begin: Nanos, end: Nanos) -> usize {
        let free = self.lanes.iter().position(|until| *until <= begin);
        let lane = free.unwrap_or(self.lanes.len());
        if lane == self.lanes.len() {
            self.lanes.push(end);
        } else {
            self.lanes[lane] = end;
        }
        lane
    }

    pub fn push(&mut self, timeline: &Timeline) -> io::Result<()> {
        let times = &timeline.times;
        let begin = times.intended.unwrap_or(times.admitted).min(times.admitted);
        let end = times.end.unwrap_or(times.admitted).max(begin);
        let lane = self.lane(begin, end);
        let name = match timeline.identity.phase {
            Phase::Measure => format!("request {}", timeline.identity.index),
            phase => format!("{} {}", phase.name(), timeline.identity.index),
        };
        let args = json!({
            "prompt_tokens": timeline.prompt_tokens(),
            "output_tokens": timeline.output_tokens().map(|(tokens, _)| tokens),
            "status": timeline.status,
            "connection": timeline.connection.id,
            "is_success": timeline.is_success(),
        });
        self.slice(lane, &name, [begin, end], &args)?;
        let sent = times.first_byte_sent;
        let first = timeline.first_content().map(|event| event.at);
        let last = timeline.last_content().map(|event| event.at);
        let phases = [
            ("queue", Some(begin), Some(times.admitted)),
            ("connect", times.connect_begin, times.tls_end.or(times.connect_end)),
            ("first token", sent, first),
            ("tokens", first, last),
        ];
        for (phase, from, to) in phases {
            if let (Some(from), Some(to)) = (from, to) {
                self.slice(lane, phase, [from, to.max(from)], &Value::Null)?;
            }
        }
        for event in timeline.events.iter().filter(|event| event.kind.is_content()) {
            let at = self.micros(event.at);
            self.row(&json!({"ph": "i", "s": "t", "pid": REQUESTS, "tid": lane, "ts": at, "name": "token"}))?;
        }
        if let Some(sent) = sent {
            *self.changes.entry(sent).or_default() += 1;
            *self.changes.entry(end).or_default() -= 1;
        }
        Ok(())
    }

    fn slice(
        &mut self,
        lane: usize,
        name: &str,
        [from, to]: [Nanos; 2],
        args: &Value,
    ) -> io::Result<()> {
        let (at, length) = (self.micros(from), (to - from).as_micros_f64());
        let mut row =
            json!({"ph": "X", "pid": REQUESTS, "tid": lane, "ts": at, "dur": length, "name": name});
        if !args.is_null() {
            row["args"] = args.clone();
        }
        self.row(&row)
    }

    pub fn push_scrape(&mut self, scrape: &Scrape) -> io::Result<()> {
        let at = self.micros(scrape.at);
        let shown = ["running", "waiting", "queue", "usage", "deferred", "processing"];
        for (name, value) in &scrape.values {
            let short = name.split('{').next().unwrap_or(name);
            if shown.iter().any(|word| short.contains(word)) {
                let args = json!({ "value": value });
                self.row(
                    &json!({"ph": "C", "pid": SERVER, "ts": at, "name": short, "args": args}),
                )?;
            }
        }
        Ok(())
    }

    /// Writes the counters and the end.
    pub fn finish(mut self) -> io::Result<W> {
        let mut in_flight = 0;
        for (at, change) in std::mem::take(&mut self.changes) {
            in_flight += change;
            let (at, args) = (self.micros(at), json!({ "requests": in_flight }));
            self.row(
                &json!({"ph": "C", "pid": REQUESTS, "ts": at, "name": "in flight", "args": args}),
            )?;
        }
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use tokometer_record::{AttemptId, Event, EventKind, RequestedLengths};

    use super::*;

    fn request(index: u64, begin: u64) -> Timeline {
        let mut timeline = Timeline::new(
            AttemptId::new(index, Phase::Measure),
            RequestedLengths::default(),
            Nanos(begin),
        );
        timeline.times.first_byte_sent = Some(Nanos(begin));
        timeline.push(Event::new(Nanos(begin + 10_000), 0, EventKind::Text));
        timeline.times.end = Some(Nanos(begin + 20_000));
        timeline
    }

    #[test]
    fn a_trace_is_json_and_a_lane_serves_one_request_at_a_time() {
        let mut writer = TraceWriter::new(Vec::new(), Nanos(0)).unwrap();
        for timeline in [request(0, 0), request(1, 5_000), request(2, 30_000)] {
            writer.push(&timeline).unwrap();
        }
        let trace: Value = serde_json::from_slice(&writer.finish().unwrap()).unwrap();
        let rows = trace["traceEvents"].as_array().unwrap();
        let lane = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap()["tid"].clone();
        assert_eq!(lane("request 0"), 0);
        assert_eq!(lane("request 1"), 1, "request 0 is still in flight");
        assert_eq!(lane("request 2"), 0, "its lane is free again");
        let counters: Vec<_> = rows.iter().filter(|row| row["ph"] == "C").collect();
        assert_eq!(counters.last().unwrap()["args"]["requests"], 0);
    }
}
