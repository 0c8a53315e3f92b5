//! The truth log: when each event was handed to the kernel, on the machine's monotonic clock.
//!
//! A text file, one line per fact, fields separated by single blanks, times in nanoseconds:
//!
//! ```text
//! # tokometer truth 1
//! R <stream> <connection> <peer port> <nth on connection> <first byte> <complete> <prompt tokens> <answer tokens> <request id or -> <path>
//! E <stream> <kind> <tokens> <before send> <after send>
//! X <stream> <time> <outcome>
//! ```
//!
//! An event's two times bracket the `send` that carried its last byte: on loopback the receiver's
//! kernel stamp lies between them. Lines are written by a thread of their own, at most a tenth of a
//! second late; a truncated last line is skipped on reading.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use base::Nanos;
use tokometer_base as base;

const FIRST_LINE: &str = "# tokometer truth 1";

/// Facts that are collected before they are handed to the writing thread.
const BATCH_FACTS: usize = 4096;

/// What an event carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SentKind {
    Head,
    /// A role without text.
    Role,
    Text,
    /// A finish reason without text.
    Finish,
    Usage,
    Done,
    Error,
    Comment,
    /// A whole answer that was not streamed.
    Whole,
    /// The last chunk of the HTTP body.
    End,
}

const KINDS: [(SentKind, &str); 10] = [
    (SentKind::Head, "head"),
    (SentKind::Role, "role"),
    (SentKind::Text, "text"),
    (SentKind::Finish, "finish"),
    (SentKind::Usage, "usage"),
    (SentKind::Done, "done"),
    (SentKind::Error, "error"),
    (SentKind::Comment, "comment"),
    (SentKind::Whole, "whole"),
    (SentKind::End, "end"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// Everything was sent.
    Complete,
    /// The client went away.
    Cancelled,
    /// A fault ended it.
    Broken,
}

const OUTCOMES: [(StreamEnd, &str); 3] = [
    (StreamEnd::Complete, "complete"),
    (StreamEnd::Cancelled, "cancelled"),
    (StreamEnd::Broken, "broken"),
];

fn name_of<T: Copy + PartialEq>(table: &[(T, &'static str)], value: T) -> &'static str {
    table.iter().find(|(entry, _)| *entry == value).map_or("", |(_, name)| name)
}

fn named<T: Copy>(table: &[(T, &'static str)], name: &str) -> Option<T> {
    table.iter().find(|(_, entry)| *entry == name).map(|(value, _)| *value)
}

/// One answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrueRequest {
    /// The server's number for it, in order of arrival.
    pub stream: u64,
    /// The server's number of the connection.
    pub connection: u64,
    pub peer_port: u16,
    /// Requests on this connection before it.
    pub nth: u32,
    /// When the first byte of the request was read.
    pub first_byte: Nanos,
    /// When its last byte was read.
    pub complete: Nanos,
    pub prompt_tokens: u32,
    /// Tokens planned for the answer.
    pub answer_tokens: u32,
    /// The request's `x-request-id` header, blanks replaced by `_`.
    pub request_id: Option<String>,
    pub path: String,
    pub events: Vec<TrueEvent>,
    /// How and when it ended; `None` when the log ends earlier.
    pub end: Option<(Nanos, StreamEnd)>,
}

impl TrueRequest {
    /// The number that ends the request's id: its index in the client's plan, where the client wrote
    /// its ids so.
    pub fn index(&self) -> Option<u64> {
        self.request_id.as_deref()?.rsplit('-').next()?.parse().ok()
    }

    /// Just before each event with text was handed to the kernel.
    pub fn texts_sent(&self) -> Vec<Nanos> {
        let texts = self.events.iter().filter(|event| event.kind == SentKind::Text);
        texts.map(|event| event.before).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrueEvent {
    pub kind: SentKind,
    pub tokens: u32,
    /// Just before the `send` that carried its last byte.
    pub before: Nanos,
    /// Just after that.
    pub after: Nanos,
}

#[derive(Debug, Clone)]
pub(crate) enum Fact {
    Request(Box<TrueRequest>),
    Event { stream: u64, event: TrueEvent },
    End { stream: u64, at: Nanos, outcome: StreamEnd },
}

impl Fact {
    fn write(&self, file: &mut impl Write) -> std::io::Result<()> {
        match self {
            Self::Request(request) => {
                let id = request.request_id.as_deref().unwrap_or("-");
                let id: String =
                    id.chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect();
                write!(file, "R {} {}", request.stream, request.connection)?;
                write!(file, " {} {}", request.peer_port, request.nth)?;
                write!(file, " {} {}", request.first_byte.0, request.complete.0)?;
                write!(file, " {} {}", request.prompt_tokens, request.answer_tokens)?;
                writeln!(file, " {id} {}", request.path)
            }
            Self::Event { stream, event } => {
                let kind = name_of(&KINDS, event.kind);
                let (tokens, before, after) = (event.tokens, event.before.0, event.after.0);
                writeln!(file, "E {stream} {kind} {tokens} {before} {after}")
            }
            Self::End { stream, at, outcome } => {
                writeln!(file, "X {stream} {} {}", at.0, name_of(&OUTCOMES, *outcome))
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TruthError {
    #[error("cannot use the truth log {}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("cannot read the truth log {} at line {line}: `{text}` is not a valid entry", path.display())]
    Syntax { path: PathBuf, line: usize, text: String },
}

/// Collects facts and hands them to the thread that writes them.
#[derive(Debug)]
pub(crate) struct Log {
    batch: Vec<Fact>,
    sender: Option<Sender<Vec<Fact>>>,
    writer: Option<JoinHandle<std::io::Result<()>>>,
    path: PathBuf,
}

impl Log {
    pub(crate) fn create(path: &Path) -> Result<Self, TruthError> {
        let fault = |source| TruthError::Io { path: path.to_owned(), source };
        let mut file = BufWriter::new(File::create(path).map_err(fault)?);
        writeln!(file, "{FIRST_LINE}").map_err(fault)?;
        let (sender, receiver) = channel();
        let writer = std::thread::Builder::new()
            .name("truth".to_owned())
            .spawn(move || write_all(&receiver, &mut file))
            .map_err(fault)?;
        let path = path.to_owned();
        Ok(Self { batch: Vec::new(), sender: Some(sender), writer: Some(writer), path })
    }

    pub(crate) fn push(&mut self, fact: Fact) {
        self.batch.push(fact);
        if self.batch.len() >= BATCH_FACTS {
            self.hand_over();
        }
    }

    /// Gives what was collected to the writing thread.
    pub(crate) fn hand_over(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_FACTS));
        if let Some(sender) = &self.sender {
            // A writer that has stopped reports its own error in `close`.
            let _ = sender.send(batch);
        }
    }

    /// Writes everything and waits for it to be done.
    pub(crate) fn close(mut self) -> Result<(), TruthError> {
        self.hand_over();
        self.sender = None;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let result = writer.join().unwrap_or_else(|_| Err(std::io::Error::other("writer died")));
        result.map_err(|source| TruthError::Io { path: self.path, source })
    }
}

fn write_all(receiver: &Receiver<Vec<Fact>>, file: &mut BufWriter<File>) -> std::io::Result<()> {
    for batch in receiver {
        for fact in batch {
            fact.write(file)?;
        }
        file.flush()?;
    }
    file.flush()
}

/// Reads a truth log: its requests in order of arrival, each with its events.
pub fn read(path: &Path) -> Result<Vec<TrueRequest>, TruthError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| TruthError::Io { path: path.to_owned(), source })?;
    // A log that is still being written may end in the middle of a line.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut requests: Vec<TrueRequest> = Vec::new();
    let mut indexes: HashMap<u64, usize> = HashMap::new();
    for (index, line) in whole.lines().enumerate() {
        if line.starts_with('#') {
            continue;
        }
        let applied = parse(line).and_then(|fact| apply(fact, &mut requests, &mut indexes));
        if applied.is_none() {
            let (path, text) = (path.to_owned(), line.to_owned());
            return Err(TruthError::Syntax { path, line: index + 1, text });
        }
    }
    Ok(requests)
}

fn apply(
    fact: Fact,
    requests: &mut Vec<TrueRequest>,
    indexes: &mut HashMap<u64, usize>,
) -> Option<()> {
    match fact {
        Fact::Request(request) => {
            indexes.insert(request.stream, requests.len());
            requests.push(*request);
        }
        Fact::Event { stream, event } => requests[*indexes.get(&stream)?].events.push(event),
        Fact::End { stream, at, outcome } => {
            requests[*indexes.get(&stream)?].end = Some((at, outcome));
        }
    }
    Some(())
}

fn parse(line: &str) -> Option<Fact> {
    let mut fields = line.split(' ');
    let tag = fields.next()?;
    let stream = number(&mut fields)?;
    match tag {
        "R" => {
            let request = TrueRequest {
                stream,
                connection: number(&mut fields)?,
                peer_port: number(&mut fields)?,
                nth: number(&mut fields)?,
                first_byte: Nanos(number(&mut fields)?),
                complete: Nanos(number(&mut fields)?),
                prompt_tokens: number(&mut fields)?,
                answer_tokens: number(&mut fields)?,
                request_id: Some(fields.next()?).filter(|id| *id != "-").map(str::to_owned),
                path: fields.next()?.to_owned(),
                events: Vec::new(),
                end: None,
            };
            Some(Fact::Request(Box::new(request)))
        }
        "E" => {
            let event = TrueEvent {
                kind: named(&KINDS, fields.next()?)?,
                tokens: number(&mut fields)?,
                before: Nanos(number(&mut fields)?),
                after: Nanos(number(&mut fields)?),
            };
            Some(Fact::Event { stream, event })
        }
        "X" => {
            let at = Nanos(number(&mut fields)?);
            Some(Fact::End { stream, at, outcome: named(&OUTCOMES, fields.next()?)? })
        }
        _ => None,
    }
}

fn number<'a, T: FromStr>(fields: &mut impl Iterator<Item = &'a str>) -> Option<T> {
    fields.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(stream: u64) -> TrueRequest {
        TrueRequest {
            stream,
            connection: 9,
            peer_port: 40_000,
            nth: 1,
            first_byte: Nanos(10),
            complete: Nanos(20),
            prompt_tokens: 5,
            answer_tokens: 2,
            request_id: Some("bench 1".to_owned()),
            path: "/v1/completions".to_owned(),
            events: Vec::new(),
            end: None,
        }
    }

    #[test]
    fn what_is_logged_is_read_back_with_each_event_at_its_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("truth");
        let mut log = Log::create(&path).unwrap();
        let event =
            TrueEvent { kind: SentKind::Text, tokens: 1, before: Nanos(30), after: Nanos(31) };
        log.push(Fact::Request(Box::new(request(1))));
        log.push(Fact::Request(Box::new(TrueRequest { request_id: None, ..request(2) })));
        log.push(Fact::Event { stream: 1, event });
        log.push(Fact::End { stream: 2, at: Nanos(40), outcome: StreamEnd::Cancelled });
        log.close().unwrap();
        let read_back = read(&path).unwrap();
        let id = Some("bench_1".to_owned());
        let first = TrueRequest { request_id: id, events: vec![event], ..request(1) };
        let end = Some((Nanos(40), StreamEnd::Cancelled));
        let second = TrueRequest { request_id: None, end, ..request(2) };
        assert_eq!(read_back, [first, second]);
    }

    #[test]
    fn a_truncated_last_line_is_skipped_and_a_broken_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("truth");
        std::fs::write(&path, "# tokometer truth 1\nR 1 9 1 0 1 2 3 4 - /x\nE 1 te").unwrap();
        assert_eq!(read(&path).unwrap().len(), 1);
        std::fs::write(&path, "R 1 9 1 0 1 2 3 4 - /x\nE 2 text 1 2 3\n").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.ends_with("at line 2: `E 2 text 1 2 3` is not a valid entry"), "{error}");
    }
}
