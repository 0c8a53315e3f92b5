//! The interface between a run and the machine: time, threads and links.
//!
//! [`Native`](crate::Native) is the real machine: kernel clocks, threads, epoll and sockets. A test
//! passes its own platform, where time is virtual and bytes stay in memory. Workers are generic over
//! it, so that the measured path is compiled for one platform without dynamic calls. What happens at
//! most once per request goes through `dyn`.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokometer_base::{Clock, Nanos};
use tokometer_client::conn::{Peer, Stamps, Wire};

use crate::error::Error;
use crate::reads::Lane;

/// Most links that one wait reports.
pub const BATCH: usize = 256;

pub type Work = Box<dyn FnOnce() + Send>;

/// Wakes a thread from a pause or from waiting for its links. Callable from any thread.
pub trait Wake: fmt::Debug + Send + Sync {
    /// A wake-up before the pause ends that pause at once.
    fn wake(&self);
}

pub trait Task: Send {
    /// Wakes it from [`Platform::pause`].
    fn waker(&self) -> Arc<dyn Wake>;
    fn join(self: Box<Self>);
}

/// Kernel information about this process and machine. What is not available is `None`.
pub trait Kernel {
    /// Content of a small kernel file, such as `/proc/stat`.
    fn text(&self, path: &str) -> Option<String>;

    fn process_cpu(&self) -> Option<Nanos> {
        None
    }

    fn cores(&self) -> Option<usize> {
        None
    }

    /// Raises the limit of open files as far as permitted, and returns it.
    fn raise_descriptor_limit(&self) -> Option<u64> {
        None
    }

    fn grow_descriptor_table(&self, _connections: u64) {}
}

/// Time, threads and links of a run.
pub trait Platform: Kernel + Clone + Send + Sync + 'static {
    type Clock: Clock + Clone + 'static;
    type Links: Links + 'static;

    fn clock(&self) -> Self::Clock;

    /// The links of a new worker, and the waker for [`Links::wait`].
    fn links(&self) -> Result<(Self::Links, Arc<dyn Wake>), Error>;

    /// Starts a thread. `work` must not panic.
    fn spawn(&self, name: &'static str, work: Work) -> io::Result<Box<dyn Task>>;

    /// Pauses the calling thread until it is woken, at most for `longest`. May return early.
    fn pause(&self, longest: Nanos);

    /// Sleeps until `at`, as exactly as the platform can.
    fn sleep_until(&self, at: Nanos);
}

/// How long a wait for links may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxWait {
    None,
    /// About a millisecond, because lazy streams must be read.
    Interval,
    /// Up to [`MaxWait::LONGEST`].
    Long,
}

impl MaxWait {
    /// A worker wakes at least this often, to check timeouts and stop requests.
    pub const LONGEST: Nanos = Nanos::from_millis(50);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    Woken,
    /// The time set by [`Links::arm`] has come.
    Timer,
    /// The wall clock may have been set.
    ClockStep,
    /// A link can be read or written, or has ended.
    Link {
        key: u64,
        /// Whether bytes or the end can be read.
        is_readable: bool,
        /// Whether the peer has closed, or the connection is broken.
        is_ending: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interest {
    #[default]
    ReadsAndWrites,
    Reads,
}

/// The connections of one worker.
///
/// Reports are edge-triggered: one for every change (connected, bytes arrived, writable again,
/// closed), and none while nothing changes. Dropping a wire closes its link.
pub trait Links: Send {
    type Wire: Wire + 'static;

    /// Begins to connect. The link is reported under `key` in the eager lane once connected or
    /// refused. Several links may have one key while they compete for one connection. `WouldBlock`
    /// means that the server has no room for another connection yet.
    fn connect(&mut self, to: &Peer, stamps: Stamps, key: u64) -> io::Result<Self::Wire>;

    /// Moves a link to another lane. It is reported there at once.
    fn shift(&mut self, wire: &Self::Wire, key: u64, to: Lane) -> io::Result<()>;

    /// Changes what is reported of a link in this lane. What it is ready for by then is reported at once.
    fn watch(
        &mut self,
        wire: &Self::Wire,
        key: u64,
        lane: Lane,
        interest: Interest,
    ) -> io::Result<()>;

    /// Reports [`Ready::Timer`] at this time instead of the one set before.
    fn arm(&mut self, at: Nanos);

    /// Must be called after [`Ready::Timer`].
    fn disarmed(&mut self);

    /// Whether the wall clock was set since the last call.
    fn has_clock_stepped(&self) -> bool;

    /// Waits until something in the eager lane is ready. Returns the number of ready things.
    fn wait(&mut self, max_wait: MaxWait) -> usize;

    /// Polls the lazy lane without waiting. Returns the number of ready links.
    fn poll_lazy(&mut self) -> usize;

    /// One of the results of the last call of `wait` or `poll_lazy`.
    fn ready(&self, index: usize) -> Ready;
}
