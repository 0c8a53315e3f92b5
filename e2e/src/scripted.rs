//! A server on loopback that follows a test's script, for the faults that no well-written server has.
//!
//! The script gets each request with the raw connection, so it can send any bytes, wait, close or
//! reset. What every client asks for first (`/v1/models`, `/health`, `/metrics`) is answered well
//! unless the script is started with [`Scripted::raw`].

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};

/// One request and the connection that it came on.
pub struct ScriptedRequest<'a> {
    /// Number of this request among all that reached the script, from zero.
    pub number: u32,
    /// Method and path, such as `POST /v1/completions`.
    pub line: String,
    /// Head without the request line, as it was sent.
    pub head: String,
    /// Body, by its Content-Length.
    pub body: Vec<u8>,
    pub stream: &'a mut TcpStream,
}

impl ScriptedRequest<'_> {
    /// Index of the request in its run, where the client has `--request-id-prefix t-`.
    pub fn index(&self) -> Option<u64> {
        let fields = self.head.lines().filter_map(|line| line.split_once(':'));
        let id = |(name, value): (&str, &str)| {
            let number = value.trim().strip_prefix("t-")?;
            name.eq_ignore_ascii_case("x-request-id").then(|| number.parse().ok())?
        };
        fields.into_iter().find_map(id)
    }

    /// Sends bytes at once. A client that has gone is no fault of the test.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
        let _ = self.stream.flush();
    }

    /// Sends a whole answer with a Content-Length.
    pub fn answer(&mut self, status: &str, kind: &str, body: impl AsRef<[u8]>) {
        let body = body.as_ref();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.send([head.as_bytes(), body].concat());
    }

    /// Sends the head of an event stream that ends with the connection.
    pub fn start_stream(&mut self) {
        self.send(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
        );
    }

    pub fn event(&mut self, data: impl AsRef<str>) {
        self.send(format!("data: {}\n\n", data.as_ref()));
    }

    /// Sends the head of a stream and these events at once: no pause can come between them.
    pub fn stream_at_once(&mut self, events: &[&str]) {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let events = events.iter().flat_map(|data| ["data: ", data, "\n\n"]);
        self.send(std::iter::once(head).chain(events).collect::<String>());
    }

    /// Sends a whole good answer of `tokens` tokens with usage, as `/v1/completions` streams it.
    pub fn good_answer(&mut self, tokens: u32) {
        self.start_stream();
        for _ in 0..tokens {
            self.event(r#"{"choices":[{"index":0,"text":" word"}]}"#);
        }
        self.event(r#"{"choices":[{"index":0,"text":"","finish_reason":"length"}]}"#);
        self.event(format!(
            r#"{{"choices":[],"usage":{{"prompt_tokens":8,"completion_tokens":{tokens}}}}}"#
        ));
        self.event("[DONE]");
    }

    /// Ends the connection with a reset instead of an orderly close.
    pub fn reset(self) -> AfterResponse {
        let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
        setsockopt(&*self.stream, sockopt::Linger, &linger).unwrap();
        AfterResponse::Close
    }

    /// Waits until the client closes the connection, so the answer stays as it is.
    pub fn hold(self) -> AfterResponse {
        let _ = std::io::copy(self.stream, &mut std::io::sink());
        AfterResponse::Close
    }
}

/// The longest that a script waits for a test. Then it goes on, and the test fails by what it asserts.
const LONGEST_WAIT: Duration = Duration::from_secs(100);

/// Waits until `is_so`, or for as long as a script may.
pub fn wait_in_script(is_so: impl Fn() -> bool) {
    const PAUSE: Duration = Duration::from_millis(2);
    for _ in 0..LONGEST_WAIT.as_millis() / PAUSE.as_millis() {
        if is_so() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// What scripts wait for, until the test opens it.
#[derive(Debug, Clone, Default)]
pub struct Latch(Arc<AtomicBool>);

impl Latch {
    pub fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn wait(&self) {
        wait_in_script(|| self.0.load(Ordering::SeqCst));
    }
}

/// What the server does after the script.
pub enum AfterResponse {
    Stay,
    Close,
}

/// Who answers what a client asks before it measures.
#[derive(Clone, Copy)]
enum ControlReplies {
    Answered,
    Scripted,
}

/// A scripted server. Its threads end with the test's process.
pub struct Scripted {
    pub url: String,
    requests: Arc<AtomicU32>,
}

impl Scripted {
    /// A server whose `script` answers what is sent to measured routes.
    pub fn new(
        script: impl Fn(ScriptedRequest<'_>) -> AfterResponse + Send + Sync + 'static,
    ) -> Self {
        Self::start(script, ControlReplies::Answered)
    }

    /// A server whose `script` answers everything.
    pub fn raw(
        script: impl Fn(ScriptedRequest<'_>) -> AfterResponse + Send + Sync + 'static,
    ) -> Self {
        Self::start(script, ControlReplies::Scripted)
    }

    /// A server on this listener whose `script` answers what is sent to measured routes.
    pub fn on(
        listener: TcpListener,
        script: impl Fn(ScriptedRequest<'_>) -> AfterResponse + Send + Sync + 'static,
    ) -> Self {
        Self::listen(listener, script, ControlReplies::Answered)
    }

    /// How many requests reached the script.
    pub fn requests(&self) -> u32 {
        self.requests.load(Ordering::SeqCst)
    }

    fn start(
        script: impl Fn(ScriptedRequest<'_>) -> AfterResponse + Send + Sync + 'static,
        control: ControlReplies,
    ) -> Self {
        Self::listen(TcpListener::bind("127.0.0.1:0").unwrap(), script, control)
    }

    fn listen(
        listener: TcpListener,
        script: impl Fn(ScriptedRequest<'_>) -> AfterResponse + Send + Sync + 'static,
        control: ControlReplies,
    ) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&requests);
        let script = Arc::new(script);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, counter) = (Arc::clone(&script), Arc::clone(&counter));
                std::thread::spawn(move || {
                    converse(stream.unwrap(), &*script, &counter, control);
                });
            }
        });
        Self { url, requests }
    }
}

fn converse(
    mut stream: TcpStream,
    script: &dyn Fn(ScriptedRequest<'_>) -> AfterResponse,
    counter: &AtomicU32,
    control: ControlReplies,
) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some((line, head, body)) = read_request(&mut reader) {
        let is_control = matches!(control, ControlReplies::Answered) && line.starts_with("GET ");
        let number = if is_control { 0 } else { counter.fetch_add(1, Ordering::SeqCst) };
        let mut asked = ScriptedRequest { number, line, head, body, stream: &mut stream };
        let then = if is_control {
            answer_control(&mut asked);
            AfterResponse::Stay
        } else {
            script(asked)
        };
        if matches!(then, AfterResponse::Close) {
            return;
        }
    }
}

fn answer_control(asked: &mut ScriptedRequest<'_>) {
    match asked.line.as_str() {
        "GET /v1/models" => {
            asked.answer("200 OK", "application/json", r#"{"data":[{"id":"scripted"}]}"#);
        }
        "GET /health" => asked.answer("200 OK", "text/plain", ""),
        _ => asked.answer("404 Not Found", "text/plain", ""),
    }
}

/// Method with path, the head's other lines, and the body of one request. `None` at the end.
pub fn read_request(reader: &mut impl BufRead) -> Option<(String, String, Vec<u8>)> {
    let mut first = String::new();
    if reader.read_line(&mut first).ok()? == 0 {
        return None;
    }
    let line = first.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut field = String::new();
        if reader.read_line(&mut field).ok()? == 0 {
            return None;
        }
        if field == "\r\n" {
            break;
        }
        if let Some(value) = field.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&field);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((line, head, body))
}
