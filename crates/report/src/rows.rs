//! Runs as a table: one row per ended attempt of a request.
//!
//! In: timelines one by one, each with its run. Out: CSV here, Parquet in `parquet` beside it, with the
//! same columns: which run at which load with which verdict, which request, how it ended, its points in
//! time in seconds since the measured phase began, and every metric of a request under its own key. What
//! did not happen is an empty cell. Metrics of failed requests are empty, as in the definitions; all
//! phases are there, distinguished by `phase`.

use std::io::{self, Write};

use tokometer_base::Nanos;
use tokometer_figures::define::{Formula, METRICS, Unit};
use tokometer_figures::{Quantity, Summary};
use tokometer_record::{CountSource, Outcome, RecordedLoad, RunInfo, Timeline};

use crate::summary::doubtful_codes;

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

/// What the rows of a run have in common.
#[derive(Debug, Clone)]
pub struct TableRun {
    /// The label or the folder that it was given with; `None` for a run that was given by itself.
    pub source: Option<String>,
    pub name: String,
    /// When its measured phase began.
    pub begin: Nanos,
    pub load: RecordedLoad,
    /// One per target.
    pub judged: Vec<JudgedTarget>,
}

/// How far the figures of a target can be trusted.
#[derive(Debug, Clone)]
pub struct JudgedTarget {
    /// `None` for a prediction: nothing was measured.
    verdict: Option<&'static str>,
    /// Codes of the notes behind it.
    notes: String,
}

