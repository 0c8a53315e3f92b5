//! A run as a table: one row per ended attempt of a request.
//!
//! In: timelines one by one. Out: CSV here, Parquet in `parquet` beside it, with the same columns: which
//! request, how it ended, its points in time in seconds since the measured phase began, and every
//! metric of a request under its own key. What did not happen is an empty cell. Metrics of failed
//! requests are empty, as in the definitions; all phases are there, distinguished by `phase`.

use std::io::{self, Write};

use tokometer_base::Nanos;
use tokometer_figures::define::{Formula, METRICS, Unit};
use tokometer_record::{CountSource, Outcome, Timeline};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    Count,
    Number,
    Word,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing happened.
    Absent,
    Count(u64),
    Number(f64),
    Word(String),
}

type CellOf = fn(&Timeline, Nanos) -> Cell;

fn count(value: Option<impl Into<u64>>) -> Cell {
    value.map_or(Cell::Absent, |value| Cell::Count(value.into()))
}

fn word(value: Option<impl Into<String>>) -> Cell {
    value.map_or(Cell::Absent, |value| Cell::Word(value.into()))
}

/// Seconds since the measured phase began; warm-up lies before it.
fn seconds(at: Option<Nanos>, begin: Nanos) -> Cell {
    at.map_or(Cell::Absent, |at| Cell::Number(at.signed_since(begin) as f64 / 1e9))
}

const COLUMNS: [(&str, ColumnKind, CellOf); 19] = [
    ("index", ColumnKind::Count, |row, _| Cell::Count(row.identity.index)),
    ("attempt", ColumnKind::Count, |row, _| Cell::Count(row.identity.attempt.into())),
    ("phase", ColumnKind::Word, |row, _| Cell::Word(row.identity.phase.name().to_owned())),
    ("target", ColumnKind::Count, |row, _| Cell::Count(row.identity.target.into())),
    ("session", ColumnKind::Count, |row, _| count(row.identity.session)),
    ("turn", ColumnKind::Count, |row, _| Cell::Count(row.identity.turn.into())),
    ("class", ColumnKind::Word, |row, _| word(row.identity.class.clone())),
    ("lora", ColumnKind::Word, |row, _| word(row.identity.lora.clone())),
    ("outcome", ColumnKind::Word, |row, _| {
        Cell::Word(match &row.outcome {
            Outcome::Success => "success".to_owned(),
            Outcome::Failed(failure) => failure.kind.name().to_owned(),
            Outcome::Abandoned => "abandoned".to_owned(),
        })
    }),
    ("status", ColumnKind::Count, |row, _| count(row.status)),
    ("failure", ColumnKind::Word, |row, _| match &row.outcome {
        Outcome::Failed(failure) => Cell::Word(failure.message.clone()),
        _ => Cell::Absent,
    }),
    ("asked_prompt_tokens", ColumnKind::Count, |row, _| count(row.requested.prompt_tokens)),
    ("asked_output_tokens", ColumnKind::Count, |row, _| count(row.requested.output_tokens)),
    ("count_source", ColumnKind::Word, |row, _| {
        word(row.output_tokens().map(|(_, source)| match source {
            CountSource::Usage => "usage",
            CountSource::Events => "events",
            CountSource::Retokenized => "retokenized",
        }))
    }),
    ("intended_s", ColumnKind::Number, |row, begin| seconds(row.times.intended, begin)),
    ("admitted_s", ColumnKind::Number, |row, begin| seconds(Some(row.times.admitted), begin)),
    ("sent_s", ColumnKind::Number, |row, begin| seconds(row.times.first_byte_sent, begin)),
    ("first_content_s", ColumnKind::Number, |row, begin| {
        seconds(row.first_content().map(|event| event.at), begin)
    }),
    ("end_s", ColumnKind::Number, |row, begin| seconds(row.times.end, begin)),
];

/// Names and kinds of the columns, in order.
pub fn columns() -> impl Iterator<Item = (&'static str, ColumnKind)> {
    let metrics = metrics().map(|(key, _, _)| (key, ColumnKind::Number));
    COLUMNS.iter().map(|(name, kind, _)| (*name, *kind)).chain(metrics)
}

