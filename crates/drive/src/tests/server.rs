//! A scripted server, and runs against it.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};

use crate::{
    Interrupt, Live, Notice, Outlets, Prepare, PrepareError, QueuedRequest, RunConfig, TargetServer,
};
use tokometer_base::{Nanos, Prompt};
use tokometer_client::conn::Endpoint;
use tokometer_client::{Dialect, KeepText, RequestInput, Settings, Url};
use tokometer_record::{AttemptId, Phase, RunEnd, Timeline};
use tokometer_schedule::{Limits, SendLimit};

pub(crate) struct ScriptedRequest<'a> {
    /// Number of the connection, from zero.
    pub(crate) connection: u32,
    /// Number of the request on this connection, from zero.
    pub(crate) request: u32,
    pub(crate) body: String,
    /// For the response.
    pub(crate) stream: &'a mut TcpStream,
}

/// What the server does with the connection after a response.
pub(crate) enum AfterResponse {
    Stay,
    Close,
}

pub(crate) fn serve(
    script: impl Fn(ScriptedRequest<'_>) -> AfterResponse + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let script = Arc::new(script);
    let connections = AtomicU32::new(0);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = connections.fetch_add(1, Ordering::SeqCst);
            let script = Arc::clone(&script);
            std::thread::spawn(move || converse(stream.unwrap(), connection, &*script));
        }
    });
    address
}

fn converse(
    mut stream: TcpStream,
    connection: u32,
    script: &dyn Fn(ScriptedRequest<'_>) -> AfterResponse,
) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for request in 0.. {
        let Some(body) = read_request(&mut reader) else { return };
        let asked = ScriptedRequest { connection, request, body, stream: &mut stream };
        if matches!(script(asked), AfterResponse::Close) {
            return;
        }
    }
}

pub(crate) fn read_request(reader: &mut impl BufRead) -> Option<String> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(String::from_utf8(body).unwrap())
}

pub(crate) fn head(stream: &mut TcpStream) {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
}

/// Sends one event in one chunk. Ignores a client that has closed.
pub(crate) fn event(stream: &mut TcpStream, data: &str) {
    let event = format!("data: {data}\n\n");
    let _ = stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes());
}

pub(crate) fn token(stream: &mut TcpStream, text: &str) {
    event(
        stream,
        &format!(
            r#"{{"choices":[{{"index":0,"text":"{text}","delta":{{"content":"{text}"}},"finish_reason":null}}]}}"#
        ),
    );
}

pub(crate) fn finish(stream: &mut TcpStream) {
    event(stream, "[DONE]");
    let _ = stream.write_all(b"0\r\n\r\n");
}

/// Sends a complete response with so many tokens.
/// A server that answers every request with so many tokens.
pub(crate) fn serve_answers(tokens: u32) -> SocketAddr {
    serve(move |asked| {
        answer(asked.stream, tokens);
        AfterResponse::Stay
    })
}

pub(crate) fn answer(stream: &mut TcpStream, tokens: u32) {
    head(stream);
    (0..tokens).for_each(|_| token(stream, " word"));
    finish(stream);
}

pub(crate) fn refuse(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).unwrap();
}

pub(crate) fn target(address: SocketAddr) -> TargetServer {
    let settings = Settings::new(Url::http(address.ip().to_string(), address.port()), "tiny");
    TargetServer {
        endpoint: Endpoint::plain(address),
        dialect: Dialect::named("vllm").unwrap(),
        settings: Arc::new(settings),
        keep_text: KeepText::Yes,
    }
}

/// A run of `count` requests, at most `cap` of them in flight.
pub(crate) fn config(address: SocketAddr, count: u64, cap: u32) -> RunConfig {
    let limits = Limits {
        max_concurrency: Some(cap),
        extent: SendLimit { count: Some(count), duration: None },
        warmups: 0,
    };
    RunConfig::new(vec![target(address)], limits)
}

pub(crate) fn item(config: &RunConfig, index: u64, phase: Phase) -> QueuedRequest {
    let target = &config.targets[0];
    let prompt = Prompt { output_tokens: Some(3), ..Prompt::text(format!("prompt {index}")) };
    let request =
        target.dialect.prepare(&target.settings, &RequestInput::new(&prompt, index)).unwrap();
    QueuedRequest { request, identity: AttemptId::new(index, phase), due: None, recorded: None }
}

pub(crate) struct FinishedRun {
    pub(crate) end: RunEnd,
    pub(crate) started: Vec<(u64, u32, Nanos)>,
    pub(crate) timelines: Vec<Timeline>,
}

impl FinishedRun {
    /// The measured timelines in the order of the plan.
    pub(crate) fn measured(&self) -> Vec<&Timeline> {
        let mut measured: Vec<_> = self
            .timelines
            .iter()
            .filter(|timeline| timeline.identity.phase == Phase::Measure)
            .collect();
        measured.sort_by_key(|timeline| (timeline.identity.index, timeline.identity.attempt));
        measured
    }
}

pub(crate) fn run(config: RunConfig) -> FinishedRun {
    run_with(config, Arc::new(Interrupt::default()))
}

pub(crate) fn run_with(config: RunConfig, interrupt: Arc<Interrupt>) -> FinishedRun {
    let source = config.clone();
    let warmups = config.limits.warmups;
    let mut next = 0;
    let prepare = move || -> Result<Option<QueuedRequest>, PrepareError> {
        next += 1;
        Ok(Some(if next <= warmups {
            item(&source, next - 1, Phase::Warmup)
        } else {
            item(&source, next - 1 - warmups, Phase::Measure)
        }))
    };
    run_source(config, Box::new(prepare), interrupt)
}

pub(crate) fn run_source(
    config: RunConfig,
    source: Box<dyn Prepare>,
    interrupt: Arc<Interrupt>,
) -> FinishedRun {
    let (notices, received) = mpsc::channel();
    let live = Arc::new(Live::default());
    let outlets = Outlets { notices, live, interrupt, between: None, start: None };
    let end = crate::run(config, source, outlets).unwrap();
    let (mut started, mut timelines) = (Vec::new(), Vec::new());
    for notice in received {
        match notice {
            Notice::Started { index, attempt, at } => started.push((index, attempt, at)),
            Notice::Ended(timeline) => timelines.push(*timeline),
            Notice::Exchanged(_) => {}
        }
    }
    FinishedRun { end, started, timelines }
}