impl JudgedTarget {
    pub fn of(info: &RunInfo, summary: &Summary) -> Self {
        Self {
            verdict: (!info.is_prediction()).then(|| summary.verdict.name()),
            notes: doubtful_codes(summary).replace(',', ""),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct TableRow<'a> {
    pub run: &'a TableRun,
    pub timeline: &'a Timeline,
}

impl TableRow<'_> {
    fn judged(&self) -> Option<&JudgedTarget> {
        self.run.judged.get(usize::from(self.timeline.identity.target))
    }

    /// Seconds since the measured phase began; warm-up lies before it.
    fn seconds(&self, at: Option<Nanos>) -> Cell {
        at.map_or(Cell::Absent, |at| Cell::Number(at.signed_since(self.run.begin) as f64 / 1e9))
    }
}

/// A file of rows.
pub trait RequestTable {
    fn push(&mut self, row: TableRow<'_>) -> io::Result<()>;
}

type CellOf = fn(TableRow<'_>) -> Cell;

fn count(value: Option<impl Into<u64>>) -> Cell {
    value.map_or(Cell::Absent, |value| Cell::Count(value.into()))
}

fn word(value: Option<impl Into<String>>) -> Cell {
    value.map_or(Cell::Absent, |value| Cell::Word(value.into()))
}

fn number(value: Option<f64>) -> Cell {
    value.map_or(Cell::Absent, Cell::Number)
}

const COLUMNS: [(&str, ColumnKind, CellOf); 25] = [
    ("source", ColumnKind::Word, |row| word(row.run.source.clone())),
    ("run", ColumnKind::Word, |row| Cell::Word(row.run.name.clone())),
    ("request_rate", ColumnKind::Number, |row| number(row.run.load.request_rate)),
    ("max_concurrency", ColumnKind::Count, |row| count(row.run.load.max_concurrency)),
    ("verdict", ColumnKind::Word, |row| word(row.judged().and_then(|judged| judged.verdict))),
    ("notes", ColumnKind::Word, |row| {
        word(row.judged().map(|judged| judged.notes.clone()).filter(|notes| !notes.is_empty()))
    }),
    ("index", ColumnKind::Count, |row| Cell::Count(row.timeline.identity.index)),
    ("attempt", ColumnKind::Count, |row| Cell::Count(row.timeline.identity.attempt.into())),
    ("phase", ColumnKind::Word, |row| Cell::Word(row.timeline.identity.phase.name().to_owned())),
    ("target", ColumnKind::Count, |row| Cell::Count(row.timeline.identity.target.into())),
    ("session", ColumnKind::Count, |row| count(row.timeline.identity.session)),
    ("turn", ColumnKind::Count, |row| Cell::Count(row.timeline.identity.turn.into())),
    ("class", ColumnKind::Word, |row| word(row.timeline.identity.class.clone())),
    ("lora", ColumnKind::Word, |row| word(row.timeline.identity.lora.clone())),
    ("outcome", ColumnKind::Word, |row| {
        Cell::Word(match &row.timeline.outcome {
            Outcome::Success => "success".to_owned(),
            Outcome::Failed(failure) => failure.kind.name().to_owned(),
            Outcome::Cancelled => "cancelled".to_owned(),
            Outcome::Abandoned => "abandoned".to_owned(),
        })
    }),
    ("status", ColumnKind::Count, |row| count(row.timeline.status)),
    ("failure", ColumnKind::Word, |row| match &row.timeline.outcome {
        Outcome::Failed(failure) => Cell::Word(failure.message.clone()),
        _ => Cell::Absent,
    }),
    ("asked_prompt_tokens", ColumnKind::Count, |row| count(row.timeline.requested.prompt_tokens)),
    ("asked_output_tokens", ColumnKind::Count, |row| count(row.timeline.requested.output_tokens)),
    ("count_source", ColumnKind::Word, |row| {
        word(row.timeline.output_tokens().map(|(_, source)| match source {
            CountSource::Usage => "usage",
            CountSource::Events => "events",
            CountSource::Retokenized => "retokenized",
        }))
    }),
    ("intended_s", ColumnKind::Number, |row| row.seconds(row.timeline.times.intended)),
    ("admitted_s", ColumnKind::Number, |row| row.seconds(Some(row.timeline.times.admitted))),
    ("sent_s", ColumnKind::Number, |row| row.seconds(row.timeline.times.first_byte_sent)),
    ("first_content_s", ColumnKind::Number, |row| {
        row.seconds(row.timeline.first_content().map(|event| event.at))
    }),
    ("end_s", ColumnKind::Number, |row| row.seconds(row.timeline.times.end)),
];

/// ITL has many values per request: these two stand for them.
const ITL: [&str; 2] = ["itl_ms_mean", "itl_ms_max"];

/// Names and kinds of the columns, in order.
pub fn columns() -> impl Iterator<Item = (&'static str, ColumnKind)> {
    let metrics = metrics().map(|(key, _, _)| key).chain(ITL);
    let metrics = metrics.map(|key| (key, ColumnKind::Number));
    COLUMNS.iter().map(|(name, kind, _)| (*name, *kind)).chain(metrics)
}

/// The cells of one request, in the order of [`columns`].
pub fn cells(row: TableRow<'_>) -> impl Iterator<Item = Cell> + '_ {
    let timeline = row.timeline;
    let metric = move |(_, unit, value): PerRequest| {
        let value = value(timeline).filter(|_| timeline.is_success());
        number(value.map(|value| value / unit.divisor()))
    };
    let plain = COLUMNS.iter().map(move |(_, _, value)| value(row));
    plain.chain(metrics().map(metric)).chain(itl(timeline).map(number))
}

/// Key, unit and formula of a metric with one value per request.
type PerRequest = (&'static str, Unit, fn(&Timeline) -> Option<f64>);

fn metrics() -> impl Iterator<Item = PerRequest> {
    METRICS.iter().filter_map(|metric| match metric.formula {
        Formula::Latency(value) | Formula::Value(value) => Some((metric.key, metric.unit, value)),
        Formula::Stream(_) | Formula::Session(_) | Formula::Run(_) => None,
    })
}

/// Mean and longest time between the content events of a successful answer, in milliseconds.
fn itl(timeline: &Timeline) -> [Option<f64>; 2] {
    let (mut sum, mut count, mut max) = (0.0, 0_u32, 0.0_f64);
    if timeline.is_success() {
        let metric = Quantity::Itl.metric();
        metric.each(timeline, &mut |nanos, weight| {
            let millis = nanos / metric.unit.divisor();
            sum += millis * f64::from(weight);
            count += weight;
            max = max.max(millis);
        });
    }
    let known = (count > 0).then_some(());
    [known.map(|()| sum / f64::from(count)), known.map(|()| max)]
}

/// A text cell of a CSV file. Spreadsheets compute a cell that begins like a formula, so such a cell
/// begins with an apostrophe, which they take as "text".
pub(crate) fn csv_text(text: String) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if is_formula { format!("'{text}") } else { text }
}

pub struct CsvTable<W: Write> {
    out: csv::Writer<W>,
}

impl<W: Write> CsvTable<W> {
    pub fn new(out: W) -> io::Result<Self> {
        let mut out = csv::Writer::from_writer(out);
        out.write_record(columns().map(|(name, _)| name))?;
        Ok(Self { out })
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> RequestTable for CsvTable<W> {
    fn push(&mut self, row: TableRow<'_>) -> io::Result<()> {
        let text = |cell: Cell| match cell {
            Cell::Absent => String::new(),
            Cell::Count(count) => count.to_string(),
            Cell::Number(number) => number.to_string(),
            Cell::Word(word) => csv_text(word),
        };
        Ok(self.out.write_record(cells(row).map(text))?)
    }
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

    /// A run at 8 req/s whose measured phase began after a second.
    pub(crate) fn run() -> TableRun {
        let (info, summary) = (crate::testing::info(), crate::testing::summary());
        TableRun {
            source: None,
            name: "000-request_rate=8".to_owned(),
            begin: Nanos::from_secs(1),
            judged: vec![JudgedTarget::of(&info, &summary)],
            load: RecordedLoad { request_rate: Some(8.0), max_concurrency: None, ..info.load },
        }
    }

    #[test]
    fn each_request_is_a_row_with_its_load_its_metrics_and_its_run_s_verdict() {
        let mut out = Vec::new();
        let mut table = CsvTable::new(&mut out).unwrap();
        for timeline in &requests() {
            table.push(TableRow { run: &run(), timeline }).unwrap();
        }
        table.finish().unwrap();
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
        assert_eq!(
            (cell(1, "request_rate"), cell(1, "max_concurrency")),
            ("8".into(), String::new())
        );
        assert_eq!((cell(0, "verdict"), cell(0, "run")), ("SUSPECT".into(), run().name));
        assert!(!cell(0, "notes").is_empty());
        assert_eq!((cell(0, "itl_ms_mean"), cell(0, "itl_ms_max")), ("10".into(), "10".into()));
        assert_eq!((cell(0, "e2e_ms"), cell(1, "itl_ms_max")), ("70".into(), String::new()));
    }
}
