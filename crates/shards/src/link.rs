//! The two halves of a connection between shards, with or without TLS.
//!
//! One thread reads, others write. With TLS both halves share the session, which is locked only while
//! bytes are encrypted or decrypted, never while the socket is waited for.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::Connection;
use tokometer_base::{Clock, Nanos};

/// Encrypted bytes that are read at a time.
const RAW_BYTES: usize = 16 << 10;

/// A socket whose reads end at a deadline, however slowly its bytes come. Without one they wait.
struct TimedSocket {
    stream: TcpStream,
    clock: Arc<dyn Clock>,
    deadline: Option<Nanos>,
}

impl Read for TimedSocket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| {
            let left = self.deadline.map(|deadline| deadline.saturating_sub(self.clock.now()));
            if left == Some(Nanos::ZERO) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(left.map(Nanos::to_duration))?;
            self.stream.read(bytes)
        })
    }
}

/// Reads again where a signal has ended a read. Without a timeout the system does that itself.
fn uninterrupted(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

impl Write for TimedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Session(Mutex<Connection>);

impl Session {
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the other side sends.
pub(crate) struct ShardReader {
    socket: TimedSocket,
    session: Option<Arc<Session>>,
    /// Encrypted bytes; those before `used` are decrypted.
    raw: Vec<u8>,
    used: usize,
}

/// What this side sends.
pub(crate) struct ShardWriter {
    socket: TcpStream,
    session: Option<Arc<Session>>,
}

/// The halves of a connection, after the handshake where there is TLS. Reads end at the deadline.
pub(crate) fn open(
    stream: &TcpStream,
    clock: &Arc<dyn Clock>,
    deadline: Nanos,
    tls: Option<Connection>,
) -> io::Result<(ShardReader, ShardWriter)> {
    let clock = Arc::clone(clock);
    let mut socket = TimedSocket { stream: stream.try_clone()?, clock, deadline: Some(deadline) };
    let session = match tls {
        None => None,
        Some(mut connection) => {
            while connection.is_handshaking() || connection.wants_write() {
                let _bytes = connection.complete_io(&mut socket)?;
            }
            Some(Arc::new(Session(Mutex::new(connection))))
        }
    };
    let writer = ShardWriter { socket: stream.try_clone()?, session: session.clone() };
    Ok((ShardReader { socket, session, raw: Vec::new(), used: 0 }, writer))
}

impl ShardReader {
    /// From now on reads wait for as long as it takes.
    pub(crate) fn lift_deadline(&mut self) {
        self.socket.deadline = None;
    }

    /// Decrypts what was read and returns some of it; `None` where more must be read.
    fn decrypted(&mut self, session: &Session, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        let mut tls = session.lock();
        loop {
            match tls.reader().read(bytes) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                other => return other.map(Some),
            }
            if self.used == self.raw.len() {
                return Ok(None);
            }
            self.used += tls.read_tls(&mut &self.raw[self.used..])?;
            let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, why);
            let _state = tls.process_new_packets().map_err(invalid)?;
        }
    }
}

impl Read for ShardReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let Some(session) = self.session.clone() else { return self.socket.read(bytes) };
        loop {
            if let Some(count) = self.decrypted(&session, bytes)? {
                return Ok(count);
            }
            self.raw.resize(RAW_BYTES, 0);
            let count = self.socket.read(&mut self.raw)?;
            self.raw.truncate(count);
            self.used = 0;
            if count == 0 {
                return Ok(0);
            }
        }
    }
}

impl Write for ShardWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(session) = &self.session else { return self.socket.write(bytes) };
        let mut encrypted = Vec::with_capacity(bytes.len() + 64);
        let mut tls = session.lock();
        let taken = tls.writer().write(bytes)?;
        while tls.wants_write() {
            let _bytes = tls.write_tls(&mut encrypted)?;
        }
        drop(tls);
        self.socket.write_all(&encrypted)?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that was stopped and continued while it joined took empty bytes for a TLS record.
    #[test]
    fn a_signal_ends_no_read() {
        let check = |mut ends: Vec<io::Result<usize>>, expected: Result<usize, io::ErrorKind>| {
            let found = uninterrupted(|| ends.remove(0)).map_err(|why| why.kind());
            assert_eq!((found, ends.len()), (expected, 0));
        };
        let interrupted = || Err(io::ErrorKind::Interrupted.into());
        check(vec![interrupted(), interrupted(), Ok(3)], Ok(3));
        let late = io::ErrorKind::TimedOut;
        check(vec![interrupted(), Err(late.into())], Err(late));
    }
}