/// The cells of one request, in the order of [`columns`].
pub fn cells(timeline: &Timeline, begin: Nanos) -> impl Iterator<Item = Cell> + '_ {
    let metric = |(_, unit, value): PerRequest| {
        let value = value(timeline).filter(|_| timeline.is_success());
        value.map_or(Cell::Absent, |value| Cell::Number(value / unit.divisor()))
    };
    COLUMNS.iter().map(move |(_, _, value)| value(timeline, begin)).chain(metrics().map(metric))
}

/// Key, unit and formula of a metric with one value per request.
type PerRequest = (&'static str, Unit, fn(&Timeline) -> Option<f64>);

fn metrics() -> impl Iterator<Item = PerRequest> {
    METRICS.iter().filter_map(|metric| match metric.formula {
        Formula::Latency(value) | Formula::Value(value) => Some((metric.key, metric.unit, value)),
        Formula::Stream(_) | Formula::Run(_) => None,
    })
}

/// A text cell of a CSV file. Spreadsheets compute a cell that begins like a formula, so such a cell
/// begins with an apostrophe, which they take as "text".
pub(crate) fn csv_text(text: String) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if is_formula { format!("'{text}") } else { text }
}

/// Writes a run whose measured phase began at `begin`.
pub fn write_csv(
    out: impl Write,
    begin: Nanos,
    timelines: impl Iterator<Item = Timeline>,
) -> io::Result<()> {
    let text = |cell: Cell| match cell {
        Cell::Absent => String::new(),
        Cell::Count(count) => count.to_string(),
        Cell::Number(number) => number.to_string(),
        Cell::Word(word) => csv_text(word),
    };
    let mut out = csv::Writer::from_writer(out);
    out.write_record(columns().map(|(name, _)| name))?;
    for timeline in timelines {
        out.write_record(cells(&timeline, begin).map(text))?;
    }
    out.flush()
}

#[cfg(test)]
pub(crate) mod tests {
    use tokometer_record::{
        AttemptId, Event, EventKind, Failure, FailureKind, Phase, RequestedLengths, Usage,
    };

    use super::*;

    pub(crate) fn requests() -> Vec<Timeline> {
        let at = Nanos::from_millis;
        let mut good = Timeline::new(
            AttemptId::new(0, Phase::Measure),
            RequestedLengths::default(),
            at(1_000),
        );
        good.times.first_byte_sent = Some(at(1_001));
        for (read, ms) in (0..).zip([1_051, 1_061, 1_071]) {
            good.push(Event::new(at(ms), read, EventKind::Text));
        }
        good.times.end = Some(at(1_072));
        good.usage = Some(Usage { completion_tokens: Some(3), ..Usage::default() });
        good.status = Some(200);
        good.outcome = Outcome::Success;
        let mut bad = Timeline::new(
            AttemptId::new(1, Phase::Measure),
            RequestedLengths::default(),
            at(1_500),
        );
        bad.outcome =
            Outcome::Failed(Failure::new(FailureKind::Status, "say \"no\",\nthen nothing"));
        bad.status = Some(503);
        vec![good, bad]
    }

    #[test]
    fn each_request_is_a_row_with_its_metrics() {
        let mut out = Vec::new();
        write_csv(&mut out, Nanos::from_secs(1), requests().into_iter()).unwrap();
        let mut reader = csv::Reader::from_reader(out.as_slice());
        let heads = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let cell = |row: usize, name: &str| {
            let at = heads.iter().position(|head| head == name).unwrap();
            rows[row].get(at).unwrap().to_owned()
        };
        assert_eq!(rows.len(), 2);
        assert_eq!((cell(0, "ttft_ms"), cell(0, "tpot_ms")), ("50".into(), "10".into()));
        assert_eq!((cell(0, "sent_s"), cell(0, "count_source")), ("0.001".into(), "usage".into()));
        assert_eq!((cell(1, "outcome"), cell(1, "status")), ("status".into(), "503".into()));
        assert_eq!(cell(1, "failure"), "say \"no\",\nthen nothing");
        assert_eq!((cell(1, "ttft_ms"), cell(1, "sent_s")), (String::new(), String::new()));
    }
}
