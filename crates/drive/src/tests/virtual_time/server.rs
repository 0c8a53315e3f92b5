//! A server in memory that follows a script drawn from a seed, and stores what it did.

use std::sync::Arc;

use tokometer_base::seed::{Generator, whole_between};
use tokometer_base::{Nanos, Seed};
use tokometer_client::conn::Peer;
use tokometer_record::FailureKind;

use super::network::End;
use crate::Interrupt;

/// The message of a scripted panic.
pub(super) const PANIC: &str = "a scripted panic";

/// Pings of an answer that has nothing else, and the time between two.
const PINGS: u32 = 100;
const PING_GAP: Nanos = Nanos::from_millis(30);

/// The port at which every connection is refused.
pub(super) const REFUSING: u16 = 81;
/// The port at which no connection is answered.
pub(super) const SILENT: u16 = 82;

/// Probabilities of the server's faults.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Habits {
    /// Percentage of answers with a fault.
    pub(super) faults: u64,
    /// Percentage of connections that are refused.
    pub(super) refusals: u64,
    /// Percentage of connections that are never accepted.
    pub(super) silences: u64,
    /// Percentage of connections whose bytes are read slowly.
    pub(super) slow_readers: u64,
    /// Percentage of answers after which an idle connection is closed soon.
    pub(super) idle_closes: u64,
    /// Percentage of responses whose segments do not end with events.
    pub(super) odd_cuts: u64,
    /// Gap between tokens; `None` draws each.
    pub(super) gap: Option<Nanos>,
    /// The response, counted from zero, whose reading panics.
    pub(super) panics_at: Option<usize>,
    /// How many answers at the beginning have this fault.
    pub(super) first: Option<(usize, Fault)>,
    /// Seconds that a 429 asks to wait; `None` draws them.
    pub(super) retry_after: Option<u64>,
}

/// The fault of a response. A number is the tokens before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// A long pause, shorter than any timeout.
    Pauses(usize),
    /// Announces `Connection: close`.
    SaysClose,
    /// Closes right after the response without announcing it.
    ClosesAfter,
    /// Sends bytes after the response that belong to none.
    Garbage,
    Status(u16),
    /// Sends the end marker and leaves the body open.
    LeavesOpen,
    /// The same, and resets the connection 40 ms later.
    ResetsAfter,
    /// Sends no further byte.
    Stalls(usize),
    /// Sends nothing but comments and events without content.
    Pings(usize),
    /// Closes instead of responding.
    ClosesBefore,
    Cuts(usize),
    Resets(usize),
    BadChunk(usize),
    ErrorEvent(usize),
    NoContent,
    Panics,
}

impl Fault {
    /// The failure that the attempt must record; `None` when it must succeed.
    pub(super) fn failure(self) -> Option<FailureKind> {
        match self {
            Self::None
            | Self::Pauses(_)
            | Self::SaysClose
            | Self::ClosesAfter
            | Self::Garbage
            | Self::LeavesOpen
            | Self::ResetsAfter => None,
            Self::Status(_) => Some(FailureKind::Status),
            // Before the first token only the limit of the whole request holds.
            Self::Stalls(0) | Self::Pings(0) => Some(FailureKind::Timeout),
            Self::Stalls(_) | Self::Pings(_) => Some(FailureKind::Stall),
            Self::ClosesBefore | Self::Cuts(_) | Self::Resets(_) | Self::Panics => {
                Some(FailureKind::Cut)
            }
            Self::BadChunk(_) => Some(FailureKind::Protocol),
            Self::ErrorEvent(_) => Some(FailureKind::InStream),
            Self::NoContent => Some(FailureKind::NoContent),
        }
    }

    fn draw(draws: &mut Generator, tokens: usize) -> Self {
        let after = usize::try_from(whole_between(draws, 0, tokens as u64 - 1)).unwrap();
        match whole_between(draws, 0, 17) {
            0 => Self::Pauses(after),
            1 => Self::SaysClose,
            2 => Self::ClosesAfter,
            3 => Self::Garbage,
            4 => Self::Status(429),
            5 => Self::Status(503),
            6 => Self::Status(400),
            7 | 8 => Self::Stalls(after),
            9 => Self::ClosesBefore,
            10 | 11 => Self::Cuts(after),
            12 => Self::Resets(after),
            13 => Self::BadChunk(after),
            14 => Self::ErrorEvent(after),
            15 => Self::LeavesOpen,
            16 => Self::Pings(after),
            _ => Self::NoContent,
        }
    }

