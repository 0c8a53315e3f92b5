//! What a trace is like: lengths, sharing, sessions, and when they begin. Counted while it is read.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;

use hdrhistogram::Histogram as Counts;
use tokometer_base::{Fingerprint, Nanos};
use tokometer_tokenize::Tokenizer;

use super::{FlawCount, TraceReader};
use crate::histogram::{Bin, bars};
use crate::session::{Piece, PieceName, Session, Turn};

/// Beginnings of prompts that are remembered, which bounds memory to about 100 MB.
const REMEMBERED: usize = 3_000_000;

/// Bins of the picture of starts: twice as many at most, before neighbours are joined.
const BINS: usize = 12;

/// The first width of a bin.
const FIRST_BIN: Nanos = Nanos::from_millis(1);

#[derive(Debug)]
pub struct Survey {
    rows: u64,
    forms: String,
    sessions: u64,
    turns: Counts<u64>,
    prompts: Counts<u64>,
    answers: Counts<u64>,
    /// Requests whose prompt is text: only a tokenizer knows its length.
    uncounted: u64,
    sharing: Sharing,
    starts: Starts,
    flight: InFlight,
    flaws: Vec<FlawCount>,
}

impl Survey {
    /// Reads a whole trace. `each` gets its sessions.
    pub fn of<E: From<crate::Error>>(
        mut reader: TraceReader,
        mut each: impl FnMut(Session) -> std::result::Result<(), E>,
    ) -> std::result::Result<Self, E> {
        let counts = || Counts::new(3).expect("three digits are allowed");
        let mut survey = Self {
            rows: 0,
            forms: String::new(),
            sessions: 0,
            turns: counts(),
            prompts: counts(),
            answers: counts(),
            uncounted: 0,
            sharing: Sharing::default(),
            starts: Starts::default(),
            flight: InFlight::default(),
            flaws: Vec::new(),
        };
        while let Some(session) = reader.next_session()? {
            survey.add(&session);
            each(session)?;
        }
        survey.rows = reader.rows();
        survey.forms = reader.forms().join(", ");
        survey.flaws = reader.flaws().to_vec();
        Ok(survey)
    }

    /// Reads a whole trace, and writes its sessions as lines without text. Only a prompt that is given as text asks for
    /// the tokenizer. The inner error is the writer's.
    pub fn exported<E: From<crate::Error>>(
        reader: TraceReader,
        out: &mut dyn Write,
        tokenizer: impl Fn() -> std::result::Result<Arc<dyn Tokenizer>, E>,
    ) -> std::result::Result<io::Result<Self>, E> {
        let mut opened = None;
        let mut written = Ok(());
        let survey = Self::of(reader, |mut session| {
            if opened.is_none()
                && session
                    .pieces_mut()
                    .any(|piece| matches!(piece, Piece::Text(_) | Piece::Messages(_)))
            {
                opened = Some(tokenizer()?);
            }
            if let Some(tokenizer) = &opened {
                let tokens = |text: &str| tokenizer.count(text).map_err(crate::Error::from);
                strip_text(&mut session, |text| {
                    tokens(text).map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX))
                })?;
            }
            if written.is_ok() {
                written = serde_json::to_writer(&mut *out, &session)
                    .map_err(io::Error::from)
                    .and_then(|()| out.write_all(b"\n"));
            }
            Ok::<(), E>(())
        })?;
        Ok(written.map(|()| survey))
    }

    pub fn sessions(&self) -> u64 {
        self.sessions
    }

    pub fn has_flaws(&self) -> bool {
        !self.flaws.is_empty()
    }

    fn add(&mut self, session: &Session) {
        let number = self.sessions;
        self.sessions += 1;
        self.turns.saturating_record(session.turns().len() as u64);
        for turn in session.turns() {
            match prompt_tokens(turn, session.turns()) {
                Some(tokens) => self.prompts.saturating_record(tokens),
                None => self.uncounted += 1,
            }
            self.answers.saturating_record(turn.answer_tokens.unwrap_or(0).into());
            self.sharing.add(turn, number, session.turns());
        }
        self.flight.add(session);
        if let Some(start) = session.start {
            self.starts.add(start);
        }
    }

    /// The table and the picture, in 80 columns.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<12}{value}");
        };
        row("form", format!("{}, {} rows", self.forms, self.rows));
        let requests = self.prompts.len() + self.uncounted;
        row(
            "sessions",
            format!("{} with {requests} requests: {}", self.sessions, spread(&self.turns)),
        );
        row("prompts", format!("{} tokens", spread(&self.prompts)));
        if self.uncounted > 0 {
            row("", format!("not counted, because they are given as text: {}", self.uncounted));
        }
        row("answers", format!("{} tokens", spread(&self.answers)));
        row("shared", self.sharing.words(requests));
        for (name, words) in self.starts.words() {
            row(name, words);
        }
        row("in progress", self.flight.words(self.starts.last));
        for flaw in &self.flaws {
            let FlawCount { kind, rows, path, line, text } = flaw;
            let text = text.lines().next().unwrap_or_default();
            row("left out", format!("rows that {}: {rows}", kind.words()));
            row("", format!("first {}, line {line}: {text}", path.display()));
        }
        let _ = write!(text, "{}", self.starts.picture());
        text
    }
}

