//! Waiting for sockets, in two lanes, and for the next send.
//!
//! Sockets are registered once, edge-triggered: a short read has drained a socket, and the kernel
//! need not look at it again until more comes. Eager sockets wake the worker; lazy ones are asked for
//! when the worker has the time. A timer descriptor wakes it for sends, exact to the nanosecond where
//! `epoll` itself counts milliseconds.

use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokometer_base::Nanos;
use tokometer_client::conn::StepWatch;

use crate::error::Error;
use crate::harvest::Lane;

/// Keys of what is not a connection.
pub(crate) const BELL: u64 = u64::MAX;
pub(crate) const TIMER: u64 = u64::MAX - 1;
pub(crate) const STEP: u64 = u64::MAX - 2;

/// Sockets handled between two looks at the clock for sends that are due.
const BATCH: usize = 256;

/// The worker wakes at least this often, to look after timeouts and wishes to stop.
const LONGEST_SLEEP_MS: u8 = 50;

pub(crate) struct Poller {
    eager: Epoll,
    lazy: Epoll,
    timer: TimerFd,
    armed: Option<Nanos>,
    steps: StepWatch,
}

/// Room for what one look brings.
pub(crate) type Batch = Vec<EpollEvent>;

pub(crate) fn batch() -> Batch {
    vec![EpollEvent::empty(); BATCH]
}

/// Why a look at the sockets returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// At once.
    None,
    /// After the harvest interval at the latest, because lazy streams wait.
    Interval,
    /// After the longest sleep at the latest.
    Long,
}

fn socket_flags() -> EpollFlags {
    EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET
}

impl Poller {
    pub(crate) fn new(bell: &impl AsFd) -> Result<Self, Error> {
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
        add(bell, BELL)?;
        add(&timer, TIMER)?;
        add(&steps, STEP)?;
        Ok(Self { eager, lazy, timer, armed: None, steps })
    }

    fn lane(&self, lane: Lane) -> &Epoll {
        match lane {
            Lane::Eager => &self.eager,
            Lane::Lazy => &self.lazy,
        }
    }

    /// Registers a socket in the eager lane.
    pub(crate) fn add(&self, socket: impl AsFd, key: u64) -> Result<(), Errno> {
        self.eager.add(socket, EpollEvent::new(socket_flags(), key))
    }

    /// Moves a socket to another lane. What is readable by then is reported there.
    pub(crate) fn shift(&self, socket: impl AsFd, key: u64, to: Lane) -> Result<(), Errno> {
        let from = if to == Lane::Lazy { Lane::Eager } else { Lane::Lazy };
        self.lane(from).delete(socket.as_fd())?;
        self.lane(to).add(socket, EpollEvent::new(socket_flags(), key))
    }

    /// Sets the timer, if it is not set to that time already.
    pub(crate) fn arm(&mut self, at: Nanos) {
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

    /// The timer has gone off.
    pub(crate) fn disarmed(&mut self) {
        self.armed = None;
    }

    /// Whether the wall clock was set since the last call.
    pub(crate) fn has_clock_stepped(&self) -> bool {
        self.steps.has_stepped()
    }

    /// Waits for eager sockets and says how many are ready.
    pub(crate) fn wait(&self, events: &mut Batch, patience: Patience) -> usize {
        let timeout = match patience {
            Patience::None => EpollTimeout::ZERO,
            Patience::Interval => EpollTimeout::from(1_u8),
            Patience::Long => EpollTimeout::from(LONGEST_SLEEP_MS),
        };
        // An interrupted wait is a wait that found nothing.
        self.eager.wait(events, timeout).unwrap_or(0)
    }

    /// Lazy sockets that are ready now.
    pub(crate) fn harvest(&self, events: &mut Batch) -> usize {
        self.lazy.wait(events, EpollTimeout::ZERO).unwrap_or(0)
    }
}
