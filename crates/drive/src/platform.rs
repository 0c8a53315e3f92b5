//! What a run stands on: time, threads and links, all passed in.
//!
//! [`Native`](crate::Native) is the machine itself: the kernel's clocks, threads, epoll and sockets.
//! A test passes its own platform, where time is virtual and bytes never leave memory. Workers are
//! generic over it, so that the measured path is compiled for one platform and pays nothing for the
//! choice. What happens at most once per request goes through `dyn`.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokometer_base::{Clock, Nanos};
use tokometer_client::conn::{Stamps, Wire};

use crate::error::Error;
use crate::harvest::Lane;

/// Most links that one look reports.
pub const BATCH: usize = 256;

/// What a thread does until it ends.
pub type Work = Box<dyn FnOnce() + Send>;

/// Wakes a thread that pauses or waits for its links. May be called from any thread.
pub trait Wake: fmt::Debug + Send + Sync {
    /// A wake-up that comes before the pause ends that pause at once.
    fn wake(&self);
}

/// A thread that was started.
pub trait Task: Send {
    /// Wakes it from [`Platform::pause`].
    fn waker(&self) -> Arc<dyn Wake>;
    /// Waits for its end.
    fn join(self: Box<Self>);
}

/// What the kernel knows about this process and this machine. What it does not offer is `None`.
pub trait Kernel {
    /// A small text file of the kernel, such as `/proc/stat`.
    fn text(&self, path: &str) -> Option<String>;

    /// CPU time of this process.
    fn process_cpu(&self) -> Option<Nanos> {
        None
    }

    /// Cores that this process may use.
    fn cores(&self) -> Option<usize> {
        None
    }

    /// Raises the limit of open files as far as possible, and returns it.
    fn raise_descriptor_limit(&self) -> Option<u64> {
        None
    }

    /// Makes the table of open files large enough for so many connections.
    fn grow_descriptor_table(&self, _connections: u64) {}
}

/// Time, threads and links.
pub trait Platform: Kernel + Clone + Send + Sync + 'static {
    /// The clock of the run.
    type Clock: Clock + Clone + 'static;
    /// The links of one worker.
    type Links: Links + 'static;

    /// The clock of the run.
    fn clock(&self) -> Self::Clock;

    /// The links of a new worker, and what wakes the worker from [`Links::wait`].
    fn links(&self) -> Result<(Self::Links, Arc<dyn Wake>), Error>;

    /// Starts a thread. `work` does not panic.
    fn spawn(&self, name: &'static str, work: Work) -> io::Result<Box<dyn Task>>;

    /// Pauses the calling thread until it is woken, and no longer than this. It may return early.
    fn pause(&self, longest: Nanos);

    /// Lets the calling thread sleep until this time, as exactly as the platform can.
    fn sleep_until(&self, at: Nanos);
}

/// How long a look at the links may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// It returns at once.
    None,
    /// About a millisecond at most, because lazy streams wait.
    Interval,
    /// At most [`Patience::LONGEST`].
    Long,
}

impl Patience {
    /// A worker wakes at least this often, to look after timeouts and requests to stop.
    pub const LONGEST: Nanos = Nanos::from_millis(50);
}

/// Something that a worker has to attend to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Somebody woke the worker.
    Woken,
    /// The time that was set by [`Links::arm`] has come.
    Timer,
    /// The wall clock may have been set.
    ClockStep,
    /// A link can be read or written, or has ended.
    Link {
        /// The key that it was opened with.
        key: u64,
        /// Whether there are bytes or an end to read.
        is_readable: bool,
        /// Whether the peer has closed, or the connection is broken.
        is_ending: bool,
    },
}

/// The connections of one worker, and its waiting for them.
///
/// Reports are edge-triggered: one for every change (connected, bytes came, writable again, closed),
/// and none while nothing changes. A link is closed by dropping its wire.
pub trait Links: Send {
    /// A connection's bytes.
    type Wire: Wire + 'static;

    /// Begins to connect. The link is reported under `key` in the eager lane once connected or
    /// refused.
    fn connect(&mut self, to: SocketAddr, stamps: Stamps, key: u64) -> io::Result<Self::Wire>;

    /// Moves a link to another lane, where it is reported at once.
    fn shift(&mut self, wire: &Self::Wire, key: u64, to: Lane) -> io::Result<()>;

    /// Reports [`Ready::Timer`] at this time, and no longer at the one set before.
    fn arm(&mut self, at: Nanos);

    /// To be called after [`Ready::Timer`].
    fn disarmed(&mut self);

    /// Whether the wall clock was set since the last call.
    fn has_clock_stepped(&self) -> bool;

    /// Waits until something in the eager lane is ready. Returns how many things are.
    fn wait(&mut self, patience: Patience) -> usize;

    /// Looks at the lazy lane without waiting. Returns how many links are ready.
    fn harvest(&mut self) -> usize;

    /// One of the things that the last look found.
    fn ready(&self, place: usize) -> Ready;
}
