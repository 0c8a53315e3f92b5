//! Waits for sockets in two lanes, and for the next send.
//!
//! Sockets are registered once, edge-triggered: a short read has drained a socket, and the kernel
//! need not check it again until more arrives. Eager sockets wake the worker; lazy ones are polled
//! when the worker has time. A timer descriptor wakes it for sends, with nanosecond resolution where
//! `epoll` itself has milliseconds.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokometer_base::Nanos;
use tokometer_client::conn::{Peer, Socket, StampKeeper, Stamps, StepWatch};

use crate::error::Error;
use crate::platform::{BATCH, Interest, Links, MaxWait, Ready, Wake};
use crate::reads::Lane;

/// Keys of descriptors that are not connections.
const WAKER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
const STEP: u64 = u64::MAX - 2;

/// [`MaxWait::LONGEST`] in the unit of `epoll`.
const LONGEST_SLEEP_MS: u8 = 50;
const _: () = assert!(LONGEST_SLEEP_MS as u64 * 1_000_000 == MaxWait::LONGEST.0);

pub struct EpollLinks {
    eager: Epoll,
    lazy: Epoll,
    timer: TimerFd,
    armed: Option<Nanos>,
    steps: StepWatch,
    events: Vec<EpollEvent>,
    _stamps: StampKeeper,
}

impl fmt::Debug for EpollLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpollLinks").field("armed", &self.armed).finish_non_exhaustive()
    }
}

/// An event descriptor that becomes readable (edge-triggered) on a wake-up.
#[derive(Debug)]
struct EventWaker(EventFd);

impl Wake for EventWaker {
    fn wake(&self) {
        // The write fails only when the counter is at its maximum; the descriptor is readable then.
        let _refused = self.0.write(1);
    }
}

/// A change is reported with all that a socket is ready for. One whose bytes were read between a change
/// and its report is still reported if it has room to write: without that interest it is not.
fn socket_event(key: u64, interest: Interest) -> EpollEvent {
    let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
    let flags = match interest {
        Interest::ReadsAndWrites => flags | EpollFlags::EPOLLOUT,
        Interest::Reads => flags,
    };
    EpollEvent::new(flags, key)
}

impl EpollLinks {
    pub(super) fn new() -> Result<(Self, Arc<dyn Wake>), Error> {
        let stamps =
            StampKeeper::new().map_err(|source| Error::System { what: "open a socket", source })?;
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let event =
            EventFd::from_flags(flags).map_err(Error::system("make an event descriptor"))?;
        let epoll =
            || Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(Error::system("make a poller"));
        let (eager, lazy) = (epoll()?, epoll()?);
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).map_err(Error::system("make a timer"))?;
        let steps = StepWatch::new().map_err(Error::system("watch the wall clock"))?;
        let add = |fd: &dyn AsFd, key| {
            let event = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, key);
            eager.add(fd.as_fd(), event).map_err(Error::system("register with a poller"))
        };
        add(&event, WAKER)?;
        add(&timer, TIMER)?;
        add(&steps, STEP)?;
        let events = vec![EpollEvent::empty(); BATCH];
        let links = Self { eager, lazy, timer, armed: None, steps, events, _stamps: stamps };
        Ok((links, Arc::new(EventWaker(event))))
    }

    fn lane(&self, lane: Lane) -> &Epoll {
        match lane {
            Lane::Eager => &self.eager,
            Lane::Lazy => &self.lazy,
        }
    }
}

impl Links for EpollLinks {
    type Wire = Socket;

    fn connect(&mut self, to: &Peer, stamps: Stamps, key: u64) -> io::Result<Socket> {
        let socket = Socket::connect(to, stamps)?;
        self.eager.add(&socket, socket_event(key, Interest::default()))?;
        Ok(socket)
    }

    fn shift(&mut self, wire: &Socket, key: u64, to: Lane) -> io::Result<()> {
        let from = if to == Lane::Lazy { Lane::Eager } else { Lane::Lazy };
        self.lane(from).delete(wire)?;
        Ok(self.lane(to).add(wire, socket_event(key, Interest::default()))?)
    }

    fn watch(&mut self, wire: &Socket, key: u64, lane: Lane, interest: Interest) -> io::Result<()> {
        Ok(self.lane(lane).modify(wire, &mut socket_event(key, interest))?)
    }

    fn arm(&mut self, at: Nanos) {
        if self.armed == Some(at) {
            return;
        }
        let whole = i64::try_from(at.0 / 1_000_000_000).unwrap_or(i64::MAX);
        let rest = i64::try_from(at.0 % 1_000_000_000).unwrap_or(0);
        let expiration = Expiration::OneShot(TimeSpec::new(whole, rest.max(1)));
        if self.timer.set(expiration, TimerSetTimeFlags::TFD_TIMER_ABSTIME).is_ok() {
            self.armed = Some(at);
        }
    }

    fn disarmed(&mut self) {
        self.armed = None;
    }

    fn has_clock_stepped(&self) -> bool {
        self.steps.has_stepped()
    }

    fn wait(&mut self, max_wait: MaxWait) -> usize {
        let timeout = match max_wait {
            MaxWait::None => EpollTimeout::ZERO,
            MaxWait::Interval => EpollTimeout::from(1_u8),
            MaxWait::Long => EpollTimeout::from(LONGEST_SLEEP_MS),
        };
        // An interrupted wait found nothing.
        self.eager.wait(&mut self.events, timeout).unwrap_or(0)
    }

    fn poll_lazy(&mut self) -> usize {
        self.lazy.wait(&mut self.events, EpollTimeout::ZERO).unwrap_or(0)
    }

    fn ready(&self, index: usize) -> Ready {
        let event = &self.events[index];
        match event.data() {
            WAKER => Ready::Woken,
            TIMER => Ready::Timer,
            STEP => Ready::ClockStep,
            key => {
                let flags = event.events();
                let ends = EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
                Ready::Link {
                    key,
                    is_readable: flags.contains(EpollFlags::EPOLLIN),
                    is_ending: flags.intersects(ends),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use tokometer_client::conn::{ByteSource as _, ReadBuffer, Wire as _};

    use super::*;

    /// Every event that arrived while the one before it was handled cost another wait and a read that
    /// found nothing.
    #[test]
    fn a_socket_whose_bytes_were_read_is_reported_only_while_room_to_write_matters() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = Peer::Tcp(listener.local_addr().unwrap());
        let (mut links, _waker) = EpollLinks::new().unwrap();
        let mut socket = links.connect(&peer, Stamps::Kernel, 7).unwrap();
        let mut server = listener.accept().unwrap().0;
        server.set_nodelay(true).unwrap();
        assert_eq!(links.wait(MaxWait::Long), 1, "connected");
        socket.connected().unwrap();
        let mut buffer = ReadBuffer::default();
        for (interest, reports) in [(Interest::ReadsAndWrites, 1), (Interest::Reads, 0)] {
            links.watch(&socket, 7, Lane::Eager, interest).unwrap();
            // What it is ready for is reported once.
            let _writable = links.wait(MaxWait::None);
            server.write_all(b"one").unwrap();
            assert_eq!(links.wait(MaxWait::Long), 1);
            server.write_all(b"two").unwrap();
            let mut bytes = 0;
            while bytes < 6 {
                bytes += socket.receive(&mut buffer).map_or(0, |received| received.bytes);
            }
            assert_eq!(links.wait(MaxWait::None), reports, "{interest:?}");
        }
    }
}