fn prompt_tokens(turn: &Turn, turns: &[Turn]) -> Option<u64> {
    turn.pieces.iter().map(|piece| piece_tokens(piece, turns).map(u64::from)).sum()
}

fn piece_tokens(piece: &Piece, turns: &[Turn]) -> Option<u32> {
    match piece {
        Piece::Made { tokens, .. } => Some(*tokens),
        Piece::Answer(answer) => turns[answer.turn as usize].answer_tokens,
        Piece::Text(_) | Piece::Messages(_) | Piece::Given(_) => None,
    }
}

fn spread(counts: &Counts<u64>) -> String {
    let at = |quantile| counts.value_at_quantile(quantile);
    let [p50, p90, p99] = [at(0.5), at(0.9), at(0.99)];
    format!("mean {:.1}, p50 {p50}, p90 {p90}, p99 {p99}, max {}", counts.mean(), counts.max())
}

/// How much of the prompts begins as one before did: what a prefix cache without a limit would hold.
#[derive(Debug, Default)]
struct Sharing {
    /// The longest piece seen behind each beginning, by a hash of both.
    beginnings: HashMap<u64, u32>,
    requests: u64,
    tokens: u64,
    shared: u64,
}

impl Sharing {
    fn add(&mut self, turn: &Turn, session: u64, turns: &[Turn]) {
        if self.beginnings.len() >= REMEMBERED {
            return;
        }
        self.requests += 1;
        let (mut chain, mut is_shared) = (Fingerprint::default(), true);
        for piece in &turn.pieces {
            let name = match piece {
                Piece::Made { name, .. } => name.source(),
                Piece::Answer(answer) => answer.name(session).source(),
                Piece::Text(_) | Piece::Messages(_) | Piece::Given(_) => return,
            };
            let tokens = piece_tokens(piece, turns).unwrap_or(0);
            self.tokens += u64::from(tokens);
            chain = chain.with_part(&name.0.as_bytes()[..1]).with_part(&name.1.to_le_bytes());
            let seen = match self.beginnings.entry(chain.value()) {
                Entry::Occupied(mut known) => {
                    let seen = *known.get();
                    known.insert(seen.max(tokens));
                    seen.min(tokens)
                }
                Entry::Vacant(new) => {
                    new.insert(tokens);
                    0
                }
            };
            self.shared += if is_shared { u64::from(seen) } else { 0 };
            is_shared &= seen == tokens;
        }
    }

    fn words(&self, requests: u64) -> String {
        if self.tokens == 0 {
            return "not known: the prompts are text".to_owned();
        }
        let share = 100.0 * self.shared as f64 / self.tokens as f64;
        let of = match self.requests {
            all if all == requests => String::new(),
            first => format!(" (first {first} requests)"),
        };
        format!("{share:.1} % of prompt tokens begin as an earlier prompt did{of}")
    }
}

/// When sessions begin. They come in the order of their starts.
#[derive(Debug, Default)]
struct Starts {
    count: u64,
    last: Nanos,
    /// Starts at the time of the last one, the most at one time, and distinct times.
    together: u64,
    most_together: u64,
    times: u64,
    /// The greatest span, in microseconds, of which all gaps are multiples.
    tick: u64,
    gap_square_sum: f64,
    bins: Vec<u64>,
    joined: u32,
}

impl Starts {
    fn add(&mut self, start: Nanos) {
        let gap = start.saturating_sub(self.last);
        self.count += 1;
        self.gap_square_sum += gap.as_secs_f64().powi(2);
        self.tick = greatest_divisor(self.tick, gap.0 / 1_000);
        self.together = if gap == Nanos::ZERO { self.together + 1 } else { 1 };
        self.times += u64::from(self.together == 1);
        self.most_together = self.most_together.max(self.together);
        self.last = start;
        while self.bin(start) >= 2 * BINS {
            self.bins = self.bins.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.joined += 1;
        }
        let bin = self.bin(start);
        self.bins.resize(self.bins.len().max(bin + 1), 0);
        self.bins[bin] += 1;
    }

