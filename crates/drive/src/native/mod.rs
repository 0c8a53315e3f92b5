//! The machine itself: kernel clocks, threads, epoll and TCP.

mod links;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle, Thread};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use tokometer_base::{MonotonicClock, Nanos};

pub use links::EpollLinks;

use crate::descriptors;
use crate::error::Error;
use crate::platform::{Kernel, Platform, Task, Wake, Work};

#[derive(Debug, Clone, Copy, Default)]
pub struct Native;

impl Kernel for Native {
    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(path).ok()
    }

    fn process_cpu(&self) -> Option<Nanos> {
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        u64::try_from(micros).ok().map(Nanos::from_micros)
    }

    fn cores(&self) -> Option<usize> {
        thread::available_parallelism().ok().map(std::num::NonZero::get)
    }

    fn raise_descriptor_limit(&self) -> Option<u64> {
        descriptors::raise_limit()
    }

    fn grow_descriptor_table(&self, connections: u64) {
        // Growing the table needs any open descriptor; standard input always is one.
        descriptors::grow_table(connections, std::io::stdin());
    }
}

impl Platform for Native {
    type Clock = MonotonicClock;
    type Links = EpollLinks;

    fn clock(&self) -> MonotonicClock {
        MonotonicClock
    }

    fn links(&self) -> Result<(EpollLinks, Arc<dyn Wake>), Error> {
        EpollLinks::new()
    }

    fn spawn(&self, name: &'static str, work: Work) -> io::Result<Box<dyn Task>> {
        let work = move || {
            // Without this a sleep may last 50 µs longer than requested.
            let _ = nix::sys::prctl::set_timerslack(1);
            work();
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Box::new(thread))
    }

    fn pause(&self, longest: Nanos) {
        thread::park_timeout(longest.to_duration());
    }

    fn sleep_until(&self, at: Nanos) {
        let secs = i64::try_from(at.0 / 1_000_000_000).unwrap_or(i64::MAX);
        let nanos = i64::try_from(at.0 % 1_000_000_000).unwrap_or(0);
        let spec = TimeSpec::new(secs, nanos);
        let flags = ClockNanosleepFlags::TIMER_ABSTIME;
        // An interrupted sleep wakes early, which counts as no delay.
        let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &spec);
    }
}

impl Task for JoinHandle<()> {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(self.thread().clone())
    }

    fn join(self: Box<Self>) {
        // The closure catches its own panics.
        let _ended = JoinHandle::join(*self);
    }
}

impl Wake for Thread {
    fn wake(&self) {
        self.unpark();
    }
}
