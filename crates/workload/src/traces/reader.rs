//! A trace as a stream of sessions: opens what a path names, recognises its form, gathers and checks.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use tokometer_base::{Fingerprint, Nanos};

use super::build::build;
use super::flaw::{Flaw, FlawCount, FlawKind};
use super::form::{self, Form, Found, Setting, TraceClock};
use super::forms::mapped::FieldMap;
use super::read_ahead::{Gathered, Place, PlacedCall, ReadAhead};
use super::stream::Rows;
use crate::session::Session;
use crate::{Error, Result};

/// What to do with rows that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFlaw {
    /// Stop, naming the row.
    #[default]
    Refuse,
    /// Leave them out, and count them.
    Skip,
}

#[derive(Debug, Clone, Default)]
pub struct TraceOptions {
    pub on_flaw: OnFlaw,
    /// Tokens of a block, instead of those that the form has.
    pub block_tokens: Option<u32>,
    pub map: Option<FieldMap>,
    /// Bytes of calls that are read ahead of the session that is given out; `None` for the usual.
    pub read_ahead: Option<usize>,
}

/// Calls of some 100,000 rows: what a session's rows may be apart.
const READ_AHEAD: usize = 48 << 20;

/// Sessions of a trace, in the order of their starts.
pub struct TraceReader {
    files: Vec<PathBuf>,
    /// The file that is read.
    file: usize,
    rows: Option<Rows>,
    form: Option<&'static Form>,
    /// That of the form read last.
    clock: TraceClock,
    setting: Setting,
    on_flaw: OnFlaw,
    ahead: ReadAhead,
    ready: VecDeque<Session>,
    /// The start of the first session, from which all count.
    origin: Option<Nanos>,
    /// Whether the trace has times: as its first row.
    has_times: Option<bool>,
    last_start: Nanos,
    flaws: Vec<FlawCount>,
    row_count: u64,
    form_names: Vec<&'static str>,
}

impl TraceReader {
    /// Opens a file, or all files of a folder in the order of their names.
    pub fn open(path: &Path, options: &TraceOptions) -> Result<Self> {
        let files = files(path)?;
        let setting =
            Setting { block_tokens: options.block_tokens, map: options.map.clone(), place: 0 };
        Ok(Self {
            files,
            file: 0,
            rows: None,
            form: None,
            clock: TraceClock::Trace,
            setting,
            on_flaw: options.on_flaw,
            ahead: ReadAhead::new(options.read_ahead.unwrap_or(READ_AHEAD)),
            ready: VecDeque::new(),
            origin: None,
            has_times: None,
            last_start: Nanos::ZERO,
            flaws: Vec::new(),
            row_count: 0,
            form_names: Vec::new(),
        })
    }

    /// Rows read so far.
    pub fn rows(&self) -> u64 {
        self.row_count
    }

    /// What was wrong so far, by kind.
    pub fn flaws(&self) -> &[FlawCount] {
        &self.flaws
    }

    /// The names of the forms that were recognised.
    pub fn forms(&self) -> &[&'static str] {
        &self.form_names
    }

    /// The next session; `None` at the end of the trace.
    pub fn next_session(&mut self) -> Result<Option<Session>> {
        loop {
            if let Some(session) = self.ready.pop_front() {
                return Ok(Some(session));
            }
            if let Some(gathered) = self.ahead.full() {
                self.finish(gathered)?;
                continue;
            }
            if self.ahead.is_full_of_orphans() {
                self.report_orphans()?;
            }
            if !self.read_row()? {
                self.report_orphans()?;
                let Some(gathered) = self.ahead.first() else { return Ok(None) };
                self.finish(gathered)?;
            }
        }
    }

    fn finish(&mut self, gathered: Gathered) -> Result<()> {
        let start = gathered.calls.iter().filter_map(|placed| placed.call.start).min();
        let is_trace = self.clock == TraceClock::Trace;
        if let Some(first) = gathered.calls.first().filter(|_| is_trace)
            && self.has_times != Some(start.is_some())
        {
            let text = match start {
                None => "its session has no time, and others have",
                Some(_) => "its session has a time, and the first row has none",
            };
            return self.note(first.place, FlawKind::NoTime.with(text));
        }
        let origin = start.filter(|_| is_trace);
        let origin = origin.map(|start| *self.origin.get_or_insert(start));
        match build(gathered, origin) {
            Ok(session) => self.ready.push_back(session),
            Err((place, flaw)) => self.note(place, flaw)?,
        }
        Ok(())
    }

