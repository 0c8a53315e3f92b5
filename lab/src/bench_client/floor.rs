//! The floor: the least a reader of token streams can do.
//!
//! Opens connections, writes one request on each, and then only `epoll_wait`, `recvmsg` with the
//! kernel's stamp, and counting events by their marker. A stream that has ended gets the next request
//! while there are any. No HTTP library, no JSON, no record. Eager reads as soon as a socket is
//! readable; lazy sleeps a millisecond between harvests. What a whole client costs is given as a ratio
//! to this.

use std::io::{IoSliceMut, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::socket::{MsgFlags, TimestampingFlag, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeValLike;
use serde_json::{Value, json};

/// What the floor is asked to do.
pub(crate) struct Floor {
    pub(crate) address: SocketAddr,
    pub(crate) streams: usize,
    /// Requests in all, at least one per stream.
    pub(crate) requests: usize,
    /// Answer length asked for on each.
    pub(crate) tokens: usize,
    /// Whether sockets are read about once per millisecond instead of as soon as one is readable.
    pub(crate) is_lazy: bool,
}

const MARKER: &[u8] = b"data:";
const END: &[u8] = b"0\r\n\r\n";
const BUFFER_BYTES: usize = 64 << 10;

struct FloorStream {
    socket: TcpStream,
    is_done: bool,
    /// The last bytes read: the end mark may be split between two reads.
    tail: Vec<u8>,
}

impl FloorStream {
    fn ends_with(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() >= END.len() {
            self.tail.clear();
            self.tail.extend_from_slice(&bytes[bytes.len() - END.len()..]);
        } else {
            self.tail.extend_from_slice(bytes);
            self.tail.drain(..self.tail.len().saturating_sub(END.len()));
        }
        self.tail == END
    }
}

fn request(tokens: usize) -> Vec<u8> {
    let body = format!(
        r#"{{"model":"simulated","prompt":"measure this","max_tokens":{tokens},"ignore_eos":true,"stream":true}}"#
    );
    let length = body.len();
    format!(
        "POST /v1/completions HTTP/1.1\r\nhost: floor\r\n\
         content-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn cpu_secs() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(micros as f64 / 1e6)
}

/// Peak memory of this process alone: `getrusage` would tell that of the parent before it became
/// this program.
fn peak_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"))
        .context("the kernel does not tell this process's peak memory")?;
    Ok(kib.trim().parse::<u64>()? * 1024)
}

/// Runs the floor reader to the end of all streams, and says what it took: from the first request to the last
/// end, and in `send_secs` until the first request of every stream was written.
pub(crate) fn run(floor: &Floor) -> Result<Value> {
    let epoll = Epoll::new(EpollCreateFlags::empty())?;
    let mut streams = Vec::with_capacity(floor.streams);
    for number in 0..floor.streams {
        let socket = TcpStream::connect(floor.address)
            .with_context(|| format!("cannot connect stream {number} to {}", floor.address))?;
        socket.set_nodelay(true)?;
        let flags = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
        setsockopt(&socket, sockopt::Timestamping, &flags)?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, number as u64);
        epoll.add(socket.as_fd(), event)?;
        streams.push(FloorStream { socket, is_done: false, tail: Vec::new() });
    }
    let bytes = request(floor.tokens);
    #[expect(clippy::disallowed_methods, reason = "a stopwatch around a laboratory program")]
    let begin = std::time::Instant::now();
    let cpu_begin = cpu_secs()?;
    for stream in &mut streams {
        stream.socket.write_all(&bytes)?;
    }
    let send_secs = begin.elapsed().as_secs_f64();
    let further = floor.requests.saturating_sub(floor.streams);
    let events =
        harvest(&epoll, &mut streams, Refills { request: &bytes, further }, floor.is_lazy)?;
    Ok(json!({
        "events": events,
        "send_secs": send_secs,
        "cpu_secs": cpu_secs()? - cpu_begin,
        "wall_secs": begin.elapsed().as_secs_f64(),
        "peak_bytes": peak_bytes()?,
    }))
}

/// Requests that are sent when an answer has ended.
struct Refills<'a> {
    request: &'a [u8],
    /// How many are left.
    further: usize,
}

/// Reads all streams to their ends, and counts their events.
fn harvest(
    epoll: &Epoll,
    streams: &mut [FloorStream],
    mut refills: Refills<'_>,
    is_lazy: bool,
) -> Result<u64> {
    let mut ready = vec![EpollEvent::empty(); 1_024];
    let mut buffer = vec![0_u8; BUFFER_BYTES];
    let mut control = nix::cmsg_space!([nix::sys::time::TimeSpec; 3]);
    let timeout = if is_lazy { EpollTimeout::ZERO } else { EpollTimeout::NONE };
    let (mut events, mut open, mut stamps) = (0, streams.len(), 0_u64);
    while open > 0 {
        if is_lazy {
            std::thread::sleep(Duration::from_millis(1));
        }
        let count = epoll.wait(&mut ready, timeout)?;
        for event in &ready[..count] {
            let stream = &mut streams[usize::try_from(event.data())?];
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let message = recvmsg::<()>(
                stream.socket.as_raw_fd(),
                &mut parts,
                Some(&mut control),
                MsgFlags::MSG_DONTWAIT,
            )?;
            stamps += message.cmsgs()?.count() as u64;
            let length = message.bytes;
            events += count_markers(&buffer[..length]);
            let is_end = stream.ends_with(&buffer[..length]);
            if is_end && refills.further > 0 && length > 0 {
                refills.further -= 1;
                stream.socket.write_all(refills.request)?;
            } else if !stream.is_done && (length == 0 || is_end) {
                stream.is_done = true;
                open -= 1;
                epoll.delete(stream.socket.as_fd())?;
            }
        }
    }
    anyhow::ensure!(stamps > 0, "the kernel stamped no read");
    Ok(events)
}

/// Counts markers in one pass. A marker split between two reads is missed: the floor is a price, not
/// a client.
fn count_markers(bytes: &[u8]) -> u64 {
    memchr::memmem::find_iter(bytes, MARKER).count() as u64
}
