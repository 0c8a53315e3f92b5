//! A server in this process and a client that reads whole answers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use tokometer_base::MonotonicClock;
use tokometer_sim::{AnswerLength, Error, Profile, SimConfig, SimServer, TokenTiming};

/// Far beyond any answer of these tests: a hang becomes a failure.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A server that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) certificate: Option<String>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Running {
    pub(crate) fn start(config: SimConfig) -> Self {
        let server = SimServer::bind(config).unwrap();
        let address = server.local_addr().unwrap();
        let certificate = server.certificate_pem().map(str::to_owned);
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || server.run(&flag, &MonotonicClock)));
        Self { address, certificate, stop, thread }
    }

    /// Sends bytes on a fresh connection and reads until the server closes it.
    pub(crate) fn exchange(&self, request: &[u8]) -> Answer {
        let mut socket = self.connect();
        socket.write_all(request).unwrap();
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).unwrap();
        Answer::parse(&bytes)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.exchange(post(path, body, "Connection: close\r\n").as_bytes())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.exchange(format!("GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n").as_bytes())
    }

    /// Stops the server and waits until its log is written.
    pub(crate) fn stop(mut self) {
        self.join();
    }

    fn join(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.join();
        }
    }
}

pub(crate) fn post(path: &str, body: &str, headers: &str) -> String {
    format!("POST {path} HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// A configuration whose engine takes a millisecond per step and whose answers never stop early.
pub(crate) fn quick() -> SimConfig {
    let mut profile = Profile { max_model_len: 4096, ..Profile::default() };
    profile.cost.base_ms = 1.0;
    profile.front_end.arrival_ms = 0.0;
    let answer = AnswerLength { median_tokens: 1e9, sigma: 0.0 };
    let pace = TokenTiming::Engine(Box::new(profile));
    SimConfig { model: "tiny".to_owned(), pace, answer, ..SimConfig::default() }
}

/// An HTTP answer, taken apart.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    /// The body, and its HTTP chunks if it was chunked.
    pub(crate) body: Vec<u8>,
    pub(crate) chunks: Vec<Vec<u8>>,
    /// Whether the last chunk came.
    pub(crate) is_complete: bool,
}

impl Answer {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Self {
            status,
            body: bytes[end..].to_vec(),
            chunks: Vec::new(),
            is_complete: true,
            head,
        };
        if answer.head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            (answer.chunks, answer.is_complete) = dechunk(&bytes[end..]);
            answer.body = answer.chunks.concat();
        }
        answer
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// What follows `data: ` in each event.
    pub(crate) fn events(&self) -> Vec<String> {
        events(&self.body)
    }
}

pub(crate) fn events(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let events = text.split("\n\n").map(str::trim).filter(|event| !event.is_empty());
    events.map(|event| event.strip_prefix("data:").unwrap_or(event).trim().to_owned()).collect()
}

fn dechunk(mut bytes: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut chunks = Vec::new();
    loop {
        let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") else {
            return (chunks, false);
        };
        let size = std::str::from_utf8(&bytes[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (chunks, true);
        }
        let Some(chunk) = bytes.get(end + 2..end + 2 + size) else { return (chunks, false) };
        chunks.push(chunk.to_vec());
        bytes = bytes.get(end + 4 + size..).unwrap_or_default();
    }
}