    fn report_orphans(&mut self) -> Result<()> {
        for (place, flaw) in self.ahead.orphans() {
            self.note(place, flaw)?;
        }
        Ok(())
    }

    /// Reads one row; says whether there was one.
    fn read_row(&mut self) -> Result<bool> {
        let Some(path) = self.files.get(self.file) else { return Ok(false) };
        let mut rows = match self.rows.take() {
            Some(rows) => rows,
            None => Rows::open(path).map_err(Error::read(path))?,
        };
        let Some((line, row)) = rows.next().map_err(Error::read(path))? else {
            if self.form.take().is_none() {
                return Err(Error::Empty(path.clone()));
            }
            self.file += 1;
            return Ok(true);
        };
        let place = Place { file: self.file, line };
        let mut found = Found::default();
        let read = match (row, self.form) {
            (Err(why), _) => Err(why.into()),
            (Ok(row), Some(form)) => {
                self.setting.place = row_name(self.file, line, 0);
                (form.read)(row, &self.setting, &mut found)
            }
            (Ok(row), None) => {
                let form = form::recognised(row, self.setting.map.as_ref())
                    .map_err(|reason| Error::Malformed { path: path.clone(), line, reason })?;
                self.form = Some(form);
                self.clock = form.clock;
                if !self.form_names.contains(&form.name) {
                    self.form_names.push(form.name);
                }
                self.setting.place = row_name(self.file, line, 0);
                (form.read)(row, &self.setting, &mut found)
            }
        };
        self.rows = Some(rows);
        self.row_count += 1;
        if let Err(flaw) = read {
            self.note(place, flaw)?;
        }
        self.take(place, found)?;
        Ok(true)
    }

    /// Adds what a row held to what is read ahead.
    fn take(&mut self, place: Place, found: Found) -> Result<()> {
        for flaw in found.flaws {
            self.note(place, flaw)?;
        }
        for session in found.sessions {
            let start = session.start.unwrap_or(self.last_start);
            if start < self.last_start {
                let text = "its session starts before the one above it";
                self.note(place, FlawKind::OutOfOrder.with(text))?;
                continue;
            }
            self.last_start = start;
            self.ready.push_back(session);
        }
        for (number, call) in (1..).zip(found.calls) {
            self.has_times.get_or_insert(call.start.is_some());
            let name = row_name(place.file, place.line, number);
            let added =
                checked(&call).and_then(|()| self.ahead.add(PlacedCall { call, place, name }));
            if let Err(flaw) = added {
                self.note(place, flaw)?;
            }
        }
        // A row of such a form is a whole session.
        if self.clock == TraceClock::Session {
            while let Some(gathered) = self.ahead.first() {
                self.finish(gathered)?;
            }
        }
        Ok(())
    }

    /// Counts a flaw, or refuses the trace because of it.
    fn note(&mut self, place: Place, flaw: Flaw) -> Result<()> {
        let path = self.files[place.file].clone();
        if self.on_flaw == OnFlaw::Refuse {
            let reason = format!("{}\n  leave out such rows with `--skip-bad-rows`", flaw.text);
            return Err(Error::Malformed { path, line: place.line, reason });
        }
        match self.flaws.iter_mut().find(|known| known.kind == flaw.kind) {
            Some(known) => known.rows += 1,
            None => self.flaws.push(FlawCount {
                kind: flaw.kind,
                rows: 1,
                path,
                line: place.line,
                text: flaw.text,
            }),
        }
        Ok(())
    }
}

impl Iterator for TraceReader {
    type Item = Result<Session>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_session().transpose()
    }
}

/// A name that no other call of the trace has; the same in every reading of it.
fn row_name(file: usize, line: u64, call: u64) -> u64 {
    let bytes = [file as u64, line, call].map(u64::to_le_bytes).concat();
    Fingerprint::default().with(&bytes).value()
}

/// Lengths of zero cannot be asked for.
fn checked(call: &super::call::Call) -> std::result::Result<(), Flaw> {
    for (tokens, what) in [(call.input, "prompt"), (call.output, "answer")] {
        if tokens == Some(0) {
            return Err(FlawKind::ZeroLength.with(format!("its {what} has 0 tokens")));
        }
    }
    Ok(())
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(Error::read(path))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(Error::read(path))?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let is_trace = [".json", ".jsonl", ".csv", ".gz"].iter().any(|end| name.ends_with(end));
        if is_trace && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        let reason = "the folder has no file that ends in .json, .jsonl, .csv or .gz".to_owned();
        return Err(Error::TooShort { path: path.to_owned(), reason });
    }
    Ok(files)
}