    fn bin(&self, start: Nanos) -> usize {
        usize::try_from((start.0 / FIRST_BIN.0) >> self.joined).unwrap_or(usize::MAX)
    }

    fn words(&self) -> Vec<(&'static str, String)> {
        let span = self.last.as_secs_f64();
        if self.count == 0 {
            return vec![("starts", "not recorded".to_owned())];
        }
        if span == 0.0 {
            return vec![("starts", "all at once".to_owned())];
        }
        let gaps = (self.count - 1) as f64;
        let mean = span / gaps;
        let variation = ((self.gap_square_sum / gaps - mean * mean).max(0.0)).sqrt() / mean;
        let mut rows = vec![
            ("starts", format!("over {span:.1} s, {:.3} per second", gaps / span)),
            ("burstiness", format!("gaps vary by {variation:.2} of their mean (Poisson: 1)")),
        ];
        // A clock of microseconds or milliseconds has no ticks that a load would show.
        let tick = Nanos::from_micros(self.tick).as_secs_f64();
        if tick >= 0.1 && self.most_together > 1 {
            let (times, most) = (self.times, self.most_together);
            rows.push((
                "clock ticks",
                format!("of {tick} s: {times} times, up to {most} starts at one"),
            ));
        }
        rows
    }

    fn picture(&self) -> String {
        if self.bins.len() < 2 {
            return String::new();
        }
        let width = Nanos(FIRST_BIN.0 << self.joined);
        let bins: Vec<Bin> = (0..)
            .zip(&self.bins)
            .map(|(bin, count)| (width.0 * bin / 1_000_000, *count))
            .map(|(low, count)| Bin { low, high: low + width.0 / 1_000_000 - 1, count })
            .collect();
        format!("sessions by their start, in milliseconds\n{}\n", bars(&bins).join("\n"))
    }
}

fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// How many sessions and requests were in progress, where durations are recorded.
#[derive(Debug, Default)]
struct InFlight {
    ends: BinaryHeap<Reverse<Nanos>>,
    most: usize,
    busy: f64,
    timed: u64,
    untimed: u64,
}

impl InFlight {
    fn add(&mut self, session: &Session) {
        let times = || session.turns().iter().filter_map(|turn| turn.recorded);
        let durations = times().filter_map(|times| times.duration);
        let mut with_duration = 0;
        for duration in durations {
            with_duration += 1;
            self.busy += duration.as_secs_f64();
        }
        self.timed += with_duration;
        self.untimed += session.turns().len() as u64 - with_duration;
        let Some(start) = session.start else { return };
        let last =
            times().map(|times| times.sent.saturating_add(times.duration.unwrap_or_default()));
        self.ends.push(Reverse(start.saturating_add(last.max().unwrap_or_default())));
        while self.ends.peek().is_some_and(|end| end.0 < start) {
            self.ends.pop();
        }
        self.most = self.most.max(self.ends.len());
    }

    fn words(&self, span: Nanos) -> String {
        let sessions = match self.most {
            0 => "sessions at once: not known".to_owned(),
            most => format!("up to {most} sessions at once"),
        };
        if self.timed == 0 || span == Nanos::ZERO {
            return format!("{sessions}; durations are not recorded");
        }
        let mean = self.busy / span.as_secs_f64();
        let missing = match self.untimed {
            0 => String::new(),
            some => format!(" ({some} without a duration)"),
        };
        format!("{sessions}, {mean:.2} requests on average{missing}")
    }
}

/// Replaces given content by made content, of the length that `count` finds.
fn strip_text<E>(
    session: &mut Session,
    count: impl Fn(&str) -> std::result::Result<u32, E>,
) -> std::result::Result<(), E> {
    for piece in session.pieces_mut() {
        let (text, tokens) = match piece {
            Piece::Text(text) => (text.to_string(), count(text)?),
            Piece::Messages(list) => {
                let words = list.iter().map(|it| format!("{}\n{}\n", it.role, it.content));
                let tokens = list.iter().map(|message| count(&message.content));
                (words.collect(), tokens.sum::<std::result::Result<u32, E>>()?)
            }
            Piece::Made { .. } | Piece::Answer(_) | Piece::Given(_) => continue,
        };
        let name = Fingerprint::default().with(text.as_bytes()).value();
        *piece = Piece::Made { name: PieceName::Content(name), tokens: tokens.max(1) };
    }
    for turn in session.turns_mut().filter(|turn| turn.answer_tokens.is_none()) {
        let answer = turn.answer.as_ref().map(|answer| count(&answer.content));
        turn.answer_tokens = answer.transpose()?.map(|tokens| tokens.max(1));
    }
    Ok(())
}