    /// The number of tokens before the fault.
    fn after(self) -> Option<usize> {
        match self {
            Self::Stalls(after)
            | Self::Pings(after)
            | Self::Cuts(after)
            | Self::Resets(after)
            | Self::BadChunk(after)
            | Self::ErrorEvent(after) => Some(after),
            Self::NoContent => Some(0),
            _ => None,
        }
    }
}

/// What the server sends or does, some time after a request has arrived.
#[derive(Debug)]
pub(super) enum Act {
    Segment(Vec<u8>),
    End(End),
    CloseWhenIdle,
}

/// How the server accepts a connection.
#[derive(Debug)]
pub(super) struct Greeting {
    /// `None`: neither accepted nor refused.
    pub(super) is_accepted: Option<bool>,
    /// One way.
    pub(super) latency: Nanos,
    /// Bytes read at a time, and how long each read takes; `None` reads everything at once.
    pub(super) send_buffer: Option<(usize, Nanos)>,
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) text: String,
    /// With the last byte of its event.
    pub(super) arrived: Nanos,
    /// With the last byte of its chunk, two bytes later.
    pub(super) closed: Nanos,
}

#[derive(Debug, Clone)]
pub(super) struct Served {
    /// The tag of the prompt.
    pub(super) tag: String,
    /// When the request arrived at the server.
    pub(super) at: Nanos,
    pub(super) fault: Fault,
    pub(super) tokens: Vec<Token>,
}

#[derive(Debug)]
pub(crate) struct Server {
    draws: Generator,
    habits: Habits,
    pub(super) served: Vec<Served>,
    interrupts: Vec<(Nanos, Arc<Interrupt>)>,
}

/// Removes a complete request from the received bytes, and returns its body.
pub(super) fn take_request(bytes: &mut Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes.clone()).unwrap();
    let (head, rest) = text.split_once("\r\n\r\n")?;
    let lines = head.to_ascii_lowercase();
    let length = lines.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
    let length: usize = length.trim().parse().unwrap();
    let body = rest.get(..length)?.to_owned();
    drop(bytes.drain(..head.len() + 4 + length));
    Some(body)
}

fn between<'a>(text: &'a str, before: &str, after: char) -> Option<&'a str> {
    Some(text.split_once(before)?.1.split(after).next().unwrap_or_default())
}

