//! A connection that blocks, for one question outside the measurement.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokometer_base::Nanos;

use super::endpoint::Endpoint;
use super::limit::ExchangeDeadline;
use super::link::{Link, Sent};
use super::race::{Race, RaceStep};
use super::socket::{ReadBuffer, Socket, Stamps};

/// A crowded Unix-domain socket is tried again after this time.
const CROWDED_PAUSE: Nanos = Nanos::from_millis(10);

/// What is waited for once connected.
const RESPONSE: &str = "complete response";

/// An open connection whose calls wait, for a limited time in all.
pub(crate) struct Channel {
    link: Link<Socket>,
    buffer: ReadBuffer,
    limit: ExchangeDeadline,
}

/// A server that answers no handshake for so long mostly waits for a line of plain HTTP.
const HANDSHAKE: Nanos = Nanos::from_secs(5);
const NO_HANDSHAKE: &str =
    "no answer to the TLS handshake within 5 s; a server without TLS needs http:// in `--base-url`";

impl Channel {
    /// Connects to the first of the endpoint's addresses that accepts, tried in this order. Returns
    /// which one that was. `limit` holds for connecting and all later waits together.
    pub(crate) fn open(
        endpoint: &Endpoint,
        order: impl IntoIterator<Item = usize>,
        limit: ExchangeDeadline,
    ) -> io::Result<(Self, usize)> {
        let (socket, address) = connect(endpoint, order, &limit)?;
        let link = Link::new(socket, endpoint.tls.as_ref())?.through(endpoint.tunnel.as_ref());
        let mut channel = Self { link, buffer: ReadBuffer::default(), limit: limit.clone() };
        if endpoint.tls.is_some() && endpoint.tunnel.is_none() {
            channel.limit = limit.within(HANDSHAKE);
        }
        channel.shake_hands().map_err(|why| {
            let is_hanging = why.kind() == io::ErrorKind::TimedOut && limit.step("").is_ok();
            if is_hanging { io::Error::new(io::ErrorKind::TimedOut, NO_HANDSHAKE) } else { why }
        })?;
        channel.limit = limit;
        Ok((channel, address))
    }

    fn shake_hands(&mut self) -> io::Result<()> {
        let mut unasked = Vec::new();
        while !self.link.is_open() {
            if !self.link.flush()? {
                self.wait(PollFlags::POLLOUT)?;
            } else if self.receive(&mut unasked)? {
                let text = "the server closed the connection during the TLS handshake";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
        }
        Ok(())
    }

    pub(crate) fn restart(&mut self, limit: ExchangeDeadline) {
        self.limit = limit;
    }

    pub(crate) fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            match self.link.write(bytes)? {
                Sent::All => return Ok(()),
                Sent::Part(count) => bytes = &bytes[count..],
            }
            self.wait(PollFlags::POLLOUT)?;
        }
    }

    /// Reads once, waiting for bytes, and adds them. True at the end of the connection.
    pub(crate) fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            // Looked at also when bytes are there: those of an endless answer always are.
            self.limit.step(RESPONSE)?;
            match self.link.read(&mut self.buffer) {
                Ok(arrival) => {
                    bytes.extend_from_slice(arrival.bytes);
                    return Ok(arrival.is_last);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::POLLIN)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        loop {
            let step = self.limit.step(RESPONSE)?;
            let mut fds = [PollFd::new(self.link.source().as_fd(), flags)];
            if wait(&mut fds, step)? {
                return Ok(());
            }
        }
    }
}

fn connect(
    endpoint: &Endpoint,
    order: impl IntoIterator<Item = usize>,
    limit: &ExchangeDeadline,
) -> io::Result<(Socket, usize)> {
    let mut race = Race::new(order);
    loop {
        let now = limit.now();
        let begin = |address: usize| Socket::connect(&endpoint.addresses[address], Stamps::User);
        match race.step(now, begin) {
            RaceStep::Won { address, wire } => return Ok((wire, address)),
            RaceStep::Lost(error) => return Err(error),
            RaceStep::Pending => {}
        }
        let step = limit.step("connection")?;
        let next = if race.is_crowded() { Some(now + CROWDED_PAUSE) } else { race.next_at() };
        let step = next.map_or(step, |next| step.min(next - now));
        let attempts = race.wires().map(|wire| PollFd::new(wire.as_fd(), PollFlags::POLLOUT));
        wait(&mut attempts.collect::<Vec<_>>(), step)?;
    }
}

/// Waits until one of the sockets is ready. False when none was in time.
fn wait(fds: &mut [PollFd<'_>], limit: Nanos) -> io::Result<bool> {
    // Rounded up, so that the wait is over when it returns.
    let millis = i32::try_from(limit.0.div_ceil(1_000_000)).unwrap_or(i32::MAX);
    match poll(fds, PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)) {
        Ok(count) => Ok(count > 0),
        // Whoever waits looks again.
        Err(Errno::EINTR) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}