fn event(data: &str) -> Vec<u8> {
    let event = format!("data: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len()).into_bytes()
}

impl Server {
    pub(super) fn new(seed: Seed, habits: Habits) -> Self {
        let draws = seed.stream("server").at(0);
        Self { draws, habits, served: Vec::new(), interrupts: Vec::new() }
    }

    pub(super) fn interrupt_at(&mut self, at: Nanos, interrupt: &Arc<Interrupt>) {
        self.interrupts.push((at, Arc::clone(interrupt)));
    }

    pub(super) fn take_interrupts(&mut self) -> Vec<(Nanos, Arc<Interrupt>)> {
        std::mem::take(&mut self.interrupts)
    }

    fn happens(&mut self, percentage: u64) -> bool {
        whole_between(&mut self.draws, 0, 99) < percentage
    }

    fn micros(&mut self, low: u64, high: u64) -> Nanos {
        Nanos::from_micros(whole_between(&mut self.draws, low, high))
    }

    pub(super) fn greet(&mut self, at: &Peer) -> Greeting {
        let is_refused = self.happens(self.habits.refusals);
        let is_silent = self.happens(self.habits.silences);
        let is_slow = self.happens(self.habits.slow_readers);
        let latency = self.micros(50, 500);
        let bytes = usize::try_from(whole_between(&mut self.draws, 64, 400)).unwrap();
        let send_buffer = Some((bytes, self.micros(500, 3_000))).filter(|_| is_slow);
        let is_accepted = match at {
            Peer::Tcp(address) if address.port() == REFUSING => Some(false),
            Peer::Tcp(address) if address.port() == SILENT => None,
            _ if is_silent => None,
            _ => Some(!is_refused),
        };
        Greeting { is_accepted, latency, send_buffer }
    }

    /// The response to a request that arrived at `at`. `arrival` maps a delay after that to the time
    /// at which it reaches the client.
    pub(super) fn answer(
        &mut self,
        body: &str,
        at: Nanos,
        arrival: impl Fn(Nanos) -> Nanos,
    ) -> Vec<(Nanos, Act)> {
        let tag = between(body, "#", '#').unwrap_or_default().to_owned();
        let asked = between(body, "\"max_tokens\":", ',').unwrap();
        let asked: usize = asked.trim_end_matches('}').parse().unwrap();
        let number = self.served.len();
        let fault = if self.habits.panics_at == Some(number) {
            Fault::Panics
        } else if let Some((_, fault)) = self.habits.first.filter(|(count, _)| number < *count) {
            fault
        } else if self.happens(self.habits.faults) {
            Fault::draw(&mut self.draws, asked)
        } else {
            Fault::None
        };
        let mut script = Script::default();
        match fault {
            Fault::Panics => script.acts.push((Nanos::from_millis(1), Act::End(End::Panic))),
            Fault::ClosesBefore => {
                script.acts.push((self.micros(0, 500), Act::End(End::Closed)));
            }
            Fault::Stalls(0) => {}
            Fault::Status(status) => self.refuse(&mut script, status),
            _ => self.stream(&mut script, (number, asked), fault),
        }
        let tokens = script.tokens.into_iter().map(|token| Token {
            arrived: arrival(token.arrived),
            closed: arrival(token.closed),
            ..token
        });
        self.served.push(Served { tag, at, fault, tokens: tokens.collect() });
        script.acts
    }

    fn refuse(&mut self, script: &mut Script, status: u16) {
        let drawn = whole_between(&mut self.draws, 0, 1);
        let wait = self.habits.retry_after.unwrap_or(drawn);
        let retry = if status == 429 { format!("Retry-After: {wait}\r\n") } else { String::new() };
        let text = format!("HTTP/1.1 {status} No\r\n{retry}Content-Length: 4\r\n\r\nbusy");
        script.pass(self.micros(100, 20_000));
        script.acts.push((script.delay, Act::Segment(text.into_bytes())));
    }

    fn stream(&mut self, script: &mut Script, (number, asked): (usize, usize), fault: Fault) {
        script.is_odd = self.happens(self.habits.odd_cuts);
        script.pass(self.micros(500, 30_000));
        let close = if fault == Fault::SaysClose { "Connection: close\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{close}Transfer-Encoding: chunked\r\n\r\n"
        );
        script.send(&mut self.draws, head.into_bytes(), None);
        for token in 0..fault.after().unwrap_or(asked) {
            let gap = self.micros(0, 8_000);
            script.pass(self.habits.gap.unwrap_or(gap));
            if fault == Fault::Pauses(token) {
                script.pass(Nanos::from_millis(150));
            }
            let text = format!(" {number}.{token}");
            let data =
                format!(r#"{{"choices":[{{"index":0,"text":"{text}","finish_reason":null}}]}}"#);
            script.send(&mut self.draws, event(&data), Some(text));
        }
        script.pass(self.micros(0, 2_000));
        self.close_stream(script, fault);
    }

    fn close_stream(&mut self, script: &mut Script, fault: Fault) {
        match fault {
            Fault::Stalls(_) => script.flush(),
            Fault::Pings(_) => Self::ping(script),
            Fault::LeavesOpen => {
                script.send(&mut self.draws, event("[DONE]"), None);
                script.flush();
            }
            Fault::ResetsAfter => {
                script.send(&mut self.draws, event("[DONE]"), None);
                script.flush();
                script.pass(Nanos::from_millis(40));
                script.end(End::Reset);
            }
            Fault::Cuts(_) => script.end(End::Closed),
            Fault::Resets(_) => script.end(End::Reset),
            Fault::BadChunk(_) => {
                script.send(&mut self.draws, b"no chunk\r\n".to_vec(), None);
                script.flush();
            }
            _ => {
                if matches!(fault, Fault::ErrorEvent(_)) {
                    let data = r#"{"error":{"message":"out of memory","code":500}}"#;
                    script.send(&mut self.draws, event(data), None);
                }
                script.send(&mut self.draws, event("[DONE]"), None);
                // Sent separately, it could reach the client after its next request and be read as a
                // response.
                script.is_odd &= fault != Fault::Garbage;
                let garbage = if fault == Fault::Garbage { "HTTP/1.1 200" } else { "" };
                let last = format!("0\r\n\r\n{garbage}");
                script.send(&mut self.draws, last.into_bytes(), None);
                script.flush();
                self.after_answer(script, fault);
            }
        }
    }

    /// Keeps the connection busy without any content.
    fn ping(script: &mut Script) {
        script.flush();
        for number in 0..PINGS {
            script.pass(PING_GAP);
            let ping = if number % 2 == 0 {
                b"8\r\n: ping\n\n\r\n".to_vec()
            } else {
                event(r#"{"choices":[{"index":0,"text":"","finish_reason":null}]}"#)
            };
            script.acts.push((script.delay, Act::Segment(ping)));
        }
    }

    fn after_answer(&mut self, script: &mut Script, fault: Fault) {
        if matches!(fault, Fault::SaysClose | Fault::ClosesAfter) {
            script.pass(self.micros(0, 300));
            script.acts.push((script.delay, Act::End(End::Closed)));
        } else if self.happens(self.habits.idle_closes) {
            script.pass(self.micros(0, 20_000));
            script.acts.push((script.delay, Act::CloseWhenIdle));
        }
    }
}

#[derive(Debug, Default)]
struct Script {
    acts: Vec<(Nanos, Act)>,
    /// Times are relative to the arrival of the request.
    tokens: Vec<Token>,
    /// Since the arrival of the request.
    delay: Nanos,
    /// Whether segments may end anywhere.
    is_odd: bool,
    /// Bytes to send with the next segment, and the tokens in them.
    held: Vec<u8>,
    held_tokens: Vec<String>,
}

impl Script {
    fn pass(&mut self, time: Nanos) {
        self.delay += time;
    }

    fn flush(&mut self) {
        if !self.held.is_empty() {
            let bytes = std::mem::take(&mut self.held);
            self.acts.push((self.delay, Act::Segment(bytes)));
        }
        for text in std::mem::take(&mut self.held_tokens) {
            self.tokens.push(Token { text, arrived: self.delay, closed: self.delay });
        }
    }

    fn end(&mut self, end: End) {
        self.flush();
        self.acts.push((self.delay, Act::End(end)));
    }

    /// Sends a part of the response: in one segment, with the next part, or in pieces. A token's
    /// event is complete with the byte before the end of its chunk.
    fn send(&mut self, draws: &mut Generator, part: Vec<u8>, token: Option<String>) {
        let style = if self.is_odd { whole_between(draws, 0, 3) } else { 0 };
        match style {
            1 => {
                self.held.extend(part);
                self.held_tokens.extend(token);
            }
            2 | 3 if part.len() > 2 => {
                let cut = whole_between(draws, 1, part.len() as u64 - 1);
                let cut = usize::try_from(cut).unwrap();
                let is_complete = cut + 2 >= part.len();
                let (first, second) = part.split_at(cut);
                self.held.extend(first);
                let (now, later) = if is_complete { (token, None) } else { (None, token) };
                self.held_tokens.extend(now);
                self.flush();
                self.pass(Nanos::from_micros(whole_between(draws, 1, 3_000)));
                self.held.extend(second);
                self.held_tokens.extend(later);
                self.flush();
                if let Some(token) = self.tokens.last_mut().filter(|_| is_complete) {
                    token.closed = self.delay;
                }
            }
            _ => {
                self.held.extend(part);
                self.held_tokens.extend(token);
                self.flush();
            }
        }
    }
}
